// The trace in sight: its events, what of them passes the filter, and what its views show just now.

import { computed, effect, signal, untracked } from "@preact/signals";
import { typed } from "../../filter.ts";
import { type DiskPicture, diskPicture } from "../../logic/disk.ts";
import type { Touches, TraceEvents, TraceTouches } from "../../logic/events.ts";
import {
  ASK_CAUSES,
  FILL_CAUSES,
  type Names,
  type Sieve,
  sieveOf,
  sieveRequests,
  sieveTouches,
  termsAbout,
} from "../../logic/filter.ts";
import type { Masks } from "../../logic/sums.ts";
import type { Unpacked, Wanted } from "../../logic/unpacking.ts";
import { fairShares } from "../../logic/waiting.ts";
import { kept, keptRange, visiblePart } from "../../state.ts";
import type { TraceDocument } from "../../types/document.ts";
import { type Unpacker, unpacker } from "../../unpacker.ts";
import { whenFileChanges } from "../shared/chosenfile.ts";
import { page } from "../shared/document.ts";

/** Index of the trace in sight among the document's. */
export const traceNumber = kept("trace", "0");
export const diskColour = kept("colour", "file", ["file", "process", "cause"]);
/** `major:minor` of the disk in sight; empty: the busiest. */
export const diskDevice = kept("device", "");
/** What is drawn of `reads`, `writes`, `others`, joined by commas. */
export const diskShow = kept("show", "reads");
/** Whether the way of the head is drawn. */
export const diskWays = kept("ways", "1", ["0", "1"]);
/** `true`: the axis of the disk is to scale; else long gaps are folded. */
export const diskScale = kept("scale", "folded", ["folded", "true"]);
/** What is drawn of `fills`, `asks`, joined by commas. */
export const fileLayers = kept("layers", "fills,asks");
export const filesShape = kept("shape", "tree", ["tree", "table"]);
/** Key of a column; `-` before it: the largest first. */
export const filesSort = kept("sort", "-waiting");
/** Open folders, joined by `|`; empty: the way to the heaviest file. */
export const filesOpen = kept("open", "");
export const chosenProcess = kept("process", "");
export const processColour = kept("pcolour", "file", ["file", "cause"]);

export const diskPart = visiblePart(keptRange("x"), keptRange("y"));
/** The two drawings of the disk share their vertical axis. */
export const sortedPart = visiblePart(keptRange("sx"), diskPart.y);
export const filePart = visiblePart(keptRange("fx"), keptRange("fy"));
export const processesPart = visiblePart(keptRange("px"));
whenFileChanges(filePart.reset);

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

/** What will unpack the events: it takes a moment to start, and can do that while the browser still reads them. */
export const startUnpacking = (): Unpacker => unpacker(hear);

/** Has the events of the trace in sight unpacked whenever that changes. `text` is what the page embeds of them. */
export function followTrace(unpack: Unpacker, text: string | null): void {
  const ask = text === null ? null : unpack(text);
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

export const terms = computed(() => termsAbout(typed.value, ["file", "process", "cause", "owner"]));
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

/** Whether no event of the trace passes the filter; `false` while there are no events to ask, and for other words. */
export function traceMatchesNothing(): boolean {
  if (terms.value.length === 0 || opened.value === null) return false;
  // One after the other: most words leave a request, and then nobody needs to look at the other tables.
  return [requestMask, fillMask, askMask].every((mask) => !mask.value.includes(1)) && touched.value !== null;
}

/** Fair shares of the waiting time, made once per trace. */
export const shares = computed(() =>
  opened.value === null ? new Float64Array(0) : fairShares(opened.value.events.requests),
);
