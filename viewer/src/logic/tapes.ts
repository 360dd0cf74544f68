// Tapes: lanes of intervals, as one byte for each pixel, and what is under the pointer. Pure.
//
// From afar a lane has more intervals than pixels. So busy lanes keep their tape at all scales (a mip-map of time):
// drawing one then takes as many steps as it has pixels, however many intervals it has.

import { gather, lowerBound, sortedBy } from "./columns.ts";
import { groupBy } from "./events.ts";
import type { Range } from "./view.ts";

/** Intervals lane by lane, those of a lane by their beginnings. */
export interface Lanes {
  readonly count: number;
  /** Where each lane begins, and behind the last. */
  readonly first: Uint32Array;
  readonly begin: Float64Array;
  readonly work: Float64Array;
  readonly end: Float64Array;
  /** The latest end in the lane up to each. */
  readonly latest: Float64Array;
  readonly type: Uint32Array;
  /** Numbers of the intervals; `null`: they are in their own order. */
  readonly numbers: Uint32Array | null;
}

interface Source {
  readonly begin: Float64Array;
  readonly work: Float64Array;
  readonly end: Float64Array;
  readonly type: Uint32Array;
}

/** Lanes of what stands lane by lane already. */
export function lanesInOrder(first: Uint32Array, source: Source): Lanes {
  const { begin, work, end, type } = source;
  return { count: first.length - 1, first, begin, work, end, latest: latestEnds(first, end), type, numbers: null };
}

/** Lanes by a key of each interval. */
export function lanesBy(key: Uint32Array, count: number, source: Source): Lanes {
  const all = new Uint32Array(key.length);
  for (let i = 0; i < all.length; i++) all[i] = i;
  const byTime = sortedBy(all, source.begin);
  const { first, order } = groupBy(gather(key, byTime), count);
  const numbers = gather(byTime, order);
  const end = gather(source.end, numbers);
  return {
    count,
    first,
    begin: gather(source.begin, numbers),
    work: gather(source.work, numbers),
    end,
    latest: latestEnds(first, end),
    type: gather(source.type, numbers),
    numbers,
  };
}

function latestEnds(first: Uint32Array, end: Float64Array): Float64Array {
  const latest = new Float64Array(end.length);
  for (let lane = 0; lane + 1 < first.length; lane++) {
    let most = Number.NEGATIVE_INFINITY;
    for (let i = first[lane]; i < first[lane + 1]; i++) {
      if (end[i] > most) most = end[i];
      latest[i] = most;
    }
  }
  return latest;
}

/** The number of the interval at a place of the lanes. */
export const numberAt = (lanes: Lanes, place: number): number =>
  lanes.numbers === null ? place : lanes.numbers[place];

/** Which intervals are shown, and what colour each type has. */
export interface Look {
  /** By type: 1 is shown. `null`: all are. */
  readonly types: Uint8Array | null;
  /** By type: the number of its colour, from 1. */
  readonly colour: Uint8Array;
}

/** A pixel of a tape: 0 is empty, else a colour's number, with this bit where it is worked on. */
export const DEEP = 0x80;

/** First place of a lane that may reach into a time. */
function firstReaching(lanes: Lanes, lane: number, time: number): number {
  const { first, latest } = lanes;
  return first[lane] + lowerBound(latest.subarray(first[lane], first[lane + 1]), time);
}

/** Draws each interval of a lane into pixels. What is worked on lies on top of what waits, and later on earlier. */
export function drawEach(to: Uint8Array, lanes: Lanes, lane: number, look: Look, part: Range, width: number): void {
  const { begin, work, end, type, first } = lanes;
  const { types, colour } = look;
  const scale = width / (part.to - part.from);
  const from = part.from;
  const last = first[lane + 1];
  for (let i = firstReaching(lanes, lane, from); i < last; i++) {
    const b = begin[i];
    if (b >= part.to) break;
    const e = end[i];
    if (e < from || (types !== null && types[type[i]] === 0)) continue;
    const left = b <= from ? 0 : ((b - from) * scale) | 0;
    const w = work[i];
    const deep = w < e || w === b;
    const code = colour[type[i]];
    // The pixel behind the last one.
    const right = e >= part.to ? width : (((e - from) * scale) | 0) + 1;
    const middle = w <= from ? 0 : w >= part.to ? width : ((w - from) * scale) | 0;
    const pale = deep ? middle : right;
    for (let x = left; x < pale; x++) if (to[x] < DEEP) to[x] = code;
    if (!deep || w >= part.to) continue;
    if (right - middle > 32) to.fill(code | DEEP, middle, right);
    else for (let x = middle; x < right; x++) to[x] = code | DEEP;
  }
}

/** Lanes with more intervals have their tape kept at all scales. */
const BUSY = 2048;
const MOST_BINS = 1 << 20;

/** The tapes of busy lanes at all scales, for one look; made when a lane is first seen. */
export class Mips {
  private readonly known = new Map<number, readonly Uint8Array[]>();

  constructor(
    private readonly lanes: Lanes,
    private readonly look: Look,
    private readonly whole: Range,
  ) {}

  /** Draws a lane into `to`, which is empty: one byte for each pixel. */
  draw(to: Uint8Array, lane: number, part: Range, width: number): void {
    const { first } = this.lanes;
    const count = first[lane + 1] - first[lane];
    const pixel = (part.to - part.from) / width;
    if (count > BUSY) {
      const levels = this.levels(lane, count);
      const finest = (this.whole.to - this.whole.from) / levels[0].length;
      if (finest <= pixel) {
        // The coarsest whose bins are no wider than a pixel.
        const level = Math.min(levels.length - 1, Math.floor(Math.log2(pixel / finest)));
        this.fromBins(to, levels[level], part, width);
        return;
      }
    }
    drawEach(to, this.lanes, lane, this.look, part, width);
  }

  private fromBins(to: Uint8Array, bins: Uint8Array, part: Range, width: number): void {
    const perTime = bins.length / (this.whole.to - this.whole.from);
    const start = (part.from - this.whole.from) * perTime;
    const scale = ((part.to - part.from) * perTime) / width;
    for (let x = 0; x < width; x++) {
      let at = Math.floor(start + x * scale);
      const behind = Math.floor(start + (x + 1) * scale);
      let code = 0;
      do {
        if (at >= 0 && at < bins.length) {
          const bin = bins[at];
          if (bin > DEEP ? code < DEEP : code === 0) code = bin;
        }
      } while (++at < behind);
      to[x] = code;
    }
  }

  private levels(lane: number, count: number): readonly Uint8Array[] {
    const known = this.known.get(lane);
    if (known !== undefined) return known;
    const bins = Math.min(MOST_BINS, 2 ** Math.ceil(Math.log2(count * 2)));
    let level = new Uint8Array(bins);
    drawEach(level, this.lanes, lane, this.look, this.whole, bins);
    const levels = [level];
    while (level.length > 64) {
      const half = new Uint8Array(level.length / 2);
      for (let i = 0; i < half.length; i++) {
        const [a, b] = [level[2 * i], level[2 * i + 1]];
        half[i] = a > DEEP ? a : b > DEEP ? b : a === 0 ? b : a;
      }
      levels.push(half);
      level = half;
    }
    this.known.set(lane, levels);
    return levels;
  }
}

/** The place of the interval of a lane that is there then, the last begun first; -1: none. */
export function placeAt(lanes: Lanes, lane: number, look: Look, time: number, reach: number): number {
  const { first, begin, end, latest, type } = lanes;
  const low = first[lane];
  const behind = low + lowerBound(begin.subarray(low, first[lane + 1]), time + reach);
  for (let i = behind - 1; i >= low && latest[i] >= time - reach; i--)
    if (end[i] + reach >= time && (look.types === null || look.types[type[i]] === 1)) return i;
  return -1;
}
