import { describe, expect, test } from "vitest";
import { byTime, groupBy, sectionsOf, unpackRest, unpackTrace } from "../../src/logic/events.ts";
import { buffersOf, type Unpacked, unpacking } from "../../src/logic/unpacking.ts";
import type { PackedTrace } from "../../src/types/events.ts";
import { column, table } from "../made.ts";

/**
 * Two files: 0 lies in two pieces on disk, 1 is unknown to the disk. The requests, as the writer predicted them:
 *   0: first of all, for file 0: 4096 missed by all of it; the extents say offset 0
 *   1: follows on for file 0: nothing missed
 *   2: for file 1: predicted where request 1 ended; offset predicted 0
 *   3: for file 0, a jump into its second piece: the extents say offset 8192
 *   4: a write of nobody's file, 512 bytes behind request 3; its end was not seen
 */
const TRACE: PackedTrace = {
  run: 7,
  devices: ["254:0"],
  flags: ["R", "WS"],
  section_names: [".text", ".data"],
  extents: table(
    {
      file: column("delta", [0, 0]),
      offset: column("signed", [0, 0]),
      disk: column("delta", [4096, 40_960]),
      len: column("plain", [8192, 8192]),
    },
    2,
  ),
  sections: table(
    {
      file: column("delta", [0, 0, 0]),
      name: column("plain", [1, 0, 0]),
      offset: column("delta", [8192, 64, 100]),
      len: column("plain", [100, 4000, 0]),
    },
    3,
  ),
  requests: table(
    {
      start: column("delta", [10, 20, 30, 40, 50]),
      queued: column("plain", [2, 0, 0, 0, 0]),
      took: column("plain", [6, 1, 11, 5, 0]),
      process: column("plain", [1, 1, 2, 1, 0]),
      file: column("plain", [1, 1, 2, 1, 0]),
      kind: column("plain", [0, 0, 0, 0, 5]),
      cause: column("plain", [0, 2, 1, 2, 4]),
      device: column("plain", [0, 0, 0, 0, 0]),
      flags: column("plain", [0, 0, 0, 0, 1]),
      len: column("plain", [4096, 4096, 512, 4096, 512]),
      disk: column("signed", [4096, 0, 1000, 40_960 - 12_288, 512]),
      offset: column("signed", [0, 0, 0, 0, 0]),
    },
    5,
  ),
  fills: table(
    {
      at: column("delta", [8, 9]),
      process: column("plain", [1, 1]),
      file: column("plain", [0, 0]),
      offset: column("signed", [0, 4096]),
      len: column("plain", [4096, 4096]),
      cause: column("plain", [0, 2]),
    },
    2,
  ),
  asks: table(
    {
      at: column("delta", [8]),
      process: column("plain", [1]),
      file: column("plain", [1]),
      offset: column("signed", [4096]),
      len: column("plain", [4096]),
      how: column("plain", [1]),
    },
    1,
  ),
};

describe("a packed trace", () => {
  test("places come from what the prediction missed", async () => {
    const { requests } = await unpackTrace(TRACE);
    expect([...requests.disk]).toEqual([4096, 8192, 13_288, 40_960, 45_568]);
    const { offsets } = await unpackRest(TRACE);
    expect([...offsets]).toEqual([0, 4096, 0, 8192, 0]);
  });
  test("what the first picture does not need is not unpacked before it", async () => {
    const asked: string[] = [];
    const watched = (name: string, columns: PackedTrace["requests"]["columns"]) =>
      new Proxy(columns, {
        get: (of, column: string) => {
          asked.push(`${name}.${column}`);
          return of[column];
        },
      });
    const watch = (name: "requests" | "fills" | "asks" | "extents") => ({
      ...TRACE[name],
      columns: watched(name, TRACE[name].columns),
    });
    await unpackTrace({
      ...TRACE,
      requests: watch("requests"),
      fills: watch("fills"),
      asks: watch("asks"),
      extents: watch("extents"),
    });
    const of = "start queued took process file kind cause device flags len disk".split(" ");
    expect(asked.sort()).toEqual(of.map((column) => `requests.${column}`).sort());
  });
  test("times, and ends that were not seen", async () => {
    const { requests } = await unpackTrace(TRACE);
    expect([...requests.from]).toEqual([8, 20, 30, 40, 50]);
    expect([...requests.end]).toEqual([15, 20, 40, 44, 50]);
    expect([...requests.ended]).toEqual([1, 1, 1, 1, 0]);
  });
  test("kinds say what was served and which way", async () => {
    const { requests } = await unpackTrace(TRACE);
    expect([...requests.write]).toEqual([0, 0, 0, 0, 1]);
    expect([...requests.served]).toEqual([0, 0, 0, 0, 2]);
  });
  test("sections come by place, empty ones do not", async () => {
    const events = await unpackTrace(TRACE);
    expect(sectionsOf(events, 1)).toEqual([]);
    expect(sectionsOf(events, 0)).toEqual([
      { name: ".text", offset: 64, len: 4000 },
      { name: ".data", offset: 8192, len: 100 },
    ]);
  });
  test("fills and asks go on where the last of their file ended", async () => {
    const { fills, asks } = await unpackRest(TRACE);
    expect([...fills.offset]).toEqual([0, 8192]);
    expect([...asks.offset]).toEqual([4096]);
  });
  test("a column cut short is an error, not half a picture", async () => {
    const columns = { ...TRACE.requests.columns, disk: column("signed", [4096, 0]) };
    await expect(unpackTrace({ ...TRACE, requests: table(columns, 5) })).rejects.toThrow(/ends after 2 of 5/);
  });
  test("a lost column is an error", async () => {
    const { disk: _, ...columns } = TRACE.requests.columns;
    await expect(unpackTrace({ ...TRACE, requests: table(columns, 5) })).rejects.toThrow(/no column "disk"/);
  });
});

describe("unpacking", () => {
  const say = async (text: string, run: number) => {
    const parts: Unpacked[] = [];
    await unpacking(text)({ run, device: "", toScale: false }, (part) => parts.push(part));
    return parts;
  };
  const packed = JSON.stringify({ schema: "thaw.events/1", traces: [TRACE] });
  test("says the requests with their picture first, then the rest", async () => {
    const [events, touches] = await say(packed, 7);
    expect([events.kind, touches.kind]).toEqual(["events", "touches"]);
    if (events.kind !== "events") return;
    expect(events.picture.marks.x).toBe(events.events.requests.start);
    // What shares memory is handed over once.
    expect([...buffersOf(events)].filter((it) => it === events.events.requests.start.buffer)).toHaveLength(1);
  });
  test("says which trace is not there, and what is damaged, each time it is asked", async () => {
    expect(await say(packed, 8)).toEqual([{ kind: "none", run: 8 }]);
    expect((await say("{", 7))[0]).toMatchObject({ kind: "damaged", reason: expect.stringMatching(/JSON/) });
    expect((await say('{"schema":"thaw.events/9","traces":[]}', 7))[0]).toMatchObject({
      kind: "damaged",
      reason: expect.stringMatching(/events\/9/),
    });
    const cut = { ...TRACE, requests: { ...TRACE.requests, count: 6 } };
    expect((await say(JSON.stringify({ schema: "thaw.events/1", traces: [cut] }), 7))[0]).toMatchObject({
      kind: "damaged",
      reason: expect.stringMatching(/ends after 5 of 6/),
    });
  });
});

test("grouping keeps the order of time", () => {
  const { first, order } = groupBy(Uint32Array.of(1, 0, 1, 2, 0), 3);
  expect([...first]).toEqual([0, 2, 4, 5]);
  expect([...order]).toEqual([1, 4, 0, 2, 3]);
});

test("by time, and those of the same time as given", () => {
  expect([...byTime(Uint32Array.of(3, 0, 1, 2), Float64Array.of(7e12, 5, 5, 2 ** 50))]).toEqual([1, 2, 0, 3]);
  expect([...byTime(new Uint32Array(0), new Float64Array(0))]).toEqual([]);
});
