// The way of the disk's head: as the program read, and if it had read in the order of the disk. Pure.

import { gather, sortedBy } from "./columns.ts";
import type { Requests } from "./events.ts";

/** What reading some requests in some order costs in movement. */
export interface Travel {
  readonly requests: number;
  readonly bytes: number;
  /** Requests that did not begin where the one before ended. */
  readonly seeks: number;
  /** Sum of the distances. */
  readonly distance: number;
}

/**
 * Numbers of the requests of `device`, in the order of their place on disk; what lies at one place stays in time's
 * order.
 */
export function byPlace(requests: Requests, device: number): Uint32Array {
  const { count, disk } = requests;
  const own = new Uint32Array(count);
  let number = 0;
  let low = Infinity;
  for (let i = 0; i < count; i++) {
    if (requests.device[i] !== device) continue;
    own[number++] = i;
    if (disk[i] < low) low = disk[i];
  }
  const numbers = own.subarray(0, number);
  const keys = gather(disk, numbers);
  for (let k = 0; k < number; k++) keys[k] = Math.floor((keys[k] - low) / SECTOR);
  return sortedBy(numbers, keys);
}
/** Finer no disk is addressed. */
const SECTOR = 512;

/** Head movement over the shown requests of a device as they came. */
export function travelAsRead(requests: Requests, device: number, shown: Uint8Array): Travel {
  const { disk, len } = requests;
  let [number, bytes, seeks, distance, head] = [0, 0, 0, 0, -1];
  for (let i = 0; i < requests.count; i++) {
    if (shown[i] === 0 || requests.device[i] !== device) continue;
    if (head >= 0 && head !== disk[i]) {
      seeks++;
      distance += Math.abs(disk[i] - head);
    }
    head = disk[i] + len[i];
    bytes += len[i];
    number++;
  }
  return { requests: number, bytes, seeks, distance };
}

/**
 * Head movement over ranges sorted by place. What is read twice lies behind the head already: only ways forward count.
 */
export function travelInOrder(disk: Float64Array, len: Float64Array, shown: Uint8Array): Travel {
  let [number, bytes, seeks, distance, head] = [0, 0, 0, 0, -1];
  for (let k = 0; k < disk.length; k++) {
    if (shown[k] === 0) continue;
    const gap = disk[k] - head;
    if (head >= 0 && gap > 0) {
      seeks++;
      distance += gap;
    }
    head = Math.max(head, disk[k] + len[k]);
    bytes += len[k];
    number++;
  }
  return { requests: number, bytes, seeks, distance };
}

/** The shown ones of some ranges, and bytes read before each of them and in all, counting only those. */
export interface SoFar {
  readonly shown: Uint8Array;
  readonly x: Float64Array;
  readonly bytes: number;
}

/** Ranges in an order of their numbers, `len` in that order, too; `shown` by number. */
export function bytesSoFar(len: Float64Array, order: Uint32Array, shown: Uint8Array): SoFar {
  const x = new Float64Array(len.length);
  const inOrder = new Uint8Array(len.length);
  let bytes = 0;
  for (let k = 0; k < len.length; k++) {
    x[k] = bytes;
    const is = shown[order[k]];
    inOrder[k] = is;
    // A product, not a branch: which ones are shown nobody foresees, not even the processor.
    bytes += is * len[k];
  }
  return { shown: inOrder, x, bytes };
}
