import { describe, expect, test } from "vitest";
import {
  decodeSmall,
  decodeVarints,
  fromBase64,
  gather,
  lowerBound,
  unpack,
  unpackIndexes,
  unpackTable,
} from "../../src/logic/columns.ts";
import { column, table, varint } from "../made.ts";

describe("columns", () => {
  test("numbers beyond 32 bits come back", () => {
    const numbers = [0, 1, 127, 128, 2 ** 31, 2 ** 40 + 5, Number.MAX_SAFE_INTEGER];
    const bytes = Uint8Array.from(numbers.flatMap(varint));
    expect([...decodeVarints(bytes, numbers.length, "plain")]).toEqual(numbers);
  });
  test("a delta column goes up and down, a signed one has no memory", () => {
    const bytes = Uint8Array.from([10, 3, 0, 8].flatMap(varint)); // +5 -2 0 +4
    expect([...decodeVarints(bytes, 4, "delta")]).toEqual([5, 3, 3, 7]);
    expect([...decodeVarints(bytes, 4, "signed")]).toEqual([5, -2, 0, 4]);
  });
  test("a unit multiplies", () => {
    expect([...decodeVarints(Uint8Array.from([2, 2]), 2, "delta", 4096)]).toEqual([4096, 8192]);
  });
  test("a cut column is an error, not half a picture", () => {
    expect(() => decodeVarints(Uint8Array.from([1, 0x80]), 2, "plain")).toThrow(/ends after 1 of 2/);
    expect(() => decodeVarints(Uint8Array.from([1]), 2, "plain")).toThrow(/ends after 1 of 2/);
    expect(() => decodeVarints(Uint8Array.from([1, 2, 3]), 2, "plain")).toThrow(/more than 2/);
    expect(() => decodeSmall(Uint8Array.from([1, 0x80]), 2)).toThrow(/ends after 1 of 2/);
    expect(() => decodeSmall(Uint8Array.from([1, 2, 3]), 2)).toThrow(/more than 2/);
  });
  test("indexes go up to 32 bits", () => {
    const numbers = [0, 127, 128, 70_000, 2 ** 32 - 1];
    expect([...decodeSmall(Uint8Array.from(numbers.flatMap(varint)), 5)]).toEqual(numbers);
  });
  test("a packed column travels", async () => {
    expect([...(await unpack(column("delta", [8192, 4096, 0], 4096), 3))]).toEqual([8192, 4096, 0]);
  });
  test("a table without a wanted column says which", async () => {
    const packed = table({ at: column("delta", [1]), file: column("plain", [2]) }, 1);
    expect((await unpackTable(packed, ["at"])).at).toEqual(Float64Array.of(1));
    expect((await unpackIndexes(packed, ["file"])).file).toEqual(Uint32Array.of(2));
    await expect(unpackTable(packed, ["offset"])).rejects.toThrow(/no column "offset"/);
    await expect(unpackIndexes(packed, ["at"])).rejects.toThrow(/no plain column "at"/);
  });
  test("base64 is that of RFC 4648", () => {
    expect(Buffer.from(fromBase64("Zm9vYg==")).toString()).toBe("foob");
  });
  test("binary search finds the first", () => {
    const sorted = Float64Array.from([1, 3, 3, 7]);
    expect([0, 1, 2, 3, 4, 7, 8].map((wanted) => lowerBound(sorted, wanted))).toEqual([0, 0, 1, 1, 3, 3, 4]);
  });
  test("gathering keeps the kind of array", () => {
    expect(gather(Uint32Array.of(5, 6, 7), [2, 0])).toEqual(Uint32Array.of(7, 5));
  });
});
