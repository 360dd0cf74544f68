// What the page of events shows just now.

import { computed, effect, signal } from "@preact/signals";
import { ground, mixed, pixel, RANK_COUNT, rankColour, type Theme } from "../../draw/palette.ts";
import { filterText } from "../../filter.ts";
import { lowered, passingNames, suggested } from "../../logic/resource.ts";
import { DEEP, type Lanes, type Look, lanesBy, lanesInOrder, Mips } from "../../logic/tapes.ts";
import {
  addressName,
  MARK,
  NO_TYPE,
  objectName,
  type Timeline,
  threadName,
  typeName,
  unpackTimeline,
} from "../../logic/timeline.ts";
import { onlyType, parseRules, type Rules, rulesText, shownTypes, typeTree } from "../../logic/typetree.ts";
import { kept, keptRange, view, visiblePart } from "../../state.ts";
import type { PackedTimeline } from "../../types/timeline.ts";

/** `null`: not unpacked yet. */
export const timeline = signal<Timeline | null>(null);
export const timelineDamaged = signal<string | null>(null);

/** What a row is. */
export const ROWS = ["objects", "types", "namespaces", "threads"] as const;
export type RowKind = (typeof ROWS)[number];
export const rowKind = kept("rows", "objects", ROWS);
/** The chosen interval (`i7`) or moment (`m7`); empty: none. */
export const chosen = kept("sel", "");
/** The object of the views of one object; empty: the chosen event's. */
export const chosenObject = kept("obj", "");
/** Nanoseconds since the first event that count as 0. */
export const zeroText = kept("zero", "0");
/** Boxes of the tree of types. */
export const rulesKept = kept("types", "");
/** Whether the gantt begins where the chain of links to its object begins. */
export const fromOrigin = kept("origin", "0", ["0", "1"]);
export const tapePart = visiblePart(keptRange("ex"), keptRange("ey"));
export const ganttPart = visiblePart(keptRange("gx"), keptRange("gy"));
export const pathPart = visiblePart(keptRange("pathx"), keptRange("pathy"));

const STORED = "thaw-source";
/** The address of a place in the source, with {file} and {line}; remembered by the browser, where it may. */
export const sourcePattern = kept("src", stored());

function stored(): string {
  try {
    return localStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}
effect(() => {
  try {
    if (sourcePattern.value !== "") localStorage.setItem(STORED, sourcePattern.value);
  } catch {
    // It then lasts as long as the page.
  }
});

export function followTimeline(packed: PackedTimeline): void {
  unpackTimeline(packed).then(
    (unpacked) => (timeline.value = unpacked),
    (error: unknown) => (timelineDamaged.value = String(error)),
  );
}

export const zero = computed(() => {
  const value = Number(zeroText.value);
  return Number.isFinite(value) ? value : 0;
});

// ---- what is chosen ----

export type Chosen =
  | { readonly kind: "interval"; readonly number: number; readonly object: number }
  | { readonly kind: "moment"; readonly number: number; readonly object: number };

export const chosenEvent = computed<Chosen | null>(() => {
  const of = timeline.value;
  const number = Number(chosen.value.slice(1));
  if (of === null || !Number.isInteger(number) || chosen.value.length < 2) return null;
  const [kind, rows] = chosen.value.startsWith("i")
    ? (["interval", of.intervals] as const)
    : (["moment", of.moments] as const);
  return number < rows.count ? { kind, number, object: rows.object[number] } : null;
});

/** The object of the views of one object; `null`: there is none. */
export const objectInSight = computed<number | null>(() => {
  const of = timeline.value;
  if (of === null || of.objects.count === 0) return null;
  const number = Number(chosenObject.value);
  if (chosenObject.value !== "" && Number.isInteger(number) && number >= 0 && number < of.objects.count) return number;
  return chosenEvent.value?.object ?? tapeRows.value?.rows[0] ?? 0;
});

export function showObject(object: number, name: "object" | "gantt" = "object"): void {
  if (String(object) !== chosenObject.value) ganttPart.reset();
  chosenObject.value = String(object);
  view.value = name;
}

export function zeroHere(): void {
  const [of, event] = [timeline.value, chosenEvent.value];
  if (of === null || event === null) return;
  const at = event.kind === "interval" ? of.intervals.begin[event.number] : of.moments.at[event.number];
  zeroText.value = String(at);
}

/** Shows what has the type of the chosen event, and nothing else. */
export function sisters(): void {
  const [of, event, tree] = [timeline.value, chosenEvent.value, types.value];
  if (of === null || event === null || tree === null) return;
  const type = (event.kind === "interval" ? of.intervals : of.moments).type[event.number];
  setRules(onlyType(tree, type));
}

export const setRules = (rules: Rules): void => {
  rulesKept.value = rulesText(rules);
};

// ---- types ----

/** Intervals and marks by type. */
export const typeCounts = computed<Uint32Array | null>(() => {
  const of = timeline.value;
  if (of === null) return null;
  const counts = new Uint32Array(of.names.length + 1);
  for (let i = 0; i < of.intervals.count; i++) counts[of.intervals.type[i]]++;
  for (let i = 0; i < of.moments.count; i++) if (of.moments.what[i] === MARK) counts[of.moments.type[i]]++;
  return counts;
});
export const types = computed(() => {
  const [of, counts] = [timeline.value, typeCounts.value];
  return of === null || counts === null ? null : typeTree([NO_TYPE, ...of.names], counts);
});
export const rules = computed(() => parseRules(rulesKept.value));
export const typesShown = computed<Uint8Array | null>(() => {
  const [of, tree] = [timeline.value, types.value];
  return of === null || tree === null ? null : shownTypes(tree, rules.value, of.names.length + 1);
});

/** By type: the number of its colour, from 1; the last is shared by all that are not among the most frequent. */
const typeColour = computed<Uint8Array | null>(() => {
  const counts = typeCounts.value;
  if (counts === null) return null;
  const colour = new Uint8Array(counts.length).fill(RANK_COUNT + 1);
  typesBySize.value.slice(0, RANK_COUNT).forEach((type, rank) => {
    colour[type] = rank + 1;
  });
  return colour;
});
/** The most frequent first, those that occur. */
export const typesBySize = computed<readonly number[]>(() => {
  const counts = typeCounts.value;
  if (counts === null) return [];
  const all = Array.from(counts, (_, type) => type).filter((type) => counts[type] > 0);
  return all.sort((a, b) => counts[b] - counts[a] || a - b);
});

/** Pixels by code of a tape. */
export function tapeColours(theme: Theme): Uint32Array {
  const colours = new Uint32Array(256);
  for (let rank = 0; rank <= RANK_COUNT; rank++) {
    const deep = rankColour(rank, theme);
    colours[rank + 1] = pixel(mixed(deep, ground(theme).paper, theme === "dark" ? 0.42 : 0.32));
    colours[(rank + 1) | DEEP] = pixel(deep);
  }
  return colours;
}

// ---- resources ----

const lowNames = computed(() => lowered(timeline.value?.texts ?? []));

/** By object: 1 passes the filter by resource; `null`: nothing is typed. */
export const objectsShown = computed<Uint8Array | null>(() => {
  const of = timeline.value;
  const typed = filterText.value.trim().toLowerCase();
  if (of === null || typed === "") return null;
  const names = passingNames(lowNames.value, typed)!;
  const shown = new Uint8Array(of.objects.count);
  for (let object = 0; object < shown.length; object++) {
    const name = of.objects.name[object];
    if (name !== 0) shown[object] = names[name - 1];
    else shown[object] = typed.includes(addressName(of, object)) || addressName(of, object).includes(typed) ? 1 : 0;
  }
  return shown;
});

/** Names of objects that hold what is typed. */
export function suggestions(): readonly string[] {
  const of = timeline.value;
  if (of === null) return [];
  const typed = filterText.value;
  return suggested(of.texts, lowNames.value, typed, 12).filter((name) => name.length <= 200);
}

// ---- lanes ----

export interface LaneSet {
  readonly kind: RowKind;
  readonly lanes: Lanes;
  readonly name: (of: Timeline, lane: number) => string;
  /** Marks of the lane of each object, by object; `null`: only lanes of objects have them. */
  readonly hasMarks: boolean;
}

const allLanes = computed<LaneSet | null>(() => {
  const of = timeline.value;
  if (of === null) return null;
  const { intervals } = of;
  switch (rowKind.value as RowKind) {
    case "types":
      return {
        kind: "types",
        lanes: lanesBy(intervals.type, of.names.length + 1, intervals),
        name: typeName,
        hasMarks: false,
      };
    case "namespaces": {
      const spaces: string[] = [];
      const known = new Map<string, number>();
      const ofType = Uint32Array.from([NO_TYPE, ...of.names], (name) => {
        const space = name.includes("::") ? name.slice(0, name.indexOf("::")) : name;
        if (!known.has(space)) known.set(space, spaces.push(space) - 1);
        return known.get(space)!;
      });
      const key = intervals.type.map((type) => ofType[type]);
      return {
        kind: "namespaces",
        lanes: lanesBy(key, spaces.length, intervals),
        name: (_, lane) => spaces[lane],
        hasMarks: false,
      };
    }
    case "threads": {
      // Drawn where it was worked on; what never was, where it waits.
      const threads = of.head.threads.length + 1;
      const key = Uint32Array.from(intervals.worker, (worker, i) =>
        Math.min((intervals.state[i] & 2) !== 0 ? worker : intervals.poster[i], threads - 1),
      );
      return { kind: "threads", lanes: lanesBy(key, threads, intervals), name: threadName, hasMarks: false };
    }
    case "objects":
      return objectLanes.value;
  }
});

/** Lanes of objects, which the views of links and of the path have whatever the first view shows. */
export const objectLanes = computed<LaneSet | null>(() => {
  const of = timeline.value;
  return of === null
    ? null
    : {
        kind: "objects",
        lanes: lanesInOrder(of.firstInterval, of.intervals),
        name: objectName,
        hasMarks: true,
      };
});

const look = computed<Look | null>(() => {
  const colour = typeColour.value;
  return colour === null ? null : { types: rules.value.size === 0 ? null : typesShown.value, colour };
});
const lookAtAll = computed<Look | null>(() => {
  const colour = typeColour.value;
  return colour === null ? null : { types: null, colour };
});

/** What a picture of tapes shows. */
export interface Tapes {
  readonly of: Timeline;
  readonly set: LaneSet;
  readonly look: Look;
  readonly mips: Mips;
  /** Lanes from above. */
  readonly rows: Uint32Array;
}

const mipsOf = (of: Timeline, set: LaneSet, of_: Look) =>
  new Mips(set.lanes, of_, { from: 0, to: Math.max(1, of.end) });

/** What the first view draws where only types are filtered: kept apart, so that a word typed makes no tape anew. */
const tapeMips = computed(() => {
  const [of, set, how] = [timeline.value, shownLanes.value, look.value];
  return of === null || set === null || how === null ? null : mipsOf(of, set, how);
});

/** Lanes of the first view; with a filter by resource, those of its objects alone. */
const shownLanes = computed<LaneSet | null>(() => {
  const [of, set, passing] = [timeline.value, allLanes.value, objectsShown.value];
  if (of === null || set === null || set.kind === "objects" || passing === null) return set;
  return { ...set, lanes: onlyOf(set.lanes, of.intervals.object, passing) };
});

function onlyOf(lanes: Lanes, object: Uint32Array, passing: Uint8Array): Lanes {
  const numbers = lanes.numbers!;
  const places: number[] = [];
  const first = new Uint32Array(lanes.count + 1);
  for (let lane = 0; lane < lanes.count; lane++) {
    for (let i = lanes.first[lane]; i < lanes.first[lane + 1]; i++)
      if (passing[object[numbers[i]]] === 1) places.push(i);
    first[lane + 1] = places.length;
  }
  const pick = <Values extends Float64Array | Uint32Array>(values: Values): Values =>
    (values.constructor as unknown as { from: (list: number[], of: (i: number) => number) => Values }).from(
      places,
      (i) => values[i],
    );
  return {
    count: lanes.count,
    first,
    begin: pick(lanes.begin),
    work: pick(lanes.work),
    end: pick(lanes.end),
    latest: pick(lanes.latest),
    type: pick(lanes.type),
    numbers: pick(numbers),
  };
}

export const tapeRows = computed<Tapes | null>(() => {
  const [of, set, how, mips] = [timeline.value, shownLanes.value, look.value, tapeMips.value];
  if (of === null || set === null || how === null || mips === null) return null;
  const { lanes } = set;
  const passing = set.kind === "objects" ? objectsShown.value : null;
  const rows = new Uint32Array(lanes.count);
  let count = 0;
  for (let lane = 0; lane < lanes.count; lane++)
    if ((passing === null || passing[lane] === 1) && (hasShown(lanes, lane, how) || hasMark(of, set, lane, how)))
      rows[count++] = lane;
  return { of, set, look: how, mips, rows: rows.slice(0, count) };
});

function hasShown(lanes: Lanes, lane: number, { types: shown }: Look): boolean {
  const behind = lanes.first[lane + 1];
  for (let i = lanes.first[lane]; i < behind; i++) if (shown === null || shown[lanes.type[i]] === 1) return true;
  return false;
}

function hasMark(of: Timeline, set: LaneSet, lane: number, { types: shown }: Look): boolean {
  if (!set.hasMarks) return false;
  const { what, type } = of.moments;
  for (let i = of.firstMoment[lane]; i < of.firstMoment[lane + 1]; i++)
    if (what[i] === MARK && (shown === null || shown[type[i]] === 1)) return true;
  return false;
}

const allMips = computed(() => {
  const [of, set, how] = [timeline.value, objectLanes.value, lookAtAll.value];
  return of === null || set === null || how === null ? null : mipsOf(of, set, how);
});

/** Tapes of these objects, whatever the filters are. */
export function tapesOf(objects: Uint32Array): Tapes | null {
  const [of, set, how, mips] = [timeline.value, objectLanes.value, lookAtAll.value, allMips.value];
  return of === null || set === null || how === null || mips === null
    ? null
    : { of, set, look: how, mips, rows: objects };
}

/** Whether the filters let nothing pass. */
export const timelineMatchesNothing = (): boolean => tapeRows.value?.rows.length === 0;
