// Stacks as trees: from the outermost function in, from the allocating function out, by object; filtered, and compared.
// Pure.

import { passes, type Term } from "./filter.ts";
import type { Amounts, Frames, Stacks } from "./heap.ts";

/** From the outermost function in, from the allocating one out, or that below its object. */
export const SHAPES = ["down", "up", "module"] as const;
export type Shape = (typeof SHAPES)[number];

/** What node numbers stand for beyond the frames: objects, then processes. */
export interface Labels {
  readonly frames: Frames;
  readonly processes: readonly string[];
}

export function nameOf(labels: Labels, id: number): string {
  const { frames, processes } = labels;
  if (id < frames.count) return frames.names[id];
  const object = id - frames.count;
  if (object < frames.objects.length) return objectName(frames.objects[object]);
  return processes[object - frames.objects.length] ?? "";
}

/** The object's number; -1: it has none. */
export function objectOf(labels: Labels, id: number): number {
  const { frames } = labels;
  if (id < frames.count) return frames.object[id];
  return id - frames.count < frames.objects.length ? id - frames.count : -1;
}

export const objectName = (object: string): string => (object === "" ? "(made up)" : object);

/** The number of a process's label. */
export const processLabel = (frames: Frames, process: number): number => frames.count + frames.objects.length + process;

/** Stacks with what each node has itself; several amounts: bytes and blocks, or those of two recordings. */
export interface Loaded {
  readonly stacks: Stacks;
  readonly own: readonly Float64Array[];
}

export const loaded = (stacks: Stacks, own: Amounts): Loaded => ({ stacks, own: [own.bytes, own.blocks] });

/** The stacks of several processes as one tree, each below its own label. */
export function joined(parts: readonly Loaded[], frames: Frames): Loaded {
  const count = 1 + parts.reduce((sum, { stacks }) => sum + stacks.count, 0);
  const [parent, frame] = [new Float64Array(count), new Float64Array(count)];
  const own = (parts[0]?.own ?? []).map(() => new Float64Array(count));
  let base = 1;
  parts.forEach(({ stacks, own: mine }, process) => {
    for (let node = 0; node < stacks.count; node++) {
      parent[base + node] = node === 0 ? 0 : base + stacks.parent[node];
      frame[base + node] = node === 0 ? processLabel(frames, process) : stacks.frame[node];
    }
    mine.forEach((values, k) => {
      own[k].set(values, base);
    });
    base += stacks.count;
  });
  return { stacks: { count, parent, frame }, own };
}

/**
 * The stacks of two recordings as one tree, processes put together: functions that are compared as the same are one
 * node. Amounts: bytes and blocks of the second, then of the first.
 */
export function compared(before: readonly Loaded[], after: readonly Loaded[], frames: Frames): Loaded {
  const [parent, frame] = [[0], [0]];
  const own: number[][] = [[0], [0], [0], [0]];
  const children = new Map<number, number>();
  const add = ({ stacks, own: mine }: Loaded, first: number) => {
    const place = new Uint32Array(stacks.count);
    for (let node = 0; node < stacks.count; node++) {
      if (node > 0) {
        const label = frames.same[stacks.frame[node]];
        const key = place[stacks.parent[node]] * frames.count + label;
        let at = children.get(key);
        if (at === undefined) {
          at = parent.length;
          children.set(key, at);
          parent.push(place[stacks.parent[node]]);
          frame.push(label);
          for (const values of own) values.push(0);
        }
        place[node] = at;
      }
      own[first][place[node]] += mine[0][node];
      own[first + 1][place[node]] += mine[1][node];
    }
  };
  for (const part of after) add(part, 0);
  for (const part of before) add(part, 2);
  return {
    stacks: { count: parent.length, parent: Float64Array.from(parent), frame: Float64Array.from(frame) },
    own: own.map((values) => Float64Array.from(values)),
  };
}

/** By frame: one bit for each word that it matches. */
function frameBits(labels: Labels, terms: readonly Term[], frame: number): number {
  const object = objectOf(labels, frame);
  const subject = { function: nameOf(labels, frame), file: object < 0 ? "" : labels.frames.objects[object] };
  return terms.reduce((sum, term, i) => (passes([{ ...term, exclude: false }], subject) ? sum | (1 << i) : sum), 0);
}

/** By label: 1 matches a word that does not exclude. */
export function matchesOf(labels: Labels, terms: readonly Term[]): Uint8Array {
  const found = new Uint8Array(labels.frames.count + labels.frames.objects.length + labels.processes.length);
  const including = terms.filter((term) => !term.exclude);
  if (including.length > 0)
    for (let id = 0; id < found.length; id++) found[id] = frameBits(labels, including, id) === 0 ? 0 : 1;
  return found;
}

/** What each node has itself if only stacks count that match every word somewhere, and no word that excludes. */
export function filtered(all: Loaded, labels: Labels, terms: readonly Term[]): Loaded {
  if (terms.length === 0) return all;
  const { stacks } = all;
  const known = new Map<number, number>();
  const bits = new Uint32Array(stacks.count);
  for (let node = 1; node < stacks.count; node++) {
    const frame = stacks.frame[node];
    let mine = known.get(frame);
    if (mine === undefined) {
      mine = frameBits(labels, terms, frame);
      known.set(frame, mine);
    }
    bits[node] = bits[stacks.parent[node]] | mine;
  }
  const wanted = terms.reduce((sum, _, i) => sum | (1 << i), 0);
  const exclude = terms.reduce((sum, term, i) => (term.exclude ? sum | (1 << i) : sum), 0);
  const own = all.own.map((values) =>
    values.map((value, node) => (((bits[node] ^ exclude) & wanted) === wanted ? value : 0)),
  );
  return { stacks, own };
}

/** A tree; node 0 is the root. */
export interface Tree {
  readonly count: number;
  readonly parent: Uint32Array;
  readonly label: Uint32Array;
  /** Sums with all below, one array for each amount. */
  readonly total: readonly Float64Array[];
  readonly own: readonly Float64Array[];
  /** Kids of a node: `kids[first[node]] … kids[first[node + 1] - 1]`, those that weigh most first. */
  readonly first: Uint32Array;
  readonly kids: Uint32Array;
  /** 1: it has callers that are not told apart. */
  readonly cut: Uint8Array;
}

/** What decides on the order of kids, and on being there at all. */
export type Weigh = (amounts: readonly Float64Array[], node: number) => number;
export const byBytes: Weigh = (amounts, node) => amounts[0][node];
/** Of a comparison: the largest change first. */
export const byChange: Weigh = (amounts, node) => Math.abs(amounts[0][node] - amounts[2][node]);

/** Parents stand before their children. */
function grown(
  parent: Uint32Array,
  label: Uint32Array,
  own: readonly Float64Array[],
  total: readonly Float64Array[],
  cut: Uint8Array,
  weigh: Weigh,
): Tree {
  const count = parent.length;
  const weight = new Float64Array(count);
  const first = new Uint32Array(count + 1);
  const there = (node: number) => total.some((values) => values[node] !== 0);
  for (let node = 1; node < count; node++) {
    weight[node] = weigh(total, node);
    if (there(node)) first[parent[node] + 1]++;
  }
  for (let node = 0; node < count; node++) first[node + 1] += first[node];
  const kids = new Uint32Array(first[count]);
  const next = first.slice();
  for (let node = 1; node < count; node++) if (there(node)) kids[next[parent[node]]++] = node;
  for (let node = 0; node < count; node++)
    if (first[node + 1] - first[node] > 1)
      kids.subarray(first[node], first[node + 1]).sort((a, b) => weight[b] - weight[a] || a - b);
  return { count, parent, label, total, own, first, kids, cut };
}

/** From the outermost function in. */
export function downTree({ stacks, own }: Loaded, weigh: Weigh = byBytes): Tree {
  const total = own.map((values) => values.slice());
  for (let node = stacks.count - 1; node > 0; node--)
    for (const values of total) values[stacks.parent[node]] += values[node];
  return grown(
    Uint32Array.from(stacks.parent),
    Uint32Array.from(stacks.frame),
    own,
    total,
    new Uint8Array(stacks.count),
    weigh,
  );
}

/** Callers of less than this share of everything are not told apart. */
export const LEAST_SHARE = 1 / 20000;

/**
 * From the allocating function out to its callers; `module`: below the object of the allocating function. Wrappers of
 * `malloc` are left out.
 */
export function upTree({ stacks, own }: Loaded, labels: Labels, shape: "up" | "module", weigh: Weigh = byBytes): Tree {
  const { frames } = labels;
  const kind = (node: number) => (stacks.frame[node] < frames.count ? frames.wrapper[stacks.frame[node]] : 0);
  const [leaves, starts]: [number[], number[]] = [[], []];
  for (let node = 1; node < stacks.count; node++) {
    if (own.every((values) => values[node] === 0)) continue;
    // As `Names::wanting`: without what only hands on, and what has no name between; all of it, if there is nothing
    // else.
    let from = node;
    for (let at = node; at !== 0 && kind(at) !== 0; at = stacks.parent[at])
      if (kind(at) === 1) from = stacks.parent[at];
    leaves.push(node);
    starts.push(from === 0 ? node : from);
  }
  const [parent, label, cut]: [number[], number[], number[]] = [[0], [0], [0]];
  const total: number[][] = own.map((values) => [leaves.reduce((sum, leaf) => sum + values[leaf], 0)]);
  const ends: number[][] = own.map(() => [0]);
  const least = total.map(([all]) => Math.abs(all) * LEAST_SHARE);
  interface Group {
    readonly label: number;
    readonly leaves: number[];
    readonly at: number[];
  }
  /** Groups by the label of where each stands; what has come to its end is the node's own. */
  const split = (
    node: number,
    group: Group,
    labelOf: (at: number) => number,
    forward: (at: number) => number,
  ): [number, Group][] => {
    const groups = new Map<number, Group>();
    group.leaves.forEach((leaf, i) => {
      const at = group.at[i];
      if (at === 0) {
        own.forEach((values, k) => {
          ends[k][node] += values[leaf];
        });
        return;
      }
      const id = labelOf(at);
      let into = groups.get(id);
      if (into === undefined) {
        into = { label: id, leaves: [], at: [] };
        groups.set(id, into);
      }
      into.leaves.push(leaf);
      into.at.push(forward(at));
    });
    return [...groups.values()].map((kid) => {
      parent.push(node);
      label.push(kid.label);
      cut.push(0);
      own.forEach((values, k) => {
        let sum = 0;
        for (const leaf of kid.leaves) sum += values[leaf];
        total[k].push(sum);
        ends[k].push(0);
      });
      return [parent.length - 1, kid];
    });
  };
  const root: Group = { label: 0, leaves, at: starts };
  const callers = (at: number) => stacks.parent[at];
  const frameAt = (at: number) => stacks.frame[at];
  let open =
    shape === "up"
      ? [[0, root] as [number, Group]]
      : split(
          0,
          root,
          (at) => frames.count + Math.max(0, objectOf(labels, stacks.frame[at])),
          (at) => at,
        );
  while (open.length > 0) {
    const next: [number, Group][] = [];
    for (const [node, group] of open) {
      if (node !== 0 && shape === "up" && total.every((values, k) => Math.abs(values[node]) < least[k])) {
        cut[node] = group.at.some((at) => at !== 0) ? 1 : 0;
        continue;
      }
      for (const made of split(node, group, frameAt, callers)) {
        const [kid, kidGroup] = made;
        if (total.every((values, k) => Math.abs(values[kid]) < least[k]))
          cut[kid] = kidGroup.at.some((at) => at !== 0) ? 1 : 0;
        else next.push(made);
      }
    }
    open = next;
  }
  return grown(
    Uint32Array.from(parent),
    Uint32Array.from(label),
    ends.map((values) => Float64Array.from(values)),
    total.map((values) => Float64Array.from(values)),
    Uint8Array.from(cut),
    weigh,
  );
}

export function treeOf(part: Loaded, labels: Labels, shape: Shape, weigh: Weigh = byBytes): Tree {
  return shape === "down" ? downTree(part, weigh) : upTree(part, labels, shape, weigh);
}

/** A visible row of a tree. */
export interface TreeLine {
  readonly node: number;
  /** The labels from the root, which name it in every mode. */
  readonly key: string;
  /** Steps from the root. */
  readonly depth: number;
  /** Branches from the root: what it is indented by. */
  readonly indent: number;
  readonly open: boolean;
  readonly leaf: boolean;
}

/** Rows that are shown at most. */
export const MOST_LINES = 20000;

export interface Opening {
  /** Nodes of this share of everything are open if nobody has touched them; above 1: none. */
  readonly share: number;
  /** Those that somebody has. */
  readonly flipped: ReadonlySet<string>;
}

/** The rows in sight, depth first; kids as `order` says (as the tree has them if it is null). */
export function linesOf(
  tree: Tree,
  opening: Opening,
  weigh: Weigh,
  order: ((a: number, b: number) => number) | null,
): TreeLine[] {
  const lines: TreeLine[] = [];
  let all = 0;
  for (let i = tree.first[0]; i < tree.first[1]; i++) all += weigh(tree.total, tree.kids[i]);
  const visit = (node: number, key: string, depth: number, indent: number) => {
    let kids: Uint32Array = tree.kids.subarray(tree.first[node], tree.first[node + 1]);
    if (order !== null) kids = kids.slice().sort(order);
    for (const kid of kids) {
      if (lines.length >= MOST_LINES) return;
      const path = `${key}/${tree.label[kid]}`;
      const leaf = tree.first[kid] === tree.first[kid + 1];
      const open = !leaf && (all > 0 && weigh(tree.total, kid) >= opening.share * all) !== opening.flipped.has(path);
      const inner = node !== 0 && kids.length > 1 ? indent + 1 : indent;
      lines.push({ node: kid, key: path, depth, indent: inner, open, leaf });
      if (open) visit(kid, path, depth + 1, inner);
    }
  };
  visit(0, "", 1, 0);
  return lines;
}

/** A function that wanted memory, and whom it mostly wanted it for. */
export interface Site {
  readonly label: number;
  readonly bytes: number;
  readonly blocks: number;
  /** From the nearest one outwards: each has at least half of what is below it. */
  readonly callers: readonly number[];
}

/** Callers of a site that are told. */
const CALLERS = 3;

/** The functions of a tree from the allocating function out that have most. */
export function largestSites(tree: Tree, most: number): Site[] {
  const kidsOf = (node: number) => [...tree.kids.subarray(tree.first[node], tree.first[node + 1])];
  const callersOf = (site: number): number[] => {
    const callers: number[] = [];
    for (let node = site; callers.length < CALLERS; ) {
      const [next] = kidsOf(node);
      if (next === undefined || tree.total[0][next] * 2 < tree.total[0][node]) break;
      callers.push(tree.label[next]);
      node = next;
    }
    return callers;
  };
  const sites = kidsOf(0).filter((node) => tree.total[0][node] > 0);
  return sites.slice(0, most).map((node) => ({
    label: tree.label[node],
    bytes: tree.total[0][node],
    blocks: tree.total[1][node],
    callers: callersOf(node),
  }));
}
