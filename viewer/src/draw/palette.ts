// Colours. Categories beyond the palette's length share grey: a legend of forty colours tells nothing.

import type { CacheState, Cause } from "../types/document.ts";

export type Theme = "light" | "dark";

/** After Okabe and Ito, told apart by colour-blind readers too; lighter where the ground is dark. 0xRRGGBB. */
const RANKS: Record<Theme, readonly number[]> = {
  light: [0x1f6fb2, 0xd2691e, 0x14866d, 0xb3478f, 0xb8860b, 0x3aa5d1, 0x7a3b69, 0x6b7f1f, 0xa83232],
  dark: [0x5aa9e6, 0xf0934e, 0x3fc1a0, 0xdc82c3, 0xe0b84a, 0x8ed4f0, 0xb78bd0, 0xb4c95a, 0xf07f7f],
};
const OTHER: Record<Theme, number> = { light: 0x9aa1ab, dark: 0x69717d };

const CAUSE_COLOURS: Record<Theme, Record<Cause, number>> = {
  light: { read: 0x1f6fb2, fault: 0xd2691e, readahead: 0x8fb7d9, metadata: 0x7a3b69, write: 0x14866d, unknown: 0x9aa1ab },
  dark: { read: 0x5aa9e6, fault: 0xf0934e, readahead: 0x3d6a91, metadata: 0xb78bd0, write: 0x3fc1a0, unknown: 0x69717d },
};

const STATE_COLOURS: Record<Theme, Record<CacheState, number>> = {
  light: { hot: 0xc2452d, app: 0xb8860b, boot: 0x14866d, cold: 0x1f6fb2 },
  dark: { hot: 0xf08a70, app: 0xe0b84a, boot: 0x3fc1a0, cold: 0x5aa9e6 },
};

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
  light: { paper: 0xffffff, grid: 0xe6e9ed, stripe: 0xf3f5f8, text: 0x3c4450, faint: 0x667080, way: 0xd3d8df, band: 0xeaedf1, life: 0xdfe4ea },
  dark: { paper: 0x14181e, grid: 0x262c35, stripe: 0x1a2028, text: 0xc6cdd6, faint: 0x8a93a0, way: 0x3a424e, band: 0x232a33, life: 0x2b333e },
};

export const ground = (theme: Theme): Ground => GROUND[theme];
export const causeColour = (cause: Cause, theme: Theme): number => CAUSE_COLOURS[theme][cause];
export const stateColour = (state: CacheState, theme: Theme): number => STATE_COLOURS[theme][state];
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
