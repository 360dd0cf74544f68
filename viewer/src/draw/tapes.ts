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

/** The codes of a line, used again by the next one. */
let codes = new Uint8Array(0);

interface Top {
  /** From the first line of pixels to behind the last. */
  readonly top: number;
  readonly bottom: number;
  /** By pixel from the left; 0: nothing was drawn there. */
  readonly codes: Uint8Array;
}

/**
 * The first line of a row's band: codes that `draw` puts into an empty line become pixels, `colours` by code, over what
 * is there. `null`: the row is out of sight. The codes stay until the next call.
 */
export function drawTop(
  to: Pixels,
  row: number,
  viewport: Viewport,
  colours: Uint32Array,
  draw: (codes: Uint8Array) => void,
): Top | null {
  const { width, height, pixels } = to;
  const [from, behind] = band(row, viewport, height);
  const [top, bottom] = [Math.max(0, from), Math.min(height, behind)];
  if (bottom <= top) return null;
  if (codes.length < width) codes = new Uint8Array(width);
  else codes.fill(0, 0, width);
  draw(codes);
  const start = top * width;
  for (let x = 0; x < width; x++) if (codes[x] !== 0) pixels[start + x] = colours[codes[x]];
  return { top, bottom, codes };
}

/** `colours` are pixels by code: a colour's number, with DEEP where it is worked on. */
export function drawTape(
  to: Pixels,
  mips: Mips,
  lane: number,
  row: number,
  viewport: Viewport,
  colours: Uint32Array,
): void {
  const { width, pixels } = to;
  const drawn = drawTop(to, row, viewport, colours, (codes) => mips.draw(codes, lane, viewport.x, width));
  if (drawn === null) return;
  const start = drawn.top * width;
  for (let y = drawn.top + 1; y < drawn.bottom; y++) pixels.copyWithin(y * width, start, start + width);
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
