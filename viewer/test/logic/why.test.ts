import { describe, expect, test } from "vitest";
import { classOfOwner } from "../../src/logic/why.ts";

describe("what owners do", () => {
  test("whoever lacks a CPU lacks it, whosever thread took it", () => {
    expect(classOfOwner({ does: "cpu", name: "own" })).toBe("cpu");
    expect(classOfOwner({ does: "cpu_of_others" })).toBe("cpu");
  });
  test("a wait is what it is for", () => {
    expect(classOfOwner({ does: "waits", kind: "fsync" })).toBe("disk");
    expect(classOfOwner({ does: "waits", kind: "of a later thaw" })).toBe("other");
  });
  test("what is not known here is something else", () => {
    expect(classOfOwner({ does: "of a later thaw" })).toBe("other");
    expect(classOfOwner({})).toBe("other");
    expect(classOfOwner({ does: "unexplained" })).toBe("unknown");
  });
});
