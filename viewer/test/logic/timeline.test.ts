import { describe, expect, test } from "vitest";
import { moment, momentTicks } from "../../src/logic/moments.ts";
import { lowered, passingNames, suggested } from "../../src/logic/resource.ts";
import {
  DEEP,
  drawEach,
  type Lanes,
  type Look,
  lanesBy,
  lanesInOrder,
  Mips,
  numberAt,
  placeAt,
} from "../../src/logic/tapes.ts";
import {
  addressName,
  childrenOf,
  eventsOf,
  linkTree,
  objectName,
  originOf,
  parentsOf,
  shortened,
  sourceOf,
  threadName,
  unpackTimeline,
} from "../../src/logic/timeline.ts";
import {
  onlyType,
  parseRules,
  type Rules,
  rulesText,
  setBox,
  shownTypes,
  typeLines,
  typeTree,
} from "../../src/logic/typetree.ts";
import type { PackedTimeline } from "../../src/types/timeline.ts";
import { column, table, texts } from "../made.ts";

/**
 * Object 0 waits 10..20, works 20..50, and again waits from 60 on; object 1 works 5..9; object 2 only has a link to it.
 * 0 links to 1 at 50, 1 to 2 at 60, 2 to 0 at 70.
 */
const PACKED: PackedTimeline = {
  schema: "thaw.timeline-view/1",
  name: "a.events",
  form: "events",
  is_calibrated: true,
  realtime_ns: 0,
  step_ns: 10,
  end: 100,
  events: 12,
  lost: { events: 0, overwritten: 0, types: 0, texts_cut: 0 },
  damage: [],
  processes: [{ pid: 7, program: "/bin/a", filter: "" }],
  threads: [
    { tid: 1, name: "main", process: 0 },
    { tid: 2, name: "", process: 0 },
  ],
  types: {
    names: texts(["net::get", "disk"]),
    files: texts(["a.c", ""]),
    places: table(
      { name: column("delta", [0, 1, 0]), file: column("delta", [0, 1, 0]), line: column("delta", [7, 0, 9]) },
      3,
    ),
  },
  texts: texts(["first", "size=3"]),
  objects: table(
    { name: column("delta", [1, 0, 0]), address: column("delta", [16, 32, 48]), process: column("plain", [1, 1, 0]) },
    3,
  ),
  intervals: table(
    {
      object: column("delta", [0, 0, 1]),
      // The second minus where the first ended, the third minus where the first began.
      begin: column("signed", [10, 10, -5]),
      state: column("plain", [7, 1, 6]),
      waited: column("plain", [10, 0, 0]),
      worked: column("plain", [30, 0, 4]),
      poster: column("plain", [0, 0, 0]),
      worker: column("plain", [1, 0, 0]),
      type: column("plain", [1, 3, 2]),
    },
    3,
  ),
  moments: table(
    {
      object: column("delta", [0, 0, 1, 2]),
      at: column("signed", [12, 38, 48, 10]),
      what: column("plain", [2, 3, 3, 3]),
      thread: column("plain", [0, 0, 1, 9]),
      type: column("plain", [0, 1, 0, 0]),
      text: column("delta", [2, 0, 0, 0]),
      other: column("signed", [0, 1, 1, -2]),
    },
    4,
  ),
  path: {
    classes: ["work", "unexplained"],
    why: texts(["it worked", "nobody knows"]),
    steps: table(
      {
        from: column("delta", [10, 50]),
        took: column("plain", [40, 5]),
        object: column("plain", [1, 0]),
        class: column("plain", [0, 1]),
        why: column("plain", [0, 1]),
      },
      2,
    ),
  },
};

describe("unpacking", () => {
  test("times come back in nanoseconds, and what never ended lasts until the end", async () => {
    const { intervals, moments, end } = await unpackTimeline(PACKED);
    expect(end).toBe(1000);
    expect([...intervals.begin]).toEqual([100, 600, 50]);
    expect([...intervals.work]).toEqual([200, 1000, 50]);
    expect([...intervals.end]).toEqual([500, 1000, 90]);
    expect([...intervals.type]).toEqual([1, 1, 2]);
    expect([...moments.at]).toEqual([120, 500, 600, 700]);
    expect([...moments.other]).toEqual([0, 1, 2, 0]);
  });

  test("names, places and threads are told, or that they are not", async () => {
    const of = await unpackTimeline(PACKED);
    expect([0, 1, 2].map((object) => objectName(of, object))).toEqual(["first", "disk 0x20", "0x30"]);
    expect(addressName(of, 0)).toBe("0x10");
    expect(sourceOf(of, 3)).toEqual({ file: "a.c", line: 9 });
    expect([sourceOf(of, 0), sourceOf(of, 2)]).toEqual([null, null]);
    expect([0, 1, 9].map((thread) => threadName(of, thread))).toEqual(["main 1", "2", "(thread not told)"]);
  });

  test("all events of an object stand by time", async () => {
    const of = await unpackTimeline(PACKED);
    expect(eventsOf(of, 0).map((event) => [event.at, event.kind, event.text, event.other])).toEqual([
      [100, "wait", "", null],
      [120, "arg", "size=3", null],
      [200, "exec", "", null],
      [500, "done", "", null],
      [500, "link", "", 1],
      [600, "wait", "", null],
    ]);
  });

  test("a path has its owners and reasons", async () => {
    expect((await unpackTimeline(PACKED)).path).toEqual([
      { from: 100, to: 500, object: 0, class: "work", why: "it worked" },
      { from: 500, to: 550, object: null, class: "unexplained", why: "nobody knows" },
    ]);
    expect((await unpackTimeline({ ...PACKED, path: null })).path).toBeNull();
  });

  test("a damaged page is refused", async () => {
    await expect(unpackTimeline({ ...PACKED, schema: "thaw.timeline-view/9" })).rejects.toThrow("timeline-view/9");
    const moments = table({ ...PACKED.moments.columns, other: column("signed", [0, 1, 7, -2]) }, 4);
    await expect(unpackTimeline({ ...PACKED, moments })).rejects.toThrow("no object 8");
    const objects = table(PACKED.objects.columns, 4);
    await expect(unpackTimeline({ ...PACKED, objects })).rejects.toThrow("ends after 3 of 4");
  });
});

describe("links", () => {
  test("lead to children, and back to parents", async () => {
    const of = await unpackTimeline(PACKED);
    expect(childrenOf(of, 0)).toEqual([{ object: 1, at: 500, thread: 0, type: 1 }]);
    expect(parentsOf(of, 0).map((it) => [it.object, it.at])).toEqual([[2, 700]]);
  });

  test("that go in a circle end where they began", async () => {
    const of = await unpackTimeline(PACKED);
    const { rows, more } = linkTree(of, 0);
    expect(rows.map((row) => [row.object, row.depth, row.parent])).toEqual([
      [0, 0, null],
      [1, 1, 0],
      [2, 2, 1],
    ]);
    expect(more).toBe(false);
    expect(originOf(of, 0)).toBe(1);
  });
});

describe("boxes of types", () => {
  const NAMES = ["(type not told)", "net::http::get", "net::http", "net::dns", "disk", "unused"];
  const tree = typeTree(NAMES, [0, 5, 3, 2, 7, 0]);
  const shown = (rules: Rules) => [...shownTypes(tree, rules, NAMES.length)].join("");
  const drawn = (rules: Rules, flipped: readonly string[] = []) =>
    typeLines(tree, shownTypes(tree, rules, NAMES.length), new Set(flipped)).map(
      (line) => `${"  ".repeat(line.indent)}${line.node.label} ${line.node.count} ${line.box}`,
    );

  test("count what is below them", () => {
    expect(drawn(new Map(), ["net", "net::http"])).toEqual([
      "all types 17 all",
      "  net 10 all",
      "    http 8 all",
      "      get 5 all",
      "      (itself) 3 all",
      "    dns 2 all",
      "  disk 7 all",
    ]);
  });

  test("hide all below, unless one below is checked again", () => {
    const hidden = setBox(new Map(), "net", false);
    expect(shown(hidden)).toBe("100011");
    const one = setBox(hidden, "net::http::get", true);
    expect(shown(one)).toBe("110011");
    expect(drawn(one)).toEqual(["all types 17 some", "  net 10 some", "  disk 7 all"]);
    expect([...setBox(one, "net", true)]).toEqual([]);
    expect([...setBox(one, "", false)]).toEqual([["", false]]);
  });

  test("of a type that is a namespace too can be checked alone", () => {
    expect(shown(setBox(new Map(), "net::http::", false))).toBe("110111");
    expect(shown(onlyType(tree, 2))).toBe("101001");
    expect(shown(onlyType(tree, 1))).toBe("110001");
  });

  test("stand in the address, whatever their names are", () => {
    const rules: Rules = new Map([
      ["", false],
      ["a,b%::c", true],
    ]);
    expect(parseRules(rulesText(rules))).toEqual(rules);
    expect(parseRules("%,+%zz,nothing")).toEqual(new Map());
  });

  test("are made of 70,000 types, and of names without a name", () => {
    const many = Array.from({ length: 70_000 }, (_, n) => `a${n % 70}::b${n}`);
    const root = typeTree(many, new Uint32Array(70_000).fill(1));
    expect(typeLines(root, new Uint8Array(70_000).fill(1), new Set()).length).toBe(71);
    // A name of nothing but namespaces is no deep tree.
    const deep = typeTree(["a::".repeat(100_000)], [1]);
    expect(typeLines(deep, Uint8Array.of(1), new Set()).map((line) => line.node.count)).toEqual([1, 1]);
    const odd = typeTree(["", "::", "x"], [1, 1, 1]);
    expect(odd.count).toBe(3);
    expect([...shownTypes(odd, setBox(new Map(), "x", false), 3)]).toEqual([1, 1, 0]);
  });
});

describe("the filter by resource", () => {
  const names = ["https://example.org/a.js", "example.org", "", "Other"];
  test("looks for what is typed in names, and for names in what is typed", () => {
    const passing = (typed: string) => passingNames(lowered(names), typed);
    expect([...passing("EXAMPLE")!]).toEqual([1, 1, 0, 0]);
    expect([...passing("https://example.org/b.js")!]).toEqual([0, 1, 0, 0]);
    expect([...passing(" other ")!]).toEqual([0, 0, 0, 1]);
    expect(passing("  ")).toBeNull();
  });

  test("suggests what begins so first", () => {
    expect(suggested(names, lowered(names), "ex", 5)).toEqual(["example.org", "https://example.org/a.js"]);
    expect(suggested(names, lowered(names), "e", 1)).toEqual(["example.org"]);
    expect(suggested(names, lowered(names), "", 5)).toEqual([]);
  });
});

describe("tapes", () => {
  const ALL: Look = { types: null, colour: Uint8Array.of(9, 1, 2) };
  const source = (list: readonly (readonly [number, number, number, number])[]) => ({
    begin: Float64Array.from(list, (it) => it[0]),
    work: Float64Array.from(list, (it) => it[1]),
    end: Float64Array.from(list, (it) => it[2]),
    type: Uint32Array.from(list, (it) => it[3]),
  });
  const text = (line: Uint8Array) =>
    [...line].map((code) => (code === 0 ? "." : code > DEEP ? "ABC"[code - DEEP - 1] : "abc"[code - 1])).join("");
  const drawn = (lanes: Lanes, lane: number, from: number, to: number, width: number, look = ALL) => {
    const line = new Uint8Array(width);
    drawEach(line, lanes, lane, look, { from, to }, width);
    return text(line);
  };
  const lanes = lanesInOrder(
    Uint32Array.of(0, 2, 3),
    source([
      [10, 30, 49, 1],
      [60, 100, 100, 2],
      [40, 40, 40, 1],
    ]),
  );

  test("count lanes, not what lies in them", () => {
    const more = { ...source([]), count: 7 };
    expect(lanesInOrder(Uint32Array.of(0, 0, 0), more).count).toBe(2);
  });

  test("are pale while they wait and deep while they work, whatever part is seen", () => {
    expect(drawn(lanes, 0, 0, 100, 10)).toBe(".aaAA.bbbb");
    expect(drawn(lanes, 0, 20, 40, 10)).toBe("aaaaaAAAAA");
    expect(drawn(lanes, 0, 49, 60, 10)).toBe("A.........");
    expect(drawn(lanes, 1, 0, 100, 10)).toBe("....A.....");
  });

  test("leave out types that are hidden", () => {
    expect(drawn(lanes, 0, 0, 100, 10, { ...ALL, types: Uint8Array.of(1, 0, 1) })).toBe("......bbbb");
  });

  test("by another key are in the order of time, and know their numbers", () => {
    const all = source([
      [50, 50, 60, 1],
      [10, 10, 90, 2],
      [0, 0, 5, 1],
    ]);
    const both = lanesBy(Uint32Array.of(1, 1, 0), 2, all);
    expect([...both.first]).toEqual([0, 1, 3]);
    expect([...both.begin]).toEqual([0, 10, 50]);
    expect([...both.latest]).toEqual([5, 90, 90]);
    expect([0, 1, 2].map((place) => numberAt(both, place))).toEqual([2, 1, 0]);
    // The last begun lies on top; one that began long ago is still there.
    expect(placeAt(both, 1, ALL, 55, 0)).toBe(2);
    expect(placeAt(both, 1, ALL, 80, 0)).toBe(1);
    expect(placeAt(both, 1, ALL, 95, 1)).toBe(-1);
    expect(placeAt(both, 1, { ...ALL, types: Uint8Array.of(1, 0, 1) }, 55, 0)).toBe(1);
  });

  test("of very many intervals show none that is not there and miss none, at any scale", () => {
    const count = 50_000;
    const busy = lanesInOrder(
      Uint32Array.of(0, count),
      source(
        Array.from({ length: count }, (_, n): [number, number, number, number] => {
          // Bursts with gaps between them.
          const at = n * 10 + Math.floor(n / 5000) * 40_000;
          return [at, at + (n % 3), at + (n % 7), 1 + (n % 2)];
        }),
      ),
    );
    const whole = { from: 0, to: 900_000 };
    const mips = new Mips(busy, ALL, whole);
    for (const part of [
      whole,
      { from: 1000, to: 300_000 },
      { from: 44_000, to: 60_000 },
      { from: 95_000, to: 95_300 },
    ]) {
      const [fast, slow] = [new Uint8Array(700), new Uint8Array(700)];
      mips.draw(fast, 0, part, 700);
      drawEach(slow, busy, 0, ALL, part, 700);
      const filled = (line: Uint8Array, x: number) => [x - 2, x - 1, x, x + 1, x + 2].some((it) => line[it] > 0);
      for (let x = 2; x < 698; x++) {
        if (slow[x] > 0) expect(filled(fast, x), `${part.from} ${x}: nothing is drawn`).toBe(true);
        if (fast[x] > 0) expect(filled(slow, x), `${part.from} ${x}: something is drawn`).toBe(true);
      }
    }
  });
});

describe("words", () => {
  test("a moment has its sign and its unit", () => {
    expect([0, 1234, -2_500_000, 1_234_567_890].map(moment)).toEqual(["0", "+1.234 µs", "−2.500 ms", "+1,234.568 ms"]);
  });

  test("ticks are round relative to the zero time", () => {
    const ticks = momentTicks({ from: 0, to: 10_000_000 }, 1_234_567, 500, 100);
    expect(ticks.map((tick) => tick.label)).toContain("0 ms");
    expect(ticks.find((tick) => tick.label === "0 ms")?.value).toBeCloseTo(1_234_567, 3);
  });

  test("a long name keeps its ends", () => {
    expect(shortened("abcdefghijkl", 12)).toBe("abcdefghijkl");
    expect(shortened("abcdefghijklm", 7)).toBe("abcd…lm");
    expect(shortened("x".repeat(1 << 20), 100).length).toBe(100);
  });
});
