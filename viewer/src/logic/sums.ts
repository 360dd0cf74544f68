// Figures of files and processes when a filter leaves events out. Pure.
//
// Without a filter the page shows the document's own figures; with one it adds up the events that pass, and takes the
// document's figures again wherever all events of a line pass.

import { askedSpans, spanBytes } from "./asked.ts";
import { counts, groupBy, type Requests, type Touches, type TraceTouches } from "./events.ts";

/** What the events of a file or a process add up to. */
export interface Sum {
  requests: number;
  bytes: number;
  /** Its fair share of the time in which requests were in flight, in microseconds. */
  waiting: number;
  filled: number;
  /** Events that pass, and all. */
  passing: number;
  events: number;
}

export interface Masks {
  readonly requests: Uint8Array;
  readonly fills: Uint8Array;
  readonly asks: Uint8Array;
}

function empty(size: number): Sum[] {
  return Array.from({ length: size }, () => ({ requests: 0, bytes: 0, waiting: 0, filled: 0, passing: 0, events: 0 }));
}

/** Adds up by file line (`by: "file"`) or by process line. */
export function sums(
  requests: Requests,
  touched: TraceTouches,
  masks: Masks,
  shares: Float64Array,
  by: "file" | "process",
  lines: number,
): Sum[] {
  const table = empty(lines);
  const { fills, asks } = touched;
  const requestKey = by === "file" ? requests.file : requests.process;
  for (let i = 0; i < requests.count; i++) {
    const sum = table[requestKey[i] - 1];
    if (sum === undefined || !counts(requests, i)) continue;
    sum.events++;
    if (masks.requests[i] === 0) continue;
    sum.passing++;
    sum.requests++;
    sum.bytes += requests.len[i];
    sum.waiting += shares[i];
  }
  const shift = by === "file" ? 0 : 1;
  for (const [touches, mask, fill] of [
    [fills, masks.fills, true],
    [asks, masks.asks, false],
  ] as const) {
    const key = by === "file" ? touches.file : touches.process;
    for (let i = 0; i < touches.count; i++) {
      const sum = table[key[i] - shift];
      if (sum === undefined) continue;
      sum.events++;
      if (mask[i] === 0) continue;
      sum.passing++;
      if (fill) sum.filled += touches.len[i];
    }
  }
  return table;
}

/** What one process read, by file: lines that have anything, the longest wait first. */
export interface ProcessFile {
  readonly file: number;
  requests: number;
  bytes: number;
  waiting: number;
  filled: number;
}

export function filesOfProcess(
  requests: Requests,
  fills: Touches,
  masks: Masks,
  shares: Float64Array,
  process: number,
): ProcessFile[] {
  const byFile = new Map<number, ProcessFile>();
  const line = (file: number) => {
    let sum = byFile.get(file);
    if (sum === undefined) {
      sum = { file, requests: 0, bytes: 0, waiting: 0, filled: 0 };
      byFile.set(file, sum);
    }
    return sum;
  };
  for (let i = 0; i < requests.count; i++) {
    if (requests.process[i] !== process || masks.requests[i] === 0 || !counts(requests, i)) continue;
    const sum = line(requests.file[i] - 1);
    sum.requests++;
    sum.bytes += requests.len[i];
    sum.waiting += shares[i];
  }
  for (let i = 0; i < fills.count; i++) {
    if (fills.process[i] === process && masks.fills[i] === 1) line(fills.file[i]).filled += fills.len[i];
  }
  return [...byFile.values()].sort((a, b) => b.waiting - a.waiting || b.filled - a.filled);
}

/** Bytes that were asked for of each file, counting only asks that pass. */
export function askedByFile(asks: Touches, mask: Uint8Array, sizes: readonly (number | null)[]): Float64Array {
  const { first, order } = groupBy(asks.file, sizes.length);
  return Float64Array.from(sizes, (size, file) => {
    const own = order.subarray(first[file], first[file + 1]).filter((i) => mask[i] === 1);
    return own.length === 0 ? 0 : spanBytes(askedSpans(asks, own, size));
  });
}
