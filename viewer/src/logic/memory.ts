// Memory reports and watches as the page holds them: unpacked, tiny nodes put together, filtered; resident memory as
// lines. Pure. The writer is app/view/src/memory.rs. What is tiny or doubtful, and the order, are as in
// measure/memory/src/tree.rs: what a filter leaves is judged anew, there as here.

import type { MemoryNode, MemoryProcess, WatchPair } from "../types/document.ts";
import type { PackedCourse, PackedMemoryPage, PackedTrees, PackedWatch } from "../types/memory.ts";
import { unpackTable } from "./columns.ts";
import { passes, type Term } from "./filter.ts";
import { unpackTexts } from "./touched.ts";

export const MEMORY_SCHEMA = "thaw.memory-view/1";

export interface Trees extends Omit<PackedTrees, "processes" | "reporters"> {
  readonly processes: readonly MemoryProcess[];
}

export interface Watch extends Omit<PackedWatch, "samples" | "residents"> {
  /** Seconds since the watch began, by sample. */
  readonly seconds: Float64Array;
  readonly residents: Readonly<Record<"sample" | "process" | Resident, Float64Array>>;
}

export const RESIDENTS = ["rss", "pss", "uss", "swap"] as const;
export type Resident = (typeof RESIDENTS)[number];

export interface MemoryPage {
  readonly name: string;
  readonly trees: readonly Trees[];
  readonly watches: readonly Watch[];
  readonly pairs: readonly WatchPair[];
  readonly course: PackedCourse | null;
}

export async function unpackMemory(packed: PackedMemoryPage): Promise<MemoryPage> {
  if (packed.schema !== MEMORY_SCHEMA)
    throw new Error(`this page holds ${packed.schema}, the viewer reads ${MEMORY_SCHEMA}`);
  const trees = packed.trees.map(async ({ name, difference, processes, warnings }) => ({
    name,
    difference,
    processes: JSON.parse((await unpackTexts(processes))[0] ?? "[]") as MemoryProcess[],
    warnings,
  }));
  return {
    name: packed.name,
    trees: await Promise.all(trees),
    watches: await Promise.all(packed.watches.map(unpackWatch)),
    pairs: packed.pairs,
    course: packed.course,
  };
}

async function unpackWatch(packed: PackedWatch): Promise<Watch> {
  const { at } = await unpackTable(packed.samples, ["at"]);
  const residents = await unpackTable(packed.residents, ["sample", "process", ...RESIDENTS]);
  for (let i = 0; i < residents.sample.length; i++)
    if (residents.sample[i] >= at.length || residents.process[i] >= packed.processes.length)
      throw new Error("the samples of a watch are damaged");
  const { name, head, checkpoints, unseen, taken, processes } = packed;
  return { name, head, checkpoints, unseen, taken, processes, seconds: at.map((us) => us / 1e6), residents };
}

/** A node as it is shown. */
export interface MemoryLine {
  readonly node: MemoryNode;
  /** Names from the root. */
  readonly key: string;
  readonly depth: number;
  readonly open: boolean;
  readonly leaf: boolean;
  /** It cannot be right. */
  readonly doubtful: boolean;
  /** Of its tree; null where the tree has nothing to share. */
  readonly share: number | null;
}

/** What has less than this share of its tree is tiny. */
const TINY = 0.01;

/** The largest amount of this node and all below, without its sign. */
export function largest(node: MemoryNode): number {
  return (node.kids ?? []).reduce((most, kid) => Math.max(most, largest(kid)), Math.abs(node.amount));
}

/** Whether an amount cannot be right: it is negative, or more than its whole tree. Changes may be either. */
export function isDoubtful(amount: number, total: number): boolean {
  return amount < 0 || amount > total;
}

/** Whether something doubtful is in this part of a tree. */
export function hasDoubtful(node: MemoryNode, total: number): boolean {
  return isDoubtful(node.amount, total) || (node.kids ?? []).some((kid) => hasDoubtful(kid, total));
}

/** Kids as they are shown: tiny ones put together as `(N tiny)`, unless they are all that there is, or only one. */
export function folded(
  kids: readonly MemoryNode[],
  total: number,
  weight: (node: MemoryNode) => number,
): readonly MemoryNode[] {
  const isTiny = (node: MemoryNode) => total > 0 && weight(node) < TINY * total;
  const tiny = kids.filter(isTiny);
  if (tiny.length < 2 || tiny.length === kids.length) return kids;
  const sum: MemoryNode = {
    name: `(${tiny.length} tiny)`,
    amount: tiny.reduce((all, kid) => all + kid.amount, 0),
    units: tiny[0].units,
    description: `${tiny.length} sub-trees that have less than 1 % of their tree.`,
    reports: 1,
    below: "folded",
    kids: tiny,
  };
  return [...kids.filter((kid) => !isTiny(kid)), sum].sort((a, b) => weight(b) - weight(a));
}

/** Whether a leaf is wanted, by its path and its process. */
export type Wanted = (path: string, process: string) => boolean;

/** By the words of the filter box; `null`: all are wanted. */
export function wantedByWords(terms: readonly Term[]): Wanted | null {
  return terms.length === 0 ? null : (path, process) => passes(terms, { file: path, process });
}

/** By one regular expression for paths, as in about:memory: upper and lower case differ. What is none wants nothing. */
export function wantedByPattern(pattern: string): { readonly wanted: Wanted | null; readonly wrong: string | null } {
  if (pattern === "") return { wanted: null, wrong: null };
  try {
    const fits = new RegExp(pattern);
    return { wanted: (path) => fits.test(path), wrong: null };
  } catch (error) {
    return { wanted: () => false, wrong: error instanceof Error ? error.message : String(error) };
  }
}

/** A tree with only the leaves that are wanted; sums are of these. `null`: none is. */
export function sifted(node: MemoryNode, wanted: Wanted | null, process: string, above = ""): MemoryNode | null {
  if (wanted === null) return node;
  const path = above === "" ? node.name : `${above}/${node.name}`;
  if (node.kids === undefined) return wanted(path, process) ? node : null;
  const kids = node.kids.flatMap((kid) => sifted(kid, wanted, process, path) ?? []);
  return kids.length === 0 ? null : { ...node, kids, amount: kids.reduce((sum, kid) => sum + kid.amount, 0) };
}

/** The visible rows of a tree. `flipped`: nodes that are open if they would be closed, and the other way round. */
export function memoryLines(
  root: MemoryNode,
  options: { readonly difference: boolean; readonly verbose: boolean; readonly flipped: ReadonlySet<string> },
): MemoryLine[] {
  const weight = (node: MemoryNode) => (options.difference ? largest(node) : node.amount);
  const total = Math.abs(root.amount);
  const isDoubt = (node: MemoryNode) => !options.difference && isDoubtful(node.amount, root.amount);
  const hasDoubt = (node: MemoryNode) => !options.difference && hasDoubtful(node, root.amount);
  const lines: MemoryLine[] = [];
  const visit = (node: MemoryNode, key: string, depth: number) => {
    const leaf = node.kids === undefined;
    // A filter may have changed the order.
    const kids = [...(node.kids ?? [])].sort((a, b) => weight(b) - weight(a));
    const shown = options.verbose ? kids : folded(kids, total, weight);
    const allTiny = kids.length > 0 && total > 0 && kids.every((kid) => weight(kid) < TINY * total);
    const closed = !options.verbose && (node.below === "folded" || (allTiny && depth > 0)) && !hasDoubt(node);
    const open = !leaf && closed === options.flipped.has(key);
    lines.push({
      node,
      key,
      depth,
      open,
      leaf,
      doubtful: isDoubt(node),
      share: root.amount === 0 ? null : node.amount / root.amount,
    });
    if (open) for (const kid of shown) visit(kid, `${key}/${kid.name}`, depth + 1);
  };
  visit(root, root.name, 0);
  return lines;
}

/** Lines of a watch: all processes together (`null`), or one. Where a process is not there its line has a gap. */
export function watchLines(watch: Watch, process: number | null): Record<Resident, (number | null)[]> {
  const lines = Object.fromEntries(
    RESIDENTS.map((name) => [name, new Array<number | null>(watch.seconds.length).fill(null)]),
  ) as Record<Resident, (number | null)[]>;
  const { residents } = watch;
  for (let i = 0; i < residents.sample.length; i++) {
    if (process !== null && residents.process[i] !== process) continue;
    const sample = residents.sample[i];
    for (const name of RESIDENTS) lines[name][sample] = (lines[name][sample] ?? 0) + residents[name][i];
  }
  return lines;
}

/** What a process had at most, and last. */
export function mostOf(watch: Watch, process: number): Record<Resident, number> {
  const most = { rss: 0, pss: 0, uss: 0, swap: 0 };
  for (let i = 0; i < watch.residents.sample.length; i++) {
    if (watch.residents.process[i] === process)
      for (const name of RESIDENTS) most[name] = Math.max(most[name], watch.residents[name][i]);
  }
  return most;
}
