// Lanes of the process view: which processes stand where, and what lies in a lane. Pure.

import { gather, lowerBound } from "./columns.ts";
import { byTime, counts, groupBy, type Requests } from "./events.ts";
import { type Marks, marksOf, spans } from "./marks.ts";

/** A process's requests from the moment their pages began to wait until they were done. */
export interface Lane {
  /** Numbers of requests by the time their pages began to wait. */
  readonly numbers: Uint32Array;
  readonly from: Float64Array;
  readonly to: Float64Array;
  readonly longest: number;
}

/** One lane per process line. */
export function lanes(requests: Requests, processes: number, mask: Uint8Array): Lane[] {
  const { first, order } = groupBy(requests.process, processes + 1);
  return Array.from({ length: processes }, (_, line) => {
    const own = order.subarray(first[line + 1], first[line + 2]).filter((i) => mask[i] === 1 && counts(requests, i));
    const numbers = byTime(own, requests.from);
    const from = gather(requests.from, numbers);
    const to = gather(requests.end, numbers);
    for (let k = 0; k < to.length; k++) to[k] = Math.max(to[k], from[k]);
    const longest = from.reduce((most, at, k) => Math.max(most, to[k] - at), 0);
    return { numbers, from, to, longest };
  });
}

/** The request of a lane that is in flight then, the last begun first; -1 if there is none. */
export function inFlightAt(lane: Lane, time: number, reach: number): number {
  const behind = lowerBound(lane.from, time + reach);
  for (let k = behind - 1; k >= 0 && lane.from[k] >= time - lane.longest - reach; k--) {
    if (lane.to[k] + reach >= time) return lane.numbers[k];
  }
  return -1;
}

/** A lane as marks between two heights. */
export function laneMarks(lane: Lane, low: number, high: number): Marks {
  const count = lane.from.length;
  return marksOf(
    lane.from,
    new Float64Array(count).fill(low),
    spans(lane.from, lane.to),
    new Float32Array(count).fill(high - low),
  );
}
