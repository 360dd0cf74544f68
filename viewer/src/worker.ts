// The worker's entry: unpacks events while the page is already there to be read. `build.mjs` bundles it into a text
// that unpacker.ts starts it from, because a page that was opened from disk can load nothing else.

import { buffersOf, type Unpack, unpacking, type Wanted } from "./logic/unpacking.ts";

const worker = globalThis as unknown as {
  onmessage: (event: { readonly data: string | Wanted }) => void;
  postMessage: (part: unknown, transfer: ArrayBuffer[]) => void;
};

// The page's events come first, then what is wanted of them.
let unpack: Unpack;
worker.onmessage = ({ data }) => {
  if (typeof data === "string") unpack = unpacking(data);
  else void unpack(data, (part) => worker.postMessage(part, [...buffersOf(part)]));
};
