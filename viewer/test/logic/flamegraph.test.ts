import { describe, expect, test } from "vitest";
import { fitting, paintFlame, placeOf, rowAt } from "../../src/draw/flamegraph.ts";
import type { Flame } from "../../src/logic/flame.ts";

/** Three rows: all; a wide one and one of a fifth; many of next to nothing. */
const FLAME: Flame = {
  count: 7,
  node: Uint32Array.from([1, 2, 3, 4, 5, 6, 7]),
  x: Float64Array.from([0, 0, 0.6, 0.6, 0.602, 0.604, 0.606]),
  wide: Float64Array.from([1, 0.6, 0.2, 0.002, 0.002, 0.002, 0.002]),
  below: Uint32Array.from([0, 0, 0, 2, 2, 2, 2]),
  first: Uint32Array.from([0, 1, 3, 7]),
  rows: 3,
};

function painted(side: "icicle" | "flame", found: number, from = 0, to = 1): string[] {
  const [width, height] = [10, 6];
  const pixels = new Uint32Array(width * height);
  const y = side === "icicle" ? { from: -3, to: 0 } : { from: 0, to: 3 };
  paintFlame(
    { width, height, pixels },
    FLAME,
    { x: { from, to }, y },
    side,
    (box) => box + 1,
    (box) => (box === found ? { colour: 9, found: true } : { colour: 8, found: false }),
    1,
  );
  return Array.from({ length: height }, (_, row) =>
    [...pixels.subarray(row * width, (row + 1) * width)].map((it) => (it === 0 ? "." : String(it))).join(""),
  );
}

describe("a flame graph", () => {
  test("hangs from above or stands on the ground; a line keeps rows apart", () => {
    expect(painted("icicle", -1)).toEqual([
      "111111111.",
      "..........",
      "22222.33..",
      "..........",
      "......8...",
      "..........",
    ]);
    expect(painted("flame", -1).filter((_, row) => row % 2 === 0)).toEqual(["......8...", "22222.33..", "111111111."]);
  });

  test("shows what was found among boxes that share a pixel", () => {
    expect(painted("icicle", 5)[4]).toBe("......9...");
  });

  test("cuts boxes at the edges", () => {
    expect(painted("icicle", -1, 0.5, 0.7)[2]).toBe("2222.3333.");
  });

  test("knows rows by their place", () => {
    for (const side of ["icicle", "flame"] as const)
      for (const row of [0, 1, 7]) expect(rowAt(placeOf(row, side) + 0.5, side)).toBe(row);
  });
});

test("of a name that has no room its beginning stays, of a place without a name its end", () => {
  expect(fitting("parse", 5)).toBe("parse");
  expect(fitting("parse_header", 6)).toBe("parse…");
  expect(fitting("libxul.so+0x79d8ff0", 19)).toBe("libxul.so+0x79d8ff0");
  expect(fitting("libxul.so+0x79d8ff0", 12)).toBe("+0x79d8ff0");
  expect(fitting("libxul.so+0x79d8ff0", 5)).toBe("…8ff0");
});
