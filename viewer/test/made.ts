// What the tests build from pictures and short words.

import { deflateRawSync } from "node:zlib";
import type { Requests, Touches } from "../src/logic/events.ts";
import { type Marks, marksOf } from "../src/logic/marks.ts";
import type { Coding, PackedColumn, PackedTable } from "../src/types/events.ts";

export function varint(value: number): number[] {
  const bytes: number[] = [];
  while (value >= 128) {
    bytes.push((value % 128) | 128);
    value = Math.floor(value / 128);
  }
  return [...bytes, value];
}

const zigzag = (value: number) => (value < 0 ? -value * 2 - 1 : value * 2);

/** A column as app/view/src/columns.rs writes it. */
export function column(coding: Coding, values: readonly number[], unit = 1): PackedColumn {
  let before = 0;
  const numbers = values.map((value) => {
    const scaled = value / unit;
    if (coding === "plain") return scaled;
    const number = zigzag(coding === "delta" ? scaled - before : scaled);
    before = scaled;
    return number;
  });
  return { coding, unit, data: deflateRawSync(Uint8Array.from(numbers.flatMap(varint))).toString("base64") };
}

/** A table whose columns all have the same length. */
export function table(columns: Readonly<Record<string, PackedColumn>>, count: number): PackedTable {
  return { count, columns };
}

export interface RequestWords {
  readonly from?: number;
  readonly start: number;
  readonly end?: number;
  readonly disk: number;
  readonly len: number;
  readonly file?: number;
  readonly process?: number;
  readonly write?: boolean;
  readonly cause?: number;
  readonly device?: number;
}

/** Requests as typed arrays; the program's first process reads unless said otherwise. */
export function requests(list: readonly RequestWords[]): Requests {
  const numbers = (of: (it: RequestWords) => number) => Float64Array.from(list, of);
  const indexes = (of: (it: RequestWords) => number) => Uint32Array.from(list, of);
  return {
    count: list.length,
    from: numbers((it) => it.from ?? it.start),
    start: numbers((it) => it.start),
    end: numbers((it) => it.end ?? it.start),
    ended: Uint8Array.from(list, (it) => (it.end === undefined ? 0 : 1)),
    process: indexes((it) => it.process ?? 1),
    file: indexes((it) => it.file ?? 1),
    served: new Uint8Array(list.length),
    write: Uint8Array.from(list, (it) => (it.write === true ? 1 : 0)),
    cause: indexes((it) => it.cause ?? 0),
    device: indexes((it) => it.device ?? 0),
    flags: new Uint32Array(list.length),
    len: numbers((it) => it.len),
    disk: numbers((it) => it.disk),
  };
}

export interface TouchWords {
  readonly at?: number;
  readonly offset: number;
  readonly len: number;
  readonly file?: number;
  readonly process?: number;
  readonly how?: number;
}

export function touches(list: readonly TouchWords[]): Touches {
  return {
    count: list.length,
    at: Float64Array.from(list, (it) => it.at ?? 0),
    process: Uint32Array.from(list, (it) => it.process ?? 1),
    file: Uint32Array.from(list, (it) => it.file ?? 0),
    offset: Float64Array.from(list, (it) => it.offset),
    len: Float64Array.from(list, (it) => it.len),
    how: Uint32Array.from(list, (it) => it.how ?? 0),
  };
}

/** Lines of a picture without the margin that the test's own indentation makes. */
export function lines(picture: string): string[] {
  const all = picture.split("\n").filter((line) => line.trim() !== "");
  const margin = Math.min(...all.map((line) => line.length - line.trimStart().length));
  return all.map((line) => line.slice(margin).trimEnd());
}

/** Requests drawn as lines: `#` in flight, one column a microsecond, from the first line on. */
export function flights(picture: string): Requests {
  return requests(
    lines(picture).map((line, k) => ({
      start: line.indexOf("#"),
      end: line.lastIndexOf("#") + 1,
      disk: k * 1000,
      len: 10,
    })),
  );
}

/** Ranges drawn as `#`, one column a page. */
export function pages(picture: string, how: number, page = 4096): TouchWords[] {
  return lines(picture).map((line) => ({
    offset: line.indexOf("#") * page,
    len: (line.lastIndexOf("#") + 1 - line.indexOf("#")) * page,
    how,
  }));
}

/** Marks from x0, x1, y0, y1. */
export function marks(list: readonly (readonly [number, number, number, number])[]): Marks {
  return marksOf(
    Float64Array.from(list, ([x]) => x),
    Float64Array.from(list, ([, , y]) => y),
    Float32Array.from(list, ([x0, x1]) => x1 - x0),
    Float32Array.from(list, ([, , y0, y1]) => y1 - y0),
  );
}

/** A picture's pixels as letters: 0 is `·`, n is the nth letter. */
export function drawn(
  width: number,
  height: number,
  draw: (to: { width: number; height: number; pixels: Uint32Array }) => void,
): string[] {
  const to = { width, height, pixels: new Uint32Array(width * height) };
  draw(to);
  return Array.from({ length: height }, (_, y) =>
    [...to.pixels.subarray(y * width, (y + 1) * width)]
      .map((it) => (it === 0 ? "·" : String.fromCharCode(96 + it)))
      .join(""),
  );
}

/** Texts as app/view/src/columns.rs packs them. */
export function texts(list: readonly string[]): { count: number; data: string } {
  return { count: list.length, data: deflateRawSync(Buffer.from(list.join("\0"))).toString("base64") };
}
