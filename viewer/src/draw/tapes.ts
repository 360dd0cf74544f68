// Tapes into pixels: a lane a row, each made once as a line and copied to its height. Nothing here calls the canvas.

import { DEEP, type Mips } from "../logic/tapes.ts";
import { length, type Viewport } from "../logic/view.ts";
import { fill, line, type Pixels } from "./raster.ts";

/** Pixels from the top of a plot whose rows go down from 0: row `r` lies between `-r - 1` and `-r`. */
export const rowTop = (row: number, viewport: Viewport, height: number): number =>
  ((row + viewport.y.to) / length(viewport.y)) * height;

/** Rows that are in sight, from the first to behind the last. */
export function rowsInSight(viewport: Viewport, rows: number): readonly [number, number] {
  return [Math.max(0, Math.floor(-viewport.y.to)), Math.min(rows, Math.ceil(-viewport.y.from))];
}

/** Where the tape of a row lies: less than the row where there is room to tell tapes apart. */
export function band(row: number, viewport: Viewport, height: number): readonly [number, number] {
  const [top, bottom] = [rowTop(row, viewport, height), rowTop(row + 1, viewport, height)];
  const gap = bottom - top >= 8 ? (bottom - top) * 0.18 : bottom - top >= 3 ? 0.5 : 0;
  const from = Math.round(top + gap);
  return [from, Math.max(from + 1, Math.round(bottom - gap))];
}

/** The line of a tape, used again by the next one. */
let codes = new Uint8Array(0);

/** `colours` are pixels by code: a colour's number, with DEEP where it is worked on. */
export function drawTape(
  to: Pixels,
  mips: Mips,
  lane: number,
  row: number,
  viewport: Viewport,
  colours: Uint32Array,
): void {
  const { width, height, pixels } = to;
  const [from, behind] = band(row, viewport, height);
  const [top, bottom] = [Math.max(0, from), Math.min(height, behind)];
  if (bottom <= top) return;
  if (codes.length < width) codes = new Uint8Array(width);
  else codes.fill(0, 0, width);
  mips.draw(codes, lane, viewport.x, width);
  const start = top * width;
  for (let x = 0; x < width; x++) if (codes[x] !== 0) pixels[start + x] = colours[codes[x]];
  for (let y = top + 1; y < bottom; y++) pixels.copyWithin(y * width, start, start + width);
}

/** An arrow that comes down on a tape; where rows are low, a stroke. */
export function drawShot(to: Pixels, x: number, top: number, bottom: number, colour: number): void {
  const size = Math.min(5, Math.floor((bottom - top) / 3));
  fill(to, x, top, x + 1, bottom, colour);
  for (let k = 1; k < size; k++) fill(to, x - k, bottom - 1 - k, x + k + 1, bottom - k, colour);
}

/** From a moment of one row to a moment of another. */
export function drawLink(
  to: Pixels,
  viewport: Viewport,
  fromRow: number,
  fromTime: number,
  toRow: number,
  toTime: number,
  colour: number,
): void {
  const x = (time: number) => ((time - viewport.x.from) / length(viewport.x)) * to.width;
  const y = (row: number) => rowTop(row + 0.5, viewport, to.height);
  line(to, x(fromTime), y(fromRow), x(toTime), y(toRow), colour);
}

export { DEEP };
