import { describe, expect, test } from "vitest";
import {
  byBytes,
  byChange,
  compared,
  downTree,
  filtered,
  joined,
  type Labels,
  type Loaded,
  largestSites,
  linesOf,
  loaded,
  matchesOf,
  nameOf,
  type Tree,
  treeOf,
  upTree,
} from "../../src/logic/calltree.ts";
import { parseFilter } from "../../src/logic/filter.ts";
import { boxAt, flameOf, matchedShare, pathTo, rowsWithin } from "../../src/logic/flame.ts";
import {
  type Frames,
  type HeapProcess,
  lineOf,
  liveAt,
  type Stacks,
  stepAt,
  unpackHeap,
} from "../../src/logic/heap.ts";
import type { PackedHeapPage } from "../../src/types/heap.ts";
import { column, table, texts } from "../made.ts";

/** Frames by name: `function@object`; those that begin with `new` are wrappers, `.cold` is the same as without. */
function labelsOf(names: readonly string[]): Labels {
  const objects = [...new Set(names.map((name) => name.split("@")[1]))];
  const frames: Frames = {
    count: names.length,
    names: names.map((name) => name.split("@")[0]),
    objects,
    sources: [],
    object: Float64Array.from(names, (name) => objects.indexOf(name.split("@")[1])),
    source: new Float64Array(names.length),
    wrapper: Float64Array.from(names, (name) => (name.startsWith("new") ? 1 : 0)),
    same: Float64Array.from(names, (name) => names.indexOf(name.replace(".cold", ""))),
  };
  return { frames, processes: ["one 1", "two 2"] };
}

const LABELS = labelsOf(["main@app", "parse@app", "read@lib", "new@libc", "parse.cold@app"]);
const [MAIN, PARSE, READ, NEW, COLD] = [0, 1, 2, 3, 4];

/** Stacks, outermost first, with their bytes; a block has ten. */
function stacksOf(list: readonly (readonly [readonly number[], number])[]): Loaded {
  const [parent, frame, bytes] = [[0], [0], [0]];
  const known = new Map<string, number>();
  for (const [stack, own] of list) {
    let [at, key] = [0, ""];
    for (const id of stack) {
      key += `/${id}`;
      let node = known.get(key);
      if (node === undefined) {
        node = parent.push(at) - 1;
        frame.push(id);
        bytes.push(0);
        known.set(key, node);
      }
      at = node;
    }
    bytes[at] += own;
  }
  const stacks: Stacks = { count: parent.length, parent: Float64Array.from(parent), frame: Float64Array.from(frame) };
  return loaded(stacks, { bytes: Float64Array.from(bytes), blocks: Float64Array.from(bytes, (it) => it / 10) });
}

const SIMPLE = stacksOf([
  [[MAIN, PARSE, NEW], 60],
  [[MAIN, READ, NEW], 30],
  [[MAIN, READ], 10],
]);

/** One line a node, two blanks a level. */
function drawn(tree: Tree, labels: Labels = LABELS): string[] {
  const out: string[] = [];
  const visit = (node: number, depth: number) => {
    for (const kid of tree.kids.subarray(tree.first[node], tree.first[node + 1])) {
      out.push(
        `${"  ".repeat(depth)}${nameOf(labels, tree.label[kid])} ${tree.total[0][kid]}` +
          (tree.own[0][kid] > 0 ? ` own ${tree.own[0][kid]}` : "") +
          (tree.cut[kid] === 1 ? " cut" : ""),
      );
      visit(kid, depth + 1);
    }
  };
  visit(0, 0);
  return out;
}

describe("trees", () => {
  test("from the outermost function in", () => {
    expect(drawn(downTree(SIMPLE))).toEqual([
      "main 100",
      "  parse 60",
      "    new 60 own 60",
      "  read 40 own 10",
      "    new 30 own 30",
    ]);
  });

  test("from the allocating function out, wrappers left out", () => {
    expect(drawn(upTree(SIMPLE, LABELS, "up"))).toEqual([
      "parse 60",
      "  main 60 own 60",
      "read 40",
      "  main 40 own 40",
    ]);
  });

  test("by object, then function, then callers", () => {
    expect(drawn(upTree(SIMPLE, LABELS, "module"))).toEqual([
      "app 60",
      "  parse 60",
      "    main 60 own 60",
      "lib 40",
      "  read 40",
      "    main 40 own 40",
    ]);
  });

  test("a stack of wrappers alone keeps them", () => {
    expect(drawn(upTree(stacksOf([[[NEW], 5]]), LABELS, "up"))).toEqual(["new 5 own 5"]);
  });

  test("callers of next to nothing are not told apart, and marked", () => {
    const many = stacksOf([
      [[MAIN, PARSE], 1e9],
      [[MAIN, READ], 1],
    ]);
    expect(drawn(upTree(many, LABELS, "up"))).toEqual([
      "parse 1000000000",
      "  main 1000000000 own 1000000000",
      "read 1 cut",
    ]);
  });

  test("of several processes, each below its own name", () => {
    const both = joined([SIMPLE, stacksOf([[[READ], 7]])], LABELS.frames);
    expect(drawn(downTree(both)).filter((line) => !line.startsWith("    "))).toEqual([
      "one 1 100",
      "  main 100",
      "two 2 7",
      "  read 7 own 7",
    ]);
    expect(drawn(upTree(both, LABELS, "up")).slice(-4)).toEqual([
      "read 47",
      "  main 40",
      "    one 1 40 own 40",
      "  two 2 7 own 7",
    ]);
  });

  test("what has nothing of a mode is not there", () => {
    expect(
      drawn(
        downTree(
          stacksOf([
            [[MAIN, PARSE], 0],
            [[MAIN, READ], 1],
          ]),
        ),
      ),
    ).toEqual(["main 1", "  read 1 own 1"]);
  });

  test("a hundred thousand nodes, in all shapes, add up", () => {
    const parent = new Float64Array(100_000);
    const frame = new Float64Array(100_000);
    const bytes = new Float64Array(100_000);
    let random = 1;
    const path = [0];
    for (let node = 1; node < parent.length; node++) {
      random = (random * 48271) % 2147483647;
      path.length = Math.max(1, Math.min(path.length - (random % 3 === 0 ? random % 20 : 0), 64));
      parent[node] = path[path.length - 1];
      frame[node] = random % LABELS.frames.count;
      bytes[node] = random % 1000;
      path.push(node);
    }
    const big = loaded({ count: parent.length, parent, frame }, { bytes, blocks: bytes });
    const sum = bytes.reduce((all, value) => all + value, 0);
    for (const shape of ["down", "up", "module"] as const) {
      const tree = treeOf(big, LABELS, shape);
      expect(tree.total[0][0], shape).toBe(sum);
      const flame = flameOf(tree);
      const first = flame.wide.subarray(flame.first[0], flame.first[1]).reduce((all, wide) => all + wide, 0);
      // Of the root itself nothing is drawn.
      expect(first, shape).toBeCloseTo(1, 3);
    }
  });
});

describe("the filter", () => {
  const matching = (typed: string) => drawn(downTree(filtered(SIMPLE, LABELS, parseFilter(typed))));

  test("counts stacks that match each word somewhere", () => {
    expect(matching("function:read")).toEqual(["main 40", "  read 40 own 10", "    new 30 own 30"]);
    expect(matching("file:libc parse")).toEqual(["main 60", "  parse 60", "    new 60 own 60"]);
    expect(matching("-new")).toEqual(["main 10", "  read 10 own 10"]);
    expect(matching("nothing")).toEqual([]);
  });

  test("finds functions and objects to highlight; excluding words find none", () => {
    const found = (typed: string) =>
      [...matchesOf(LABELS, parseFilter(typed)).keys()]
        .filter((id) => matchesOf(LABELS, parseFilter(typed))[id] === 1)
        .map((id) => nameOf(LABELS, id));
    expect(found("parse")).toEqual(["parse", "parse.cold"]);
    expect(found("file:libc")).toEqual(["new", "libc"]);
    expect(found("-parse")).toEqual([]);
  });
});

describe("a difference", () => {
  const before = stacksOf([
    [[MAIN, COLD], 50],
    [[MAIN, READ], 20],
    [[READ], 5],
  ]);
  const after = stacksOf([
    [[MAIN, PARSE], 80],
    [[MAIN, READ], 20],
    [[PARSE], 4],
  ]);
  const tree = downTree(compared([before], [after], LABELS.frames), byChange);

  test("puts together what compilers split", () => {
    const change = (node: number) =>
      `${nameOf(LABELS, tree.label[node])} ${tree.total[2][node]} → ${tree.total[0][node]}`;
    const kids = (node: number) => [...tree.kids.subarray(tree.first[node], tree.first[node + 1])];
    expect(kids(0).map(change)).toEqual(["main 70 → 100", "read 5 → 0", "parse 0 → 4"]);
    expect(kids(kids(0)[0]).map(change)).toEqual(["parse 50 → 80", "read 20 → 20"]);
  });
});

describe("open rows", () => {
  const tree = downTree(SIMPLE);
  const lines = (share: number, flipped: string[] = []) =>
    linesOf(tree, { share, flipped: new Set(flipped) }, byBytes, null);

  test("those with a share, and those that were opened or closed by hand", () => {
    expect(lines(2).map((line) => line.node)).toEqual([1]);
    expect(lines(0.5).map((line) => nameOf(LABELS, tree.label[line.node]))).toEqual(["main", "parse", "new", "read"]);
    expect(lines(0.5, [`/${MAIN}`])).toHaveLength(1);
    expect(lines(0.5, [`/${MAIN}/${READ}`])).toHaveLength(5);
  });

  test("stand in only where a tree branches", () => {
    expect(lines(0).map((line) => [line.depth, line.indent])).toEqual([
      [1, 0],
      [2, 1],
      [3, 1],
      [2, 1],
      [3, 1],
    ]);
  });

  test("in another order", () => {
    const byName = linesOf(
      tree,
      { share: 0, flipped: new Set() },
      byBytes,
      (a, b) => tree.total[0][a] - tree.total[0][b],
    );
    expect(byName.map((line) => nameOf(LABELS, tree.label[line.node]))).toEqual([
      "main",
      "read",
      "new",
      "parse",
      "new",
    ]);
  });
});

describe("a flame graph", () => {
  const tree = downTree(SIMPLE);
  const flame = flameOf(tree);
  const name = (box: number) => nameOf(LABELS, tree.label[flame.node[box]]);

  test("lies in rows, children below their parents", () => {
    const rows = Array.from({ length: flame.rows }, (_, row) =>
      Array.from({ length: flame.first[row + 1] - flame.first[row] }, (_, i) => flame.first[row] + i).map(
        (box) => `${name(box)} ${flame.x[box].toFixed(1)}+${flame.wide[box].toFixed(1)}`,
      ),
    );
    expect(rows).toEqual([["main 0.0+1.0"], ["parse 0.0+0.6", "read 0.6+0.4"], ["new 0.0+0.6", "new 0.6+0.3"]]);
  });

  test("tells what is below the pointer", () => {
    expect(name(boxAt(flame, 1, 0.7, 0))).toBe("read");
    expect(boxAt(flame, 2, 0.95, 0)).toBe(-1);
    expect(name(boxAt(flame, 2, 0.91, 0.02))).toBe("new");
    expect(boxAt(flame, 3, 0.1, 0)).toBe(-1);
    expect(boxAt(flame, -1, 0.1, 0)).toBe(-1);
    expect(pathTo(flame, boxAt(flame, 2, 0.1, 0)).map(name)).toEqual(["main", "parse", "new"]);
  });

  test("knows how many rows have something to see", () => {
    expect([rowsWithin(flame, 0, 1, 0.5), rowsWithin(flame, 0.65, 1, 0.35), rowsWithin(flame, 0.95, 1, 0.01)]).toEqual([
      3, 2, 2,
    ]);
  });

  test("counts a match on a match once", () => {
    const share = (...names: string[]) =>
      matchedShare(flame, (node) => names.includes(nameOf(LABELS, tree.label[node])));
    expect(share("new")).toBeCloseTo(0.9);
    expect(share("read", "new")).toBeCloseTo(1);
    expect(share()).toBe(0);
  });

  test("of nothing has no rows", () => {
    expect(flameOf(downTree(stacksOf([]))).rows).toBe(0);
  });
});

const HEAD = {
  pid: 1,
  ppid: 0,
  exe: "/bin/app",
  command: ["app"],
  tiers: ["preload"],
  lost: 0,
  doubt: "",
  start_us: 1000,
  end_us: 5000,
  peak_us: 2000,
  peak_bytes: 30,
  peak_blocks: 2,
  figures: {},
  step_ns: 1_000_000,
  moment_ns: 1_000_000,
  moments: 4,
};

function packed(): PackedHeapPage {
  const plain = (...values: number[]) => column("plain", values);
  const names = ["made", "peak", "end", "temporary"].flatMap((mode) => [`${mode}_bytes`, `${mode}_blocks`]);
  const process = {
    ...HEAD,
    timeline: table(
      {
        bytes: column("delta", [10, 30, 30, 20]),
        blocks: column("delta", [1, 2, 2, 1]),
        most: column("delta", [10, 35, 30, 30]),
        allocated: column("delta", [10, 40, 40, 40]),
      },
      4,
    ),
    stacks: table(
      {
        parent: column("delta", [0, 0, 1]),
        frame: plain(0, 0, 1),
        ...Object.fromEntries(names.map((name) => [name, plain(0, 10, 20)])),
      },
      3,
    ),
    changes: table(
      {
        node: column("delta", [1, 1, 2]),
        step: column("delta", [0, 3, 1]),
        bytes: column("signed", [10, -10, 20]),
        blocks: column("signed", [1, -1, 1]),
      },
      3,
    ),
  };
  const recording = {
    name: "x.heap",
    command: ["app"],
    thaw_version: "0",
    created_unix_ns: 0,
    finished: true,
    code: 0,
    signal: null,
    nothing: null,
    window: { since_ns: 0, until_ns: null },
    part: "all",
    pruned: { nodes: 3, kept: 3, share: 0 },
    slop: texts(['{"processes":[],"warnings":[]}']),
    growth: texts(['{"processes":[],"warnings":[]}']),
    warnings: [],
    processes: [process],
  };
  const frames = {
    names: texts(["main", "parse"]),
    objects: texts(["app"]),
    sources: texts([]),
    table: table({ object: plain(0, 0), source: plain(0, 0), wrapper: plain(0, 0), same: plain(0, 1) }, 2),
  };
  return { schema: "thaw.heap-view/1", measure: "peak", frames, recordings: [recording] } as unknown as PackedHeapPage;
}

describe("a packed recording", () => {
  test("comes back, with what was live at any step", async () => {
    const page = await unpackHeap(packed());
    const process = page.recordings[0].processes[0];
    expect(page.recordings[0].slop).toEqual({ processes: [], warnings: [] });
    const live = (us: number) => [...liveAt(process, us).bytes];
    expect([live(0), live(1500), live(2000), live(3500), live(4500), live(5000), live(9e9)]).toEqual([
      [0, 0, 0],
      [0, 0, 0],
      [0, 10, 0],
      [0, 10, 20],
      [0, 10, 20],
      [0, 0, 20],
      [0, 0, 20],
    ]);
    expect([...liveAt(process, 5000).blocks]).toEqual([0, 0, 1]);
    expect([0, 1999, 2000, 4999, 5000].map((us) => stepAt(process.head, us))).toEqual([-2, -1, 0, 2, 3]);
  });

  test("has lines over time, of one process and of several", async () => {
    const process = (await unpackHeap(packed())).recordings[0].processes[0];
    expect([...lineOf([process]).seconds]).toEqual([0.002, 0.003, 0.004, 0.005]);
    const later = { ...process, head: { ...process.head, start_us: 6000, end_us: 10_000 } } as HeapProcess;
    const both = lineOf([process, later]);
    expect(both.seconds[both.seconds.length - 1]).toBeCloseTo(0.01);
    expect(Math.max(...both.most)).toBe(35);
    // Between the two there is nothing.
    expect(both.bytes[550]).toBe(0);
    expect(both.bytes[both.bytes.length - 1]).toBe(20);
  });

  test("that is damaged is not half shown", async () => {
    await expect(unpackHeap({ ...packed(), schema: "thaw.heap-view/2" })).rejects.toThrow(/thaw.heap-view\/2/);
    const broken = packed() as unknown as {
      recordings: { processes: { stacks: { columns: Record<string, unknown> } }[] }[];
    };
    broken.recordings[0].processes[0].stacks.columns.parent = column("delta", [0, 2, 1]);
    await expect(unpackHeap(broken as unknown as PackedHeapPage)).rejects.toThrow(/damaged/);
  });
});

test("the largest sites come first, with whom they were mostly for", () => {
  const sites = largestSites(treeOf(SIMPLE, LABELS, "up"), 2);
  const said = sites.map((site) => [
    nameOf(LABELS, site.label),
    site.bytes,
    site.blocks,
    site.callers.map((caller) => nameOf(LABELS, caller)),
  ]);
  expect(said).toEqual([
    ["parse", 60, 6, ["main"]],
    ["read", 40, 4, ["main"]],
  ]);
  expect(largestSites(treeOf(SIMPLE, LABELS, "up"), 1)).toHaveLength(1);
});
