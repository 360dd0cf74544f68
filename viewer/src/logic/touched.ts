// What watched starts touched, as typed arrays: places of each file, and functions that were called. Pure.
//
// Ranges are stored as what a prediction missed by, as app/view/src/touched.rs does: a range goes on where the one
// before of the same file ended. The rows of a file stand together.

import type { TouchEngine, TouchFileReport, TouchReport } from "../types/document.ts";
import type { PackedTable } from "../types/events.ts";
import type { PackedTexts, PackedTouched, PackedTouchedProgram } from "../types/touched.ts";
import { PAGE } from "./asked.ts";
import { fromBase64, inflate, lowerBound, sortedBy, unpackIndexes, unpackTable } from "./columns.ts";

export const TOUCHED_SCHEMA = "thaw.touched/1";

/** Ranges of files, one a line; `file` is a line of the report. */
export interface FileRanges {
  readonly count: number;
  readonly offset: Float64Array;
  readonly len: Float64Array;
}

/** Ranges with the moment of their first touch. */
export interface FirstTouches extends FileRanges {
  /** Microseconds; -1: not known. */
  readonly at: Float64Array;
  /** Number over all files; -1: not known. */
  readonly order: Float64Array;
}

/** Functions that were called, in the order of their first call. */
export interface Functions extends FirstTouches {
  /** Number of the name plus 1; 0: it has none. */
  readonly name: Uint32Array;
  /** Bytes that came in with the usual read-ahead, and bytes on pages that were asked for; -1: not known. */
  readonly read: Float64Array;
  readonly needed: Float64Array;
  /** Pages that it alone keeps in memory. */
  readonly lonely: Uint32Array;
}

/** A table of all files: the rows of line `l` are `first[l]` .. `first[l + 1] - 1`. */
interface ByFile<Rows> {
  readonly first: Uint32Array;
  readonly rows: Rows;
}

/** What watched starts of one program touched, unpacked. */
export interface TouchedProgram {
  readonly variant: string;
  readonly report: TouchReport;
  readonly names: readonly string[];
  readonly read: ByFile<FileRanges>;
  readonly touched: ReadonlyMap<string, ByFile<FirstTouches>>;
  readonly functions: ByFile<Functions>;
}

/** What is known of one file. */
export interface TouchedFile {
  readonly report: TouchFileReport;
  readonly read: FileRanges;
  readonly touched: ReadonlyMap<string, FirstTouches>;
  readonly functions: Functions;
}

/** Unpacks what the page embeds. Throws where the page is damaged. */
export async function unpackTouched(text: string): Promise<TouchedProgram[]> {
  const packed = JSON.parse(text) as PackedTouched;
  if (packed.schema !== TOUCHED_SCHEMA)
    throw new Error(`this page holds ${packed.schema}, the viewer reads ${TOUCHED_SCHEMA}`);
  return Promise.all(packed.programs.map(unpackProgram));
}

async function unpackProgram(packed: PackedTouchedProgram): Promise<TouchedProgram> {
  const lines = packed.report.files.length;
  const touched = Object.entries(packed.touched).map(
    async ([engine, table]) => [engine, await unpackTouches(table, lines)] as const,
  );
  return {
    variant: packed.variant,
    report: packed.report,
    names: await unpackTexts(packed.names),
    read: byFile(packed.read, lines, await unpackTable(packed.read, ["file", "offset", "len"])),
    touched: new Map(await Promise.all(touched)),
    functions: await unpackFunctions(packed.functions, lines),
  };
}

/** Texts by number. Throws if there are more or fewer than were packed. */
export async function unpackTexts(packed: PackedTexts): Promise<string[]> {
  if (packed.count === 0) return [];
  const texts = new TextDecoder().decode(await inflate(fromBase64(packed.data))).split("\0");
  if (texts.length !== packed.count) throw new Error(`the page holds ${texts.length} of ${packed.count} names`);
  return texts;
}

/** Undoes the prediction, and finds where the rows of each file begin. */
function byFile<
  Rows extends { readonly file: Float64Array; readonly offset: Float64Array; readonly len: Float64Array },
>(table: PackedTable, lines: number, rows: Rows): ByFile<Rows & FileRanges> {
  const { file, offset, len } = rows;
  const first = new Uint32Array(lines + 1).fill(table.count);
  let [before, end] = [-1, 0];
  for (let i = 0; i < table.count; i++) {
    if (file[i] < before || file[i] >= lines) throw new Error("the files of a table are not in order");
    if (file[i] > before) {
      first.fill(i, before + 1, file[i] + 1);
      before = file[i];
      end = 0;
    }
    offset[i] += end;
    end = offset[i] + len[i];
  }
  return { first, rows: { ...rows, count: table.count } };
}

/** Numbers that were stored plus one. */
function lessOne(numbers: Float64Array): Float64Array {
  for (let i = 0; i < numbers.length; i++) numbers[i] -= 1;
  return numbers;
}

async function unpackTouches(table: PackedTable, lines: number): Promise<ByFile<FirstTouches>> {
  const rows = await unpackTable(table, ["file", "offset", "len", "at", "order"]);
  lessOne(rows.at);
  lessOne(rows.order);
  return byFile(table, lines, rows);
}

async function unpackFunctions(table: PackedTable, lines: number): Promise<ByFile<Functions>> {
  const [numbers, indexes] = await Promise.all([
    unpackTable(table, ["file", "offset", "len", "at", "order", "read", "needed"]),
    unpackIndexes(table, ["name", "lonely"]),
  ]);
  lessOne(numbers.read);
  lessOne(numbers.needed);
  return byFile(table, lines, { ...numbers, ...indexes });
}

/** The rows of one file, without copying. */
function part<Rows extends FileRanges>({ first, rows }: ByFile<Rows>, line: number): Rows {
  const [from, to] = [first[line], first[line + 1]];
  const cut = Object.entries(rows).map(([name, column]) => [
    name,
    ArrayBuffer.isView(column) ? (column as Float64Array).subarray(from, to) : column,
  ]);
  return { ...Object.fromEntries(cut), count: to - from } as Rows;
}

/** What is known of a line of the report's files. */
export function touchedFile(program: TouchedProgram, line: number): TouchedFile {
  const touched = [...program.touched].map(([engine, table]) => [engine, part(table, line)] as const);
  return {
    report: program.report.files[line],
    read: part(program.read, line),
    touched: new Map(touched.filter(([, rows]) => rows.count > 0)),
    functions: part(program.functions, line),
  };
}

// ---- the map of a file's pages ----

/** What is known of a page. */
export const [NOTHING, READ, TOUCHED] = [0, 1, 2] as const;
/** A shade that has no place in the order. */
export const NO_SHADE = 255;
/** Longer files (16 GiB) are not drawn to their end. */
const MOST_PAGES = 1 << 22;
/** A map is about this much wider than high. */
const ASPECT = 2.4;

/** One row of pages below the other. */
export interface PageMap {
  readonly pages: number;
  /** Pages of a row: a power of two, so that rows begin at round places. */
  readonly columns: number;
  readonly rows: number;
  /** NOTHING, READ or TOUCHED by page. */
  readonly state: Uint8Array;
  /** When, in microseconds, and as which one of all; -1: not known. */
  readonly at: Float64Array;
  readonly order: Float64Array;
}

/** The map of a file of this size. Later touches of a page do not count. */
export function pageMap(size: number, read: FileRanges, touched: FirstTouches | null): PageMap {
  const pages = Math.min(MOST_PAGES, Math.max(1, Math.ceil(size / PAGE)));
  const columns = Math.min(4096, 2 ** Math.max(3, Math.round(Math.log2(Math.sqrt(pages * ASPECT)))));
  const state = new Uint8Array(pages);
  const at = new Float64Array(pages).fill(-1);
  const order = new Float64Array(pages).fill(-1);
  for (let i = 0; i < read.count; i++) state.fill(READ, ...pagesOf(read, i));
  for (let i = 0; i < (touched?.count ?? 0); i++) {
    const [from, to] = pagesOf(touched!, i);
    for (let page = from; page < Math.min(to, pages); page++) {
      const earlier = state[page] === TOUCHED && (order[page] < 0 || order[page] <= touched!.order[i]);
      if (earlier) continue;
      state[page] = TOUCHED;
      at[page] = touched!.at[i];
      order[page] = touched!.order[i];
    }
  }
  return { pages, columns, rows: Math.ceil(pages / columns), state, at, order };
}

/** First and one-past-last page of a range; one whose length is not known has one. */
export function pagesOf(places: FileRanges, i: number): [number, number] {
  const from = Math.floor(places.offset[i] / PAGE);
  return [from, Math.max(from + 1, Math.ceil((places.offset[i] + places.len[i]) / PAGE))];
}

/** How touched pages are told apart. */
export type ShadeBy = "time" | "order";

/** 0 (first) .. 254 (last) by page; NO_SHADE where nothing was touched, or nobody knows when. */
export function shades(
  map: PageMap,
  by: ShadeBy,
): { readonly shade: Uint8Array; readonly from: number; readonly to: number } {
  const known: number[] = [];
  const keys = by === "time" ? map.at : map.order;
  for (let page = 0; page < map.pages; page++) if (map.state[page] === TOUCHED && keys[page] >= 0) known.push(page);
  const shade = new Uint8Array(map.pages).fill(NO_SHADE);
  if (known.length === 0) return { shade, from: 0, to: 0 };
  const pages = Uint32Array.from(known);
  const sorted = sortedBy(
    pages,
    Float64Array.from(known, (page) => keys[page]),
  );
  const [from, to] = [keys[sorted[0]], keys[sorted[sorted.length - 1]]];
  sorted.forEach((page, rank) => {
    const share =
      by === "time" ? (to > from ? (keys[page] - from) / (to - from) : 0) : rank / Math.max(1, sorted.length - 1);
    shade[page] = Math.round(share * 254);
  });
  return by === "time" ? { shade, from, to } : { shade, from: 1, to: sorted.length };
}

/** How many pages are in each state. */
export function stateCounts(map: PageMap): readonly [number, number, number] {
  const counts: [number, number, number] = [0, 0, 0];
  for (const state of map.state) counts[state]++;
  return counts;
}

// ---- functions ----

/** Functions by their place, for finding those of a page. */
export interface FunctionIndex {
  /** Numbers of functions, by offset, and their offsets. */
  readonly numbers: Uint32Array;
  readonly offset: Float64Array;
  /** Bytes of the longest function: how far before a page one may begin that reaches into it. */
  readonly longest: number;
}

export function indexOf(functions: Functions): FunctionIndex {
  const numbers = sortedBy(
    Uint32Array.from({ length: functions.count }, (_, i) => i),
    functions.offset,
  );
  let longest = 0;
  for (const len of functions.len) longest = Math.max(longest, len);
  return { numbers, offset: Float64Array.from(numbers, (i) => functions.offset[i]), longest };
}

/** Numbers of the functions that lie on a page, by their place. */
export function functionsOn(functions: Functions, index: FunctionIndex, page: number): number[] {
  const [from, to] = [page * PAGE, (page + 1) * PAGE];
  const found: number[] = [];
  for (let k = lowerBound(index.offset, from - index.longest); k < index.numbers.length && index.offset[k] < to; k++) {
    const i = index.numbers[k];
    if (index.offset[k] + Math.max(1, functions.len[i]) > from) found.push(i);
  }
  return found;
}

/** A section of a file with its bytes; what lies in none is gathered in one last line, of which `offset` is -1. */
export interface TouchedSection {
  readonly name: string;
  readonly offset: number;
  readonly size: number;
  readonly read: number | null;
  readonly needed: number | null;
  readonly called: number | null;
}

export function sectionLines(file: TouchFileReport): TouchedSection[] {
  const sum = (of: (section: TouchedSection) => number | null) =>
    file.sections.reduce((total, section) => total + (of(section) ?? 0), 0);
  const left = (all: number | null, inside: number) => (all === null ? null : Math.max(0, all - inside));
  const rest: TouchedSection = {
    name: file.sections.length > 0 ? "(between sections)" : "(whole file)",
    offset: -1,
    size: Math.max(0, file.size - sum((it) => it.size)),
    read: left(
      file.read,
      sum((it) => it.read),
    ),
    needed: left(
      file.needed,
      sum((it) => it.needed),
    ),
    called: left(
      file.functions?.called ?? null,
      sum((it) => it.called),
    ),
  };
  const lines = file.sections.filter((section) => section.size > 0);
  return rest.size > 0 || (rest.read ?? 0) > 0 || (rest.needed ?? 0) > 0 ? [...lines, rest] : lines;
}

/** The section that a place lies in. */
export function sectionAt(file: TouchFileReport, offset: number): string | null {
  return (
    file.sections.find((section) => section.offset <= offset && offset < section.offset + section.size)?.name ?? null
  );
}

/** The sections that a page holds a part of, by their place. */
export function sectionsOn(file: TouchFileReport, page: number): string[] {
  const [from, to] = [page * PAGE, (page + 1) * PAGE];
  return file.sections
    .filter((section) => section.size > 0 && section.offset < to && section.offset + section.size > from)
    .map((section) => section.name);
}

/** The engines whose pages a map can show, the most precise first; functions where only their calls are known. */
export function enginesOf(file: TouchedFile): TouchEngine[] {
  const engines: TouchEngine[] = (["byte", "page", "probe"] as const).filter((engine) => file.touched.has(engine));
  return file.functions.count > 0 ? [...engines, "function"] : engines;
}

/** What an engine saw of a file. */
export function seenBy(file: TouchedFile, engine: TouchEngine): FirstTouches | null {
  return engine === "function" ? file.functions : (file.touched.get(engine) ?? null);
}

/**
 * Functions in the order of a column (`-` before it: the largest first); those of the same figure in the order of their
 * calls.
 */
export function listOrder(
  functions: Functions,
  names: readonly string[],
  numbers: Uint32Array,
  sort: string,
): Uint32Array {
  const way = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  if (key === "name") {
    const nameOf = (i: number) => (functions.name[i] > 0 ? names[functions.name[i] - 1] : "\u{10ffff}");
    return numbers.slice().sort((a, b) => (nameOf(a) < nameOf(b) ? -way : nameOf(a) > nameOf(b) ? way : a - b));
  }
  const columns: Readonly<Record<string, ArrayLike<number>>> = {
    at: functions.at,
    offset: functions.offset,
    section: functions.offset,
    size: functions.len,
    read: functions.read,
    needed: functions.needed,
    lonely: functions.lonely,
  };
  const column = columns[key] ?? functions.order;
  return numbers.slice().sort((a, b) => way * (column[a] - column[b]) || functions.order[a] - functions.order[b]);
}

/** A length that few functions exceed: bars that were scaled by the longest would all be nothing. */
export function largeLength(functions: Functions): number {
  const lengths = functions.len.slice().sort();
  return Math.max(1, lengths[Math.floor((lengths.length - 1) * 0.98)] ?? 1);
}
