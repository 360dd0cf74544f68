// Has the events unpacked: in a worker; where the browser lets the page have none, by the page itself, which then stands
// still for as long as that takes.

import WORKER from "worker:./worker.ts";
import { parseEvents, unpackInOrder, type Unpacked, type Wanted } from "./logic/unpacking.ts";

/** Asks for a trace. */
export type Ask = (wanted: Wanted) => void;

/** `text` is the page's `thaw.events/1`; `say` hears what was unpacked, `fail` why nothing will be. */
export function unpacker(text: string, say: (part: Unpacked) => void, fail: (reason: string) => void): Ask {
  const here = (): Ask => {
    try {
      const events = parseEvents(text);
      return (wanted) => void unpackInOrder(events, wanted, say);
    } catch (error) {
      fail(String(error));
      return () => {};
    }
  };
  const url = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  try {
    const worker = new Worker(url);
    worker.onmessage = ({ data }: MessageEvent<Unpacked>) => say(data);
    // One that may not start says so without a message; what it throws has one.
    worker.onerror = (event) => {
      if (event.message !== undefined && event.message !== "") return fail(event.message);
      const instead = here();
      asked.forEach(instead);
      ask = instead;
    };
    worker.postMessage(text);
    const asked: Wanted[] = [];
    let ask: Ask = (wanted) => {
      asked.push(wanted);
      worker.postMessage(wanted);
    };
    return (wanted) => ask(wanted);
  } catch {
    return here();
  } finally {
    // The worker has its text by then; some browsers read it a moment later.
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}
