import { describe, expect, test } from "vitest";
import { paintHops, paintRow, paintStretches } from "../../src/draw/waterfall.ts";
import { downTree, loaded, treeOf } from "../../src/logic/calltree.ts";
import { flameOf } from "../../src/logic/flame.ts";
import type { Frames } from "../../src/logic/heap.ts";
import {
  bandOf,
  byLane,
  drawLine,
  full,
  isFull,
  laneLine,
  layout,
  marksOf,
  ownedBy,
  pale,
  pathAt,
  pathLine,
  pieceAt,
  type Row,
  rowsOf,
} from "../../src/logic/waterfall.ts";
import { classOf, type Path, type Pieces, stackOf } from "../../src/logic/why.ts";
import type { LaneHead } from "../../src/types/why.ts";

/** Letters of a line: what is done, by its number. */
const LETTERS = "RLdz";

/** Pieces of lines that are drawn with a letter for each millisecond; a blank is nothing. */
function pieces(lines: readonly string[]): Pieces {
  const [from, to, seen, lane]: [number[], number[], number[], number[]] = [[], [], [], []];
  lines.forEach((line, number) => {
    for (let at = 0; at < line.length; at++) {
      if (line[at] === " ") continue;
      const code = LETTERS.indexOf(line[at]);
      const last = from.length - 1;
      if (last >= 0 && lane[last] === number && to[last] === at && seen[last] === code) to[last] = at + 1;
      else {
        from.push(at);
        to.push(at + 1);
        seen.push(code);
        lane.push(number);
      }
    }
  });
  return {
    count: from.length,
    from: Float64Array.from(from),
    to: Float64Array.from(to),
    seen: Uint8Array.from(seen),
    node: new Float64Array(from.length),
    lane: Int32Array.from(lane),
  };
}

/** A path that is drawn over lanes in the same way: by time, and an owner for each kind of letter on a lane. */
function path(lines: readonly string[]): Path {
  const all = pieces(lines);
  const order = [...all.from.keys()].sort((a, b) => all.from[a] - all.from[b]);
  const owners = new Map<string, number>();
  const owner = order.map((i) => {
    const key = `${all.lane[i]} ${all.seen[i]}`;
    if (!owners.has(key)) owners.set(key, owners.size);
    return owners.get(key)!;
  });
  const lane = Int32Array.from(order, (i) => all.lane[i]);
  return {
    count: all.count,
    from: Float64Array.from(order, (i) => all.from[i]),
    to: Float64Array.from(order, (i) => all.to[i]),
    seen: Uint8Array.from(order, (i) => all.seen[i]),
    node: new Float64Array(all.count),
    lane,
    owner: Int32Array.from(owner),
    link: lane.map((it, i) => (i + 1 < lane.length && lane[i + 1] !== it ? 1 : -1)),
  };
}

const LANES = ["RRRLLLLLRR", "  RRRRRRzz", "dddd      "];
const PATH = ["RRR     RR", "   RRRRR  "];

/** A line in pixels: small letters are pale, capitals full. */
function shown(lines: Parameters<typeof drawLine>[1][], width: number, range = { from: 0, to: 10 }): string {
  const codes = new Uint8Array(width);
  for (const line of lines) drawLine(codes, line, range, width, isFull);
  return [...codes]
    .map((code) => {
      if (code === 0) return ".";
      const letter = LETTERS[(code - 1) >> 1];
      return isFull(code) ? letter.toUpperCase() : letter.toLowerCase();
    })
    .join("");
}

const laneOf = (all: Pieces, lane: number) => {
  const own = [...all.lane.keys()].filter((i) => all.lane[i] === lane);
  return laneLine(all, own[0], own[own.length - 1] + 1);
};

describe("the line of a lane", () => {
  const all = pieces(LANES);

  test("has a pixel for each millisecond, pale but for the path", () => {
    expect(shown([laneOf(all, 0)], 10)).toBe("rrrlllllrr");
    expect(shown([laneOf(all, 0), pathLine(path(PATH), byLane(path(PATH), 2)[0], null)], 10)).toBe("RRRlllllRR");
    expect(shown([laneOf(all, 1), pathLine(path(PATH), byLane(path(PATH), 2)[1], null)], 10)).toBe("..rRRRRRzz");
  });

  test("is cut by what is in sight", () => {
    expect(shown([laneOf(all, 0)], 8, { from: 2, to: 4 })).toBe("rrrrllll");
    expect(shown([laneOf(all, 2)], 4, { from: 3, to: 7 })).toBe("d...");
    expect(shown([laneOf(all, 2)], 4, { from: 6, to: 10 })).toBe("....");
  });

  test("shows what lasts longest where several share a pixel", () => {
    expect(shown([laneOf(pieces(["RLLLRRLRRR"]), 0)], 2)).toBe("lr");
    expect(shown([laneOf(pieces(["RLLRRRLRRR"]), 0)], 1)).toBe("r");
    // Three pixels of ten milliseconds: each has a third of its neighbour's.
    expect(shown([laneOf(pieces(["RRRRLLLLLL"]), 0)], 3)).toBe("rll");
  });

  test("shows the chosen owner's piece among longer ones of others", () => {
    const drawn = path(["RRRdRRRRRR"]);
    expect(shown([pathLine(drawn, byLane(drawn, 2)[0], 1)], 2)).toBe("Dr");
    expect(shown([pathLine(drawn, null, 0)], 2)).toBe("RR");
  });
});

describe("the path", () => {
  test("is a band of stretches with hops between them", () => {
    const { stretches, hops } = bandOf(path(PATH));
    expect(stretches).toEqual([
      { lane: 0, from: 0, to: 3 },
      { lane: 1, from: 3, to: 8 },
      { lane: 0, from: 8, to: 10 },
    ]);
    expect(hops).toEqual([
      { at: 3, fromLane: 0, toLane: 1, link: 1 },
      { at: 8, fromLane: 1, toLane: 0, link: 1 },
    ]);
    expect(bandOf(path([]))).toEqual({ stretches: [], hops: [] });
  });

  test("goes on where one lane does one thing after the other", () => {
    expect(bandOf(path(["RRLLRR"])).stretches).toEqual([{ lane: 0, from: 0, to: 6 }]);
  });

  test("is painted below its lanes and across them", () => {
    const [width, height] = [10, 20];
    const pixels = new Uint32Array(width * height);
    const to = { width, height, pixels };
    const view = { x: { from: 0, to: 10 }, y: { from: -2, to: 0 } };
    const drawn = path(PATH);
    const places = Int32Array.of(0, 1);
    const band = bandOf(drawn);
    const colours = new Uint32Array(9).fill(1);
    colours[full(0)] = 2;
    const all = pieces(LANES);
    for (const lane of [0, 1])
      paintRow(to, [laneOf(all, lane), pathLine(drawn, byLane(drawn, 2)[lane], null)], lane, view, colours);
    paintStretches(to, band.stretches, places, view, 3, 1);
    paintHops(to, band.hops, places, view, 4, 1);
    const picture = Array.from({ length: height }, (_, row) =>
      [...pixels.subarray(row * width, (row + 1) * width)].map((it) => ".rP_|"[it]).join(""),
    );
    expect(picture.filter((line, row) => row === 0 || line !== picture[row - 1])).toEqual([
      "..........",
      "PPPrrrrrPP",
      "PPP|rrrr|P",
      "___|....|_",
      "...|....|.",
      "..r|PPPP|r",
      "..rPPPPPrr",
      "..._____..",
      "..........",
    ]);
  });

  test("is found on its lane, and beside it the lane's own piece", () => {
    const drawn = path(PATH);
    expect(pathAt(drawn, 1, 4, 0)).toBe(1);
    expect(pathAt(drawn, 0, 4, 0.5)).toBe(-1);
    expect(pathAt(drawn, 0, 3.4, 0.5)).toBe(0);
    const all = pieces(LANES);
    expect(pieceAt(all, 0, 3, 4, 0)).toBe(1);
    expect(pieceAt(all, 5, 6, 4.5, 1)).toBe(5);
    expect(pieceAt(all, 5, 6, 6, 1)).toBe(-1);
  });

  test("says how much of it an owner has, and in how many pieces", () => {
    const drawn = path(PATH);
    expect(ownedBy(drawn, 0)).toEqual({ ns: 5, pieces: 2 });
    expect(ownedBy(drawn, 1)).toEqual({ ns: 5, pieces: 1 });
    expect(ownedBy(drawn, 7)).toEqual({ ns: 0, pieces: 0 });
    expect(shown([pathLine(drawn, null, 0)], 10)).toBe("RRRrrrrrRR");
    expect(shown([pathLine(drawn, null, 1)], 10)).toBe("rrrRRRRRrr");
  });

  test("codes of a number are apart", () => {
    for (let seen = 0; seen < 120; seen++) {
      expect(isFull(full(seen)) && !isFull(pale(seen))).toBe(true);
      expect(full(seen)).toBeLessThan(256);
    }
  });
});

describe("rows", () => {
  const lane = (name: string, pid: number, tid: number, of_tree = true): LaneHead => ({
    thread: { name, pid, tid },
    of_tree,
    made_by: null,
    is_merged: false,
    ran_ns: 0,
    lacked_cpu_ns: 0,
    waited_ns: 0,
    unknown_ns: 0,
    path_ns: 0,
  });
  const lanes = [
    lane("app", 1, 1),
    lane("worker", 1, 2),
    lane("helper", 5, 5),
    lane("kworker/0:1", 77, 77, false),
    lane("late", 1, 9),
  ];
  const said = (rows: readonly Row[]) =>
    rows.map((row) =>
      row.kind === "lane" ? `  ${lanes[row.lane].thread.name}` : row.kind === "path" ? "=" : `${row.name}:`,
    );

  test("keep the threads of a process together, and others' programs last", () => {
    expect(said(layout(lanes, () => true))).toEqual([
      "=",
      "app:",
      "  app",
      "  worker",
      "  late",
      "  helper",
      "other programs and the kernel:",
      "  kworker/0:1",
    ]);
  });

  test("have no heads where there is one process, and only lanes that are wanted", () => {
    const rows = layout(lanes, (it) => lanes[it].thread.pid === 1 && it !== 0);
    expect(said(rows)).toEqual(["=", "  worker", "  late"]);
    expect([...rowsOf(rows, lanes.length)]).toEqual([-1, 1, -1, -1, 2]);
  });
});

test("milestones are marks by time, the end is one", () => {
  const marks = marksOf(
    [
      { name: "line:b", at_ns: 7 },
      { name: "line:a", at_ns: 3 },
      { name: "beacon:c", at_ns: 7 },
      { name: "exit", at_ns: 99 },
    ],
    10,
  );
  expect(marks).toEqual([
    { at: 3, name: "line:a" },
    { at: 7, name: "line:b, beacon:c" },
    { at: 10, name: "ready" },
  ]);
});

test("kinds that are looked for together have one colour, and new ones are something else", () => {
  expect(["user", "kernel", "runs", "lacks_cpu", "unknown"].map(classOf)).toEqual([
    "user",
    "kernel",
    "runs",
    "cpu",
    "unknown",
  ]);
  const waits = ["page_fault", "futex_of_tomorrow", "kernel_lock", "unix_socket", "vfork", "sleep", "unknown"];
  expect(waits.map((kind) => classOf({ waits: kind }))).toEqual([
    "disk",
    "other",
    "lock",
    "pipe",
    "child",
    "sleep",
    "unknown",
  ]);
});

describe("stacks", () => {
  /** Two threads; `main` calls `load`, which calls `parse`. */
  const frames: Frames = {
    count: 3,
    names: ["main", "load", "parse"],
    objects: ["/bin/app"],
    sources: [],
    object: new Float64Array(3),
    source: new Float64Array(3),
    wrapper: new Float64Array(3),
    same: Float64Array.of(0, 1, 2),
  };
  const labels = { frames, processes: ["app", "worker"] };
  const stacks = {
    count: 7,
    parent: Float64Array.of(0, 0, 1, 2, 3, 0, 5),
    // The threads' labels stand behind the functions and the object.
    frame: Float64Array.of(0, 4, 0, 1, 2, 5, 2),
  };
  const times = Float64Array.of(0, 0, 1, 2, 3, 0, 4);
  const name = (label: number) => (label < 3 ? frames.names[label] : ["", "/bin/app", "app", "worker"][label - 2]);

  /** Boxes as bars of their width, row by row. */
  function drawn(tree: ReturnType<typeof downTree>): string[] {
    const flame = flameOf(tree);
    return Array.from({ length: flame.rows }, (_, row) => {
      let line = "";
      for (let box = flame.first[row]; box < flame.first[row + 1]; box++) {
        line = line.padEnd(Math.round(flame.x[box] * 40));
        const wide = Math.round(flame.wide[box] * 40);
        line += `|${name(tree.label[flame.node[box]])}`.padEnd(wide, "-").slice(0, wide);
      }
      return line;
    });
  }

  test("stand on their threads, callers below", () => {
    expect(drawn(downTree(loaded(stacks, { bytes: times, blocks: times })))).toEqual([
      "|app--------------------|worker---------",
      "|main-------------------|parse----------",
      "|load---------------",
      "|parse------",
    ]);
  });

  test("hang from their functions, threads last", () => {
    expect(drawn(treeOf(loaded(stacks, { bytes: times, blocks: times }), labels, "up"))).toEqual([
      "|parse----------------------|load---|mai",
      "|worker---------|load-------|main---|app",
      "                |main-------|app----",
      "                |app--------",
    ]);
  });

  test("are told from the innermost function on, without the thread", () => {
    const own = { path_ran: times, ran: times, path_waited: times, waited: times };
    expect(stackOf({ stacks, labels, own }, 4).map((label) => frames.names[label])).toEqual(["parse", "load", "main"]);
    expect(stackOf({ stacks, labels, own }, 0)).toEqual([]);
  });
});
