// What a picture consists of: rectangles in the data's units, sorted along its horizontal axis. Pure.

import { lowerBound } from "./columns.ts";
import type { Viewport } from "./view.ts";

/** A mark covers `x` .. `x + wide` and `y` .. `y + high`. */
export interface Marks {
  /** The left end of each, ascending. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly wide: Float32Array;
  readonly high: Float32Array;
  /** The largest `wide` and `high`; or more. */
  readonly longest: number;
  readonly highest: number;
}

/** Marks of these places and sizes; `x` is sorted. */
export function marksOf(x: Float64Array, y: Float64Array, wide: Float32Array, high: Float32Array): Marks {
  return { x, y, wide, high, longest: most(wide), highest: most(high) };
}

function most(sizes: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < sizes.length; i++) if (sizes[i] > largest) largest = sizes[i];
  return largest;
}

/** One byte per mark: 1 is drawn; `null`: all are. */
export type Shown = Uint8Array | null;

/** First and one-past-last mark that can be visible. */
export function visible(marks: Marks, viewport: Viewport): [number, number] {
  return [lowerBound(marks.x, viewport.x.from - marks.longest), lowerBound(marks.x, viewport.x.to)];
}

/** How many marks of a range are drawn. */
export function shownIn(shown: Shown, first: number, last: number): number {
  if (shown === null) return last - first;
  let sum = 0;
  for (let i = first; i < last; i++) sum += shown[i];
  return sum;
}

/** `to - from` as sizes of marks; never negative. */
export function spans(from: Float64Array, to: Float64Array): Float32Array {
  const sizes = new Float32Array(from.length);
  for (let i = 0; i < sizes.length; i++) sizes[i] = Math.max(0, to[i] - from[i]);
  return sizes;
}
