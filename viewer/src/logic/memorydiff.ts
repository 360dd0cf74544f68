// The difference of two memory reports whose trees a page has, the second less the first. Pure. What is taken out of
// names and what is left out are the rules of measure/memory/src/diff.rs, how a tree is made of paths those of tree.rs
// there: `thaw memory diff` says the same. One thing it sees and trees do not say: a path that became another kind of
// memory is left out there, and is a change here.

import type { MemoryNode, MemoryProcess, Warning } from "../types/document.ts";
import { largest, type Trees } from "./memory.ts";

const RULES: readonly (readonly [RegExp, string])[] = [
  [/pid([ =]|: )[0-9]+/g, "pid$1NNN"],
  [/\(tid=[0-9]+\)/, "(tid=NNN)"],
  [/#[0-9]+ \(tid=NNN\)/, "#N (tid=NNN)"],
  [/zone\(0x[0-9A-Fa-f]+\)\//, "zone(0xNNN)/"],
  [/\/worker\((.+), 0x[0-9A-Fa-f]+\)\//, "/worker($1, 0xNNN)/"],
  [/^((?:explicit|event-counts)\/window-objects\/top\(.*, id=)[0-9]+\)/, "$1NNN)"],
  [/moz-nullprincipal:\{.{8}-.{4}-.{4}-.{4}-.{12}\}/g, "moz-nullprincipal:{NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN}"],
  [/jar:file:\\\\\\(.+)\\omni.ja!/, String.raw`jar:file:\\\...\omni.ja!`],
  [/source\(scripts=([0-9]+), /, "source(scripts=NNN, "],
];
const SEGMENTS = /\(segments=[0-9]+\)/g;

/** A path, or a process's name, without what is of one run only. */
export function normalized(path: string): string {
  const rest = RULES.reduce((text, [found, instead]) => text.replace(found, instead), path);
  return rest.startsWith("address-space") ? rest.replace(SEGMENTS, "(segments=NNNN)") : rest;
}

/** Names of content processes for one site begin so. */
const ISOLATED = "webIsolated";
/** Name of content processes for all sites. */
const SHARED = "web (pid NNN)";
const MAIN = "Main Process";
/** What a report becomes that has others below it. */
const FAKE_CHILD = "(fake child)";

/** All reports of one path of one process. */
interface Sum {
  readonly process: string;
  readonly path: string;
  readonly leaf: MemoryNode;
}

/** By process and path, in their order. */
function sumsOf({ processes }: Trees, together: boolean): Map<string, Sum> {
  const sums = new Map<string, Sum>();
  for (const { name, trees, others } of processes) {
    const process = together && name.startsWith(ISOLATED) ? SHARED : name.replace(...RULES[0]);
    const visit = (node: MemoryNode, above: string) => {
      const isFake = node.name === FAKE_CHILD && node.presence === "added";
      const whole = above === "" ? node.name : isFake ? above : `${above}/${node.name}`;
      if (node.kids !== undefined) {
        for (const kid of node.kids) visit(kid, whole);
        return;
      }
      const path = normalized(whole);
      const key = `${process}\0${path}`;
      const known = sums.get(key)?.leaf;
      const leaf =
        known === undefined
          ? node
          : { ...known, amount: known.amount + node.amount, reports: known.reports + node.reports };
      sums.set(key, { process, path, leaf });
    };
    for (const node of [...trees, ...others]) visit(node, "");
  }
  const inOrder = ([one]: [string, Sum], [other]: [string, Sum]) => (one < other ? -1 : 1);
  return new Map([...sums].sort(inOrder));
}

/** `second` less `first`; what did not change is left out. */
export function treesDiff(first: Trees, second: Trees): Trees {
  const isIsolated = ({ processes }: Trees) => processes.some(({ name }) => name.startsWith(ISOLATED));
  const together = isIsolated(first) !== isIsolated(second);
  const [before, after] = [sumsOf(first, together), sumsOf(second, together)];
  const warnings: Warning[] = [];
  const changes: Sum[] = [];
  const add = (sum: Sum, change: Partial<MemoryNode>) => {
    const leaf = { ...sum.leaf, ...change };
    if (leaf.amount !== 0) changes.push({ ...sum, leaf });
  };
  for (const [key, old] of before) {
    const now = after.get(key);
    if (now === undefined) add(old, { amount: -old.leaf.amount, presence: "first-only" });
    else if (now.leaf.units !== old.leaf.units)
      warnings.push(note(`'${old.path}' of '${old.process}' has another unit in the second report and is left out`));
    else
      add(now, {
        amount: now.leaf.amount - old.leaf.amount,
        reports: Math.max(now.leaf.reports, old.leaf.reports),
      });
  }
  for (const [key, now] of after) if (!before.has(key)) add(now, { presence: "second-only" });
  return { name: `${first.name} → ${second.name}`, difference: true, processes: processesOf(changes), warnings };
}

const note = (text: string): Warning => ({ kind: "note", text });

/** The main process first, then by the change of resident memory. */
function processesOf(changes: readonly Sum[]): MemoryProcess[] {
  const named = new Map<string, Sum[]>();
  for (const change of changes) {
    const known = named.get(change.process);
    if (known === undefined) named.set(change.process, [change]);
    else known.push(change);
  }
  const processes = [...named].map(([name, of]) => processOf(name, of));
  const resident = ({ others }: MemoryProcess) => others.find(({ name }) => name === "resident")?.amount ?? -1;
  const isMain = ({ name }: MemoryProcess) => Number(name.startsWith(MAIN));
  return processes.sort((a, b) => isMain(b) - isMain(a) || resident(b) - resident(a) || (a.name < b.name ? -1 : 1));
}

/** A node while its kids are still being found. */
interface Sprout {
  readonly units: number;
  leaf: MemoryNode | null;
  readonly kids: Map<string, Sprout>;
}

function processOf(name: string, changes: readonly Sum[]): MemoryProcess {
  const warnings: Warning[] = [];
  const roots = new Map<string, Sprout>();
  const others: MemoryNode[] = [];
  for (const { path, leaf } of changes) {
    const [root, ...below] = path.split("/");
    if (below.length === 0) {
      others.push({ ...leaf, name: root });
      continue;
    }
    const child = (of: Map<string, Sprout>, called: string) => {
      const known = of.get(called) ?? { units: leaf.units, leaf: null, kids: new Map() };
      of.set(called, known);
      return known;
    };
    const tree = child(roots, root);
    if (tree.units === leaf.units)
      below.reduce((at, called) => child(at.kids, called), tree).leaf = { ...leaf, name: below[below.length - 1] };
    else warnings.push(note(`${name}: '${path}' has another unit than its tree and is left out`));
  }
  const trees = [...roots].map(([called, sprout]) => grown(called, sprout, false));
  const isExplicit = (node: MemoryNode) => Number(node.name === "explicit");
  return {
    name,
    trees: trees.sort((a, b) => isExplicit(b) - isExplicit(a) || byName(a, b)),
    others: others.sort(byName),
    warnings,
  };
}

const byName = (a: MemoryNode, b: MemoryNode) => (a.name < b.name ? -1 : 1);

/** The tree, largest changes first; where it may, a node joins its only kid. */
function grown(name: string, { units, leaf, kids }: Sprout, mayJoin: boolean): MemoryNode {
  if (leaf !== null && kids.size === 0) return leaf;
  const below = [...kids].map(([called, kid]) => grown(called, kid, true));
  // A leaf in one report, and a tree in the other.
  if (leaf !== null) below.push({ ...leaf, name: FAKE_CHILD, presence: "added" });
  if (mayJoin && below.length === 1) return { ...below[0], name: `${name}/${below[0].name}` };
  return {
    name,
    amount: below.reduce((sum, kid) => sum + kid.amount, 0),
    units,
    description: "The sum of all entries below this one.",
    reports: 1,
    below: "open",
    kids: below.sort((a, b) => largest(b) - largest(a) || byName(a, b)),
  };
}

/** A leaf that changed. */
export interface Change {
  readonly process: string;
  readonly path: string;
  readonly node: MemoryNode;
}

/** The leaves of all trees of one name, the largest change first, whatever its sign. */
export function largestChanges(trees: Trees, root: string): Change[] {
  const changes: Change[] = [];
  const visit = (node: MemoryNode, above: string, process: string) => {
    const path = above === "" ? node.name : `${above}/${node.name}`;
    if (node.kids === undefined) changes.push({ process, path, node });
    else for (const kid of node.kids) visit(kid, path, process);
  };
  for (const process of trees.processes)
    for (const tree of process.trees) if (tree.name === root) visit(tree, "", process.name);
  return changes.sort((a, b) => Math.abs(b.node.amount) - Math.abs(a.node.amount));
}
