// Who waited for the disk, and how long: each request's fair share of the time in which requests were in flight.
// Pure; the same rule as measure/io/src/analyze/waiting.rs: with n requests in flight during dt, each gets dt / n.

import { byTime, counts, type Requests } from "./events.ts";

/** A share per request in microseconds; 0 for requests that do not count (writes, other programs). */
export function fairShares(requests: Requests): Float64Array {
  const { count, from, end, ended } = requests;
  const shares = new Float64Array(count);
  const all = new Uint32Array(count);
  let number = 0;
  for (let i = 0; i < count; i++) if (counts(requests, i) && ended[i] === 1 && from[i] < end[i]) all[number++] = i;
  const flying = all.subarray(0, number);
  const begins = byTime(flying, from);
  const finishes = byTime(flying, end);
  // V(t) = integral of 1 / n(t) dt; a share is V(end) - V(from).
  let value = 0;
  let inFlight = 0;
  let last = 0;
  let b = 0;
  let f = 0;
  while (f < finishes.length) {
    const begin = b < begins.length && from[begins[b]] < end[finishes[f]];
    const at = begin ? from[begins[b]] : end[finishes[f]];
    if (inFlight > 0) value += (at - last) / inFlight;
    last = at;
    if (begin) {
      shares[begins[b++]] = -value;
      inFlight++;
    } else {
      shares[finishes[f++]] += value;
      inFlight--;
    }
  }
  return shares;
}
