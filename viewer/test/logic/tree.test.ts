import { describe, expect, test } from "vitest";
import { inFlightAt, lanes } from "../../src/logic/lanes.ts";
import { beeswarm, byRun, cumulative, quantile } from "../../src/logic/runs.ts";
import { type FileFigures, type FolderNode, folderTree, processTree, wasteOf } from "../../src/logic/tree.ts";
import type { Cell } from "../../src/types/document.ts";
import { requests } from "../made.ts";

function files(list: Record<string, number>): FileFigures[] {
  return Object.entries(list).map(([path, filled], line) => ({
    line,
    path,
    size: filled,
    filled,
    useful: 0,
    waste: filled,
    bytes: filled,
    requests: 1,
    waiting: 0,
    extents: null,
  }));
}

/** The tree as it is read: one line a node, two blanks a level. */
function outline(tree: FolderNode): string[] {
  const out: string[] = [];
  tree.eachBefore((node) => {
    if (node.depth > 0)
      out.push(
        `${"  ".repeat(node.depth - 1)}${node.data.name}${node.data.file === null ? "/" : ""} ` +
          `${(node as FolderNode).sums?.filled}`,
      );
  });
  return out;
}

describe("folders", () => {
  test("many lines of one name have a folder of that name, a few do not", () => {
    const list = [..."aaaabb"].map((path) => files({ [path]: 1 })[0]).map((file, line) => ({ ...file, line }));
    expect(outline(folderTree(list, "filled"))).toEqual(["a/ 4", "  a 1", "  a 1", "  a 1", "  a 1", "b 1", "b 1"]);
  });
  test("add up, the largest first, lonely ones in one line", () => {
    const tree = folderTree(
      files({ "/usr/lib/a.so": 5, "/usr/lib/deep/only/b.so": 7, "/etc/c.conf": 1, "(metadata of device 254:0)": 3 }),
      "filled",
    );
    expect(outline(tree)).toEqual([
      "usr/lib/ 12",
      "  deep/only/ 7",
      "    b.so 7",
      "  a.so 5",
      "(metadata of device 254:0) 3",
      "etc/ 1",
      "  c.conf 1",
    ]);
  });
  test("two lines with one path both stay", () => {
    const twice = files({ "/tmp/x": 1 }).concat(files({ "/tmp/x": 2 }).map((file) => ({ ...file, line: 1 })));
    expect(outline(folderTree(twice, "filled"))).toEqual(["tmp/ 3", "  x 2", "  x 1"]);
  });
  test("a name may end in a slash or hold odd letters", () => {
    expect(outline(folderTree(files({ "/a/": 1, "/a/b\nc": 2 }), "filled"))).toEqual(["a/ 3", "  b\nc 2", "   1"]);
  });
  test("nobody asks for metadata by page", () => {
    expect(wasteOf({ kind: "metadata", filled: 5, asked: 0, needed: null })).toBeNull();
    expect(wasteOf({ kind: "metadata", filled: 5, asked: 0, needed: 4 })).toBe(1);
    expect(wasteOf({ kind: "regular", filled: 5, asked: 7, needed: null })).toBe(0);
    expect(wasteOf({ kind: "regular", filled: 5, asked: 4, needed: 2 })).toBe(3);
  });
});

describe("processes", () => {
  const order = (list: [pid: number, parent: number, start: number][]) =>
    processTree(list.map(([pid, parent, start_ns]) => ({ pid, parent, start_ns }))).map(
      ({ line, depth }) => `${"-".repeat(depth)}${list[line][0]}`,
    );
  test("children stand below their parent, by start", () => {
    expect(
      order([
        [10, 1, 0],
        [11, 10, 5],
        [12, 10, 3],
        [13, 12, 9],
      ]),
    ).toEqual(["10", "-12", "--13", "-11"]);
  });
  test("a number given twice: the parent is the one that lived then", () => {
    expect(
      order([
        [10, 1, 0],
        [20, 10, 1],
        [20, 10, 50],
        [21, 20, 60],
      ]),
    ).toEqual(["10", "-20", "-20", "--21"]);
  });
  test("a circle of parents ends", () => {
    expect(
      order([
        [10, 11, 0],
        [11, 10, 0],
      ])
        .map((it) => it.replaceAll("-", ""))
        .sort(),
    ).toEqual(["10", "11"]);
  });
});

describe("lanes", () => {
  const list = requests([
    { from: 5, start: 6, end: 9, disk: 0, len: 1, process: 2 },
    { start: 0, end: 20, disk: 0, len: 1, process: 1 },
    { from: 1, start: 8, end: 12, disk: 0, len: 1, process: 2 },
    { start: 3, end: 4, disk: 0, len: 1, process: 1, write: true },
  ]);
  test("hold what counts, by when it began to wait", () => {
    const made = lanes(list, 2, new Uint8Array(4).fill(1));
    expect(made.map((lane) => [...lane.numbers])).toEqual([[1], [2, 0]]);
    expect(made[1].longest).toBe(11);
  });
  test("tell which request was in flight", () => {
    const [, lane] = lanes(list, 2, new Uint8Array(4).fill(1));
    expect([0, 2, 6, 11, 13].map((time) => inFlightAt(lane, time, 0))).toEqual([-1, 2, 0, 2, -1]);
  });
});

describe("runs", () => {
  const cell = (state: string, walls: Record<number, number>) =>
    ({
      state,
      samples: Object.entries(walls).map(([run, wall_s]) => ({ run: Number(run), wall_s })),
    }) as unknown as Cell;
  const cells = [cell("hot", { 2: 1, 5: 2 }), cell("cold", { 3: 9, 4: 7 })];
  test("in the order taken", () => {
    expect(byRun(cells, "wall_s")).toEqual({
      runs: [2, 3, 4, 5],
      values: [
        [1, null, null, 2],
        [null, 9, 7, null],
      ],
    });
  });
  test("as shares at or below", () => {
    expect(cumulative(cells, "wall_s")).toEqual({
      x: [1, 1, 2, 7, 7, 9],
      shares: [
        [0, 0.5, 1, null, null, null],
        [null, null, null, 0, 0.5, 1],
      ],
    });
  });
  test("quantiles of type 7", () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([1, 2, 3, 4], 0.25)).toBe(1.75);
    expect(quantile([], 0.5)).toBeNull();
  });
  test("no dot covers another", () => {
    const dots = beeswarm([1, 1, 1, 5], 100, 10, 1, 5);
    expect(dots.map((dot) => [dot.x, dot.row])).toEqual([
      [0, 0],
      [0, 1],
      [0, -1],
      [100, 0],
    ]);
    expect(beeswarm([3, 3], 100, 10, 3, 3).map((dot) => dot.row)).toEqual([0, 1]);
  });
});
