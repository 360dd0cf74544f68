import { describe, expect, test } from "vitest";
import {
  bytes,
  change,
  commandLine,
  count,
  date,
  differenceS,
  estimateS,
  harmless,
  mebibytes,
  nanos,
  percent,
  plural,
  pValue,
  ratio,
  seconds,
  splitPath,
  tsv,
} from "../../src/logic/format.ts";

describe("figures", () => {
  test("times have four digits and a unit", () => {
    expect([1.2341, 17.3, 0.0567, 0.00099949, 0, 183.26].map(seconds)).toEqual([
      "1.234 s",
      "17.30 s",
      "56.70 ms",
      "999.5 µs",
      "0.000 s",
      "183.3 s",
    ]);
    expect(nanos(1_500_000)).toBe("1.500 ms");
    expect(seconds(null)).toBe("–");
    expect(seconds(Number.NaN)).toBe("–");
  });
  test("memory reports have the unit of about:memory", () => {
    expect([79.2 * 2 ** 20, -4 * 2 ** 20, 1234 * 2 ** 20, 10_486].map(mebibytes)).toEqual([
      "79.20 MiB",
      "-4.00 MiB",
      "1,234.00 MiB",
      "0.01 MiB",
    ]);
  });
  test("an interval has the unit of its value", () => {
    expect(estimateS({ value: 0.0567, interval: { low: 0.05, high: 0.0631 } })).toBe("56.70 ms [50.00, 63.10]");
    expect(estimateS({ value: 1.5, interval: null })).toBe("1.500 s");
    expect(estimateS({ value: null, interval: null })).toBe("–");
  });
  test("ratios, changes, differences", () => {
    expect(ratio({ value: 2.714, interval: { low: 2.64, high: 2.8 } })).toBe("2.71 [2.64, 2.80]");
    expect(change(1.034)).toBe("+3.4 %");
    expect(change(0.9)).toBe("-10.0 %");
    expect(differenceS({ value: -0.02, interval: { low: -0.04, high: 0.001 } })).toBe("-20.00 ms [-40.00, +1.000]");
  });
  test("bytes, counts, shares, p", () => {
    expect([17, 4096, 135_200_000, 64e9, 12.5e12].map(bytes)).toEqual([
      "17 B",
      "4.1 kB",
      "135.2 MB",
      "64.00 GB",
      "12.50 TB",
    ]);
    expect([0, 999, 1894, 1_234_567].map(count)).toEqual(["0", "999", "1,894", "1,234,567"]);
    expect([0, 0.004, 0.371].map(percent)).toEqual(["0 %", "0.4 %", "37 %"]);
    expect([-0.02, -0.004, -0.0001].map(percent)).toEqual(["−2 %", "−0.4 %", "0.0 %"]);
    expect(pValue(0.0001)).toBe("p < 0.001");
    expect([plural(1, "seek", "seeks"), plural(2000, "seek", "seeks")]).toEqual(["1 seek", "2,000 seeks"]);
  });
  test("a date that is none", () => {
    expect(date(1_795_302_719_000_000_000)).toMatch(/^\d+ \w{3} 2026, \d\d:\d\d UTC$/);
    expect(date(0)).toBe("–");
  });
});

describe("names from a machine that nobody vouches for", () => {
  test("control characters and turned text are seen", () => {
    expect(harmless("a\nb\tc\u{0}")).toBe("a⟨\\n⟩b⟨\\t⟩c⟨U+0000⟩");
    expect(harmless("\u{202e}gnp.evil\u{2028}")).toBe("⟨U+202E⟩gnp.evil⟨U+2028⟩");
    expect(harmless("bad \u{fffd} näme 日本")).toBe("bad \u{fffd} näme 日本");
  });
  test("the clipboard gets no formula and no second line", () => {
    expect(
      tsv(
        ["name", "n"],
        [
          ["=cmd|' /C calc'!A0", 1],
          ["a\tb\nc", null],
          ["-x", Number.NaN],
        ],
      ),
    ).toBe("name\tn\n'=cmd|' /C calc'!A0\t1\na b c\t\n'-x\t\n");
  });
  test("paths split before their last part", () => {
    expect(splitPath("/usr/lib/a.so")).toEqual(["/usr/lib/", "a.so"]);
    expect(splitPath("(metadata)")).toEqual(["", "(metadata)"]);
    expect(splitPath("/dir/")).toEqual(["/", "dir/"]);
    expect(splitPath("")).toEqual(["", ""]);
  });
  test("a command line is quoted where it must be", () => {
    expect(commandLine(["thaw", "record", "--", "sh", "-c", "it's"])).toBe("thaw record -- sh -c 'it'\\''s'");
  });
});
