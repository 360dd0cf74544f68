// A memory course as a chart: one line for each checkpoint over the versions, in bytes. Pure.

import type { CourseFigure } from "../types/document.ts";
import type { PackedCourse } from "../types/memory.ts";
import type { Range } from "./view.ts";

export const COURSE_SIZES = ["pss", "rss", "uss"] as const;
export type CourseSize = (typeof COURSE_SIZES)[number];

/** A version at a checkpoint. */
export interface CoursePoint {
  /** Numbers of both, in the course. */
  readonly checkpoint: number;
  readonly version: number;
  readonly median: number;
  /** Of the median, 95 %; `null`: too few runs. */
  readonly interval: { readonly low: number; readonly high: number } | null;
  /** Every run. */
  readonly runs: readonly number[];
  /** The median by that of the first version. */
  readonly toFirst: CourseFigure["to_first"];
  /** Number of its trees on the page; `null`: it has none. */
  readonly trees: number | null;
}

/** Checkpoints that every watch has, beside those of the scenario: they have no trees. */
export const isAlways = (name: string): boolean => name === "peak" || name === "last";

/** What the versions have at a checkpoint; versions of which no run came there are left out. */
export function pointsAt({ checkpoints, trees }: PackedCourse, checkpoint: number, size: CourseSize): CoursePoint[] {
  return checkpoints[checkpoint].versions.flatMap((it, version) => {
    const { median, runs, to_first: toFirst } = it[size];
    if (median?.value == null) return [];
    const { value, interval } = median;
    return [{ checkpoint, version, median: value, interval, runs, toFirst, trees: trees[checkpoint][version] }];
  });
}

/** What the vertical axis shows: all runs and intervals, from 0 or with a little room around them. */
export function courseScale(points: readonly CoursePoint[], fromZero: boolean): Range {
  const values = points.flatMap(({ runs, interval }) => [
    ...runs,
    ...(interval === null ? [] : [interval.low, interval.high]),
  ]);
  if (values.length === 0) return { from: 0, to: 1 };
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (fromZero) return { from: 0, to: (high || 1) * 1.06 };
  const room = (high - low) * 0.08 || high * 0.05 || 1;
  return { from: Math.max(0, low - room), to: high + room };
}

/** The one of `points` that an arrow key leads to from one of them: along its line, or up and down at its version. */
export function neighbour(points: readonly CoursePoint[], from: CoursePoint, key: string): CoursePoint | null {
  const along = key === "ArrowLeft" || key === "ArrowRight";
  const way = points
    .filter((it) => (along ? it.checkpoint === from.checkpoint : it.version === from.version))
    .sort((a, b) => (along ? a.version - b.version : a.median - b.median || a.checkpoint - b.checkpoint));
  return way[way.indexOf(from) + (key === "ArrowRight" || key === "ArrowUp" ? 1 : -1)] ?? null;
}
