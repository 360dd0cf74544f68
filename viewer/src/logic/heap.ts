// A heap recording as the page holds it, back into arrays. Pure. The writer is app/view/src/heap.rs;
// docs/view-format.md draws the columns.

import type { GrowthReport, SlopReport } from "../types/document.ts";
import type {
  HeapProcessHead,
  PackedHeapPage,
  PackedHeapProcess,
  PackedRecording,
  RecordingHead,
} from "../types/heap.ts";
import { unpackTable } from "./columns.ts";
import { unpackTexts } from "./touched.ts";

export const HEAP_SCHEMA = "thaw.heap-view/1";

/**
 * Which blocks: all that were made, those live at the peak of their process, at the end, at a moment, those freed at
 * once.
 */
export const MODES = ["made", "peak", "end", "temporary", "at"] as const;
export type Mode = (typeof MODES)[number];

/** Functions of objects, by number: the frames that stacks are made of. */
export interface Frames {
  readonly count: number;
  readonly names: readonly string[];
  readonly objects: readonly string[];
  readonly sources: readonly string[];
  /** By frame: number of its object. */
  readonly object: Float64Array;
  /** By frame: number of its source file plus 1; 0: not known. */
  readonly source: Float64Array;
  /** By frame: 1 only hands on what was asked for (`operator new`), 2 has no name. */
  readonly wrapper: Float64Array;
  /** By frame: the frame that it is compared as. */
  readonly same: Float64Array;
}

/** Bytes and blocks by node. */
export interface Amounts {
  readonly bytes: Float64Array;
  readonly blocks: Float64Array;
}

/** Stacks as a tree; node 0 is the root, parents stand before their children. */
export interface Stacks {
  readonly count: number;
  readonly parent: Float64Array;
  /** By node: a frame, or beyond the frames something made up (see `Labels`). */
  readonly frame: Float64Array;
}

export interface Timeline {
  readonly bytes: Float64Array;
  readonly blocks: Float64Array;
  readonly most: Float64Array;
  readonly allocated: Float64Array;
}

/** What came less what went, by node and step. */
export interface Changes {
  readonly node: Float64Array;
  readonly step: Float64Array;
  readonly bytes: Float64Array;
  readonly blocks: Float64Array;
}

export interface HeapProcess {
  readonly head: HeapProcessHead;
  readonly stacks: Stacks;
  /** What each node has itself, without its children; `at` is not here. */
  readonly own: Readonly<Record<Exclude<Mode, "at">, Amounts>>;
  readonly timeline: Timeline;
  readonly changes: Changes;
}

export interface HeapRecording {
  readonly head: RecordingHead;
  readonly slop: SlopReport;
  readonly growth: GrowthReport;
  readonly processes: readonly HeapProcess[];
}

export interface HeapPage {
  readonly measure: Mode;
  readonly frames: Frames;
  readonly recordings: readonly HeapRecording[];
}

export async function unpackHeap(packed: PackedHeapPage): Promise<HeapPage> {
  if (packed.schema !== HEAP_SCHEMA)
    throw new Error(`this page holds ${packed.schema}, the viewer reads ${HEAP_SCHEMA}`);
  const { names, objects, sources, table } = packed.frames;
  const columns = await unpackTable(table, ["object", "source", "wrapper", "same"]);
  const frames: Frames = {
    count: table.count,
    names: await unpackTexts(names),
    objects: await unpackTexts(objects),
    sources: await unpackTexts(sources),
    ...columns,
  };
  if (frames.names.length !== frames.count) throw new Error("the frames of the page have other names");
  const recordings = await Promise.all(packed.recordings.map((recording) => unpackRecording(recording, frames.count)));
  return { measure: packed.measure, frames, recordings };
}

async function unpackRecording(packed: PackedRecording, frames: number): Promise<HeapRecording> {
  const [slop, growth] = await Promise.all(
    [packed.slop, packed.growth].map(async (text) => JSON.parse((await unpackTexts(text))[0]) as unknown),
  );
  return {
    head: packed,
    slop: slop as SlopReport,
    growth: growth as GrowthReport,
    processes: await Promise.all(packed.processes.map((process) => unpackProcess(process, frames))),
  };
}

async function unpackProcess(packed: PackedHeapProcess, frames: number): Promise<HeapProcess> {
  const { count } = packed.stacks;
  const stacks = await unpackTable(packed.stacks, [
    "parent",
    "frame",
    "made_bytes",
    "made_blocks",
    "peak_bytes",
    "peak_blocks",
    "end_bytes",
    "end_blocks",
    "temporary_bytes",
    "temporary_blocks",
  ]);
  for (let node = 1; node < count; node++)
    if (stacks.parent[node] >= node || stacks.frame[node] >= frames)
      throw new Error("the stacks of a process are damaged");
  const changes = await unpackTable(packed.changes, ["node", "step", "bytes", "blocks"]);
  for (const node of changes.node) if (node >= count) throw new Error("the changes of a process are of other stacks");
  return {
    head: packed,
    stacks: { count, parent: stacks.parent, frame: stacks.frame },
    own: {
      made: { bytes: stacks.made_bytes, blocks: stacks.made_blocks },
      peak: { bytes: stacks.peak_bytes, blocks: stacks.peak_blocks },
      end: { bytes: stacks.end_bytes, blocks: stacks.end_blocks },
      temporary: { bytes: stacks.temporary_bytes, blocks: stacks.temporary_blocks },
    },
    timeline: await unpackTable(packed.timeline, ["bytes", "blocks", "most", "allocated"]),
    changes,
  };
}

/** The last step of `changes` that has ended by a time (microseconds since the recording began); -1: none. */
export function stepAt(head: HeapProcessHead, us: number): number {
  if (us >= head.end_us) return head.moments - 1;
  return Math.min(head.moments, Math.floor(((us - head.start_us) * 1000) / head.moment_ns)) - 1;
}

/** What each node holds at a time: at the end of the step before it. */
export function liveAt(process: HeapProcess, us: number): Amounts {
  const { stacks, changes, head } = process;
  const last = stepAt(head, us);
  const bytes = new Float64Array(stacks.count);
  const blocks = new Float64Array(stacks.count);
  for (let i = 0; i < changes.node.length; i++) {
    if (changes.step[i] > last) continue;
    bytes[changes.node[i]] += changes.bytes[i];
    blocks[changes.node[i]] += changes.blocks[i];
  }
  return { bytes, blocks };
}

/** What each node has itself. */
export const ownOf = (process: HeapProcess, mode: Mode, atUs: number): Amounts =>
  mode === "at" ? liveAt(process, atUs) : process.own[mode];

/** A line over time: seconds since the recording began. */
export interface Line {
  readonly seconds: Float64Array;
  readonly bytes: Float64Array;
  readonly most: Float64Array;
  readonly blocks: Float64Array;
}

/** Points of a line of several processes. */
const POINTS = 1000;

/**
 * What was live over time; of several processes together. Before its beginning and after its last event a process has
 * nothing.
 */
export function lineOf(processes: readonly HeapProcess[]): Line {
  if (processes.length === 1) {
    const { head, timeline } = processes[0];
    const count = timeline.bytes.length;
    const seconds = Float64Array.from({ length: count }, (_, i) =>
      Math.min((head.start_us + ((i + 1) * head.step_ns) / 1000) / 1e6, Math.max(head.end_us, head.start_us) / 1e6),
    );
    return { seconds: ascending(seconds), bytes: timeline.bytes, most: timeline.most, blocks: timeline.blocks };
  }
  const end = Math.max(1, ...processes.map(({ head }) => head.end_us));
  const seconds = Float64Array.from({ length: POINTS }, (_, i) => ((i + 1) / POINTS) * (end / 1e6));
  const [bytes, most, blocks] = [new Float64Array(POINTS), new Float64Array(POINTS), new Float64Array(POINTS)];
  for (const { head, timeline } of processes) {
    const count = timeline.bytes.length;
    const index = (us: number) => Math.floor(((us - head.start_us) * 1000) / head.step_ns);
    for (let i = 0; i < POINTS; i++) {
      const [from, to] = [(i * end) / POINTS, ((i + 1) * end) / POINTS];
      if (count === 0 || to < head.start_us || from > head.end_us) continue;
      const [a, b] = [Math.max(0, Math.min(count - 1, index(from))), Math.max(0, Math.min(count - 1, index(to)))];
      let high = 0;
      for (let k = a; k <= b; k++) if (timeline.most[k] > high) high = timeline.most[k];
      most[i] += high;
      if (to > head.end_us && to < end) continue;
      bytes[i] += timeline.bytes[b];
      blocks[i] += timeline.blocks[b];
    }
  }
  return { seconds, bytes, most, blocks };
}

/** uPlot wants each x beyond the one before. */
function ascending(seconds: Float64Array): Float64Array {
  for (let i = 1; i < seconds.length; i++) if (seconds[i] <= seconds[i - 1]) seconds[i] = seconds[i - 1] + 1e-9;
  return seconds;
}
