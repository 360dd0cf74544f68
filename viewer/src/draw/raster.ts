// The canvas engine's lowest floor: marks into pixels, in software.
//
// No WebGL: continuous integration and many remote desktops have no GPU, and a million fillRect calls take half a
// second where writing the pixels ourselves takes a few milliseconds. Knows nothing of requests, files or views.

import { lowerBound } from "../logic/columns.ts";
import { type Marks, type Shown, shownIn, visible } from "../logic/marks.ts";
import { length, type Viewport } from "../logic/view.ts";

/** Where pixels go; `ImageData` in a browser, plain arrays in tests. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** 0xAABBGGRR, as ImageData has it on little-endian machines. */
  readonly pixels: Uint32Array;
}

/** Pixels that a canvas can take. */
export class Raster implements Pixels {
  readonly pixels: Uint32Array;
  readonly image: ImageData;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }
}

/** Fills a rectangle, clipped. */
export function fill(to: Pixels, left: number, top: number, right: number, bottom: number, colour: number): void {
  const { width, pixels } = to;
  const x0 = left < 0 ? 0 : left;
  const x1 = right > width ? width : right;
  if (x1 <= x0) return;
  const y1 = bottom > to.height ? to.height : bottom;
  const wide = x1 - x0 > 16;
  for (let y = top < 0 ? 0 : top; y < y1; y++) {
    const row = y * width;
    // Array.fill is slow to call and fast to run.
    if (wide) pixels.fill(colour, row + x0, row + x1);
    else for (let x = row + x0; x < row + x1; x++) pixels[x] = colour;
  }
}

/** A line of one pixel, cut at the picture's edges (Liang and Barsky), then stepped. */
export function line(to: Pixels, ax: number, ay: number, bx: number, by: number, colour: number): void {
  const dx = bx - ax;
  const dy = by - ay;
  let [enter, leave] = [0, 1];
  for (const [way, room] of [
    [-dx, ax],
    [dx, to.width - 1 - ax],
    [-dy, ay],
    [dy, to.height - 1 - ay],
  ]) {
    if (way === 0) {
      if (room < 0) return;
    } else if (way < 0) enter = Math.max(enter, room / way);
    else leave = Math.min(leave, room / way);
  }
  if (enter > leave) return;
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) * (leave - enter)));
  const stepX = (dx * (leave - enter)) / steps;
  const stepY = (dy * (leave - enter)) / steps;
  let x = ax + dx * enter + 0.5;
  let y = ay + dy * enter + 0.5;
  for (let i = 0; i <= steps; i++, x += stepX, y += stepY) {
    const px = x | 0;
    const py = y | 0;
    if (px >= 0 && px < to.width && py >= 0 && py < to.height) to.pixels[py * to.width + px] = colour;
  }
}

/**
 * From this many marks in sight on they are drawn into cells of the smallest mark's size; the eye sees no difference.
 */
export const MANY = 6000;

/** Colours of the way from each mark to the next: lines while there are few, else the span that it goes over. */
export interface Ways {
  readonly line: number;
  readonly band: number;
}

/**
 * Draws marks of at least `least` pixels each way; y grows upwards, as in a plot. Later ones lie on top of earlier
 * ones, and all of them on top of the ways, if those are wanted.
 */
export function drawMarks(
  to: Pixels,
  marks: Marks,
  shown: Shown,
  viewport: Viewport,
  category: Uint32Array,
  colours: Uint32Array,
  least: number,
  ways: Ways | null = null,
): void {
  const [first, last] = visible(marks, viewport);
  if (least > 1 && last - first > MANY && shownIn(shown, first, last) > MANY) {
    drawCells(to, marks, shown, first, last, viewport, category, colours, least, ways?.band ?? null);
    return;
  }
  if (ways !== null) drawWays(to, marks, shown, first, last, viewport, ways.line);
  drawEach(to, marks, shown, first, last, viewport, category, colours, least);
}

function drawEach(
  to: Pixels,
  marks: Marks,
  shown: Shown,
  first: number,
  last: number,
  viewport: Viewport,
  category: Uint32Array,
  colours: Uint32Array,
  least: number,
): void {
  const { x, y, wide, high } = marks;
  const { height, width } = to;
  const scaleX = width / length(viewport.x);
  const scaleY = height / length(viewport.y);
  const left = viewport.x.from;
  const low = viewport.y.from;
  const up = viewport.y.to;
  // What the next mark covers entirely is not drawn: in a lane that is nearly all.
  let [left0, top0, right0, bottom0, colour0] = [0, 0, 0, 0, 0];
  for (let i = first; i < last; i++) {
    if (shown !== null && shown[i] === 0) continue;
    if (y[i] + high[i] < low || y[i] > up) continue;
    // Far outside is cut before it becomes an integer, which has only 32 bits.
    const px = Math.max((x[i] - left) * scaleX, -4) | 0;
    const right = Math.min((x[i] + wide[i] - left) * scaleX, width + 4) | 0;
    const end = right > px + least ? right : px + least;
    if (end <= 0 || px >= width) continue;
    const bottom = height - (Math.max((y[i] - low) * scaleY, -4) | 0);
    const above = height - (Math.min((y[i] + high[i] - low) * scaleY, height + 4) | 0);
    const top = above < bottom - least ? above : bottom - least;
    if (px > left0 || end < right0 || top > top0 || bottom < bottom0) fill(to, left0, top0, right0, bottom0, colour0);
    left0 = px;
    top0 = top;
    right0 = end;
    bottom0 = bottom;
    colour0 = colours[category[i]];
  }
  fill(to, left0, top0, right0, bottom0, colour0);
}

/** Colours of cells, used again by the next frame. */
let cells = new Uint32Array(0);

/**
 * The same for very many: one write per mark into few cells, which stay in the processor's cache, then the cells into
 * the picture. Cells hang on the data, not on the picture's edge, so that nothing flickers while it is moved.
 */
function drawCells(
  to: Pixels,
  marks: Marks,
  shown: Shown,
  first: number,
  last: number,
  viewport: Viewport,
  category: Uint32Array,
  colours: Uint32Array,
  least: number,
  band: number | null,
): void {
  const { x, y, wide, high } = marks;
  const columns = Math.ceil(to.width / least) + 2;
  const rows = Math.ceil(to.height / least) + 2;
  if (cells.length < columns * rows) cells = new Uint32Array(columns * rows);
  else cells.fill(0, 0, columns * rows);
  const scaleX = to.width / length(viewport.x) / least;
  const scaleY = to.height / length(viewport.y) / least;
  const phase = (from: number) => from - Math.floor(from);
  const [phaseX, phaseY] = [phase(viewport.x.from * scaleX), phase(viewport.y.from * scaleY)];
  // Cell 0 lies before the edge.
  const left = viewport.x.from - (phaseX + 1) / scaleX;
  const low = viewport.y.from - (phaseY + 1) / scaleY;
  // From afar no mark is larger than a cell, and nobody needs to look.
  const small = marks.longest * scaleX < 1 && marks.highest * scaleY < 1;
  for (let i = first; i < last; i++) {
    if (shown !== null && shown[i] === 0) continue;
    const cx = (x[i] - left) * scaleX;
    const cy = (y[i] - low) * scaleY;
    if (small) {
      if (cx >= 0 && cx < columns && cy >= 0 && cy < rows) cells[(cy | 0) * columns + (cx | 0)] = colours[category[i]];
      continue;
    }
    const cw = wide[i] * scaleX;
    const ch = high[i] * scaleY;
    if (cy + ch < 0 || cy >= rows) continue;
    const colour = colours[category[i]];
    if (cw < 1 && ch < 1 && cx >= 0 && cy >= 0) {
      cells[(cy | 0) * columns + (cx | 0)] = colour;
      continue;
    }
    const [x0, x1] = [Math.max(cx, 0) | 0, Math.min(Math.max(cx + cw, cx + 1), columns) | 0];
    const [y0, y1] = [Math.max(cy, 0) | 0, Math.min(Math.max(cy + ch, cy + 1), rows) | 0];
    for (let row = y0; row < y1; row++) cells.fill(colour, row * columns + x0, row * columns + x1);
  }
  const [shiftX, shiftY] = [Math.round((phaseX + 1) * least), Math.round((phaseY + 1) * least)];
  const paint = (column: number, row: number, above: number, colour: number) =>
    fill(
      to,
      column * least - shiftX,
      to.height + shiftY - above * least,
      (column + 1) * least - shiftX,
      to.height + shiftY - row * least,
      colour,
    );
  if (band !== null) {
    for (let column = 0; column < columns; column++) {
      let [row, above] = [0, rows];
      while (row < rows && cells[row * columns + column] === 0) row++;
      while (above > row && cells[(above - 1) * columns + column] === 0) above--;
      if (above > row) paint(column, row, above, band);
    }
  }
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const colour = cells[row * columns + column];
      if (colour !== 0) paint(column, row, row + 1, colour);
    }
  }
}

/** Lines from the end of each mark to the beginning of the next; the ways into and out of sight belong to them. */
function drawWays(
  to: Pixels,
  marks: Marks,
  shown: Shown,
  first: number,
  last: number,
  viewport: Viewport,
  colour: number,
): void {
  const { x, y, wide, high } = marks;
  const scaleX = to.width / length(viewport.x);
  const scaleY = to.height / length(viewport.y);
  const toX = (at: number) => (at - viewport.x.from) * scaleX;
  const toY = (at: number) => to.height - 1 - (at - viewport.y.from) * scaleY;
  const passes = (i: number) => shown === null || shown[i] === 1;
  let before = first - 1;
  while (before >= 0 && !passes(before)) before--;
  let behind = last;
  while (behind < x.length && !passes(behind)) behind++;
  for (let i = first; i <= Math.min(behind, x.length - 1); i++) {
    if (!passes(i)) continue;
    const a = before;
    before = i;
    // What 32 bits hold of a length is not exact.
    if (a < 0 || Math.abs(y[a] + high[a] - y[i]) < 1) continue;
    line(to, toX(Math.min(x[a] + wide[a], x[i])), toY(y[a] + high[a]), toX(x[i]), toY(y[i]), colour);
  }
}

/** The mark nearest to a point within `reach` pixels, or -1. Later marks win, as they are drawn on top. */
export function nearestMark(
  marks: Marks,
  shown: Shown,
  viewport: Viewport,
  size: { readonly width: number; readonly height: number },
  px: number,
  py: number,
  reach: number,
): number {
  const { x, y, wide, high } = marks;
  const perX = length(viewport.x) / size.width;
  const perY = length(viewport.y) / size.height;
  const dataX = viewport.x.from + px * perX;
  const dataY = viewport.y.to - py * perY;
  const first = lowerBound(x, dataX - reach * perX - marks.longest);
  const last = lowerBound(x, dataX + reach * perX);
  let best = -1;
  let bestDistance = reach;
  for (let i = first; i < last; i++) {
    if (shown !== null && shown[i] === 0) continue;
    const dx = Math.max(x[i] - dataX, 0, dataX - x[i] - wide[i]) / perX;
    const dy = Math.max(y[i] - dataY, 0, dataY - y[i] - high[i]) / perY;
    const distance = Math.max(dx, dy);
    if (distance <= bestDistance) {
      best = i;
      bestDistance = distance;
    }
  }
  return best;
}
