// The boxes of a flame graph into pixels, and their names on top. Knows nothing of heaps.

import { type Flame, firstBehind } from "../logic/flame.ts";
import { length, type Viewport } from "../logic/view.ts";
import { fill, type Pixels } from "./raster.ts";

/** Which way rows grow. */
export type Side = "icicle" | "flame";

/** Height of a row in CSS pixels. */
export const ROW = 18;

/** The vertical place of a row: an icicle hangs from 0, a flame stands on it. */
export const placeOf = (row: number, side: Side): number => (side === "icicle" ? -row - 1 : row);
export const rowAt = (y: number, side: Side): number => (side === "icicle" ? Math.floor(-y) : Math.floor(y));

/**
 * Draws all boxes in sight. Those of less than a pixel share one; of these the first that `small` has a colour of its
 * own for is seen. Colours are by box.
 */
export function paintFlame(
  to: Pixels,
  flame: Flame,
  viewport: Viewport,
  side: Side,
  colours: (box: number) => number,
  small: (box: number) => { readonly colour: number; readonly found: boolean },
  perPixel: number,
): void {
  const scaleX = to.width / length(viewport.x);
  const scaleY = to.height / length(viewport.y);
  const gap = Math.max(1, Math.round(perPixel));
  for (let row = 0; row < flame.rows; row++) {
    const place = placeOf(row, side);
    const bottom = Math.round((viewport.y.to - place) * scaleY);
    const top = Math.round((viewport.y.to - place - 1) * scaleY);
    if (bottom <= 0 || top >= to.height) continue;
    let [drawn, seen] = [-1, false];
    for (
      let box = firstBehind(flame, row, viewport.x.from);
      box < flame.first[row + 1] && flame.x[box] < viewport.x.to;
      box++
    ) {
      const left = Math.max(0, Math.round((flame.x[box] - viewport.x.from) * scaleX));
      const right = Math.min(to.width, Math.round((flame.x[box] + flame.wide[box] - viewport.x.from) * scaleX));
      if (right - left < 2) {
        const { colour, found } = small(box);
        if (left > drawn || (found && !seen)) {
          fill(to, left, top, left + 1, bottom - gap, colour);
          seen = found;
        }
        drawn = left;
        continue;
      }
      drawn = right - 1;
      fill(to, left, top, right - left > 3 * gap ? right - gap : right, bottom - gap, colours(box));
    }
  }
}

/** As much of a name as has room. Of a place without a name, `object+0x…`, the end tells it from others. */
export function fitting(name: string, letters: number): string {
  if (name.length <= letters) return name;
  const place = /\+0x[0-9a-f]+$/.exec(name)?.[0];
  if (place === undefined) return `${name.slice(0, letters - 1)}…`;
  return place.length <= letters ? place : `…${place.slice(1 - letters)}`;
}

/** Writes the names of boxes that have room for some letters. */
export function writeFlame(
  context: CanvasRenderingContext2D,
  flame: Flame,
  viewport: Viewport,
  size: { readonly width: number; readonly height: number },
  side: Side,
  nameOf: (box: number) => string,
  colourOf: (box: number) => string,
): void {
  context.font = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
  context.textBaseline = "middle";
  context.textAlign = "left";
  const letter = context.measureText("mmmmmmmmmm").width / 10;
  const scaleX = size.width / length(viewport.x);
  const scaleY = size.height / length(viewport.y);
  for (let row = 0; row < flame.rows; row++) {
    const middle = (viewport.y.to - placeOf(row, side) - 0.5) * scaleY;
    if (middle < -ROW || middle > size.height + ROW) continue;
    for (
      let box = firstBehind(flame, row, viewport.x.from);
      box < flame.first[row + 1] && flame.x[box] < viewport.x.to;
      box++
    ) {
      if (flame.wide[box] * scaleX < 4 * letter) continue;
      const left = Math.max(0, (flame.x[box] - viewport.x.from) * scaleX);
      const right = Math.min(size.width, (flame.x[box] + flame.wide[box] - viewport.x.from) * scaleX);
      const letters = Math.floor((right - left - 8) / letter);
      if (letters < 3) continue;
      const name = nameOf(box);
      context.fillStyle = colourOf(box);
      context.fillText(fitting(name, letters), left + 4, middle - 0.5);
    }
  }
}
