// Series of runs as the runs view draws them. Pure.

import type { Cell, Sample } from "../types/document.ts";

/** What can be drawn of a run, and how it is read. */
export const METRICS = [
  ["wall_s", "time until ready", "seconds"],
  ["cpu_s", "CPU time", "seconds"],
  ["user_s", "CPU in the program", "seconds"],
  ["system_s", "CPU in the kernel", "seconds"],
  ["read_bytes", "bytes read", "bytes"],
  ["read_requests", "read requests", "count"],
  ["written_bytes", "bytes written", "bytes"],
  ["major_faults", "major faults", "count"],
  ["max_rss_bytes", "largest memory", "bytes"],
  ["instructions", "instructions", "count"],
  ["others_cpu_share", "CPU used by others", "share"],
] as const;
export type MetricName = (typeof METRICS)[number][0];
export type MetricUnit = (typeof METRICS)[number][2];

export function metricOf(sample: Sample, name: MetricName): number | null {
  return name === "cpu_s" ? sample.user_s + sample.system_s : sample[name];
}

/** Metrics that at least one run has. */
export function knownMetrics(cells: readonly Cell[]): (typeof METRICS)[number][] {
  return METRICS.filter(([name]) =>
    cells.some((cell) => cell.samples.some((sample) => metricOf(sample, name) !== null)),
  );
}

/** Values by run number, one row per cell, `null` where a run is another cell's: what uPlot takes. */
export function byRun(
  cells: readonly Cell[],
  name: MetricName,
): { readonly runs: number[]; readonly values: (number | null)[][] } {
  const runs = [...new Set(cells.flatMap((cell) => cell.samples.map((sample) => sample.run)))].sort((a, b) => a - b);
  const place = new Map(runs.map((run, index) => [run, index]));
  const values = cells.map((cell) => {
    const row: (number | null)[] = runs.map(() => null);
    for (const sample of cell.samples) row[place.get(sample.run) ?? 0] = metricOf(sample, name);
    return row;
  });
  return { runs, values };
}

/**
 * The share of runs at or below each value, one row per cell over the values of all: steps, each from 0 at a first
 * point of its own.
 */
export function cumulative(
  cells: readonly Cell[],
  name: MetricName,
): { readonly x: number[]; readonly shares: (number | null)[][] } {
  const own = cells.map((cell) =>
    cell.samples
      .map((sample) => metricOf(sample, name))
      .filter((value) => value !== null)
      .sort((a, b) => a - b),
  );
  const firsts = new Set(own.flatMap((values) => values.slice(0, 1)));
  const x = [...new Set(own.flat()), ...firsts].sort((a, b) => a - b);
  const shares = own.map((values) => {
    let below = 0;
    return x.map((value, i) => {
      const before = below;
      // The first of two equal places: what is there before the run at it.
      if (x[i + 1] === value)
        return value === values[0] ? 0 : before === 0 || before === values.length ? null : before / values.length;
      while (below < values.length && values[below] <= value) below++;
      // A line begins at its first run and ends at its last.
      return below === 0 || (before === values.length && values.length > 0) ? null : below / values.length;
    });
  });
  return { x, shares };
}

/** Type 7, as base/stats has it. */
export function quantile(values: readonly number[], p: number): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * p;
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

/** Where dots of a strip stand so that none covers another: rows above and below the middle, 0 first. */
export function beeswarm(
  values: readonly number[],
  width: number,
  dot: number,
  low: number,
  high: number,
): { readonly x: number; readonly row: number; readonly index: number }[] {
  const scale = high > low ? width / (high - low) : 0;
  const placed: { x: number; row: number; index: number }[] = [];
  const order = values.map((_, index) => index).sort((a, b) => values[a] - values[b]);
  for (const index of order) {
    const x = (values[index] - low) * scale;
    let step = 0;
    let row = 0;
    // 0, 1, -1, 2, -2, ...
    while (placed.some((other) => other.row === row && Math.abs(other.x - x) < dot)) {
      step++;
      row = step % 2 === 1 ? (step + 1) / 2 : -step / 2;
    }
    placed.push({ x, row, index });
  }
  return placed;
}
