// The worker's entry: unpacks events while the page is already there to be read. `build.mjs` bundles it into a text that
// unpacker.ts starts it from, because a page that was opened from disk can load nothing else.

import { buffersOf, parseEvents, unpackInOrder, type Wanted } from "./logic/unpacking.ts";
import type { PackedEvents } from "./types/events.ts";

const worker = globalThis as unknown as {
  onmessage: (event: { readonly data: string | Wanted }) => void;
  postMessage: (part: unknown, transfer: ArrayBuffer[]) => void;
};

let events: PackedEvents;
worker.onmessage = ({ data }) => {
  if (typeof data === "string") events = parseEvents(data);
  else void unpackInOrder(events, data, (part) => worker.postMessage(part, [...buffersOf(part)]));
};
