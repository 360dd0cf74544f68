// A disk's axis with its long gaps shortened. Pure.
//
// A start reads a few hundred megabytes that lie scattered over a disk of hundreds of gigabytes: drawn to scale, all of
// it is one line. Folded, every gap longer than G is drawn as G * (1 + log2(gap / G) / 2): what lies behind another
// stays behind it, a longer gap stays the longer one. G is so short that most of the axis is left to what was read.
//
//   to scale   |aa·b·····························································cc|
//   folded     |aa·b······cc|

import { lowerBound } from "./columns.ts";

/** Both ways between places on disk and the axis. Between its knots it is linear. */
export interface Fold {
  readonly disk: Float64Array;
  readonly axis: Float64Array;
}

/** What a gap may have of the axis before it is shortened, and all gaps together, as shares of what was read. */
const GAP_SHARE = 1 / 40;
const GAPS_SHARE = 0.6;

const shortened = (gap: number, longest: number): number =>
  gap > longest ? longest * (1 + Math.log2(gap / longest) / 2) : gap;

/** The longest gap that is drawn as it is, so that all of them have `room`. */
function longestGap(gaps: readonly number[], room: number): number {
  const drawn = (longest: number) => gaps.reduce((sum, gap) => sum + shortened(gap, longest), 0);
  let [low, high] = [0, gaps.reduce((most, gap) => Math.max(most, gap), 1)];
  if (drawn(high) <= room) return high;
  // 40 halvings are finer than a pixel of any disk.
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (drawn(middle) > room) high = middle;
    else low = middle;
  }
  return Math.max(low, 1);
}

/** The fold for ranges sorted by place; `toScale`: the axis is the disk. */
export function foldOf(disk: Float64Array, len: Float64Array, toScale: boolean): Fold {
  if (disk.length === 0) return { disk: Float64Array.of(0, 1), axis: Float64Array.of(0, 1) };
  const first = disk[0];
  let [covered, last] = [0, first];
  const gaps: number[] = [];
  for (let k = 0; k < disk.length; k++) {
    const end = disk[k] + len[k];
    if (disk[k] > last) gaps.push(disk[k] - last);
    if (end > last) {
      covered += end - Math.max(disk[k], last);
      last = end;
    }
  }
  if (toScale)
    return {
      disk: Float64Array.of(first, Math.max(last, first + 1)),
      axis: Float64Array.of(first, Math.max(last, first + 1)),
    };
  const longest = Math.min(longestGap(gaps, covered * GAPS_SHARE), covered * GAP_SHARE);
  const knots: number[] = [first];
  const places: number[] = [0];
  let behind = first;
  let at = 0;
  for (let k = 0; k < disk.length; k++) {
    const gap = disk[k] - behind;
    if (gap > longest) {
      // A knot at each end of the gap.
      at += behind - knots[knots.length - 1];
      knots.push(behind, disk[k]);
      places.push(at, at + shortened(gap, longest));
      at += shortened(gap, longest);
    }
    behind = Math.max(behind, disk[k] + len[k]);
  }
  knots.push(Math.max(behind, first + 1));
  places.push(at + knots[knots.length - 1] - knots[knots.length - 2]);
  return { disk: Float64Array.from(knots), axis: Float64Array.from(places) };
}

function between(from: Float64Array, to: Float64Array, value: number): number {
  const k = Math.min(Math.max(lowerBound(from, value), 1), from.length - 1);
  const [a, b] = [from[k - 1], from[k]];
  return to[k - 1] + (b > a ? ((value - a) / (b - a)) * (to[k] - to[k - 1]) : 0);
}

/** Where on the axis a place on disk is drawn. */
export const toAxis = (fold: Fold, disk: number): number => between(fold.disk, fold.axis, disk);

/** Which place on disk is drawn there. */
export const toDisk = (fold: Fold, axis: number): number => between(fold.axis, fold.disk, axis);

/** Gaps that were shortened, as ranges of the axis. */
export function folds(fold: Fold): { readonly from: number; readonly to: number }[] {
  const gaps: { from: number; to: number }[] = [];
  for (let k = 1; k < fold.disk.length; k++) {
    const [onDisk, onAxis] = [fold.disk[k] - fold.disk[k - 1], fold.axis[k] - fold.axis[k - 1]];
    if (onDisk > onAxis * 1.01) gaps.push({ from: fold.axis[k - 1], to: fold.axis[k] });
  }
  return gaps;
}

/** Where on the axis sorted places begin; lengths are the same there. */
export function axisPlaces(fold: Fold, disk: Float64Array): Float64Array {
  const axis = new Float64Array(disk.length);
  // By place, so that the knot is the same or the next one.
  let k = 1;
  for (let i = 0; i < disk.length; i++) {
    while (k < fold.disk.length - 1 && fold.disk[k] <= disk[i]) k++;
    const [a, b] = [fold.disk[k - 1], fold.disk[k]];
    const per = b > a ? (fold.axis[k] - fold.axis[k - 1]) / (b - a) : 1;
    axis[i] = fold.axis[k - 1] + (disk[i] - a) * per;
  }
  return axis;
}
