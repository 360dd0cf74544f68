import { deflateRawSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { mapColours, pageAt, paintBorder, paintPages, rampColour } from "../../src/draw/pagemap.ts";
import {
  type FirstTouches,
  type Functions,
  functionsOn,
  indexOf,
  largeLength,
  listOrder,
  NO_SHADE,
  NOTHING,
  type PageMap,
  pageMap,
  READ,
  sectionLines,
  sectionsOn,
  shades,
  stateCounts,
  TOUCHED,
  touchedFile,
  unpackTouched,
} from "../../src/logic/touched.ts";
import type { TouchFileReport } from "../../src/types/document.ts";
import type { PackedTouched } from "../../src/types/touched.ts";
import { column, drawn, lines, table } from "../made.ts";

const texts = (list: readonly string[]) => ({
  count: list.length,
  data: deflateRawSync(list.join("\0")).toString("base64"),
});

function report(path: string, size: number): TouchFileReport {
  return {
    path,
    owner: "app",
    kind: "regular",
    size,
    read: null,
    needed: null,
    resident: null,
    touched: null,
    functions: null,
    sections: [],
  };
}

const PACKED: PackedTouched = {
  schema: "thaw.touched/1",
  programs: [
    {
      variant: "app",
      report: {
        version: 1,
        engines: [],
        totals: { read: null, needed: null, resident: null, touched: null, functions: null },
        files: [report("/a", 9), report("/b", 9), report("/c", 20_480)],
      },
      names: texts(["main", "naïve <b>"]),
      // Two ranges of file 0, none of 1, one of 2.
      read: table(
        {
          file: column("delta", [0, 0, 2]),
          offset: column("signed", [4096, 0, 8192]),
          len: column("plain", [4096, 4096, 8192]),
        },
        3,
      ),
      touched: {
        page: table(
          {
            file: column("delta", [0, 2]),
            offset: column("signed", [4096, 8192]),
            len: column("plain", [4096, 4096]),
            at: column("delta", [11, 0]),
            order: column("delta", [1, 0]),
          },
          2,
        ),
      },
      functions: table(
        {
          file: column("delta", [2, 2, 2]),
          offset: column("signed", [8200, 100, -8000]),
          len: column("plain", [100, 0, 50]),
          at: column("delta", [7, 8, 9]),
          order: column("delta", [0, 1, 5]),
          name: column("plain", [2, 0, 1]),
          read: column("plain", [101, 1, 0]),
          needed: column("plain", [0, 0, 0]),
          lonely: column("plain", [1, 0, 0]),
        },
        3,
      ),
    },
  ],
};

describe("what was packed", () => {
  test("comes back by file, places from what the prediction missed", async () => {
    const [program] = await unpackTouched(JSON.stringify(PACKED));
    const [a, b, c] = [0, 1, 2].map((line) => touchedFile(program, line));
    expect([...a.read.offset]).toEqual([4096, 8192]);
    expect(b.read.count).toBe(0);
    expect([...c.read.offset]).toEqual([8192]);
    expect([...a.touched.get("page")!.at, ...a.touched.get("page")!.order]).toEqual([10, 0]);
    expect([...c.touched.get("page")!.at, ...c.touched.get("page")!.order]).toEqual([-1, -1]);
    expect(b.touched.size).toBe(0);
    const { functions } = c;
    expect([...functions.offset]).toEqual([8200, 8400, 400]);
    expect([...functions.read]).toEqual([100, 0, -1]);
    expect([...functions.name].map((name) => program.names[name - 1] ?? null)).toEqual(["naïve <b>", null, "main"]);
  });
  test("is refused where it is damaged", async () => {
    const broken = (change: (packed: PackedTouched["programs"][0]) => object) =>
      unpackTouched(
        JSON.stringify({ ...PACKED, programs: [{ ...PACKED.programs[0], ...change(PACKED.programs[0]) }] }),
      );
    await expect(unpackTouched("{}")).rejects.toThrow("thaw.touched/1");
    await expect(broken((it) => ({ names: { ...it.names, count: 3 } }))).rejects.toThrow("2 of 3 names");
    await expect(broken((it) => ({ read: { ...it.read, count: 4 } }))).rejects.toThrow("column ends");
    await expect(
      broken(() => ({
        read: table({ file: column("delta", [3]), offset: column("signed", [0]), len: column("plain", [1]) }, 1),
      })),
    ).rejects.toThrow("not in order");
    await expect(
      broken(() => ({
        read: table(
          { file: column("delta", [1, 0]), offset: column("signed", [0, 0]), len: column("plain", [1, 1]) },
          2,
        ),
      })),
    ).rejects.toThrow("not in order");
  });
});

/** Touches of pages: number, moment, order. */
function touches(list: readonly (readonly [number, number, number])[], len = 4096): FirstTouches {
  return {
    count: list.length,
    offset: Float64Array.from(list, ([page]) => page * 4096),
    len: new Float64Array(list.length).fill(len),
    at: Float64Array.from(list, ([, at]) => at),
    order: Float64Array.from(list, ([, , order]) => order),
  };
}
const read = (first: number, pages: number) => ({
  count: Math.min(1, pages),
  offset: Float64Array.of(first * 4096),
  len: Float64Array.of(pages * 4096),
});

describe("the map", () => {
  test("knows of each page whether it was read, and when it was touched first", () => {
    const map = pageMap(
      5 * 4096 - 7,
      read(1, 3),
      touches([
        [3, 90, 4],
        [1, 70, 2],
        [3, 10, 1],
        [4, -1, -1],
      ]),
    );
    expect([...map.state]).toEqual([NOTHING, TOUCHED, READ, TOUCHED, TOUCHED]);
    expect([...map.at]).toEqual([-1, 70, -1, 10, -1]);
    expect(stateCounts(map)).toEqual([1, 1, 3]);
  });
  test("bytes mark the pages that they lie on, an unknown length one", () => {
    expect([...pageMap(4 * 4096, read(0, 0), touches([[1, 0, 0]], 4097)).state]).toEqual([0, 2, 2, 0]);
    expect([...pageMap(4 * 4096, read(0, 0), touches([[1, 0, 0]], 0)).state]).toEqual([0, 2, 0, 0]);
  });
  test("touches beyond the end, and a size beyond reason, are cut", () => {
    expect([...pageMap(4096, read(0, 9), touches([[7, 0, 0]])).state]).toEqual([READ]);
    expect(pageMap(2 ** 52, read(0, 1), null).pages).toBe(2 ** 22);
    expect(pageMap(0, read(0, 0), null).pages).toBe(1);
  });
  test("is about as wide as a screen, in rows of a power of two", () => {
    for (const [megabytes, columns] of [
      [0.01, 8],
      [2, 32],
      [165, 256],
      [300, 512],
    ])
      expect(pageMap(megabytes * 1e6, read(0, 0), null).columns, `${megabytes} MB`).toBe(columns);
  });
  test("shades go by time or by order; what has neither has none", () => {
    const map = pageMap(
      5 * 4096,
      read(0, 0),
      touches([
        [0, 10, 0],
        [1, 20, 1],
        [2, 110, 2],
        [4, -1, -1],
      ]),
    );
    expect(shades(map, "time")).toEqual({ shade: Uint8Array.of(0, 25, 254, NO_SHADE, NO_SHADE), from: 10, to: 110 });
    expect(shades(map, "order")).toEqual({ shade: Uint8Array.of(0, 127, 254, NO_SHADE, NO_SHADE), from: 1, to: 3 });
    expect(shades(pageMap(4096, read(0, 1), null), "time")).toEqual({ shade: Uint8Array.of(NO_SHADE), from: 0, to: 0 });
  });
});

/** A map of four columns drawn from states: `·` nothing, `r` read, figures touched in this shade. */
function small(states: string): PageMap & { shade: Uint8Array } {
  const cells = [...states.replace(/\s/g, "")];
  const state = Uint8Array.from(cells, (it) => (it === "·" ? NOTHING : it === "r" ? READ : TOUCHED));
  const none = new Float64Array(cells.length).fill(-1);
  return {
    pages: cells.length,
    columns: 4,
    rows: Math.ceil(cells.length / 4),
    state,
    at: none,
    order: none,
    shade: Uint8Array.from(cells, (it) => (/\d/.test(it) ? Number(it) : NO_SHADE)),
  };
}
const plain = {
  blank: 26,
  read: 18,
  shades: Uint32Array.from({ length: 256 }, (_, shade) => 1 + shade),
  faded: new Uint32Array(256).fill(25),
};
const whole = { x: { from: 0, to: 4 }, y: { from: -3, to: 0 } };
const paint = (
  map: ReturnType<typeof small>,
  width: number,
  height: number,
  part = whole,
  shown: Uint8Array | null = null,
) => drawn(width, height, (to) => paintPages(to, map, map.shade, shown, part, plain));

describe("painting pages", () => {
  const map = small("01·r 2222 3·");
  test("row by row from the top; behind the end there is nothing", () => {
    expect(paint(map, 8, 6)).toEqual(
      lines(`
      aabbzzrr
      aabbzzrr
      cccccccc
      cccccccc
      ddzz····
      ddzz····
    `),
    );
  });
  test("a part of it", () => {
    expect(paint(map, 4, 4, { x: { from: 1, to: 3 }, y: { from: -2, to: 0 } })).toEqual(
      lines(`
      bbzz
      bbzz
      cccc
      cccc
    `),
    );
  });
  test("what the filter leaves out is faded", () => {
    expect(paint(map, 4, 3, whole, Uint8Array.from("10001010010", Number))).toEqual(
      lines(`
      ayzr
      cycy
      yz··
    `),
    );
  });
  test("a touched page is seen even where a pixel holds several", () => {
    expect(paint(small("r1rr rrrr ···2"), 1, 1)).not.toEqual(["r"]);
    expect(paint(small("rrrr rrrr rr1r"), 2, 1)[0]).toContain("b");
  });
  test("large cells have gaps", () => {
    const picture = paint(small("0000 0000 0000"), 32, 24);
    expect(picture[0]).toBe("aaaaaaa·".repeat(4));
    expect(picture[7]).toBe("·".repeat(32));
  });
  test("a section's border steps in front of its first page", () => {
    const border = (page: number) => drawn(8, 6, (to) => paintBorder(to, map, page, whole, 1, 1));
    expect(border(4)).toEqual(
      lines(`
      ········
      ········
      aaaaaaaa
      ········
      ········
      ········
    `),
    );
    expect(border(2)).toEqual(
      lines(`
      ····aaaa
      ····a···
      aaaaa···
      ········
      ········
      ········
    `),
    );
  });
  test("the pointer finds its page", () => {
    const size = { width: 40, height: 30 };
    expect(pageAt(map, whole, size, 15, 12)).toBe(5);
    expect(pageAt(map, whole, size, 25, 25)).toBe(-1);
    expect(pageAt(map, { x: { from: 1, to: 2 }, y: { from: -2, to: -1 } }, size, 39, 29)).toBe(5);
  });
  test("the ramp gets lighter all the way, on both grounds", () => {
    for (const theme of ["light", "dark"] as const) {
      const light = Array.from({ length: 21 }, (_, k) => rampColour(k / 20, theme)).map(
        (rgb) => 0.2126 * ((rgb >> 16) & 255) + 0.7152 * ((rgb >> 8) & 255) + 0.0722 * (rgb & 255),
      );
      expect(
        light.every((it, k) => k === 0 || it > light[k - 1]),
        theme,
      ).toBe(true);
      expect(new Set(mapColours(theme).shades).size).toBeGreaterThan(200);
    }
  });
});

/** Functions from offset, length, name, lonely pages. */
function functions(list: readonly (readonly [number, number, number, number])[]): Functions {
  const numbers = (of: (it: readonly [number, number, number, number], i: number) => number) =>
    Float64Array.from(list, of);
  return {
    count: list.length,
    offset: numbers(([offset]) => offset),
    len: numbers(([, len]) => len),
    at: numbers((_, i) => i),
    order: numbers((_, i) => i),
    read: numbers(([, len]) => len),
    needed: numbers(() => -1),
    name: Uint32Array.from(list, ([, , name]) => name),
    lonely: Uint32Array.from(list, ([, , , lonely]) => lonely),
  };
}

describe("functions", () => {
  const some = functions([
    [8192, 9000, 2, 1],
    [100, 16, 0, 0],
    [4000, 200, 1, 0],
    [4096, 0, 3, 0],
  ]);
  test("are found by the page that they lie on, long ones on all of theirs", () => {
    const index = indexOf(some);
    expect([0, 1, 2, 3, 4, 5].map((page) => functionsOn(some, index, page))).toEqual([
      [1, 2],
      [2, 3],
      [0],
      [0],
      [0],
      [],
    ]);
  });
  test("are sorted by any column, equal ones by their calls, nameless ones last", () => {
    const by = (sort: string) => [...listOrder(some, ["beta", "alpha", "gamma"], Uint32Array.of(3, 2, 1, 0), sort)];
    expect(by("order")).toEqual([0, 1, 2, 3]);
    expect(by("-size")).toEqual([0, 2, 1, 3]);
    expect(by("name")).toEqual([0, 2, 3, 1]);
    expect(by("-lonely")).toEqual([0, 1, 2, 3]);
    expect(by("no such column")).toEqual([0, 1, 2, 3]);
  });
  test("bars are as wide as what few exceed", () => {
    expect(largeLength(functions(Array.from({ length: 100 }, (_, i) => [0, i === 50 ? 1e6 : 10, 0, 0] as const)))).toBe(
      10,
    );
    expect(largeLength(functions([]))).toBe(1);
  });
});

test("sections, and what lies in none", () => {
  const file = {
    ...report("/x", 1000),
    read: 700,
    needed: 300,
    sections: [
      { name: ".a", offset: 0, size: 400, read: 400, needed: 100, touched: null, called: null },
      { name: ".empty", offset: 400, size: 0, read: 0, needed: 0, touched: null, called: null },
      { name: ".a", offset: 400, size: 100, read: 0, needed: 0, touched: null, called: null },
    ],
  };
  expect(sectionLines(file).map((it) => [it.name, it.size, it.read, it.needed])).toEqual([
    [".a", 400, 400, 100],
    [".a", 100, 0, 0],
    ["(between sections)", 500, 300, 200],
  ]);
  expect([sectionsOn(file, 0), sectionsOn(file, 1)]).toEqual([[".a", ".a"], []]);
  expect(sectionLines(report("/y", 10))).toEqual([
    { name: "(whole file)", offset: -1, size: 10, read: null, needed: null, called: null },
  ]);
});
