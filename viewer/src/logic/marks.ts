// What a picture consists of: rectangles in the data's units, sorted along its horizontal axis. Pure.

import { lowerBound } from "./columns.ts";
import type { Viewport } from "./view.ts";

/** A mark covers `x` .. `x + wide` and `y` .. `y + high`. */
export interface Marks {
  /** Sorted. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly wide: Float32Array;
  readonly high: Float32Array;
  /** The largest `wide`. */
  readonly longest: number;
}

/** One byte per mark: 1 is drawn; `null`: all are. */
export type Shown = Uint8Array | null;

/** First and one-past-last mark that can be visible. */
export function visible(marks: Marks, viewport: Viewport): [number, number] {
  // `wide` is rounded to what 32 bits hold, by less than a millionth.
  return [lowerBound(marks.x, viewport.x.from - marks.longest * (1 + 1e-6)), lowerBound(marks.x, viewport.x.to)];
}

/** How many marks of a range are drawn. */
export function shownIn(shown: Shown, first: number, last: number): number {
  if (shown === null) return last - first;
  let sum = 0;
  for (let i = first; i < last; i++) sum += shown[i];
  return sum;
}

/** `to - from` as widths of marks, and the largest; never negative. */
export function spans(from: Float64Array, to: Float64Array): { readonly wide: Float32Array; readonly longest: number } {
  const wide = new Float32Array(from.length);
  let longest = 0;
  for (let i = 0; i < wide.length; i++) {
    const span = to[i] - from[i];
    wide[i] = span > 0 ? span : 0;
    if (span > longest) longest = span;
  }
  return { wide, longest };
}
