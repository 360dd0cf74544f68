import { describe, expect, test } from "vitest";
import {
  ASK_CAUSES,
  FILL_CAUSES,
  parseFilter,
  passes,
  sieveOf,
  sieveRequests,
  sieveTouches,
  written,
} from "../../src/logic/filter.ts";
import { requests, touches } from "../made.ts";

describe("filter", () => {
  const xul = { file: "/usr/lib/firefox-esr/libxul.so", process: "firefox-esr", cause: "readahead", owner: "app" };
  const check = (typed: string) => passes(parseFilter(typed), xul);
  test("words are joined, minus excludes", () => {
    expect(check("libxul readahead")).toBe(true);
    expect(check("libxul -readahead")).toBe(false);
    expect(check("file:firefox-esr")).toBe(true);
    expect(check("process:libxul")).toBe(false);
    expect(check("-process:libxul")).toBe(true);
    expect(check("OWNER:App LIBXUL")).toBe(true);
    expect(check("")).toBe(true);
  });
  test("colons in paths are text, quotes keep blanks", () => {
    expect(passes(parseFilter("http://x"), { file: "http://x/y" })).toBe(true);
    expect(passes(parseFilter('file:"a b"'), { file: "/a b/c" })).toBe(true);
    expect(passes(parseFilter('-"a b"'), { file: "/a b/c" })).toBe(false);
  });
  test("what is written is read back", () => {
    for (const text of ["/usr/lib/x.so", "Web Content 4180", 'odd " name']) {
      expect(passes(parseFilter(written("file", text)), { file: text.replaceAll('"', " ") })).toBe(true);
    }
    expect(written("cause", "read", true)).toBe("-cause:read");
  });
  test("half-typed words do no harm", () => {
    for (const typed of ["-", ":", "file:", '"', '-"', "file:-", "-file:"]) expect(() => check(typed)).not.toThrow();
    expect(parseFilter("file:")).toEqual([{ field: null, text: "file:", exclude: false }]);
  });
});

describe("sieve", () => {
  const names = {
    files: [
      { path: "/usr/lib/libxul.so", owner: "app" },
      { path: "/usr/lib/libc.so", owner: "system" },
    ],
    processes: ["(other programs)", "firefox 10", "Web Content 11", "(unknown process)"],
  };
  const list = requests([
    { start: 0, disk: 0, len: 1, file: 1, process: 1, cause: 1 },
    { start: 1, disk: 0, len: 1, file: 2, process: 1, cause: 2 },
    { start: 2, disk: 0, len: 1, file: 1, process: 2, cause: 2 },
    { start: 3, disk: 0, len: 1, file: 0, process: 0, cause: 5 },
  ]);
  const shown = (typed: string) => [...sieveRequests(sieveOf(parseFilter(typed), names), list)].join("");

  test.each([
    ["", "1111"],
    ["libxul", "1010"],
    ["file:libxul cause:fault", "1000"],
    ["-libxul", "0101"],
    ["process:content", "0010"],
    ["owner:system", "0100"],
    ["-owner:app -cause:unknown", "0100"],
    ["other", "0001"],
    ["libxul libc", "0000"],
    ["libxul content -fault", "0010"],
  ])("%s lets %s through", (typed, wanted) => {
    expect(shown(typed)).toBe(wanted);
  });

  test("agrees with the plain rule on every event", () => {
    for (const typed of [
      "lib -content",
      "cause:readahead",
      "-cause:readahead owner:app",
      "firefox",
      "-firefox -other",
    ]) {
      const terms = parseFilter(typed);
      const plain = [...list.file].map((file, i) => {
        const known = names.files[file - 1];
        const parts = {
          process: names.processes[list.process[i]],
          cause: ["read", "fault", "readahead", "metadata", "write", "unknown"][list.cause[i]],
        };
        return passes(terms, known === undefined ? parts : { ...parts, file: known.path, owner: known.owner })
          ? "1"
          : "0";
      });
      expect(shown(typed), typed).toBe(plain.join(""));
    }
  });

  test("fills have causes, asks have ways of asking", () => {
    const some = touches([
      { offset: 0, len: 1, how: 0 },
      { offset: 0, len: 1, how: 1 },
      { offset: 0, len: 1, how: 2 },
    ]);
    const sieve = (typed: string) => sieveOf(parseFilter(typed), names);
    expect([...sieveTouches(sieve("cause:fault"), some, FILL_CAUSES)]).toEqual([0, 1, 0]);
    expect([...sieveTouches(sieve("cause:fault"), some, ASK_CAUSES)]).toEqual([0, 1, 1]);
    expect([...sieveTouches(sieve("libc"), some, ASK_CAUSES)]).toEqual([0, 0, 0]);
  });
});
