import { describe, expect, test } from "vitest";
import type { Trees } from "../../src/logic/memory.ts";
import { largestChanges, normalized, treesDiff } from "../../src/logic/memorydiff.ts";
import type { MemoryNode } from "../../src/types/document.ts";

const leaf = (name: string, amount: number, more: Partial<MemoryNode> = {}): MemoryNode => ({
  name,
  amount,
  units: 0,
  description: "A.",
  reports: 1,
  below: "open",
  ...more,
});
const inner = (name: string, ...kids: MemoryNode[]): MemoryNode => ({
  ...leaf(
    name,
    kids.reduce((sum, kid) => sum + kid.amount, 0),
  ),
  kids,
});
const trees = (...processes: [string, MemoryNode[], MemoryNode[]?][]): Trees => ({
  name: "x",
  difference: false,
  processes: processes.map(([name, of, others = []]) => ({ name, trees: of, others, warnings: [] })),
  warnings: [],
});
/** `name=amount[kids]` */
const drawn = ({ name, amount, presence, reports, kids }: MemoryNode): string => {
  const kind = presence === undefined ? "" : `(${presence})`;
  const below = kids === undefined ? "" : `[${kids.map(drawn).join(" ")}]`;
  return `${name}=${amount}${kind}${reports > 1 ? `x${reports}` : ""}${below}`;
};
const shown = (first: Trees, second: Trees) =>
  treesDiff(first, second).processes.map(
    ({ name, trees: of, others }) => `${name}: ${[...of, ...others].map(drawn).join(", ")}`,
  );

describe("a difference that the page works out", () => {
  // The list of measure/memory/src/diff.rs.
  test("takes the same out of names as the terminal", () => {
    for (const [path, expected] of [
      ["explicit/a/pid 12/pid=7/pid: 9", "explicit/a/pid NNN/pid=NNN/pid: NNN"],
      ["explicit/threads/Pool #12 (tid=99)", "explicit/threads/Pool #N (tid=NNN)"],
      ["explicit/js-zone(0x7f00Ab)/strings", "explicit/js-zone(0xNNN)/strings"],
      ["explicit/workers/worker(http:\\\\x, 0x7f)/y", "explicit/workers/worker(http:\\\\x, 0xNNN)/y"],
      ["explicit/window-objects/top(about:blank, id=12)/x", "explicit/window-objects/top(about:blank, id=NNN)/x"],
      ["other/window-objects/top(about:blank, id=12)/x", "other/window-objects/top(about:blank, id=12)/x"],
      [
        "a/moz-nullprincipal:{85e250f3-57ae-46c4-a11e-4176dd39d9c5}",
        "a/moz-nullprincipal:{NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN}",
      ],
      ["a/{85e250f3-57ae-46c4-a11e-4176dd39d9c5}", "a/{85e250f3-57ae-46c4-a11e-4176dd39d9c5}"],
      ["address-space/heap/rw-p(segments=3)", "address-space/heap/rw-p(segments=NNNN)"],
      ["size/heap/rw-p(segments=3)", "size/heap/rw-p(segments=3)"],
      ["a/jar:file:\\\\\\usr\\lib\\ff\\omni.ja!\\x", "a/jar:file:\\\\\\...\\omni.ja!\\x"],
      ["a/source(scripts=12, b)", "a/source(scripts=NNN, b)"],
    ])
      expect(normalized(path)).toBe(expected);
  });

  test("adds up processes of one name, leaves out what did not change, joins chains", () => {
    const first = trees(
      ["web (pid 1)", [inner("a", leaf("x", 10), leaf("same/deep", 5))]],
      ["web (pid 2)", [inner("a", leaf("x", 5))], [leaf("gone", 3)]],
    );
    const second = trees(["web (pid 8)", [inner("a", leaf("x", 18), leaf("same/deep", 5))], [leaf("new", 4)]]);
    expect(shown(first, second)).toEqual(["web (pid NNN): a=3[x=3x2], gone=-3(first-only), new=4(second-only)"]);
    expect(shown(first, first)).toEqual([]);
  });

  test("shows a leaf that became a tree, and sorts by the largest change below", () => {
    const first = trees(["p", [inner("a", leaf("x", 10), leaf("small", 1)), inner("explicit", leaf("e", 1))]]);
    const second = trees(["p", [inner("a", inner("x", leaf("y", 4), leaf("z", 90)), leaf("small", 2))]]);
    expect(shown(first, second)).toEqual([
      "p: explicit=-1[e=-1(first-only)], " +
        "a=85[x=84[z=90(second-only) (fake child)=-10(added) y=4(second-only)] small=1]",
    ]);
    // And a report that had others below it in one file already.
    const fake = trees(["p", [inner("a", inner("x", leaf("(fake child)", 10, { presence: "added" }), leaf("y", 4)))]]);
    expect(shown(fake, trees(["p", [inner("a", leaf("x", 12))]]))).toEqual([
      "p: a=-2[x=-2[y=-4(first-only) (fake child)=2(added)]]",
    ]);
  });

  test("puts browsers with and without site isolation together", () => {
    const shared = trees(["web (pid 1)", [inner("a", leaf("x", 15))]]);
    const alone = trees(["webIsolated=https://a (pid 9)", [inner("a", leaf("x", 16))]]);
    expect(shown(shared, alone)).toEqual(["web (pid NNN): a=1[x=1]"]);
    const other = trees(["webIsolated=https://a (pid 2)", [inner("a", leaf("x", 20))]]);
    expect(shown(alone, other)).toEqual(["webIsolated=https://a (pid NNN): a=4[x=4]"]);
  });

  test("says what it leaves out", () => {
    const diff = treesDiff(trees(["p", [], [leaf("x", 1)]]), trees(["p", [], [leaf("x", 9, { units: 1 })]]));
    expect(diff.processes).toEqual([]);
    expect(diff.warnings[0].text).toContain("'x' of 'p'");
  });

  test("lists leaves by what changed most, whatever the sign", () => {
    const diff = treesDiff(
      trees(["p", [inner("a", leaf("x", 50), leaf("y", 1)), inner("b", leaf("z", 1))]]),
      trees(["p", [inner("a", leaf("x", 10), leaf("y", 31)), inner("b", leaf("z", 99))]]),
    );
    expect(largestChanges(diff, "a").map((it) => [it.path, it.node.amount])).toEqual([
      ["a/x", -40],
      ["a/y", 30],
    ]);
  });
});
