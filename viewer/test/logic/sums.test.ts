import { describe, expect, test } from "vitest";
import { askedSpans, bytesInside, join, sectionBars, spanBytes } from "../../src/logic/asked.ts";
import { ASKED_AROUND, ASKED_BY_READ } from "../../src/logic/events.ts";
import { askedByFile, filesOfProcess, sums } from "../../src/logic/sums.ts";
import { fairShares } from "../../src/logic/waiting.ts";
import { flights, pages, requests, touches } from "../made.ts";

describe("fair shares of waiting", () => {
  const shares = (picture: string) => [...fairShares(flights(picture))];
  test("one request alone gets all its time", () => {
    expect(shares("..####..")).toEqual([4]);
  });
  test("overlapping requests share equally", () => {
    expect(
      shares(`
        ####......
        ..####....
        ........##
      `),
    ).toEqual([3, 3, 2]);
  });
  test("a short request below a long one", () => {
    expect(
      shares(`
        #########
        ...###...
      `),
    ).toEqual([7.5, 1.5]);
  });
  test("requests that follow each other do not share", () => {
    expect(
      shares(`
        ###...
        ...###
      `),
    ).toEqual([3, 3]);
  });
  test("the way there counts from when its page began to wait; writes and other programs do not count", () => {
    const list = requests([
      { from: 0, start: 4, end: 6, disk: 0, len: 1 },
      { start: 0, end: 9, disk: 0, len: 1, write: true },
      { start: 0, end: 9, disk: 0, len: 1, process: 0 },
      { start: 2, disk: 0, len: 1 },
    ]);
    expect([...fairShares(list)]).toEqual([6, 0, 0, 0]);
  });
});

describe("what was asked for", () => {
  const asked = (exact: string, windows: string, size: number | null = null) => {
    const list = touches([...pages(exact, ASKED_BY_READ), ...pages(windows, ASKED_AROUND)]);
    return spanBytes(askedSpans(list, [...Array(list.count).keys()], size)) / 4096;
  };
  test("exact pages count once", () => {
    expect(asked("##....\n.###..", "")).toBe(4);
  });
  test("a window counts as one page, at its end", () => {
    expect(asked("", "####............")).toBe(1);
  });
  test("a window around an exact page adds nothing", () => {
    expect(asked("..#.............", "####............")).toBe(1);
    expect(asked("....#...........", "####............")).toBe(2);
  });
  test("fewest pages for overlapping windows", () => {
    expect(asked("", "####....\n..####..\n...##...\n......##")).toBe(2);
  });
  test("a read beyond the end is clipped to it", () => {
    expect(asked("########", "", 3 * 4096 - 5)).toBe(3);
  });
  test("spans join where they touch", () => {
    expect(
      join([
        { from: 8, to: 9 },
        { from: 0, to: 4 },
        { from: 4, to: 6 },
        { from: 3, to: 3 },
      ]),
    ).toEqual([
      { from: 0, to: 6 },
      { from: 8, to: 9 },
    ]);
    expect(
      bytesInside(
        [
          { from: 0, to: 6 },
          { from: 8, to: 9 },
        ],
        5,
        9,
      ),
    ).toBe(2);
  });
  test("bars of sections, and of what lies between them", () => {
    const fills = touches([
      { offset: 0, len: 4096 },
      { offset: 0, len: 4096 },
      { offset: 8192, len: 4096 },
    ]);
    const sections = [
      { name: ".text", offset: 0, len: 2048 },
      { name: ".data", offset: 2048, len: 6144 },
    ];
    const bars = (needed: number | null, known: { name: string; needed: number | null }[]) =>
      sectionBars(sections, fills, [0, 1, 2], [{ from: 0, to: 4096 }], 12_288, { needed, sections: known }).map(
        ({ name, size, read, asked, needed: exact }) => [name, size, read, asked, exact],
      );
    expect(bars(null, [])).toEqual([
      [".text", 2048, 2048, 2048, null],
      [".data", 6144, 2048, 2048, null],
      ["(between sections)", 4096, 4096, 0, null],
    ]);
    expect(
      bars(3000, [
        { name: ".data", needed: 700 },
        { name: ".text", needed: 2000 },
      ]).map((bar) => bar[4]),
    ).toEqual([2000, 700, 300]);
  });
  test("two sections of one name keep their own figures", () => {
    const sections = [
      { name: ".note", offset: 0, len: 100 },
      { name: ".note", offset: 100, len: 200 },
    ];
    const bars = sectionBars(sections, touches([]), [], [], 300, {
      needed: 9,
      sections: [
        { name: ".note", needed: 4 },
        { name: ".note", needed: 5 },
      ],
    });
    expect(bars.map((bar) => bar.needed)).toEqual([4, 5]);
  });
});

describe("sums over what passes", () => {
  const list = requests([
    { start: 0, end: 10, disk: 0, len: 4096, file: 1, process: 1 },
    { start: 20, end: 30, disk: 0, len: 8192, file: 2, process: 1 },
    { start: 40, end: 50, disk: 0, len: 4096, file: 1, process: 2 },
    { start: 60, end: 70, disk: 0, len: 4096, file: 1, process: 1, write: true },
  ]);
  const touched = {
    fills: touches([
      { offset: 0, len: 4096, file: 0, process: 1 },
      { offset: 0, len: 4096, file: 0, process: 2 },
    ]),
    asks: touches([{ offset: 0, len: 4096, file: 1, process: 1 }]),
    offsets: new Float64Array(4),
  };
  const shares = fairShares(list);

  test("by file, of one process", () => {
    const masks = { requests: Uint8Array.of(1, 1, 0, 1), fills: Uint8Array.of(1, 0), asks: Uint8Array.of(1) };
    const [first, second] = sums(list, touched, masks, shares, "file", 2);
    expect(first).toEqual({ requests: 1, bytes: 4096, waiting: 10, filled: 4096, passing: 2, events: 4 });
    expect(second).toEqual({ requests: 1, bytes: 8192, waiting: 10, filled: 0, passing: 2, events: 2 });
  });
  test("by process, and the files of one", () => {
    const all = {
      requests: new Uint8Array(4).fill(1),
      fills: new Uint8Array(2).fill(1),
      asks: new Uint8Array(1).fill(1),
    };
    expect(
      sums(list, touched, all, shares, "process", 2).map((sum) => [sum.requests, sum.waiting, sum.filled]),
    ).toEqual([
      [2, 20, 4096],
      [1, 10, 4096],
    ]);
    expect(filesOfProcess(list, touched.fills, all, shares, 1).map((it) => [it.file, it.requests, it.filled])).toEqual([
      [0, 1, 4096],
      [1, 1, 0],
    ]);
  });
  test("asked for, by file", () => {
    expect([...askedByFile(touched.asks, Uint8Array.of(1), [null, null])]).toEqual([0, 4096]);
    expect([...askedByFile(touched.asks, Uint8Array.of(0), [null, null])]).toEqual([0, 0]);
  });
});
