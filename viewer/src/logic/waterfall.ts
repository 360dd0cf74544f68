// A waterfall's rows, the line of each of them, and the path over them. Pure.

import type { LaneHead } from "../types/why.ts";
import { lowerBound } from "./columns.ts";
import type { Range } from "./view.ts";
import type { Path, Pieces } from "./why.ts";

/** A row: the path as a whole, the name of a process, or a thread. */
export type Row =
  | { readonly kind: "path" }
  | { readonly kind: "process"; readonly name: string; readonly pid: number | null; readonly lanes: number }
  | { readonly kind: "lane"; readonly lane: number };

/**
 * The path first, then the lanes that are wanted, each process together, with its name above if it has several; others'
 * programs come last.
 */
export function layout(lanes: readonly LaneHead[], wanted: (lane: number) => boolean): Row[] {
  const groups = new Map<number | null, number[]>();
  lanes.forEach((head, lane) => {
    if (!wanted(lane)) return;
    const pid = head.of_tree ? head.thread.pid : null;
    groups.set(pid, [...(groups.get(pid) ?? []), lane]);
  });
  const rows: Row[] = [{ kind: "path" }];
  const ordered = [...groups].sort(([a], [b]) => Number(a === null) - Number(b === null));
  for (const [pid, own] of ordered) {
    const main = own.find((lane) => lanes[lane].thread.tid === pid) ?? own[0];
    const name = pid === null ? "other programs and the kernel" : lanes[main].thread.name;
    if (ordered.length > 1 && (own.length > 1 || pid === null))
      rows.push({ kind: "process", name, pid, lanes: own.length });
    for (const lane of own) rows.push({ kind: "lane", lane });
  }
  return rows;
}

/** By lane: its row; -1: it is not shown. */
export function rowsOf(rows: readonly Row[], lanes: number): Int32Array {
  const places = new Int32Array(lanes).fill(-1);
  rows.forEach((row, place) => {
    if (row.kind === "lane") places[row.lane] = place;
  });
  return places;
}

/** Pieces side by side, in the order of time. */
export interface Line {
  readonly from: Float64Array;
  readonly to: Float64Array;
  /** What stands for each; 0: nothing. */
  readonly code: Uint8Array;
}

/**
 * Writes a line into pixels: in each the code of what lasts longest in it, of those that `first` prefers if there are
 * any. Pixels that no piece touches stay as they are.
 */
export function drawLine(
  codes: Uint8Array,
  line: Line,
  range: Range,
  width: number,
  first: (code: number) => boolean = () => false,
): void {
  const scale = width / (range.to - range.from);
  const sums = new Map<number, number>();
  let pixel = -1;
  const flush = () => {
    let [best, most] = [0, -1];
    for (const [code, sum] of sums) {
      const weight = first(code) ? sum + 2 : sum;
      if (weight > most) [best, most] = [code, weight];
    }
    if (best > 0) codes[pixel] = best;
    sums.clear();
  };
  const add = (x: number, code: number, part: number) => {
    if (x < 0 || x >= width || part <= 0) return;
    if (x !== pixel) {
      if (pixel >= 0) flush();
      pixel = x;
    }
    sums.set(code, (sums.get(code) ?? 0) + part);
  };
  for (let i = lowerBound(line.to, range.from); i < line.from.length && line.from[i] < range.to; i++) {
    const code = line.code[i];
    if (code === 0) continue;
    const left = Math.max(0, (line.from[i] - range.from) * scale);
    const right = Math.min(width, (line.to[i] - range.from) * scale);
    const [begin, end] = [Math.floor(left), Math.floor(right)];
    if (begin === end) {
      add(begin, code, right - left);
      continue;
    }
    add(begin, code, begin + 1 - left);
    if (end > begin + 1) {
      if (pixel >= 0) flush();
      pixel = -1;
      codes.fill(code, begin + 1, Math.min(end, width));
    }
    add(end, code, right - end);
  }
  if (pixel >= 0) flush();
}

/** Codes of a line: two for each number of `seen`, pale and full. */
export const pale = (seen: number): number => seen * 2 + 1;
export const full = (seen: number): number => seen * 2 + 2;
export const isFull = (code: number): boolean => code > 0 && code % 2 === 0;

/** The lanes' pieces, pale: what lies on the path is drawn over them. */
export function laneLine(pieces: Pieces, first: number, behind: number): Line {
  return {
    from: pieces.from.subarray(first, behind),
    to: pieces.to.subarray(first, behind),
    code: pieces.seen.subarray(first, behind).map(pale),
  };
}

/** Numbers of the path's pieces by lane. */
export function byLane(path: Path, lanes: number): readonly (readonly number[])[] {
  const all = Array.from({ length: lanes }, (): number[] => []);
  for (let i = 0; i < path.count; i++) all[path.lane[i]]?.push(i);
  return all;
}

/** These pieces of the path, all if `null`; those of another owner than the chosen one are pale. */
export function pathLine(path: Path, pieces: readonly number[] | null, owner: number | null): Line {
  const own = pieces ?? Array.from({ length: path.count }, (_, i) => i);
  return {
    from: Float64Array.from(own, (i) => path.from[i]),
    to: Float64Array.from(own, (i) => path.to[i]),
    code: Uint8Array.from(own, (i) => (owner === null || path.owner[i] === owner ? full : pale)(path.seen[i])),
  };
}

/** The path goes along a row from when to when. */
export interface Stretch {
  readonly lane: number;
  readonly from: number;
  readonly to: number;
}

/** The path goes over to another lane: who it comes from, whom it leads to. */
export interface Hop {
  readonly at: number;
  readonly fromLane: number;
  readonly toLane: number;
  /** What was waited for: a number of `seen`; -1: nothing that is known. */
  readonly link: number;
}

/** The path as a band: stretches along lanes, and hops between them. */
export function bandOf(path: Path): { readonly stretches: readonly Stretch[]; readonly hops: readonly Hop[] } {
  const stretches: Stretch[] = [];
  const hops: Hop[] = [];
  for (let i = 0; i < path.count; i++) {
    const [lane, from, to] = [path.lane[i], path.from[i], path.to[i]];
    const last = stretches.at(-1);
    if (last !== undefined && last.lane === lane && last.to === from) {
      stretches[stretches.length - 1] = { ...last, to };
      continue;
    }
    if (last !== undefined) hops.push({ at: from, fromLane: last.lane, toLane: lane, link: path.link[i - 1] });
    stretches.push({ lane, from, to });
  }
  return { stretches, hops };
}

/** The piece of a sorted range at a time, or the nearest within `reach`; -1: none. */
export function pieceAt(of: Pieces, first: number, behind: number, time: number, reach: number): number {
  const at = first + lowerBound(of.to.subarray(first, behind), time);
  if (at < behind && of.from[at] <= time) return at;
  const before = at - 1;
  if (before >= first && time - of.to[before] <= reach) return before;
  return at < behind && of.from[at] - time <= reach ? at : -1;
}

/** The path's piece on a lane at a time, or the nearest within `reach`; -1: none. */
export function pathAt(path: Path, lane: number, time: number, reach: number): number {
  let best = -1;
  let distance = reach;
  for (let i = lowerBound(path.to, time - reach); i < path.count && path.from[i] <= time + reach; i++) {
    if (path.lane[i] !== lane) continue;
    const away = Math.max(0, path.from[i] - time, time - path.to[i]);
    if (away < distance || (best < 0 && away <= distance)) [best, distance] = [i, away];
  }
  return best;
}

/** How long an owner has the path, and in how many pieces in this run. */
export function ownedBy(path: Path, owner: number): { readonly ns: number; readonly pieces: number } {
  let [ns, pieces] = [0, 0];
  for (let i = 0; i < path.count; i++) {
    if (path.owner[i] !== owner) continue;
    ns += path.to[i] - path.from[i];
    if (i === 0 || path.owner[i - 1] !== owner) pieces++;
  }
  return { ns, pieces };
}

/** Milestones that are moments of the start, by time; those of one moment are one. */
export function marksOf(
  milestones: readonly { readonly name: string; readonly at_ns: number }[],
  ready: number,
): { readonly at: number; readonly name: string }[] {
  const by = new Map<number, string[]>();
  for (const { name, at_ns } of milestones) if (at_ns < ready) by.set(at_ns, [...(by.get(at_ns) ?? []), name]);
  const marks = [...by].sort(([a], [b]) => a - b).map(([at, names]) => ({ at, name: names.join(", ") }));
  return [...marks, { at: ready, name: "ready" }];
}
