// What the page shows just now: signals, and the address that remembers them.

import { computed, effect, signal, untracked, type Signal } from "@preact/signals";
import { VIEWS, addressText, parseAddress, type ViewName } from "./logic/address.ts";
import {
  ASK_CAUSES,
  FILL_CAUSES,
  parseFilter,
  termsAbout,
  sieveOf,
  sieveRequests,
  sieveTouches,
  type Names,
  type Sieve,
} from "./logic/filter.ts";
import { diskPicture, type DiskPicture } from "./logic/disk.ts";
import type { Touches, TraceEvents, TraceTouches } from "./logic/events.ts";
import type { Masks } from "./logic/sums.ts";
import { unpackTouched, type TouchedProgram } from "./logic/touched.ts";
import { parseRange, rangeText, type Range, type Viewport } from "./logic/view.ts";
import { fairShares } from "./logic/waiting.ts";
import { unpacker } from "./unpacker.ts";
import type { Unpacked, Wanted } from "./logic/unpacking.ts";
import type { Theme } from "./draw/palette.ts";
import type { Comparison, ReportDocument, TraceDocument } from "./types/document.ts";

/** What the page was made of. */
export interface Page {
  readonly document: ReportDocument;
  readonly comparison: Comparison | null;
}
export const page = signal<Page | null>(null);

// ---- the address ----

/** The views of this page, the first one first. */
export const views = signal<readonly ViewName[]>(VIEWS);
export const view = signal<ViewName>("answer");

interface Remembered {
  readonly name: string;
  read(text: string | undefined): void;
  write(): string;
}
const remembered: Remembered[] = [];

/** A signal that stands in the address unless it has its first value. `allowed` are its values, if they are few. */
export function kept(name: string, first: string, allowed?: readonly string[]): Signal<string> {
  const value = signal(first);
  remembered.push({
    name,
    read: (text) => {
      value.value = text !== undefined && (allowed?.includes(text) ?? true) ? text : first;
    },
    write: () => (value.value === first ? "" : value.value),
  });
  return value;
}

/** Names of ranges in the address. */
const rangeNames: string[] = [];

/** The visible range of an axis; `null`: all of it. */
export function keptRange(name: string): Signal<Range | null> {
  rangeNames.push(name);
  const value = signal<Range | null>(null);
  remembered.push({
    name,
    read: (text) => {
      value.value = parseRange(text ?? null);
    },
    write: () => (value.value === null ? "" : rangeText(value.value)),
  });
  return value;
}

export const filterText = kept("q", "");
export const traceNumber = kept("trace", "0");
export const diskColour = kept("colour", "file", ["file", "process", "cause"]);
export const diskDevice = kept("device", "");
export const diskShow = kept("show", "reads");
export const diskWays = kept("ways", "1", ["0", "1"]);
export const diskScale = kept("scale", "folded", ["folded", "true"]);
export const chosenFile = kept("file", "");
export const fileLayers = kept("layers", "fills,asks");
export const filesShape = kept("shape", "tree", ["tree", "table"]);
export const filesSort = kept("sort", "-waiting");
export const filesOpen = kept("open", "");
export const chosenProcess = kept("process", "");
export const processColour = kept("pcolour", "file", ["file", "cause"]);
export const metric = kept("metric", "wall_s");
export const touchProgram = kept("program", "0");
export const touchSort = kept("tsort", "-needed");
export const touchEngine = kept("by", "");
export const touchColour = kept("tcolour", "time", ["time", "order"]);
export const touchPage = kept("page", "");
export const functionList = kept("tlist", "all", ["all", "lonely", "page"]);
export const functionSort = kept("tfsort", "order");

const ranges = {
  disk: { x: keptRange("x"), y: keptRange("y") },
  sorted: { x: keptRange("sx"), y: signal<Range | null>(null) },
  file: { x: keptRange("fx"), y: keptRange("fy") },
  processes: { x: keptRange("px"), y: signal<Range | null>(null) },
  touch: { x: keptRange("tx"), y: keptRange("ty") },
};
// The two drawings of the disk share their vertical axis.
ranges.sorted.y = ranges.disk.y;
export type PlotName = keyof typeof ranges;

/** What a plot shows of `whole`. */
export function visiblePart(name: PlotName, whole: Viewport): Viewport {
  const inside = (range: Range | null, all: Range) =>
    range === null || range.to <= all.from || range.from >= all.to
      ? all
      : { from: Math.max(range.from, all.from), to: Math.min(range.to, all.to) };
  return { x: inside(ranges[name].x.value, whole.x), y: inside(ranges[name].y.value, whole.y) };
}

export function show(name: PlotName, viewport: Viewport, whole: Viewport): void {
  const part = (range: Range, all: Range) => (range.from <= all.from && range.to >= all.to ? null : range);
  ranges[name].x.value = part(viewport.x, whole.x);
  ranges[name].y.value = part(viewport.y, whole.y);
}

export function forget(name: PlotName): void {
  ranges[name].x.value = null;
  ranges[name].y.value = null;
}

/** Puts a file into sight, in the views of one file. */
export function chooseFile(path: string): void {
  if (chosenFile.value === path) return;
  forget("file");
  forget("touch");
  touchPage.value = "";
  chosenFile.value = path;
}

/** What an address says of visible parts. */
const rangesOf = (text: string): string => {
  const { values } = parseAddress(text, views.value);
  return JSON.stringify(rangeNames.map((name) => values[name] ?? ""));
};

const address = computed(() =>
  addressText({ view: view.value, values: Object.fromEntries(remembered.map((it) => [it.name, it.write()])) }),
);

/** The address as it was last read or written here. */
let known = "";

function readAddress(): void {
  known = location.hash;
  const { view: name, values } = parseAddress(location.hash, views.value);
  view.value = name;
  for (const it of remembered) it.read(values[it.name]);
}

/** Writes the address, but never over one that was set and not yet read: "hashchange" comes later than the change. */
function writeAddress(text: string, way: "pushState" | "replaceState"): void {
  if (location.hash !== known) return;
  history[way](null, "", text);
  known = location.hash;
}

/** Follows the address, and writes it: at once for another view (so that "back" works), else when things are quiet. */
export function followAddress(): void {
  readAddress();
  addEventListener("hashchange", readAddress);
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let shownView = view.value;
  effect(() => {
    const text = address.value;
    clearTimeout(waiting);
    if (view.value !== shownView) {
      shownView = view.value;
      if (parseAddress(location.hash, views.value).view !== view.value) {
        writeAddress(text, "pushState");
        return;
      }
    }
    waiting = setTimeout(() => {
      if (location.hash === text || (location.hash === "" && text === `#${views.value[0]}`)) return;
      // Another part of a picture is a place to come back to; a word of the filter that is being typed is none.
      writeAddress(text, rangesOf(location.hash) === rangesOf(text) ? "replaceState" : "pushState");
    }, 120);
  });
}

// ---- light and dark ----

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(SYSTEM_DARK.matches);
SYSTEM_DARK.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});
/** What the reader chose; `null`: as the system. */
export const chosenTheme = signal<Theme | null>(storedTheme());
/** Paper is white. */
export const printing = signal(false);
addEventListener("beforeprint", () => {
  printing.value = true;
});
addEventListener("afterprint", () => {
  printing.value = false;
});
export const theme = computed<Theme>(() =>
  printing.value ? "light" : (chosenTheme.value ?? (systemDark.value ? "dark" : "light")),
);

function storedTheme(): Theme | null {
  try {
    const stored = localStorage.getItem("thaw-theme");
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // Storage may be forbidden for files.
    return null;
  }
}

export function toggleTheme(): void {
  const next: Theme = theme.value === "dark" ? "light" : "dark";
  chosenTheme.value = next === (systemDark.value ? "dark" : "light") ? null : next;
  try {
    if (chosenTheme.value === null) localStorage.removeItem("thaw-theme");
    else localStorage.setItem("thaw-theme", chosenTheme.value);
  } catch {
    // It then lasts as long as the page.
  }
}

// ---- the trace in sight ----

/** A trace with its events. */
export interface Opened {
  readonly document: TraceDocument;
  readonly events: TraceEvents;
  readonly names: Names;
  /** Requests on disk against time, by device and scale: those that were wanted. */
  readonly pictures: Map<string, DiskPicture>;
}

export const traceDocument = computed<TraceDocument | null>(() => {
  const traces = page.value?.document.traces ?? [];
  return traces[Number(traceNumber.value)] ?? traces[0] ?? null;
});
export const opened = signal<Opened | null>(null);
/** What came in and what was asked for, of the same trace; there a moment later. */
export const touched = signal<TraceTouches | null>(null);
/** Why there are no events to draw, once that is known. */
export const noEvents = signal<string | null>(null);

/** Has the events of the trace in sight unpacked whenever that changes. `text` is what the page embeds of them. */
export function followTrace(text: string | null): void {
  const ask = text === null ? null : unpacker(text, hear);
  effect(() => {
    const document = traceDocument.value;
    opened.value = null;
    touched.value = null;
    noEvents.value =
      document === null
        ? "This recording has no trace: `thaw record` makes one unless `--trace-runs 0` is given."
        : ask === null
          ? NOT_EMBEDDED
          : null;
    if (document !== null)
      ask?.(
        untracked((): Wanted => ({ run: document.run, device: diskDevice.value, toScale: diskScale.value === "true" })),
      );
  });
}
const NOT_EMBEDDED = "This page was made without the events of the trace; the tables hold its sums.";

function hear(part: Unpacked): void {
  const document = traceDocument.value;
  // Another trace may have been chosen meanwhile.
  if (document === null || part.run !== document.run) return;
  if (part.kind === "none") noEvents.value = NOT_EMBEDDED;
  else if (part.kind === "damaged") noEvents.value = `The events of the trace are damaged: ${part.reason}.`;
  else if (part.kind === "touches") touched.value = part.touches;
  else {
    const processes = document.report.processes.map((process) => `${process.comm} ${process.pid}`);
    opened.value = {
      document,
      events: part.events,
      names: { files: document.report.files, processes: ["(other programs)", ...processes, "(unknown process)"] },
      pictures: new Map([[pictureKey(part.device, part.toScale), part.picture]]),
    };
  }
}

const pictureKey = (device: number, toScale: boolean) => `${device} ${toScale}`;

/** The picture of a device; made if it is another one than was first wanted. */
export function pictureOf(trace: Opened, device: number, toScale: boolean): DiskPicture {
  const key = pictureKey(device, toScale);
  const picture = trace.pictures.get(key) ?? diskPicture(trace.events.requests, device, toScale);
  trace.pictures.set(key, picture);
  return picture;
}

// ---- what starts were seen to touch ----

/** `null`: not unpacked yet. */
export const touchedPrograms = signal<readonly TouchedProgram[] | null>(null);
/** Why it cannot be shown. */
export const touchedDamaged = signal<string | null>(null);

/** Has it unpacked once somebody looks at it. `text` is what the page embeds of it. */
export function followTouched(text: string | null): void {
  const stop = effect(() => {
    if (view.value !== "touch") return;
    const unpacked = text === null ? Promise.resolve([]) : unpackTouched(text);
    unpacked.then(
      (programs) => (touchedPrograms.value = programs),
      (error: unknown) => (touchedDamaged.value = String(error)),
    );
    queueMicrotask(() => stop());
  });
}

// ---- the filter ----

export const typed = computed(() => parseFilter(filterText.value));
export const terms = computed(() => termsAbout(typed.value, ["file", "process", "cause", "owner"]));
export const touchTerms = computed(() => termsAbout(typed.value, ["file", "owner", "function"]));
const sieve = computed<Sieve | null>(() => {
  const trace = opened.value;
  return trace === null || terms.value.length === 0 ? null : sieveOf(terms.value, trace.names);
});

/** One byte per event, for one table at a time, so that a view pays only for what it shows. */
export const requestMask = computed(() => {
  const requests = opened.value?.events.requests;
  if (requests === undefined) return new Uint8Array(0);
  return sieve.value === null ? new Uint8Array(requests.count).fill(1) : sieveRequests(sieve.value, requests);
});
export const fillMask = computed(() => mask(touched.value?.fills, FILL_CAUSES));
export const askMask = computed(() => mask(touched.value?.asks, ASK_CAUSES));
export const masks = computed<Masks>(() => ({
  requests: requestMask.value,
  fills: fillMask.value,
  asks: askMask.value,
}));

function mask(touches: Touches | undefined, kinds: readonly number[]): Uint8Array {
  if (touches === undefined) return new Uint8Array(0);
  return sieve.value === null ? new Uint8Array(touches.count).fill(1) : sieveTouches(sieve.value, touches, kinds);
}

/** Whether no event of the trace passes the filter; `false` while there are no events to ask, and for words about other views. */
export function startMatchesNothing(): boolean {
  const about = view.value === "touch" ? touchTerms.value : terms.value;
  if (about.length === 0 || opened.value === null || view.value === "touch") return false;
  return (
    [requestMask.value, fillMask.value, askMask.value].every((passing) => !passing.includes(1)) &&
    touched.value !== null
  );
}

/** Fair shares of the waiting time, made once per trace. */
export const shares = computed(() =>
  opened.value === null ? new Float64Array(0) : fairShares(opened.value.events.requests),
);

/** Adds a word to the filter, or takes it out if it is there. */
export function toggleWord(word: string): void {
  const words = filterText.value.match(/-?(?:[a-z]+:)?(?:"[^"]*"|\S+)/gi) ?? [];
  const without = words.filter((known) => known !== word);
  filterText.value = (without.length < words.length ? without : [...words, word]).join(" ");
}

// ---- figures for claims/viewer ----

/** When each of the last pictures was done, and how long that took, in milliseconds since the page was opened. */
export const drawings: { readonly plot: string; readonly done: number; readonly took: number }[] = [];
export function timed(plot: string, began: number): void {
  const done = performance.now();
  drawings.push({ plot, done, took: done - began });
  if (drawings.length > 4000) drawings.splice(0, 2000);
}
