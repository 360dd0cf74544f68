import { describe, expect, test } from "vitest";
import { type CoursePoint, courseScale, neighbour, pointsAt } from "../../src/logic/course.ts";
import type { CourseFigure } from "../../src/types/document.ts";
import type { PackedCourse } from "../../src/types/memory.ts";

const figure = (runs: number[], low?: number, high?: number): CourseFigure => ({
  runs,
  median:
    runs.length === 0
      ? null
      : {
          value: [...runs].sort((a, b) => a - b)[runs.length >> 1],
          interval: low === undefined ? null : { low, high: high! },
        },
  to_first: null,
});
const version = (name: string, pss: CourseFigure) => ({
  version: name,
  at_s: 1,
  pss,
  uss: figure([1]),
  rss: figure([2]),
  processes: figure([1]),
});
const COURSE: PackedCourse = {
  checkpoints: [
    {
      name: "start",
      versions: [version("1", figure([10, 12, 11], 10, 12)), version("2", figure([20, 30, 25], 20, 30))],
    },
    { name: "loaded", versions: [version("1", figure([40])), version("2", figure([]))] },
    { name: "peak", versions: [version("1", figure([40])), version("2", figure([25]))] },
  ],
  trees: [
    [0, 1],
    [2, null],
    [null, null],
  ],
};
const all = COURSE.checkpoints.flatMap((_, line) => pointsAt(COURSE, line, "pss"));
const place = (it: CoursePoint | null) => (it === null ? null : [it.checkpoint, it.version]);

describe("a course as a chart", () => {
  test("has a point where a run came, with every run, the interval and the trees", () => {
    expect(all.map(place)).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [2, 0],
      [2, 1],
    ]);
    expect(all[1]).toMatchObject({ median: 25, runs: [20, 30, 25], interval: { low: 20, high: 30 }, trees: 1 });
    expect(all[3].trees).toBeNull();
    expect(pointsAt(COURSE, 0, "rss").map((it) => it.median)).toEqual([2, 2]);
  });

  test("shows every run, from 0 or with room around them", () => {
    expect(courseScale(all, true).from).toBe(0);
    expect(courseScale(all, true).to).toBeGreaterThan(40);
    const fitted = courseScale(all, false);
    expect(fitted.from).toBeLessThan(10);
    expect(fitted.from).toBeGreaterThan(0);
    expect(fitted.to).toBeGreaterThan(40);
    for (const zero of [true, false]) {
      const { from, to } = courseScale([{ ...all[0], median: 0, runs: [0], interval: null }], zero);
      expect(to).toBeGreaterThan(from);
      expect(courseScale([], zero).to).toBeGreaterThan(0);
    }
  });

  test("is walked by the arrow keys, along a line and from one to the next", () => {
    expect(place(neighbour(all, all[0], "ArrowRight"))).toEqual([0, 1]);
    expect(place(neighbour(all, all[0], "ArrowLeft"))).toBeNull();
    expect(place(neighbour(all, all[2], "ArrowRight"))).toBeNull();
    // Of two of the same height each can be reached.
    expect(place(neighbour(all, all[0], "ArrowUp"))).toEqual([1, 0]);
    expect(place(neighbour(all, all[2], "ArrowUp"))).toEqual([2, 0]);
    expect(place(neighbour(all, all[3], "ArrowDown"))).toEqual([1, 0]);
    expect(place(neighbour(all, all[1], "ArrowUp"))).toEqual([2, 1]);
    // By height, whichever checkpoint it is.
    const lower = { ...all[0], checkpoint: 3, median: 20 };
    expect(place(neighbour([...all, lower], all[0], "ArrowUp"))).toEqual([3, 0]);
  });
});
