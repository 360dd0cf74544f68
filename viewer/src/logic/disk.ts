// What the disk view draws: which requests of which device, in which colours. Pure.

import { gather } from "./columns.ts";
import { CAUSES, counts, type Requests, tableSize } from "./events.ts";
import { axisPlaces, type Fold, foldOf } from "./fold.ts";
import { type Marks, marksOf, type Shown, spans } from "./marks.ts";
import { byPlace } from "./seeks.ts";
import { padded, type Viewport } from "./view.ts";

/** By what the disk's picture is coloured. */
export type ColourBy = "file" | "process" | "cause";

/**
 * Which requests of a device are shown beside what the filter says: reads of the program, its writes, those of others.
 */
export function kindMask(requests: Requests, device: number, show: ReadonlySet<string>): Uint8Array {
  const [reads, writes, others] = ["reads", "writes", "others"].map((name) => (show.has(name) ? 1 : 0));
  const mask = new Uint8Array(requests.count);
  for (let i = 0; i < requests.count; i++) {
    if (requests.device[i] !== device) continue;
    mask[i] = requests.process[i] === 0 ? others : requests.write[i] === 1 ? writes : reads;
  }
  return mask;
}

/** Bytes and requests per category: files (line + 1), processes (line + 1) or causes. */
export interface Weight {
  readonly category: number;
  readonly bytes: number;
  readonly requests: number;
}

/** The categories of the shown requests, the most bytes first. */
export function weights(requests: Requests, shown: Shown, by: ColourBy): Weight[] {
  const key = requests[by];
  const { len } = requests;
  const size = tableSize(key);
  const [bytes, number] = [new Float64Array(size), new Float64Array(size)];
  for (let i = 0; i < key.length; i++) {
    if (shown !== null && shown[i] === 0) continue;
    bytes[key[i]] += len[i];
    number[key[i]]++;
  }
  const all: Weight[] = [];
  for (let category = 0; category < size; category++) {
    if (number[category] > 0) all.push({ category, bytes: bytes[category], requests: number[category] });
  }
  return all.sort((a, b) => b.bytes - a.bytes || a.category - b.category);
}

/** The reads of the program, on all disks: what the report's sums are made of. */
export function ownReads(requests: Requests): Uint8Array {
  const mask = new Uint8Array(requests.count);
  for (let i = 0; i < mask.length; i++) mask[i] = counts(requests, i) ? 1 : 0;
  return mask;
}

/** The devices of which there is a request. */
export function usedDevices(requests: Requests, devices: readonly string[]): string[] {
  const used = new Uint8Array(devices.length);
  for (let i = 0; i < requests.count; i++) used[requests.device[i]] = 1;
  return devices.filter((_, number) => used[number] === 1);
}

/** Number of the device with the most bytes read by the program; 0 if there is none. */
export function busiestDevice(requests: Requests, devices: number): number {
  const sums = new Float64Array(Math.max(1, devices));
  for (let i = 0; i < requests.count; i++) if (counts(requests, i)) sums[requests.device[i]] += requests.len[i];
  return sums.indexOf(Math.max(...sums));
}

/** The requests of one device as marks, against time and by place, and the axis that they stand on. */
export interface DiskPicture {
  readonly fold: Fold;
  readonly whole: Viewport;
  readonly marks: Marks;
  readonly sorted: ByPlace;
}

/** Requests in the order of their place, with what the sorted picture needs of them side by side. */
export interface ByPlace {
  readonly order: Uint32Array;
  readonly disk: Float64Array;
  readonly len: Float64Array;
  /** As in `Marks`: where they stand, and how high and wide they are: as many bytes. */
  readonly y: Float64Array;
  readonly high: Float32Array;
}

/** The picture of a device. A million requests take it a tenth of a second. */
export function diskPicture(requests: Requests, device: number, toScale: boolean): DiskPicture {
  const order = byPlace(requests, device);
  const [disk, len] = [gather(requests.disk, order), gather(requests.len, order)];
  const fold = foldOf(disk, len, toScale);
  const places = axisPlaces(fold, disk);
  const y = new Float64Array(requests.count);
  let end = 1;
  for (let k = 0; k < order.length; k++) {
    y[order[k]] = places[k];
    end = Math.max(end, requests.end[order[k]]);
  }
  return {
    fold,
    whole: {
      x: { from: -end * 0.01, to: end * 1.01 },
      y: padded({ from: fold.axis[0], to: fold.axis[fold.axis.length - 1] }, 0.02),
    },
    marks: marksOf(requests.start, y, spans(requests.start, requests.end), Float32Array.from(requests.len)),
    sorted: { order, disk, len, y: places, high: Float32Array.from(len) },
  };
}

export const causeName = (category: number): string => CAUSES[category] ?? "unknown";
