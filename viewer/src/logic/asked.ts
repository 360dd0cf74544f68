// Which pages of a file the program asked for, and what that means for its sections. Pure.
//
// The same rule as measure/io/src/analyze/asked.rs: reads and faults on one page are exact. A fault that found its page
// in the cache maps up to 16 pages around it and does not say which one was touched: of such a window at least one page
// was. The fewest pages that put one into every window are taken.

import { ASKED_BY_READ, type Section, type Touches } from "./events.ts";

export const PAGE = 4096;

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The same bytes as sorted spans that neither meet nor overlap. */
export function join(spans: readonly Span[]): Span[] {
  const sorted = spans.filter((span) => span.from < span.to).sort((a, b) => a.from - b.from);
  const joined: { from: number; to: number }[] = [];
  for (const span of sorted) {
    const last = joined[joined.length - 1];
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else joined.push({ ...span });
  }
  return joined;
}

/** What was asked for of one file: `numbers` are its asks; `size` clips reads beyond the end (null: no clipping). */
export function askedSpans(asks: Touches, numbers: ArrayLike<number>, size: number | null): Span[] {
  const exact: Span[] = [];
  const windows: { from: number; to: number }[] = [];
  const most = size === null ? Infinity : Math.ceil(size / PAGE) * PAGE;
  for (let k = 0; k < numbers.length; k++) {
    const i = numbers[k];
    const span = { from: Math.min(asks.offset[i], most), to: Math.min(asks.offset[i] + asks.len[i], most) };
    if (asks.how[i] === ASKED_BY_READ || asks.len[i] <= PAGE) exact.push(span);
    else if (span.from < span.to) windows.push(span);
  }
  const known = join(exact);
  windows.sort((a, b) => a.to - b.to);
  const chosen: Span[] = [];
  let last = -1;
  for (const window of windows) {
    if (overlaps(known, window) || window.from <= last) continue;
    last = window.to - 1;
    chosen.push({ from: window.to - PAGE, to: window.to });
  }
  return join([...known, ...chosen]);
}

function overlaps(joined: readonly Span[], span: Span): boolean {
  let low = 0;
  let high = joined.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (joined[middle].to <= span.from) low = middle + 1;
    else high = middle;
  }
  return low < joined.length && joined[low].from < span.to;
}

/** Bytes of spans that do not overlap. */
export function spanBytes(spans: readonly Span[]): number {
  return spans.reduce((sum, span) => sum + span.to - span.from, 0);
}

/** Bytes of `spans` inside from..to. */
export function bytesInside(spans: readonly Span[], from: number, to: number): number {
  let sum = 0;
  for (const span of spans) sum += Math.max(0, Math.min(span.to, to) - Math.max(span.from, from));
  return sum;
}

/** One bar of the file view. */
export interface SectionBar {
  readonly name: string;
  readonly offset: number;
  readonly size: number;
  readonly read: number;
  readonly asked: number;
  /** By page; `null`: no start without read-ahead told. */
  readonly needed: number | null;
}

/** What the report says of a file's sections: all of it that is not an event. */
export interface KnownSections {
  readonly needed: number | null;
  readonly sections: readonly { readonly name: string; readonly needed: number | null }[];
}

/** Size, read, asked and needed per section; what lies in no section is gathered in one last bar. */
export function sectionBars(
  sections: readonly Section[],
  fills: Touches,
  fillNumbers: ArrayLike<number>,
  asked: readonly Span[],
  size: number,
  known: KnownSections,
): SectionBar[] {
  const filled: Span[] = [];
  for (let k = 0; k < fillNumbers.length; k++) {
    const i = fillNumbers[k];
    filled.push({ from: fills.offset[i], to: fills.offset[i] + fills.len[i] });
  }
  const read = join(filled);
  // Two sections may have one name: the report has both lines, in the order of the file.
  const left = [...known.sections];
  const neededOf = (name: string) => {
    const at = left.findIndex((section) => section.name === name);
    // Of a section that is not in it nothing came in and nothing was needed.
    return at >= 0 ? left.splice(at, 1)[0].needed : known.needed === null ? null : 0;
  };
  const bars = sections.map((section) => ({
    name: section.name,
    offset: section.offset,
    size: section.len,
    read: bytesInside(read, section.offset, section.offset + section.len),
    asked: bytesInside(asked, section.offset, section.offset + section.len),
    needed: neededOf(section.name),
  }));
  const sum = (key: "size" | "read" | "asked" | "needed") => bars.reduce((total, bar) => total + (bar[key] ?? 0), 0);
  const rest = {
    name: sections.length > 0 ? "(between sections)" : "(whole file)",
    offset: 0,
    size: Math.max(0, size - sum("size")),
    read: Math.max(0, spanBytes(read) - sum("read")),
    asked: Math.max(0, spanBytes(asked) - sum("asked")),
    needed: known.needed === null ? null : Math.max(0, known.needed - sum("needed")),
  };
  return rest.size > 0 || rest.read > 0 ? [...bars, rest] : bars;
}
