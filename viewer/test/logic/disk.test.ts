import { describe, expect, test } from "vitest";
import { busiestDevice, diskPicture, kindMask, weights } from "../../src/logic/disk.ts";
import { axisPlaces, foldOf, folds, toAxis, toDisk } from "../../src/logic/fold.ts";
import { byPlace, bytesSoFar, travelAsRead, travelInOrder } from "../../src/logic/seeks.ts";
import { requests } from "../made.ts";

/** A disk of letters: each request is a letter at its place, in the order of the alphabet. */
function head(picture: string) {
  const letters = [...picture].flatMap((letter, disk) => (letter === "·" ? [] : [{ letter, disk }]));
  letters.sort((a, b) => a.letter.localeCompare(b.letter));
  return requests(letters.map(({ disk }, start) => ({ start, disk: disk * 512, len: 512 })));
}

const asRead = (picture: string) => {
  const list = head(picture);
  const { seeks, distance } = travelAsRead(list, 0, new Uint8Array(list.count).fill(1));
  return [seeks, distance / 512];
};
const sorted = (picture: string) => {
  const list = head(picture);
  const order = byPlace(list, 0);
  const pick = (column: Float64Array) => Float64Array.from(order, (i) => column[i]);
  const { seeks, distance } = travelInOrder(pick(list.disk), pick(list.len), new Uint8Array(list.count).fill(1));
  return [seeks, distance / 512];
};

describe("the way of the head", () => {
  test.each([
    ["abcd", [0, 0], [0, 0]],
    // The way goes from the end of one request to the beginning of the next.
    ["a····b·", [1, 4], [1, 4]],
    ["c·a·b", [2, 1 + 5], [2, 2]],
    ["dcba", [3, 6], [0, 0]],
  ])("%s", (picture, read, order) => {
    expect(asRead(picture)).toEqual(read);
    expect(sorted(picture)).toEqual(order);
  });
  test("what is read twice costs no way back in order", () => {
    const list = requests([
      { start: 0, disk: 0, len: 2048 },
      { start: 1, disk: 512, len: 512 },
      { start: 2, disk: 4096, len: 512 },
    ]);
    const { seeks, distance, bytes } = travelInOrder(list.disk, list.len, Uint8Array.of(1, 1, 1));
    expect([seeks, distance, bytes]).toEqual([1, 2048, 3072]);
  });
  test("what lies at one place, or in one sector, stays in time's order", () => {
    const list = requests([9000, 100, 300, 9000, 100].map((disk, start) => ({ start, disk, len: 512 })));
    expect([...byPlace(list, 0)]).toEqual([1, 2, 4, 0, 3]);
    expect([...byPlace(list, 1)]).toEqual([]);
  });
  test("huge disks sort as small ones do", () => {
    const list = requests([
      { start: 0, disk: 2 ** 52, len: 512 },
      { start: 1, disk: 1024, len: 512 },
      { start: 2, disk: 2 ** 52, len: 512 },
    ]);
    expect([...byPlace(list, 0)]).toEqual([1, 0, 2]);
  });
  test("bytes so far count what is shown", () => {
    const { x, bytes, shown } = bytesSoFar(
      Float64Array.of(10, 20, 30),
      Uint32Array.of(2, 0, 1),
      Uint8Array.of(0, 1, 1),
    );
    expect([[...x], bytes, [...shown]]).toEqual([[0, 10, 10], 40, [1, 0, 1]]);
  });
});

describe("folded gaps", () => {
  const GB = 1_000_000_000;
  const list = requests([
    { start: 0, disk: 5 * GB, len: 40_000_000 },
    { start: 1, disk: 5 * GB + 40_000_000, len: 40_000_000 },
    { start: 2, disk: 200 * GB, len: 20_000_000 },
  ]);
  const { fold, marks, sorted } = diskPicture(list, 0, false);
  const end = (k: number) => marks.y[k] + marks.high[k];

  test("what was read gets most of the axis, in order", () => {
    expect([...sorted.order]).toEqual([0, 1, 2]);
    expect(marks.y[0]).toBe(0);
    expect(marks.y[1]).toBe(end(0));
    expect(marks.y[2]).toBeGreaterThan(end(1));
    expect(marks.high[2]).toBe(20_000_000);
    expect(100_000_000 / end(2)).toBeGreaterThan(0.7);
  });
  test("both ways agree, and gaps are known", () => {
    for (const disk of [5 * GB, 5 * GB + 12_345_678, 120 * GB, 200 * GB + 5])
      expect(toDisk(fold, toAxis(fold, disk)) / disk).toBeCloseTo(1, 6);
    expect(folds(fold)).toHaveLength(1);
    expect(folds(fold)[0]).toEqual({ from: end(1), to: marks.y[2] });
  });
  test("a longer gap stays the longer one", () => {
    const gap = (far: number) =>
      diskPicture(
        requests([
          { start: 0, disk: 0, len: 1_000_000 },
          { start: 1, disk: far, len: 1_000_000 },
        ]),
        0,
        false,
      ).marks.y[1];
    expect(gap(GB)).toBeGreaterThan(gap(GB / 2));
    expect(gap(100 * GB)).toBeGreaterThan(gap(GB));
  });
  test("very many gaps leave most of the axis to what was read, and stay in order", () => {
    // A thousand pages, each behind a longer gap than the one before.
    const far = requests(
      Array.from({ length: 1000 }, (_, k) => ({ start: k, disk: k * 4096 + k * k * 1_000_000, len: 4096 })),
    );
    const picture = diskPicture(far, 0, false);
    const gaps = [...picture.marks.y].slice(1).map((y, k) => y - picture.marks.y[k] - 4096);
    expect(gaps.every((gap, k) => k === 0 || gap > gaps[k - 1])).toBe(true);
    expect((1000 * 4096) / (picture.marks.y[999] + 4096)).toBeGreaterThan(0.6);
  });
  test("to scale the axis is the disk", () => {
    const scale = diskPicture(list, 0, true);
    expect(toAxis(scale.fold, 120 * GB)).toBeCloseTo(120 * GB, 0);
    expect(folds(scale.fold)).toEqual([]);
    expect([...scale.marks.y]).toEqual([...list.disk]);
  });
  test("nothing read at all", () => {
    expect(foldOf(new Float64Array(0), new Float64Array(0), false).axis).toHaveLength(2);
    expect(axisPlaces(fold, new Float64Array(0))).toHaveLength(0);
    expect(diskPicture(requests([]), 0, false).marks.x).toHaveLength(0);
  });
});

describe("what is shown", () => {
  const list = requests([
    { start: 0, disk: 0, len: 10 },
    { start: 1, disk: 0, len: 20, write: true, file: 2 },
    { start: 2, disk: 0, len: 30, process: 0, file: 0 },
    { start: 3, disk: 0, len: 40, device: 1 },
  ]);
  test.each([
    ["reads", "1000"],
    ["writes", "0100"],
    ["others", "0010"],
    ["reads,others", "1010"],
    ["none", "0000"],
  ])("%s", (show, wanted) => {
    expect([...kindMask(list, 0, new Set(show.split(",")))].join("")).toBe(wanted);
  });
  test("the busiest disk, and what weighs most", () => {
    expect(busiestDevice(list, 2)).toBe(1);
    expect(weights(list, null, "file")).toEqual([
      { category: 1, bytes: 50, requests: 2 },
      { category: 0, bytes: 30, requests: 1 },
      { category: 2, bytes: 20, requests: 1 },
    ]);
  });
});
