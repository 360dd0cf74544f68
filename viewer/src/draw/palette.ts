// Colours. Categories beyond the palette's length share grey: a legend of forty colours tells nothing.

import type { CacheState, Cause } from "../types/document.ts";

export type Theme = "light" | "dark";

/**
 * Found by search: any two of them, and of the grey beside them, are apart for readers without colour blindness and
 * with each kind of it (CIE 1976 difference of 24 and more; test/logic/palette.test.ts computes it). 0xRRGGBB.
 */
const RANKS: Record<Theme, readonly number[]> = {
  light: [0x536af2, 0xdc9d28, 0x054c43, 0x7200a1, 0x4a3d00, 0x10b6ec, 0xa12f90, 0x8f6a04, 0xf06f69],
  dark: [0x4599ff, 0xe75610, 0x307e4e, 0x7e4398, 0xb8d36f, 0x00e0f4, 0xf49697, 0xe3c90c, 0x9e2504],
};
const OTHER: Record<Theme, number> = { light: 0x9aa1ab, dark: 0x69717d };

/**
 * Ranks of what has a colour of its own whatever its size: parts of the same palette, so that they are apart as well.
 */
const CAUSE_RANKS: Record<Cause, number> = { read: 0, fault: 1, readahead: 5, metadata: 6, write: 2, unknown: -1 };
const STATE_RANKS: Record<CacheState, number> = { hot: 8, app: 1, boot: 2, cold: 0 };

/** Colours of the plot itself. */
export interface Ground {
  readonly paper: number;
  readonly grid: number;
  readonly stripe: number;
  readonly text: number;
  readonly faint: number;
  readonly way: number;
  readonly band: number;
  readonly life: number;
}

const GROUND: Record<Theme, Ground> = {
  light: {
    paper: 0xffffff,
    grid: 0xe6e9ed,
    stripe: 0xf3f5f8,
    text: 0x3c4450,
    faint: 0x667080,
    way: 0xd3d8df,
    band: 0xeaedf1,
    life: 0xdfe4ea,
  },
  dark: {
    paper: 0x14181e,
    grid: 0x262c35,
    stripe: 0x1a2028,
    text: 0xc6cdd6,
    faint: 0x8a93a0,
    way: 0x3a424e,
    band: 0x232a33,
    life: 0x2b333e,
  },
};

export const ground = (theme: Theme): Ground => GROUND[theme];
export const causeColour = (cause: Cause, theme: Theme): number => rankColour(CAUSE_RANKS[cause], theme);
export const stateColour = (state: CacheState, theme: Theme): number => rankColour(STATE_RANKS[state], theme);
export const otherColour = (theme: Theme): number => OTHER[theme];
/** How many categories have a colour of their own. */
export const RANK_COUNT = RANKS.light.length;

/** The colour of a rank: 0 is the biggest category. */
export function rankColour(rank: number, theme: Theme): number {
  return RANKS[theme][rank] ?? OTHER[theme];
}

/** 0xRRGGBB to the 0xAABBGGRR of ImageData. */
export function pixel(rgb: number, alpha = 255): number {
  const [r, g, b] = [(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255];
  return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** CSS text of a colour. */
export function css(rgb: number): string {
  return `#${rgb.toString(16).padStart(6, "0")}`;
}

/** `share` of a on b. */
export function mixed(a: number, b: number, share: number): number {
  const part = (shift: number) => Math.round(((a >> shift) & 255) * share + ((b >> shift) & 255) * (1 - share));
  return (part(16) << 16) | (part(8) << 8) | part(0);
}

/** Colours by category, given the categories in the order of their size. */
export function paletteOf(bySize: readonly number[], categories: number, theme: Theme): Uint32Array {
  const colours = new Uint32Array(categories).fill(pixel(OTHER[theme]));
  bySize.slice(0, RANK_COUNT).forEach((category, rank) => {
    colours[category] = pixel(rankColour(rank, theme));
  });
  return colours;
}
