// Where the boxes of a flame graph lie: x is a share of everything, a row is a step from the root. Pure.

import type { Tree } from "./calltree.ts";
import { lowerBound } from "./columns.ts";
import { length, type Range } from "./view.ts";

export interface Flame {
  readonly count: number;
  /** By box: node of the tree. Boxes of one row stand together, from left to right. */
  readonly node: Uint32Array;
  readonly x: Float64Array;
  readonly wide: Float64Array;
  /** By box: the one that it stands on; itself in the first row. */
  readonly below: Uint32Array;
  /** Boxes of a row: `first[row] … first[row + 1] - 1`. */
  readonly first: Uint32Array;
  readonly rows: number;
}

/** Boxes narrower than this share are left out: at the deepest zoom they would be less than a pixel. */
export const LEAST_WIDE = 1e-7;

/** All boxes of the first amount. */
export function flameOf(tree: Tree): Flame {
  const total = tree.total[0];
  const all = total[0];
  const rows: number[] = [0];
  const node: number[] = [];
  const x: number[] = [];
  const wide: number[] = [];
  const below: number[] = [];
  const put = (parent: number, on: number, from: number) => {
    let at = from;
    for (let i = tree.first[parent]; i < tree.first[parent + 1]; i++) {
      const kid = tree.kids[i];
      const share = total[kid] / all;
      if (share >= LEAST_WIDE) {
        node.push(kid);
        x.push(at);
        wide.push(share);
        below.push(on < 0 ? node.length - 1 : on);
      }
      at += Math.max(0, share);
    }
  };
  if (all > 0) put(0, -1, 0);
  let done = 0;
  // Row by row, so that each row is in order.
  while (done < node.length) {
    rows.push(node.length);
    const end = node.length;
    for (let box = done; box < end; box++) put(node[box], box, x[box]);
    done = end;
  }
  return {
    count: node.length,
    node: Uint32Array.from(node),
    x: Float64Array.from(x),
    wide: Float64Array.from(wide),
    below: Uint32Array.from(below),
    first: Uint32Array.from(rows),
    rows: rows.length - 1,
  };
}

/** The first box of a row that ends behind `from`. */
export function firstBehind(flame: Flame, row: number, from: number): number {
  const [start, end] = [flame.first[row], flame.first[row + 1]];
  const at = start + lowerBound(flame.x.subarray(start, end), from);
  return at > start && flame.x[at - 1] + flame.wide[at - 1] > from ? at - 1 : at;
}

/** The box of a row at `x`, or the nearest one within `reach`; -1: none. */
export function boxAt(flame: Flame, row: number, x: number, reach: number): number {
  if (row < 0 || row >= flame.rows) return -1;
  const box = firstBehind(flame, row, x - reach);
  const inside = box < flame.first[row + 1] && flame.x[box] <= x + reach;
  return inside ? box : -1;
}

/** Rows that have anything of at least `least` within a range. */
export function rowsWithin(flame: Flame, from: number, to: number, least: number): number {
  let rows = 0;
  for (let row = 0; row < flame.rows; row++) {
    for (let box = firstBehind(flame, row, from); box < flame.first[row + 1] && flame.x[box] < to; box++) {
      if (flame.wide[box] >= least) {
        rows = row + 1;
        break;
      }
    }
    if (rows <= row) return Math.max(1, rows);
  }
  return Math.max(1, rows);
}

/** The boxes from the first row to this one. */
export function pathTo(flame: Flame, box: number): number[] {
  const path = [box];
  while (flame.below[path[0]] !== path[0]) path.unshift(flame.below[path[0]]);
  return path;
}

/** The share of everything that lies in or on boxes that match; a match on a match counts once. */
export function matchedShare(flame: Flame, matches: (node: number) => boolean): number {
  const covered = new Uint8Array(flame.count);
  let share = 0;
  for (let box = 0; box < flame.count; box++) {
    const on = flame.below[box];
    if (on !== box && covered[on] === 1) covered[box] = 1;
    else if (matches(flame.node[box])) {
      covered[box] = 1;
      share += flame.wide[box];
    }
  }
  return share;
}

/** The boxes that are as wide as what is seen, or wider: where one has come to. */
export function boxesAround(flame: Flame, range: Range): number[] {
  let last = -1;
  const middle = (range.from + range.to) / 2;
  for (let row = 0; row < flame.rows; row++) {
    const box = boxAt(flame, row, middle, 0);
    if (box < 0 || flame.wide[box] < length(range) * 0.999) break;
    last = box;
  }
  return last < 0 ? [] : pathTo(flame, last);
}

/** A part of everything that is seen; all, if there is no such part. */
export function inside(range: Range | null): Range {
  return range === null || range.to <= 0 || range.from >= 1
    ? { from: 0, to: 1 }
    : { from: Math.max(0, range.from), to: Math.min(1, range.to) };
}
