import { describe, expect, test } from "vitest";
import { parseFilter } from "../../src/logic/filter.ts";
import {
  hasDoubtful,
  type MemoryLine,
  memoryLines,
  mostOf,
  sifted,
  unpackMemory,
  wantedByPattern,
  wantedByWords,
  watchLines,
} from "../../src/logic/memory.ts";
import type { MemoryNode } from "../../src/types/document.ts";
import type { PackedMemoryPage } from "../../src/types/memory.ts";
import { column, table, texts } from "../made.ts";

const leaf = (name: string, amount: number): MemoryNode => ({
  name,
  amount,
  units: 0,
  description: "A.",
  reports: 1,
  below: "open",
});
const inner = (name: string, ...kids: MemoryNode[]): MemoryNode => ({
  ...leaf(
    name,
    kids.reduce((sum, kid) => sum + kid.amount, 0),
  ),
  kids,
});

/** The same tree as in measure/memory/src/tree.rs, where the terminal's trees are tested. */
const TREE = inner(
  "explicit",
  leaf("a/b/c", 500),
  inner("d", leaf("x", 300), leaf("y", 5), leaf("z", 4)),
  leaf("e", 101),
  leaf("heap-unclassified", 80),
  inner("f", leaf("s", 4), leaf("t", 3)),
);

const drawn = (lines: readonly MemoryLine[]) =>
  lines.map(
    (line) =>
      `${"  ".repeat(line.depth)}${line.node.name}=${line.node.amount}` +
      `${line.doubtful ? "?" : ""}${line.leaf || line.open ? "" : "*"}`,
  );
const rows = (root: MemoryNode, options: Partial<Parameters<typeof memoryLines>[1]> = {}) =>
  drawn(memoryLines(root, { difference: false, verbose: false, flipped: new Set(), ...options }));

describe("a tree of reports", () => {
  test("puts tiny nodes together as the terminal does", () => {
    expect(rows(TREE)).toEqual([
      "explicit=997",
      "  a/b/c=500",
      "  d=309",
      "    x=300",
      "    (2 tiny)=9*",
      "  e=101",
      "  heap-unclassified=80",
      "  f=7*",
    ]);
  });

  test("shows all of them if asked", () => {
    expect(rows(TREE, { verbose: true })).toEqual([
      "explicit=997",
      "  a/b/c=500",
      "  d=309",
      "    x=300",
      "    y=5",
      "    z=4",
      "  e=101",
      "  heap-unclassified=80",
      "  f=7",
      "    s=4",
      "    t=3",
    ]);
  });

  test("opens and closes by hand", () => {
    expect(rows(TREE, { flipped: new Set(["explicit/d/(2 tiny)"]) })).toContain("      y=5");
    expect(rows(TREE, { flipped: new Set(["explicit/d"]) })).toContain("  d=309*");
    expect(rows(TREE, { flipped: new Set(["explicit/f"]) })).toContain("    s=4");
  });

  test("of a difference weighs by the largest change below, whatever its sign", () => {
    const change = inner(
      "explicit",
      inner("up", leaf("x", 500), leaf("y", -490)),
      leaf("less", -200),
      leaf("small", 3),
      leaf("tiny", 1),
      leaf("other", -1),
    );
    expect(rows(change, { difference: true })).toEqual([
      "explicit=-187",
      "  up=10",
      "    x=500",
      "    y=-490",
      "  less=-200",
      "  small=3",
      "  (2 tiny)=0*",
    ]);
    // Tiny is what has less than 1 % of the sum, and nothing of no sum.
    const even = inner("explicit", leaf("more", 500), leaf("less", -500), leaf("a", 1), leaf("b", -1));
    expect(rows(even, { difference: true })).toEqual(["explicit=0", "  more=500", "  less=-500", "  a=1", "  b=-1"]);
  });

  test("marks what cannot be right, and never folds it", () => {
    const wrong = inner(
      "explicit",
      leaf("huge", 130),
      leaf("fine", 4),
      inner("part", leaf("x", 5), leaf("y", -5)),
      leaf("less", -3),
      leaf("heap-unclassified", -54),
    );
    const marked = [
      "explicit=77",
      "  huge=130?",
      "  fine=4",
      "  (3 tiny)=-57?",
      "    part=0",
      "      x=5",
      "      y=-5?",
      "    less=-3?",
      "    heap-unclassified=-54?",
    ];
    expect(rows(wrong)).toEqual(marked);
    expect(rows(wrong, { verbose: true })).toEqual(
      marked
        .filter((line) => !line.includes("tiny"))
        .map((line) => line.replace(/^ {4}/, "  ").replace(/^ {4}([xy])/, "    $1")),
    );
    expect(hasDoubtful(wrong, wrong.amount)).toBe(true);
    expect(hasDoubtful(TREE, TREE.amount)).toBe(false);
    // Changes may be negative.
    expect(rows(wrong, { difference: true }).join()).not.toContain("?");
    // What a filter leaves is judged by its own sum, as in the terminal.
    expect(
      drawn(
        memoryLines(sifted(wrong, wantedByPattern("huge|fine").wanted, "")!, {
          difference: false,
          verbose: true,
          flipped: new Set(),
        }),
      ),
    ).toEqual(["explicit=134", "  huge=130", "  fine=4"]);
  });

  test("is filtered by path and process, with sums of what is left", () => {
    const left = (typed: string) => {
      const node = sifted(TREE, wantedByWords(parseFilter(typed)), "Web Content (pid 7)");
      return node === null ? null : rows(node, { verbose: true });
    };
    expect(left("file:d/")).toEqual(["explicit=309", "  d=309", "    x=300", "    y=5", "    z=4"]);
    expect(left("-d/x -a/b heap")).toEqual(["explicit=80", "  heap-unclassified=80"]);
    expect(left("process:web f/s")).toEqual(["explicit=4", "  f=4", "    s=4"]);
    expect(left("process:gpu")).toBeNull();
  });

  test("is filtered by one regular expression of paths", () => {
    const left = (pattern: string) => {
      const node = sifted(TREE, wantedByPattern(pattern).wanted, "Web Content (pid 7)");
      return node === null ? null : rows(node, { verbose: true });
    };
    expect(left("^explicit/(d/x|f/.)$")).toEqual([
      "explicit=307",
      "  d=300",
      "    x=300",
      "  f=7",
      "    s=4",
      "    t=3",
    ]);
    expect(left("")).toEqual(rows(TREE, { verbose: true }));
    // Upper and lower case differ, and processes are not looked at.
    expect(left("HEAP")).toBeNull();
    expect(left("Web")).toBeNull();
    const { wanted, wrong } = wantedByPattern("(");
    expect([sifted(TREE, wanted, ""), wrong]).toEqual([null, expect.stringContaining("egular expression")]);
  });

  test("is in order again when it was filtered", () => {
    const tree = inner(
      "explicit",
      inner("first", leaf("a", 50), leaf("b", 1)),
      inner("second", leaf("a", 5), leaf("b", 30)),
    );
    expect(rows(sifted(tree, wantedByWords(parseFilter("b")), "")!)).toEqual([
      "explicit=31",
      "  second=30",
      "    b=30",
      "  first=1",
      "    b=1",
    ]);
  });
});

function packed(): PackedMemoryPage {
  const plain = (...values: number[]) => column("plain", values);
  const watch = {
    name: "w.memory",
    head: {
      schema: "thaw.memory-watch/1",
      thaw_version: "0",
      command: ["app"],
      whose: { program: 1 },
      start_ticks: 0,
      began_ns: 0,
      created_unix_ns: 0,
    },
    checkpoints: [],
    unseen: 0,
    taken: 3,
    processes: [
      { pid: 1, name: "app" },
      { pid: 2, name: "kid" },
    ],
    samples: table({ at: column("delta", [0, 1_000_000, 2_500_000]) }, 3),
    residents: table(
      {
        sample: column("delta", [0, 1, 1]),
        process: plain(0, 0, 1),
        rss: plain(50, 60, 7),
        pss: plain(40, 50, 6),
        uss: plain(30, 40, 5),
        swap: plain(0, 0, 1),
      },
      3,
    ),
  };
  return {
    schema: "thaw.memory-view/1",
    name: "w.memory",
    trees: [
      {
        name: "t",
        difference: false,
        processes: texts([JSON.stringify([{ name: "Main", trees: [TREE], others: [], warnings: [] }])]),
        reporters: [],
        warnings: [],
      },
    ],
    watches: [watch],
    pairs: [],
  } as unknown as PackedMemoryPage;
}

describe("a packed page", () => {
  test("comes back: trees, and lines with gaps", async () => {
    const page = await unpackMemory(packed());
    expect(page.trees[0].processes[0].trees[0]).toEqual(TREE);
    const [watch] = page.watches;
    expect([...watch.seconds]).toEqual([0, 1, 2.5]);
    expect(watchLines(watch, null).pss).toEqual([40, 56, null]);
    expect(watchLines(watch, 1).rss).toEqual([null, 7, null]);
    expect(mostOf(watch, 0)).toEqual({ rss: 60, pss: 50, uss: 40, swap: 0 });
  });

  test("that is damaged is not half shown", async () => {
    await expect(unpackMemory({ ...packed(), schema: "thaw.memory-view/9" })).rejects.toThrow(/memory-view\/9/);
    const broken = packed() as unknown as { watches: { residents: { columns: Record<string, unknown> } }[] };
    broken.watches[0].residents.columns.process = column("plain", [0, 0, 9]);
    await expect(unpackMemory(broken as unknown as PackedMemoryPage)).rejects.toThrow(/damaged/);
  });
});
