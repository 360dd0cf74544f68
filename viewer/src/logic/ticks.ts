// Where an axis has its lines, and what stands there. Pure.

import { scaleLinear } from "d3-scale";
import type { Range } from "./view.ts";

export interface Tick {
  readonly value: number;
  readonly label: string;
}

/** Labels of round values that fit `pixels`, about one every `apart` pixels. */
export function ticks(
  range: Range,
  pixels: number,
  apart: number,
  label: (value: number, step: number) => string,
): Tick[] {
  const values = scaleLinear([range.from, range.to], [0, pixels]).ticks(Math.max(2, Math.floor(pixels / apart)));
  const step = values.length > 1 ? values[1] - values[0] : range.to - range.from;
  return values
    .filter((value) => value >= range.from && value <= range.to)
    .map((value) => ({ value, label: label(value, step) }));
}

/**
 * Digits behind the point that a step needs: 2 for 0.25, where its size alone would give 1 and labels that are wrong.
 */
function digitsOf(step: number): number {
  const least = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let digits = least; digits <= least + 2; digits++) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return Math.min(digits, 6);
  }
  return Math.min(least, 6);
}

/** Microseconds as `12.5 s`, `340 ms`, `17 µs`: enough digits to tell neighbours apart. */
export function timeLabel(value: number, step: number): string {
  const [scale, unit] = step >= 1e5 ? [1e6, "s"] : step >= 100 ? [1e3, "ms"] : [1, "µs"];
  return `${(value / scale).toFixed(digitsOf(step / scale))} ${unit}`;
}

/** Bytes as `12.5 GB`, `340 MB`: enough digits to tell neighbours apart. */
export function bytesLabel(value: number, step: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const [scale, unit] =
    size >= 1e12
      ? [1e12, "TB"]
      : size >= 1e9
        ? [1e9, "GB"]
        : size >= 1e6
          ? [1e6, "MB"]
          : size >= 1e3
            ? [1e3, "kB"]
            : [1, "B"];
  return `${(value / scale).toFixed(digitsOf(step / scale))} ${unit}`;
}

/** Seconds, in the unit that fits the step: one for the whole axis. */
export const sinceLabel = (value: number, step: number): string => timeLabel(value * 1e6, Math.round(step * 1e6));

/** Seconds with as many digits as tell ticks apart that are `step` apart. */
export function secondsLabel(value: number, step: number): string {
  return `${value.toFixed(digitsOf(step))} s`;
}
