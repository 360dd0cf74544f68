// What part of a plot is visible, and how that changes by zooming and panning. Pure.

/** A closed range on one axis. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** The visible part of a plot, in the data's own units. */
export interface Viewport {
  readonly x: Range;
  readonly y: Range;
}

/** Length of a range. */
export function length(range: Range): number {
  return range.to - range.from;
}

/**
 * Zooms a range by `factor` (below 1: closer) around `anchor`, which stays where it is on the screen;
 * never beyond `whole`, never closer than `smallest`.
 */
export function zoom(range: Range, factor: number, anchor: number, whole: Range, smallest: number): Range {
  const wanted = Math.min(Math.max(length(range) * factor, smallest), length(whole));
  const share = length(range) > 0 ? (anchor - range.from) / length(range) : 0.5;
  return clampInto({ from: anchor - share * wanted, to: anchor + (1 - share) * wanted }, whole);
}

/** Moves a range by a share of its length; stops at the ends of `whole`. */
export function pan(range: Range, share: number, whole: Range): Range {
  const by = share * length(range);
  return clampInto({ from: range.from + by, to: range.to + by }, whole);
}

/** Shifts a range, without changing its length, so that it lies in `whole`; cuts it if it is longer. */
export function clampInto(range: Range, whole: Range): Range {
  if (length(range) >= length(whole)) return whole;
  if (range.from < whole.from) return { from: whole.from, to: whole.from + length(range) };
  if (range.to > whole.to) return { from: whole.to - length(range), to: whole.to };
  return range;
}

/** `whole` with a margin on both sides, as a share of its length; never empty. */
export function padded(range: Range, share: number): Range {
  const by = length(range) > 0 ? length(range) * share : 1;
  return { from: range.from - by, to: range.to + by };
}

/** A step of the keyboard or the mouse. */
export type Step =
  | {
      readonly kind: "zoom";
      readonly axis: "x" | "y" | "both";
      readonly factor: number;
      readonly at: { readonly x: number; readonly y: number };
    }
  | { readonly kind: "pan"; readonly x: number; readonly y: number }
  | { readonly kind: "reset" };

/** The viewport after a step. `at` is a share of the plot's width and height, (0, 0) being left and below. */
export function step(
  viewport: Viewport,
  whole: Viewport,
  smallest: { readonly x: number; readonly y: number },
  by: Step,
): Viewport {
  if (by.kind === "reset") return whole;
  if (by.kind === "pan") return { x: pan(viewport.x, by.x, whole.x), y: pan(viewport.y, by.y, whole.y) };
  const along = (axis: "x" | "y") => {
    const range = viewport[axis];
    if (by.axis !== axis && by.axis !== "both") return range;
    return zoom(range, by.factor, range.from + by.at[axis] * length(range), whole[axis], smallest[axis]);
  };
  return { x: along("x"), y: along("y") };
}

/** A range as it stands in the address: at most 12 digits, and none that say nothing. */
export function rangeText(range: Range): string {
  const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(Math.max(length(range), 1e-9)))));
  const text = (value: number) => Number(value.toFixed(digits)).toString();
  return `${text(range.from)}~${text(range.to)}`;
}

/** Reads `rangeText`; `null` if it is none. */
export function parseRange(text: string | null): Range | null {
  const parts = (text ?? "").split("~").map((part) => (part === "" ? Number.NaN : Number(part)));
  if (parts.length !== 2 || !parts.every(Number.isFinite) || parts[0] >= parts[1]) return null;
  return { from: parts[0], to: parts[1] };
}
