// Points of time, relative to another. Pure.

import { count } from "./format.ts";
import { type Tick, ticks, timeLabel } from "./ticks.ts";
import type { Range } from "./view.ts";

/** `+1,234.567 ms`, `−12.345 µs`: nanoseconds are lost from a second on, where nobody reads them. */
export function moment(ns: number): string {
  if (ns === 0) return "0";
  const size = Math.abs(ns);
  const sign = ns < 0 ? "−" : "+";
  const [scale, unit] = size < 1e6 ? [1e3, "µs"] : [1e6, "ms"];
  const text = (size / scale).toFixed(3);
  const [whole, rest] = text.split(".");
  return `${sign}${count(Number(whole))}.${rest} ${unit}`;
}

/** Ticks of an axis of nanoseconds whose 0 is `zero`. */
export function momentTicks(range: Range, zero: number, pixels: number, apart: number): Tick[] {
  const shifted = { from: (range.from - zero) / 1e3, to: (range.to - zero) / 1e3 };
  return ticks(shifted, pixels, apart, timeLabel).map(({ value, label }) => ({ value: value * 1e3 + zero, label }));
}
