// The boxes of a flame graph into pixels, and their names on top. Knows nothing of what they measure.

import { type Flame, firstBehind } from "../logic/flame.ts";
import { length, type Range, type Viewport } from "../logic/view.ts";
import { ground, mixed, otherColour, pixel, rankColour, type Theme } from "./palette.ts";
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

/** Few rows must not become high ones. */
export function padded(y: Range, rows: number, side: Side): Range {
  const more = Math.max(0, 6 - rows);
  return side === "icicle" ? { from: y.from - more, to: y.to } : { from: y.from, to: y.to + more };
}

export interface BoxColours {
  /** By node of the tree, for the raster. */
  readonly boxes: Uint32Array;
  /** By node: 1 does not match what is searched for. */
  readonly dim: Uint8Array;
  readonly small: number;
}

/** Pale enough for words on them; functions of one object differ a little, so that neighbours can be told apart. */
export function boxColours(of: {
  /** By node. */
  readonly label: Uint32Array;
  /** Labels from here on are no functions. */
  readonly frames: number;
  readonly objectOf: (label: number) => number;
  readonly matching: (label: number) => boolean;
  readonly searching: boolean;
  /** Objects that have colours of their own, the largest first. */
  readonly ranks: readonly number[];
  readonly theme: Theme;
}): BoxColours {
  const { label, searching, theme } = of;
  const { paper, life } = ground(theme);
  const ranks = new Map(of.ranks.map((object, rank) => [object, rank]));
  const boxes = new Uint32Array(label.length);
  const dim = new Uint8Array(label.length);
  const known = new Map<number, number>();
  for (let node = 0; node < label.length; node++) {
    const id = label[node];
    const hit = of.matching(id);
    dim[node] = searching && !hit ? 1 : 0;
    let colour = known.get(id);
    if (colour === undefined) {
      const rank = ranks.get(of.objectOf(id));
      const own = rank === undefined ? otherColour(theme) : rankColour(rank, theme);
      const base = id >= of.frames && rank === undefined ? life : own;
      const vary = ((Math.imul(id + 1, 2654435761) >>> 24) / 255 - 0.5) * 0.14;
      const share = dim[node] === 1 ? 0.12 : hit ? 0.8 : (theme === "dark" ? 0.4 : 0.42) + vary;
      colour = pixel(mixed(base, paper, share));
      known.set(id, colour);
    }
    boxes[node] = colour;
  }
  return { boxes, dim, small: pixel(mixed(otherColour(theme), paper, searching ? 0.15 : 0.35)) };
}
