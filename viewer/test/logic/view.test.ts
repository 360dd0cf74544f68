import { describe, expect, test } from "vitest";
import { addressText, parseAddress } from "../../src/logic/address.ts";
import { bytesLabel, secondsLabel, sinceLabel, ticks, timeLabel } from "../../src/logic/ticks.ts";
import { clampInto, pan, parseRange, rangeText, step, zoom } from "../../src/logic/view.ts";

describe("viewport", () => {
  const whole = { from: 0, to: 100 };
  test("what is under the mouse stays there", () => {
    const closer = zoom({ from: 20, to: 60 }, 0.5, 30, whole, 1);
    expect((30 - closer.from) / (closer.to - closer.from)).toBeCloseTo(0.25);
    expect(closer.to - closer.from).toBeCloseTo(20);
  });
  test("it never leaves the data, nor comes closer than the smallest", () => {
    expect(zoom({ from: 0, to: 10 }, 100, 5, whole, 1)).toEqual(whole);
    expect(zoom({ from: 0, to: 10 }, 0.001, 0, whole, 4)).toEqual({ from: 0, to: 4 });
    expect(pan({ from: 90, to: 100 }, 0.5, whole)).toEqual({ from: 90, to: 100 });
    expect(clampInto({ from: -5, to: 5 }, whole)).toEqual({ from: 0, to: 10 });
  });
  test("a step moves only its axis", () => {
    const all = { x: whole, y: whole };
    const closer = step(all, all, { x: 1, y: 1 }, { kind: "zoom", axis: "x", factor: 0.5, at: { x: 0, y: 0 } });
    expect(closer).toEqual({ x: { from: 0, to: 50 }, y: whole });
    expect(step(closer, all, { x: 1, y: 1 }, { kind: "pan", x: 0.5, y: 0.5 })).toEqual({
      x: { from: 25, to: 75 },
      y: whole,
    });
    expect(step(closer, all, { x: 1, y: 1 }, { kind: "reset" })).toEqual(all);
  });
});

describe("address", () => {
  test("a range survives the address to a thousandth of its length", () => {
    for (const range of [
      { from: 0.25, to: 17_900_000.5 },
      { from: 5_400_000_000, to: 5_400_065_536 },
      { from: -3.5, to: 20 },
    ]) {
      const back = parseRange(rangeText(range));
      expect(Math.abs((back?.from ?? NaN) - range.from)).toBeLessThan((range.to - range.from) / 1000);
      expect(Math.abs((back?.to ?? NaN) - range.to)).toBeLessThan((range.to - range.from) / 1000);
    }
  });
  test("what is no range is none", () => {
    for (const text of [null, "", "1", "~", "1~", "5~4", "x~y", "1~2~3", "1~Infinity"])
      expect(parseRange(text)).toBeNull();
  });
  test("views and values come back, also odd ones", () => {
    const address = {
      view: "disk",
      values: { q: 'file:"a b" -cause:read&x=1#', file: "/usr/lib/a+b%20\u{fffd}\n", x: "1~2" },
    } as const;
    expect(parseAddress(addressText(address))).toEqual(address);
    expect(addressText({ view: "disk", values: { file: "/usr/lib/libxul.so", q: "" } })).toBe(
      "#disk?file=/usr/lib/libxul.so",
    );
  });
  test("an unknown view is the first one", () => {
    expect(parseAddress("#nothing?x=1").view).toBe("answer");
    expect(parseAddress("").view).toBe("answer");
  });
});

describe("ticks", () => {
  test("labels have just enough digits", () => {
    expect(ticks({ from: 0, to: 18e6 }, 500, 90, timeLabel).map((tick) => tick.label)).toEqual([
      "0 s",
      "5 s",
      "10 s",
      "15 s",
    ]);
    expect(ticks({ from: 1_000_000, to: 1_000_400 }, 500, 120, timeLabel)[1]?.label).toBe("1000.1 ms");
    expect(timeLabel(17, 5)).toBe("17 µs");
    expect(bytesLabel(5_400_000_000, 100_000_000)).toBe("5.4 GB");
    expect(bytesLabel(0, 1)).toBe("0");
    expect(secondsLabel(0.25, 0.05)).toBe("0.25 s");
    expect([0, 0.25, 0.5, 0.75].map((value) => secondsLabel(value, 0.25))).toEqual([
      "0.00 s",
      "0.25 s",
      "0.50 s",
      "0.75 s",
    ]);
    expect([2.5, 5].map((value) => secondsLabel(value, 2.5))).toEqual(["2.5 s", "5.0 s"]);
    expect([250, 750].map((value) => timeLabel(value, 250))).toEqual(["0.25 ms", "0.75 ms"]);
    expect(bytesLabel(1_250_000, 250_000)).toBe("1.25 MB");
  });
});

test("an axis of seconds has one unit, whatever its step", () => {
  expect([0.9, 1, 1.1].map((value) => sinceLabel(value, 1.1 - 1))).toEqual(["0.9 s", "1.0 s", "1.1 s"]);
  expect([0.95, 1, 1.05].map((value) => sinceLabel(value, 0.05))).toEqual(["950 ms", "1000 ms", "1050 ms"]);
});
