import { describe, expect, test } from "vitest";
import { drawMarks, fill, line, nearestMark } from "../../src/draw/raster.ts";
import { marksOf } from "../../src/logic/marks.ts";
import { drawn, lines, marks } from "../made.ts";

const whole = { x: { from: 0, to: 10 }, y: { from: 0, to: 5 } };
const colours = Uint32Array.of(1, 2, 3);

function picture(some: ReturnType<typeof marks>, part = whole, least = 1, shown: Uint8Array | null = null) {
  const category = Uint32Array.from(some.x, (_, i) => i % 3);
  return drawn(10, 5, (to) => drawMarks(to, some, shown, part, category, colours, least));
}

describe("marks", () => {
  const three = marks([
    [0, 4, 0, 1],
    [5, 6, 2, 4],
    [9, 9, 4, 4],
  ]);
  test("grow upwards and are never less than a pixel", () => {
    expect(picture(three)).toEqual(
      lines(`
        ·········c
        ·····b····
        ·····b····
        ··········
        aaaa······
      `),
    );
  });
  test("of two pixels at least", () => {
    expect(picture(three, whole, 2)).toEqual(
      lines(`
        ·········c
        ·····bb···
        ·····bb···
        aaaa······
        aaaa······
      `),
    );
  });
  test("are cut at the edges of what is visible", () => {
    expect(picture(three, { x: { from: 2, to: 7 }, y: { from: 0, to: 2.5 } })).toEqual(
      lines(`
        ······bb··
        ··········
        ··········
        aaaa······
        aaaa······
      `),
    );
  });
  test("that the filter leaves out are not drawn", () => {
    expect(picture(three, whole, 1, Uint8Array.of(0, 1, 0)).join("")).not.toMatch(/[ac]/);
  });
  test("far outside do not wrap around", () => {
    const far = marks([[0, 1e15, -1e15, 1e15]]);
    expect(picture(far).join("")).toBe("a".repeat(50));
    expect(picture(marks([[-1e15, -1e14, 0, 1]])).join("")).toBe("·".repeat(50));
  });
});

describe("the head's way", () => {
  // Marks are not coloured, so that the ways are what is seen.
  const ways = (some: ReturnType<typeof marks>, part = whole) =>
    drawn(10, 5, (to) =>
      drawMarks(to, some, null, part, new Uint32Array(some.x.length), Uint32Array.of(0), 1, { line: 1, band: 2 }),
    );
  test("goes from the end of one to the beginning of the next", () => {
    expect(
      ways(
        marks([
          [0, 1, 0, 0],
          [8, 9, 4, 4],
        ]),
      ),
    ).toEqual(
      lines(`
        ··········
        ······aa··
        ····aa····
        ··aa······
        ·a········
      `),
    );
  });
  test("is not drawn where the next begins where the last ended", () => {
    expect(
      ways(
        marks([
          [0, 1, 0, 3],
          [8, 9, 3, 4],
        ]),
      ).join(""),
    ).toBe("·".repeat(50));
  });
  test("comes into sight and leaves it", () => {
    const rows = ways(
      marks([
        [0, 1, 0, 0],
        [9, 10, 4, 4],
      ]),
      { x: { from: 4, to: 6 }, y: whole.y },
    );
    expect(rows.join("").replaceAll("·", "").length).toBeGreaterThanOrEqual(10);
  });
  test("of very many is the span that it goes over", () => {
    const many = marks(Array.from({ length: 20_000 }, (_, i) => [i / 4000, i / 4000, 1 + (i % 3), 1 + (i % 3)]));
    const rows = drawn(20, 10, (to) =>
      drawMarks(to, many, null, whole, new Uint32Array(many.x.length), Uint32Array.of(3), 2, { line: 1, band: 2 }),
    );
    expect(rows).toEqual(
      ["", "", "cccccccccc", "cccccccccc", "cccccccccc", "cccccccccc", "cccccccccc", "cccccccccc", "", ""].map((it) =>
        it.padEnd(20, "·"),
      ),
    );
    const gap = drawn(20, 10, (to) =>
      drawMarks(
        to,
        marks(Array.from({ length: 20_000 }, (_, i) => [i / 4000, i / 4000, 1 + 3 * (i % 2), 1 + 3 * (i % 2)])),
        null,
        whole,
        new Uint32Array(20_000),
        Uint32Array.of(3),
        2,
        { line: 1, band: 2 },
      ),
    );
    expect(gap[4].slice(0, 10)).toBe("b".repeat(10));
  });
});

describe("lines and boxes", () => {
  test("a line is cut at the edges", () => {
    expect(drawn(5, 3, (to) => line(to, -10, -9, 14, 15, 1))).toEqual(["·····", "a····", "·a···"]);
    expect(drawn(5, 3, (to) => line(to, -4, 0, -1, 2, 1)).join("")).toBe("·".repeat(15));
  });
  test("a box is clipped", () => {
    expect(drawn(4, 2, (to) => fill(to, -5, 1, 2, 9, 1))).toEqual(["····", "aa··"]);
    expect(drawn(40, 1, (to) => fill(to, 2, 0, 99, 1, 1))).toEqual([`··${"a".repeat(38)}`]);
  });
});

describe("what is under the pointer", () => {
  const two = marks([
    [1, 3, 1, 2],
    [2, 2, 4, 4],
  ]);
  const find = (x: number, y: number, reach = 1) =>
    nearestMark(two, null, whole, { width: 10, height: 5 }, x, y, reach);
  test("is the nearest within reach", () => {
    expect(find(2, 3.5)).toBe(0);
    expect(find(2, 1.2)).toBe(1);
    expect(find(8, 3.5)).toBe(-1);
    expect(find(8, 3.5, 6)).toBe(0);
  });
});

describe("very many marks", () => {
  /** Marks of pseudo-random places, all in sight. */
  function crowd(count: number, size: number) {
    let seed = 1;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    const list = Array.from({ length: count }, () => [random() * 10, random() * 5] as const).sort(
      (a, b) => a[0] - b[0],
    );
    return marks(list.map(([x, y]) => [x, x + size, y, y + size]));
  }
  const draw = (some: ReturnType<typeof marks>, part: typeof whole, least: number, shown: Uint8Array | null = null) =>
    drawn(300, 150, (to) => drawMarks(to, some, shown, part, new Uint32Array(some.x.length), colours, least)).join("");

  test("look as few do, to a mark's size", () => {
    // The same marks, some hidden below the limit, and all of them drawn one by one in parts that hold few.
    const many = crowd(40_000, 0.001);
    const sparse = Uint8Array.from(many.x, (_, i) => (i % 40 === 0 ? 1 : 0));
    const cells = draw(many, whole, 2);
    expect(cells.replaceAll("·", "").length / cells.length).toBeGreaterThan(0.6);
    const few = draw(many, whole, 2, sparse);
    // Where a few are drawn, many are: at most one mark's size away.
    for (let y = 2; y < 148; y++) {
      for (let x = 2; x < 298; x++) {
        if (few[y * 300 + x] === "·") continue;
        const near = [-2, -1, 0, 1, 2].some((dy) =>
          cells.slice((y + dy) * 300 + x - 2, (y + dy) * 300 + x + 3).includes("a"),
        );
        expect(near).toBe(true);
      }
    }
  });
  test("hang on the data: moved by whole pixels they stay as they are", () => {
    const many = crowd(60_000, 0.001);
    const moved = (pixels: number) => draw(many, { x: { from: pixels / 30, to: 10 + pixels / 30 }, y: whole.y }, 2);
    const [before, after] = [moved(0), moved(3)];
    let differ = 0;
    for (let y = 0; y < 150; y++)
      for (let x = 0; x < 290; x++) if (before[y * 300 + x + 3] !== after[y * 300 + x]) differ++;
    expect(differ / (150 * 290)).toBeLessThan(0.01);
  });
  test("long and high ones among them keep their size, also where they begin outside", () => {
    const many = crowd(40_000, 0.0001);
    const long = marks([[-5, 8, 2, 2.5]]);
    const list = marksOf(
      Float64Array.of(-5, ...many.x),
      Float64Array.of(2, ...many.y.fill(4.9)),
      Float32Array.of(long.wide[0], ...many.wide),
      Float32Array.of(long.high[0], ...many.high),
    );
    const picture = draw(list, whole, 2);
    const row = picture.slice(80 * 300, 81 * 300);
    expect(row.indexOf("·")).toBeGreaterThanOrEqual(238);
    expect(row.indexOf("·")).toBeLessThanOrEqual(242);
    const column = [...picture].filter((_, at) => at % 300 === 100).join("");
    expect(column.slice(76, 90)).toBe("a".repeat(14));
    expect(column.slice(94, 140)).toBe("·".repeat(46));
  });
  test("in a lane: what lies behind others is left out, what is seen stays", () => {
    const lane = marks([
      [0, 5, 1, 2],
      [1, 7, 1, 2],
      [3, 3.1, 1, 2],
      [3.05, 3.2, 1, 2],
    ]);
    expect(picture(lane).at(3)).toBe("abbabbb···");
  });
});
