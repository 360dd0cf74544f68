// Has the events unpacked: in a worker; where the browser lets the page have none, by the page itself, which then
// stands still for as long as that takes.

import WORKER from "worker:./worker.ts";
import { type Unpacked, unpacking, type Wanted } from "./logic/unpacking.ts";

/** Asks for a trace. */
export type Ask = (wanted: Wanted) => void;

/** Takes the page's `thaw.events/1`. */
export type Unpacker = (text: string) => Ask;

/** `say` hears what was unpacked of the traces that are asked for. The worker starts at once, before it has a text. */
export function unpacker(say: (part: Unpacked) => void): Unpacker {
  const here = (text: string): Ask => {
    const unpack = unpacking(text);
    return (wanted) => void unpack(wanted, say);
  };
  const url = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  // The worker has its text by then; some browsers read it a moment late.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  try {
    const worker = new Worker(url);
    let failed = false;
    let fail = () => {};
    worker.onmessage = ({ data }: MessageEvent<Unpacked>) => say(data);
    // One that may not start says so only later.
    worker.onerror = () => {
      failed = true;
      fail();
    };
    return (text) => {
      if (failed) return here(text);
      const asked: Wanted[] = [];
      let ask: Ask = (wanted) => {
        asked.push(wanted);
        worker.postMessage(wanted);
      };
      fail = () => {
        ask = here(text);
        asked.forEach(ask);
      };
      worker.postMessage(text);
      return (wanted) => ask(wanted);
    };
  } catch {
    return here;
  }
}
