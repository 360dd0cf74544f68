// Events of programs: what app/view/src/timeline.rs wrote, as arrays that are looked up by number. Pure.
//
// All times are nanoseconds since the first event. A type is the number of its name plus 1; 0: its program told none.

import type { PackedPath, PackedTimeline, PathClass, TimelineHead } from "../types/timeline.ts";
import { unpackIndexes, unpackTable } from "./columns.ts";
import { groupBy } from "./events.ts";
import { unpackTexts } from "./touched.ts";

export const TIMELINE_SCHEMA = "thaw.timeline-view/1";

/** Bits of `state`. */
export const WAITED = 1;
export const WORKED = 2;
export const DONE = 4;

/** What happens at a moment, by number. */
export const WHAT = ["mark", "name", "arg", "link", "free"] as const;
export const [MARK, NAME, ARG, LINK, FREE] = [0, 1, 2, 3, 4];

/** By object, then by time. It waits from `begin` to `work` and is worked on from there to `end`. */
export interface Intervals {
  readonly count: number;
  readonly object: Uint32Array;
  readonly begin: Float64Array;
  readonly work: Float64Array;
  /** Of what was never done: the end of the trace. */
  readonly end: Float64Array;
  readonly state: Uint32Array;
  readonly poster: Uint32Array;
  readonly worker: Uint32Array;
  readonly type: Uint32Array;
  /** Where that stands in the source: a line of `places` plus 1. */
  readonly place: Uint32Array;
}

/** By object, then by time. */
export interface Moments {
  readonly count: number;
  readonly object: Uint32Array;
  readonly at: Float64Array;
  readonly what: Uint32Array;
  readonly thread: Uint32Array;
  readonly type: Uint32Array;
  readonly place: Uint32Array;
  /** A line of `texts` plus 1. */
  readonly text: Uint32Array;
  /** Of a link: the other object. */
  readonly other: Uint32Array;
}

export interface PathStep {
  readonly from: number;
  readonly to: number;
  readonly object: number | null;
  readonly class: PathClass;
  readonly why: string;
}

export interface Timeline {
  readonly head: TimelineHead;
  readonly end: number;
  readonly names: readonly string[];
  readonly places: { readonly name: Float64Array; readonly file: Float64Array; readonly line: Float64Array };
  readonly files: readonly string[];
  readonly texts: readonly string[];
  readonly objects: {
    readonly count: number;
    /** A line of `texts` plus 1; 0: it has no name. */
    readonly name: Float64Array;
    readonly address: Float64Array;
    /** A line of the processes plus 1; 0: not known. */
    readonly process: Uint32Array;
  };
  readonly intervals: Intervals;
  /** The first interval of each object. */
  readonly firstInterval: Uint32Array;
  readonly moments: Moments;
  readonly firstMoment: Uint32Array;
  /** Links by the object that they lead to: `order` from `first[object]` to `first[object + 1]` are moments. */
  readonly into: { readonly first: Uint32Array; readonly order: Uint32Array };
  /** `null`: nobody worked one out. */
  readonly path: readonly PathStep[] | null;
}

export async function unpackTimeline(packed: PackedTimeline): Promise<Timeline> {
  if (packed.schema !== TIMELINE_SCHEMA)
    throw new Error(`this page holds ${packed.schema}, the viewer reads ${TIMELINE_SCHEMA}`);
  const { types, step_ns: step } = packed;
  const end = packed.end * step;
  const [names, files, texts, places, objects, indexes] = await Promise.all([
    unpackTexts(types.names),
    unpackTexts(types.files),
    unpackTexts(packed.texts),
    unpackTable(types.places, ["name", "file", "line"]),
    unpackTable(packed.objects, ["name", "address"]),
    unpackIndexes(packed.objects, ["process"]),
  ]);
  const count = packed.objects.count;
  const [intervals, moments] = await Promise.all([
    intervalsOf(packed, places.name, end, count),
    momentsOf(packed, places.name, count),
  ]);
  return {
    head: packed,
    end,
    names,
    places,
    files,
    texts,
    objects: { count, ...objects, ...indexes },
    intervals,
    firstInterval: firstOf(intervals.object, count),
    moments,
    firstMoment: firstOf(moments.object, count),
    into: linksInto(moments, count),
    path: packed.path === null ? null : await pathOf(packed.path, step),
  };
}

/** Types by name, of what is known by place. */
function typesOf(place: Uint32Array, nameOfPlace: Float64Array): Uint32Array {
  const byPlace = new Uint32Array(nameOfPlace.length + 1);
  for (let i = 0; i < nameOfPlace.length; i++) byPlace[i + 1] = nameOfPlace[i] + 1;
  const type = new Uint32Array(place.length);
  for (let i = 0; i < place.length; i++) type[i] = byPlace[place[i]];
  return type;
}

async function intervalsOf(
  packed: PackedTimeline,
  nameOfPlace: Float64Array,
  end: number,
  objects: number,
): Promise<Intervals> {
  const table = packed.intervals;
  const step = packed.step_ns;
  const [wide, small] = await Promise.all([
    unpackTable(table, ["object", "begin", "waited", "worked"]),
    unpackIndexes(table, ["state", "poster", "worker", "type"]),
  ]);
  const { begin, waited: work, worked: ends } = wide;
  const { state } = small;
  const { count } = table;
  const object = numbersBelow(wide.object, objects);
  let [before, last, first] = [-1, 0, 0];
  for (let i = 0; i < count; i++) {
    if (object[i] === before) begin[i] += last;
    else {
      begin[i] += first;
      first = begin[i];
      before = object[i];
    }
    const from = begin[i];
    last = from + work[i] + ends[i];
    const [worked, done] = [(state[i] & WORKED) !== 0, (state[i] & DONE) !== 0];
    begin[i] = from * step;
    work[i] = worked || done ? (from + work[i]) * step : end;
    ends[i] = done ? last * step : end;
  }
  return {
    count,
    object,
    begin,
    work,
    end: ends,
    state,
    poster: small.poster,
    worker: small.worker,
    type: typesOf(small.type, nameOfPlace),
    place: small.type,
  };
}

async function momentsOf(packed: PackedTimeline, nameOfPlace: Float64Array, objects: number): Promise<Moments> {
  const table = packed.moments;
  const step = packed.step_ns;
  const [wide, small] = await Promise.all([
    unpackTable(table, ["object", "at", "text", "other"]),
    unpackIndexes(table, ["what", "thread", "type"]),
  ]);
  const { at } = wide;
  const object = numbersBelow(wide.object, objects);
  const other = new Float64Array(table.count);
  let [before, last, first] = [-1, 0, 0];
  for (let i = 0; i < table.count; i++) {
    if (object[i] === before) at[i] += last;
    else {
      at[i] += first;
      first = at[i];
      before = object[i];
    }
    last = at[i];
    at[i] = last * step;
    other[i] = object[i] + wide.other[i];
  }
  return {
    count: table.count,
    object,
    at,
    what: small.what,
    thread: small.thread,
    type: typesOf(small.type, nameOfPlace),
    place: small.type,
    text: Uint32Array.from(wide.text),
    other: numbersBelow(other, objects),
  };
}

/** As whole numbers; a page that names what it does not have is damaged. */
function numbersBelow(values: Float64Array, limit: number): Uint32Array {
  const numbers = new Uint32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    if (!(values[i] >= 0 && values[i] < limit)) throw new Error(`the page has no object ${values[i]}`);
    numbers[i] = values[i];
  }
  return numbers;
}

/** Where the rows of each object begin, and behind the last. */
function firstOf(object: Uint32Array, count: number): Uint32Array {
  const first = new Uint32Array(count + 1);
  for (let i = 0; i < object.length; i++) first[object[i] + 1]++;
  for (let i = 0; i < count; i++) first[i + 1] += first[i];
  return first;
}

function linksInto(moments: Moments, count: number): { first: Uint32Array; order: Uint32Array } {
  const links = new Uint32Array(moments.count);
  let n = 0;
  for (let i = 0; i < moments.count; i++) if (moments.what[i] === LINK) links[n++] = i;
  const all = links.subarray(0, n);
  const { first, order } = groupBy(
    Uint32Array.from(all, (i) => moments.other[i]),
    count,
  );
  return { first, order: order.map((k) => all[k]) };
}

async function pathOf(packed: PackedPath, step: number): Promise<PathStep[]> {
  const why = await unpackTexts(packed.why);
  const steps = await unpackTable(packed.steps, ["from", "took", "object", "class", "why"]);
  return Array.from(steps.from, (from, i) => ({
    from: from * step,
    to: (from + steps.took[i]) * step,
    object: steps.object[i] === 0 ? null : steps.object[i] - 1,
    class: packed.classes[steps.class[i]],
    why: why[steps.why[i]],
  }));
}

/** What an interval or a moment of no type says. */
export const NO_TYPE = "(type not told)";

export const typeName = (of: Timeline, type: number): string => (type === 0 ? NO_TYPE : of.names[type - 1]);

/** Where a type stands in the source; `null`: not known. */
export function sourceOf(of: Timeline, place: number): { readonly file: string; readonly line: number } | null {
  if (place === 0) return null;
  const file = of.files[of.places.file[place - 1]];
  return file === "" ? null : { file, line: of.places.line[place - 1] };
}

/** What an object is called, as its program said; empty: it did not say. */
export const givenName = (of: Timeline, object: number): string =>
  of.objects.name[object] === 0 ? "" : of.texts[of.objects.name[object] - 1];

export const addressName = (of: Timeline, object: number): string => `0x${of.objects.address[object].toString(16)}`;

/** What an object is called, or else what it is and where. */
export function objectName(of: Timeline, object: number): string {
  const name = givenName(of, object);
  if (name !== "") return name;
  const type = mainType(of, object);
  return type === 0 ? addressName(of, object) : `${typeName(of, type)} ${addressName(of, object)}`;
}

/** The type of an object's first interval, else of its first moment that has one. */
export function mainType(of: Timeline, object: number): number {
  const at = of.firstInterval[object];
  if (at < of.firstInterval[object + 1]) return of.intervals.type[at];
  for (let i = of.firstMoment[object]; i < of.firstMoment[object + 1]; i++)
    if (of.moments.type[i] !== 0) return of.moments.type[i];
  return 0;
}

/** `worker 4711`, `4711`. */
export function threadName(of: Timeline, thread: number): string {
  const known = of.head.threads[thread];
  if (known === undefined) return "(thread not told)";
  const name = known.name === "" ? String(known.tid) : `${known.name} ${known.tid}`;
  const process = of.head.processes[known.process];
  return of.head.processes.length > 1 && process !== undefined ? `${name} of process ${process.pid}` : name;
}

/** A name cut in its middle, so that a megabyte of it fits. */
export function shortened(name: string, most: number): string {
  if (name.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
}

/** What happened to one object, by time. */
export interface ObjectEvent {
  readonly at: number;
  readonly kind: "wait" | "exec" | "done" | (typeof WHAT)[number];
  readonly thread: number | null;
  readonly type: number;
  readonly place: number;
  readonly text: string;
  readonly other: number | null;
}

export function eventsOf(of: Timeline, object: number): ObjectEvent[] {
  const events: ObjectEvent[] = [];
  const { intervals, moments } = of;
  for (let i = of.firstInterval[object]; i < of.firstInterval[object + 1]; i++) {
    const base = { type: intervals.type[i], place: intervals.place[i], text: "", other: null };
    const state = intervals.state[i];
    if ((state & WAITED) !== 0)
      events.push({ ...base, at: intervals.begin[i], kind: "wait", thread: intervals.poster[i] });
    if ((state & WORKED) !== 0)
      events.push({ ...base, at: intervals.work[i], kind: "exec", thread: intervals.worker[i] });
    // Nobody wrote down which thread said so.
    if ((state & DONE) !== 0) events.push({ ...base, at: intervals.end[i], kind: "done", thread: null });
  }
  for (let i = of.firstMoment[object]; i < of.firstMoment[object + 1]; i++) {
    const what = moments.what[i];
    events.push({
      at: moments.at[i],
      kind: WHAT[what],
      thread: moments.thread[i],
      type: moments.type[i],
      place: moments.place[i],
      text: moments.text[i] === 0 ? "" : of.texts[moments.text[i] - 1],
      other: what === LINK ? moments.other[i] : null,
    });
  }
  return events.sort((a, b) => a.at - b.at);
}

/** A link between two objects, seen from one of them. */
export interface Relation {
  readonly object: number;
  readonly at: number;
  readonly thread: number;
  readonly type: number;
}

/** What an object released or caused. */
export function childrenOf(of: Timeline, object: number): Relation[] {
  const { moments } = of;
  const all: Relation[] = [];
  for (let i = of.firstMoment[object]; i < of.firstMoment[object + 1]; i++)
    if (moments.what[i] === LINK)
      all.push({ object: moments.other[i], at: moments.at[i], thread: moments.thread[i], type: moments.type[i] });
  return all;
}

/** What released or caused an object. */
export function parentsOf(of: Timeline, object: number): Relation[] {
  const { moments, into } = of;
  return Array.from(into.order.subarray(into.first[object], into.first[object + 1]), (i) => ({
    object: moments.object[i],
    at: moments.at[i],
    thread: moments.thread[i],
    type: moments.type[i],
  })).sort((a, b) => a.at - b.at);
}

/** An object of a tree of links. */
export interface LinkRow {
  readonly object: number;
  readonly depth: number;
  /** Its row in the tree; `null`: the root. */
  readonly parent: number | null;
  /** When it was linked. */
  readonly at: number;
}

/** Objects that a tree shows at most. */
export const MOST_LINKED = 2000;

/**
 * All that links lead to from an object, each object once and where it was linked first; those of one parent by time.
 * A circle of links ends where it began.
 */
export function linkTree(of: Timeline, root: number): { readonly rows: readonly LinkRow[]; readonly more: boolean } {
  const rows: LinkRow[] = [];
  const seen = new Set([root]);
  const stack: LinkRow[] = [{ object: root, depth: 0, parent: null, at: 0 }];
  while (stack.length > 0 && rows.length < MOST_LINKED) {
    const row = stack.pop()!;
    const place = rows.push(row) - 1;
    const fresh = childrenOf(of, row.object).filter(({ object }) => !seen.has(object) && seen.add(object));
    for (const child of fresh.reverse())
      stack.push({ object: child.object, depth: row.depth + 1, parent: place, at: child.at });
  }
  return { rows, more: stack.length > 0 };
}

/** Where the links to an object come from in the end: the first parent of the first parent, and so on. */
export function originOf(of: Timeline, object: number): number {
  const seen = new Set([object]);
  for (let at = object; ; ) {
    const up = parentsOf(of, at)[0]?.object;
    if (up === undefined || seen.has(up)) return at;
    seen.add(up);
    at = up;
  }
}
