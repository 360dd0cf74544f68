// Events of a traced start as typed arrays. Pure. Times are microseconds since exec, places and lengths bytes.
//
// Places are stored as what a prediction missed by; this file predicts as app/view/src/events.rs does:
//   a request's place on disk   the end of the last request for the same file, else of the last request at all
//   a request's file offset     what lies there according to the file's extents, else the end of the file's last
// request   a fill's or ask's offset    the end of the last one of the same file

import type { PackedTrace } from "../types/events.ts";
import { gather, sortedBy, unpackIndexes, unpackTable } from "./columns.ts";

export const EVENTS_SCHEMA = "thaw.events/1";

/** By their number in the columns. */
export const CAUSES = ["read", "fault", "readahead", "metadata", "write", "unknown"] as const;
export const CAUSE_READ = 0;
export const CAUSE_FAULT = 1;

/** How something was asked for: numbers of `Touches.how` in asks. */
export const ASKED_BY_READ = 0;
export const ASKED_BY_MISS = 1;
export const ASKED_AROUND = 2;

/** Block requests by issue time. */
export interface Requests {
  readonly count: number;
  /** When its pages began to wait for it. */
  readonly from: Float64Array;
  /** When it was issued. */
  readonly start: Float64Array;
  /** When it was done; `start` if that was not seen. */
  readonly end: Float64Array;
  /** 1: its end was seen. */
  readonly ended: Uint8Array;
  /** Line of the report's processes plus 1; 0: another program. */
  readonly process: Uint32Array;
  /** Line of the report's files plus 1; 0: none. */
  readonly file: Uint32Array;
  /** 0: a file's, 1: metadata, 2: unknown. */
  readonly served: Uint8Array;
  readonly write: Uint8Array;
  readonly cause: Uint32Array;
  readonly device: Uint32Array;
  readonly flags: Uint32Array;
  readonly len: Float64Array;
  readonly disk: Float64Array;
}

/** Ranges of files at a time: page-cache fills, or what was asked for. */
export interface Touches {
  readonly count: number;
  readonly at: Float64Array;
  /** Line of the report's processes plus 1. */
  readonly process: Uint32Array;
  /** Line of the report's files. */
  readonly file: Uint32Array;
  readonly offset: Float64Array;
  readonly len: Float64Array;
  /** Fills: number of the cause. Asks: one of `ASKED_...`. */
  readonly how: Uint32Array;
}

export interface Section {
  readonly name: string;
  readonly offset: number;
  readonly len: number;
}

/** Sections of all files: those of file f are the lines `first[f]` .. `first[f + 1] - 1`. */
export interface Sections {
  readonly first: Uint32Array;
  readonly name: Uint32Array;
  readonly offset: Float64Array;
  readonly len: Float64Array;
}

/** What the columns of one trace say of its requests, and of its files. */
export interface TraceEvents {
  readonly run: number;
  readonly devices: readonly string[];
  readonly flags: readonly string[];
  readonly sectionNames: readonly string[];
  readonly requests: Requests;
  readonly sections: Sections;
}

/** The sections of one line of the report's files that have bytes in it, by place. */
export function sectionsOf(events: TraceEvents, line: number): Section[] {
  const { first, name, offset, len } = events.sections;
  const list: Section[] = [];
  for (let k = first[line] ?? 0; k < (first[line + 1] ?? 0); k++) {
    if (len[k] > 0) list.push({ name: events.sectionNames[name[k]] ?? "?", offset: offset[k], len: len[k] });
  }
  return list.sort((a, b) => a.offset - b.offset);
}

/** What came in and what was asked for: many, and needed later. */
export interface TraceTouches {
  readonly fills: Touches;
  readonly asks: Touches;
  /** By request: offset in its file; 0 if it serves none. */
  readonly offsets: Float64Array;
}

/** Unpacks one trace's requests. Throws where the page is damaged. */
export async function unpackTrace(trace: PackedTrace): Promise<TraceEvents> {
  const [requests, sections] = await Promise.all([unpackRequests(trace), unpackSections(trace)]);
  return {
    run: trace.run,
    devices: trace.devices,
    flags: trace.flags,
    sectionNames: trace.section_names,
    requests,
    sections,
  };
}

/**
 * Unpacks what came into memory, what was asked for, and where in files requests lie: most of a trace, and not needed
 * for the first picture.
 */
export async function unpackRest(trace: PackedTrace): Promise<TraceTouches> {
  return {
    fills: await unpackTouches(trace.fills, "cause"),
    asks: await unpackTouches(trace.asks, "how"),
    offsets: await unpackOffsets(trace),
  };
}

/** The largest number plus one, so that a table by number can be made. */
export function tableSize(numbers: ArrayLike<number>): number {
  let most = -1;
  for (let i = 0; i < numbers.length; i++) if (numbers[i] > most) most = numbers[i];
  return most + 1;
}

async function unpackSections(trace: PackedTrace): Promise<Sections> {
  const [{ file, offset, len }, { name }] = await Promise.all([
    unpackTable(trace.sections, ["file", "offset", "len"]),
    unpackIndexes(trace.sections, ["name"]),
  ]);
  const { first, order } = groupBy(Uint32Array.from(file), tableSize(file));
  return { first, name: gather(name, order), offset: gather(offset, order), len: gather(len, order) };
}

/** Answers which offset of a file lies at a place on disk. */
class Places {
  /** By file, then by place. */
  private constructor(
    private readonly first: Uint32Array,
    private readonly disk: Float64Array,
    private readonly offset: Float64Array,
    private readonly len: Float64Array,
  ) {}

  static async of(trace: PackedTrace): Promise<Places> {
    const { file, offset, disk, len } = await unpackTable(trace.extents, ["file", "offset", "disk", "len"]);
    const ends = new Float64Array(tableSize(file));
    for (let i = 0; i < file.length; i++) {
      offset[i] += ends[file[i]];
      ends[file[i]] = offset[i] + len[i];
    }
    const order = Uint32Array.from(file, (_, i) => i).sort(
      (a, b) => file[a] - file[b] || disk[a] - disk[b] || offset[a] - offset[b] || len[a] - len[b],
    );
    const { first } = groupBy(Uint32Array.from(file), ends.length);
    return new Places(first, gather(disk, order), gather(offset, order), gather(len, order));
  }

  /** -1: no extent of the file lies there. */
  at(file: number, disk: number): number {
    let low = this.first[file];
    const begin = low;
    // The last one that begins at or before the place.
    let high = this.first[file + 1] ?? 0;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.disk[middle] <= disk) low = middle + 1;
      else high = middle;
    }
    if (!(low > begin)) return -1;
    const into = disk - this.disk[low - 1];
    return into < this.len[low - 1] ? this.offset[low - 1] + into : -1;
  }
}

/** Where requests lie on disk, with what that is predicted from. */
interface OnDisk {
  readonly file: Uint32Array;
  readonly kind: Uint32Array;
  readonly len: Float64Array;
  readonly disk: Float64Array;
}

async function unpackPlaces(trace: PackedTrace): Promise<OnDisk> {
  const [{ len, disk }, { file, kind }] = await Promise.all([
    unpackTable(trace.requests, ["len", "disk"]),
    unpackIndexes(trace.requests, ["file", "kind"]),
  ]);
  const heads = new Float64Array(tableSize(file)).fill(-1);
  let head = 0;
  for (let i = 0; i < disk.length; i++) {
    const line = file[i];
    const before = heads[line];
    head = disk[i] + (before >= 0 ? before : head);
    disk[i] = head;
    head += len[i];
    heads[line] = head;
  }
  return { file, kind, len, disk };
}

async function unpackRequests(trace: PackedTrace): Promise<Requests> {
  const { count } = trace.requests;
  const [{ file, kind, len, disk }, { start, queued: from, took: end }, { process, cause, device, flags }] =
    await Promise.all([
      unpackPlaces(trace),
      unpackTable(trace.requests, ["start", "queued", "took"]),
      unpackIndexes(trace.requests, ["process", "cause", "device", "flags"]),
    ]);
  const ended = new Uint8Array(count);
  const served = new Uint8Array(count);
  const write = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    from[i] = start[i] - from[i];
    if (end[i] > 0) {
      ended[i] = 1;
      end[i] = start[i] + end[i] - 1;
    } else {
      end[i] = start[i];
    }
    const is = kind[i];
    write[i] = is >= 3 ? 1 : 0;
    served[i] = is % 3;
  }
  return { count, from, start, end, ended, process, file, served, write, cause, device, flags, len, disk };
}

/**
 * Where in files requests lie: each is looked for among the extents of its file, which takes as long as all the rest of
 * the requests. So it is not done before the first picture, and places on disk, which were handed over with that, are
 * unpacked once more.
 */
async function unpackOffsets(trace: PackedTrace): Promise<Float64Array> {
  const [places, { file, kind, len, disk }, { offset }] = await Promise.all([
    Places.of(trace),
    unpackPlaces(trace),
    unpackTable(trace.requests, ["offset"]),
  ]);
  const ends = new Float64Array(tableSize(file));
  for (let i = 0; i < offset.length; i++) {
    if (kind[i] % 3 !== 0) continue;
    const line = file[i];
    const lies = places.at(line - 1, disk[i]);
    offset[i] += lies >= 0 ? lies : ends[line];
    ends[line] = offset[i] + len[i];
  }
  return offset;
}

async function unpackTouches(table: PackedTrace["fills"], howName: "cause" | "how"): Promise<Touches> {
  const [{ at, offset, len }, { process, file, [howName]: how }] = await Promise.all([
    unpackTable(table, ["at", "offset", "len"]),
    unpackIndexes(table, ["process", "file", howName]),
  ]);
  const ends = new Float64Array(tableSize(file));
  for (let i = 0; i < table.count; i++) {
    offset[i] += ends[file[i]];
    ends[file[i]] = offset[i] + len[i];
  }
  return { count: table.count, at, process, file, offset, len, how };
}

/** Whether a request counts in the report's totals: a read of the program. */
export function counts(requests: Requests, i: number): boolean {
  return requests.process[i] !== 0 && requests.write[i] === 0;
}

/** Some events by a time of theirs (whole microseconds), those of the same time in the order given. */
export function byTime(numbers: Uint32Array, time: Float64Array): Uint32Array {
  const keys = gather(time, numbers);
  let first = Infinity;
  for (let k = 0; k < keys.length; k++) if (keys[k] < first) first = keys[k];
  for (let k = 0; k < keys.length; k++) keys[k] -= first;
  return sortedBy(numbers, keys);
}

/** Numbers of the events of each file: `order[first[f]] .. order[first[f + 1] - 1]`, by time. */
export interface Grouped {
  readonly first: Uint32Array;
  readonly order: Uint32Array;
}

/** Groups events by a small number, keeping their order (a counting sort). */
export function groupBy(keys: Uint32Array, groups: number): Grouped {
  const first = new Uint32Array(groups + 1);
  for (let i = 0; i < keys.length; i++) if (keys[i] < groups) first[keys[i] + 1]++;
  for (let g = 0; g < groups; g++) first[g + 1] += first[g];
  const next = first.slice();
  const order = new Uint32Array(first[groups]);
  for (let i = 0; i < keys.length; i++) if (keys[i] < groups) order[next[keys[i]]++] = i;
  return { first, order };
}
