// A waterfall into pixels: a line for each row, and the path as a band over them. Knows no view.

import { length, type Viewport } from "../logic/view.ts";
import { drawLine, type Hop, isFull, type Line, type Stretch } from "../logic/waterfall.ts";
import { fill, type Pixels } from "./raster.ts";
import { band, drawTop, rowTop } from "./tapes.ts";

/** Draws lines one over the other into a row; `colours` are pixels by code. */
export function paintRow(
  to: Pixels,
  lines: readonly Line[],
  row: number,
  viewport: Viewport,
  colours: Uint32Array,
): void {
  const { width, pixels } = to;
  const drawn = drawTop(to, row, viewport, colours, (codes) => {
    for (const line of lines) drawLine(codes, line, viewport.x, width, isFull);
  });
  if (drawn === null) return;
  const { top, bottom, codes } = drawn;
  const start = top * width;
  // Only what was drawn is copied: hops that lie under a row may end in its middle.
  for (let y = top + 1; y < bottom; y++)
    for (let x = 0; x < width; x++) if (codes[x] !== 0) pixels[y * width + x] = pixels[start + x];
}

/** Whether the hops in sight are so many that they would hide what they lead over. */
export function isDense(hops: readonly Hop[], viewport: Viewport, width: number): boolean {
  let seen = 0;
  for (const hop of hops) if (hop.at >= viewport.x.from && hop.at <= viewport.x.to) seen++;
  return seen * 12 > width;
}

/** Lines between the rows that the path goes over; rows are -1 where a lane is not shown. */
export function paintHops(
  to: Pixels,
  hops: readonly Hop[],
  rowOf: Int32Array,
  viewport: Viewport,
  colour: number,
  wide: number,
): void {
  const scale = to.width / length(viewport.x);
  const middle = (row: number) => Math.round(rowTop(row + 0.5, viewport, to.height));
  for (const { at, fromLane, toLane } of hops) {
    const [from, until] = [rowOf[fromLane] ?? -1, rowOf[toLane] ?? -1];
    if (from < 0 || until < 0 || at < viewport.x.from || at > viewport.x.to) continue;
    const x = Math.round((at - viewport.x.from) * scale);
    const [top, bottom] = [middle(Math.min(from, until)), middle(Math.max(from, until))];
    fill(to, x, top, x + wide, bottom, colour);
  }
}

/** A line below each stretch of the path. */
export function paintStretches(
  to: Pixels,
  stretches: readonly Stretch[],
  rowOf: Int32Array,
  viewport: Viewport,
  colour: number,
  thick: number,
): void {
  const scale = to.width / length(viewport.x);
  for (const { lane, from, to: until } of stretches) {
    const row = rowOf[lane] ?? -1;
    if (row < 0 || until < viewport.x.from || from > viewport.x.to) continue;
    const [, bottom] = band(row, viewport, to.height);
    const left = Math.round((Math.max(from, viewport.x.from) - viewport.x.from) * scale);
    const right = Math.round((Math.min(until, viewport.x.to) - viewport.x.from) * scale);
    fill(to, left, bottom, Math.max(right, left + 1), bottom + thick, colour);
  }
}
