// Unpacking a trace, in the order in which a reader wants it: first what the disk's picture needs, then the rest.
// Pure; a worker runs it (worker.ts), or the page itself where it may have none.

import type { PackedEvents } from "../types/events.ts";
import { busiestDevice, type DiskPicture, diskPicture } from "./disk.ts";
import { EVENTS_SCHEMA, type TraceEvents, type TraceTouches, unpackRest, unpackTrace } from "./events.ts";

/** A trace, and which picture of a disk is wanted first. */
export interface Wanted {
  readonly run: number;
  /** As people write it; the busiest one if the trace has no such. */
  readonly device: string;
  readonly toScale: boolean;
}

/** What is there already, in this order. */
export type Unpacked =
  | { readonly kind: "none"; readonly run: number }
  | { readonly kind: "damaged"; readonly run: number; readonly reason: string }
  | {
      readonly kind: "events";
      readonly run: number;
      readonly events: TraceEvents;
      readonly device: number;
      readonly toScale: boolean;
      readonly picture: DiskPicture;
    }
  | { readonly kind: "touches"; readonly run: number; readonly touches: TraceTouches };

/** Unpacks the trace that is wanted and says each part as soon as it is there. */
export type Unpack = (wanted: Wanted, say: (part: Unpacked) => void) => Promise<void>;

/** For what the page embeds: `text` is a `thaw.events/1`. */
export function unpacking(text: string): Unpack {
  let parsed: PackedEvents | null = null;
  return async ({ run, device, toScale }, say) => {
    try {
      parsed ??= parseEvents(text);
      const trace = parsed.traces.find((it) => it.run === run);
      if (trace === undefined) return say({ kind: "none", run });
      const events = await unpackTrace(trace);
      const number = deviceNumber(events, device);
      say({
        kind: "events",
        run,
        events,
        device: number,
        toScale,
        picture: diskPicture(events.requests, number, toScale),
      });
      say({ kind: "touches", run, touches: await unpackRest(trace) });
    } catch (error) {
      say({ kind: "damaged", run, reason: String(error) });
    }
  };
}

function parseEvents(text: string): PackedEvents {
  const events = JSON.parse(text) as PackedEvents;
  if (events.schema !== EVENTS_SCHEMA)
    throw new Error(`this page holds ${events.schema}, the viewer reads ${EVENTS_SCHEMA}`);
  return events;
}

/** The device of that name, else the busiest. */
export function deviceNumber({ devices, requests }: TraceEvents, name: string): number {
  const named = devices.indexOf(name);
  return named >= 0 ? named : busiestDevice(requests, devices.length);
}

/** The memory behind a message, to be handed over rather than copied. */
export function buffersOf(part: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(part)) found.add(part.buffer as ArrayBuffer);
  else if (typeof part === "object" && part !== null) for (const inner of Object.values(part)) buffersOf(inner, found);
  return found;
}
