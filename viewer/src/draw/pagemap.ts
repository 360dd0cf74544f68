// The map of a file's pages into pixels: rows of cells, coloured by the moment of the first touch. Knows no view.

import { NO_SHADE, NOTHING, type PageMap, TOUCHED } from "../logic/touched.ts";
import { length, type Viewport } from "../logic/view.ts";
import { ground, mixed, pixel, type Theme } from "./palette.ts";
import { fill, type Pixels } from "./raster.ts";

/** From early to late: lightness goes one way, so that it reads without colour too. */
const RAMP: Record<Theme, readonly number[]> = {
  light: [0x2d1a70, 0x2c5fb3, 0x178f8f, 0x5fb544, 0xf0c419],
  dark: [0x4a55c8, 0x2f8fd0, 0x2fb99a, 0x9ad24e, 0xfff0a0],
};

/** A colour of the ramp; `share` 0..1. */
export function rampColour(share: number, theme: Theme): number {
  const ramp = RAMP[theme];
  const at = Math.min(1, Math.max(0, share)) * (ramp.length - 1);
  const low = Math.min(ramp.length - 2, Math.floor(at));
  return mixed(ramp[low + 1], ramp[low], at - low);
}

/** Pages that were read and not needed; and touched ones of which nobody knows when. */
export const readColour = (theme: Theme): number => (theme === "dark" ? 0x3a424e : 0xc9d0d9);
export const untimedColour = (theme: Theme): number => (theme === "dark" ? 0x5aa9e6 : 0x1f6fb2);
const blankColour = (theme: Theme): number => mixed(ground(theme).stripe, ground(theme).paper, 0.7);

/** Colours by shade, as the picture takes them. */
export interface MapColours {
  readonly blank: number;
  readonly read: number;
  readonly shades: Uint32Array;
  /** The same where the filter leaves a page out. */
  readonly faded: Uint32Array;
}

export function mapColours(theme: Theme): MapColours {
  const colour = (shade: number) => (shade === NO_SHADE ? untimedColour(theme) : rampColour(shade / 254, theme));
  const all = Array.from({ length: 256 }, (_, shade) => colour(shade));
  return {
    blank: pixel(blankColour(theme)),
    read: pixel(readColour(theme)),
    shades: Uint32Array.from(all, (it) => pixel(it)),
    faded: Uint32Array.from(all, (it) => pixel(mixed(it, ground(theme).paper, 0.22))),
  };
}

/** Cells of this many pixels have a gap between them. */
const GAP_FROM = 8;

/**
 * Paints the cells in sight. Row r lies at y -r-1 .. -r, column c at x c .. c+1. `shown`: one byte per page, 0 is
 * faded; `null`: all are shown. Touched pages lie over others where a pixel holds several.
 */
export function paintPages(
  to: Pixels,
  map: PageMap,
  shade: Uint8Array,
  shown: Uint8Array | null,
  part: Viewport,
  colours: MapColours,
): void {
  const scaleX = to.width / length(part.x);
  const scaleY = to.height / length(part.y);
  // Whole pixels below, so that the last cell of many in a pixel is inside the picture.
  const edgeX = (column: number) => Math.floor((column - part.x.from) * scaleX);
  const edgeY = (row: number) => Math.floor((part.y.to + row) * scaleY);
  const firstRow = Math.max(0, Math.floor(-part.y.to));
  const lastRow = Math.min(map.rows, Math.ceil(-part.y.from));
  const firstColumn = Math.max(0, Math.floor(part.x.from));
  const lastColumn = Math.min(map.columns, Math.ceil(part.x.to));
  const gap = Math.min(scaleX, scaleY) >= GAP_FROM ? 1 : 0;
  const colourOf = (page: number) => {
    if (map.state[page] === NOTHING) return colours.blank;
    if (map.state[page] !== TOUCHED) return colours.read;
    return (shown === null || shown[page] === 1 ? colours.shades : colours.faded)[shade[page]];
  };
  // Cells smaller than a pixel: what was touched must not vanish under what was not.
  const passes = scaleX < 1 || scaleY < 1 ? [false, true] : [null];
  for (const only of passes) {
    for (let row = firstRow; row < lastRow; row++) {
      const begin = row * map.columns;
      const behind = Math.min(begin + lastColumn, map.pages);
      const [top, bottom] = [edgeY(row), Math.max(edgeY(row) + 1, edgeY(row + 1) - gap)];
      let page = begin + firstColumn;
      while (page < behind) {
        const from = page;
        const colour = colourOf(page++);
        while (gap === 0 && page < behind && colourOf(page) === colour) page++;
        if (only !== null && only !== (map.state[from] === TOUCHED)) continue;
        const left = edgeX(from - begin);
        fill(to, left, top, Math.max(left + 1, edgeX(page - begin) - gap), bottom, colour);
      }
    }
  }
}

/** The stepped line in front of a page, where a section begins. */
export function paintBorder(
  to: Pixels,
  map: PageMap,
  page: number,
  part: Viewport,
  wide: number,
  colour: number,
): void {
  const scaleX = to.width / length(part.x);
  const scaleY = to.height / length(part.y);
  const x = (column: number) => Math.floor((column - part.x.from) * scaleX);
  const y = (row: number) => Math.floor((part.y.to + row) * scaleY);
  const [row, column] = [Math.floor(page / map.columns), page % map.columns];
  fill(to, x(column), y(row), x(map.columns), y(row) + wide, colour);
  if (column === 0) return;
  fill(to, x(column), y(row), x(column) + wide, y(row + 1), colour);
  fill(to, x(0), y(row + 1), x(column) + wide, y(row + 1) + wide, colour);
}

/** A box around a page. */
export function paintBox(to: Pixels, map: PageMap, page: number, part: Viewport, wide: number, colour: number): void {
  const scaleX = to.width / length(part.x);
  const scaleY = to.height / length(part.y);
  const [row, column] = [Math.floor(page / map.columns), page % map.columns];
  const [left, right] = [Math.floor((column - part.x.from) * scaleX), Math.floor((column + 1 - part.x.from) * scaleX)];
  const [top, bottom] = [Math.floor((part.y.to + row) * scaleY), Math.floor((part.y.to + row + 1) * scaleY)];
  // Small cells get a box that can be seen.
  const around = Math.max(wide, Math.ceil((7 * wide - (right - left)) / 2));
  const [x0, x1, y0, y1] = [left - around, right + around, top - around, bottom + around];
  fill(to, x0, y0, x1, y0 + wide, colour);
  fill(to, x0, y1 - wide, x1, y1, colour);
  fill(to, x0, y0, x0 + wide, y1, colour);
  fill(to, x1 - wide, y0, x1, y1, colour);
}

/** The page under a point of a picture of this size, or -1. */
export function pageAt(
  map: PageMap,
  part: Viewport,
  size: { readonly width: number; readonly height: number },
  x: number,
  y: number,
): number {
  const column = Math.floor(part.x.from + (x / size.width) * length(part.x));
  const row = Math.floor(-part.y.to + (y / size.height) * length(part.y));
  if (column < 0 || column >= map.columns || row < 0) return -1;
  const page = row * map.columns + column;
  return page < map.pages ? page : -1;
}
