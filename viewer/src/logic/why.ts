// Where the time of starts went, as the page holds it, back into arrays. Pure. The writer is app/view/src/why.rs.

import type { PackedStart, PackedWhy, Seen, StartHead } from "../types/why.ts";
import type { Labels } from "./calltree.ts";
import { unpackTable } from "./columns.ts";
import type { Frames, Stacks } from "./heap.ts";
import { unpackTexts } from "./touched.ts";

export const WHY_SCHEMA = "thaw.why-view/1";

/** What colours stand for: kinds of doing that one looks for together. */
export const CLASSES = [
  "user",
  "kernel",
  "runs",
  "cpu",
  "disk",
  "lock",
  "pipe",
  "child",
  "sleep",
  "other",
  "unknown",
] as const;
export type Class = (typeof CLASSES)[number];

/** For people. */
export const CLASS_NAMES: Readonly<Record<Class, string>> = {
  user: "runs the program",
  kernel: "runs in the kernel",
  runs: "runs, no sample says where",
  cpu: "lacks a CPU",
  disk: "waits for the disk",
  lock: "waits for a lock",
  pipe: "waits for a pipe or socket",
  child: "waits for a process",
  sleep: "sleeps",
  other: "waits for something else",
  unknown: "not known",
};

const OF_KINDS: Readonly<Record<string, Class>> = {
  disk_read: "disk",
  page_fault: "disk",
  disk_write: "disk",
  fsync: "disk",
  file_server: "disk",
  lock: "lock",
  kernel_lock: "lock",
  file_lock: "lock",
  pipe: "pipe",
  unix_socket: "pipe",
  network: "pipe",
  poll: "pipe",
  child: "child",
  vfork: "child",
  sleep: "sleep",
  unknown: "unknown",
};

/** A kind that a later thaw knows is something else. */
export function classOf(seen: Seen): Class {
  if (typeof seen !== "string") return OF_KINDS[seen.waits] ?? "other";
  if (seen === "lacks_cpu") return "cpu";
  return CLASSES.find((name) => name === seen) ?? "unknown";
}

const OF_OWNERS: Readonly<Record<string, Class>> = {
  user: "user",
  kernel: "kernel",
  runs: "runs",
  cpu: "cpu",
  cpu_of_others: "cpu",
  unexplained: "unknown",
};

/** What an owner does; what a later thaw knows is something else. */
export function classOfOwner(what: Readonly<Record<string, unknown>>): Class {
  const { does, kind } = what;
  if (does === "waits" && typeof kind === "string") return classOf({ waits: kind });
  return typeof does === "string" ? (OF_OWNERS[does] ?? "other") : "other";
}

/** Pieces of all lanes, lane by lane, or of the path. */
export interface Pieces {
  readonly count: number;
  readonly from: Float64Array;
  readonly to: Float64Array;
  /** Numbers of the start's `seen`. */
  readonly seen: Uint8Array;
  /** Node of the stacks; 0: none. */
  readonly node: Float64Array;
  /** Number of the lane; -1: none. */
  readonly lane: Int32Array;
}

export interface Path extends Pieces {
  /** Number of the table's owner; -1: none. */
  readonly owner: Int32Array;
  /** What the thread behind it waited for: a number of `seen`; -1: no hand-over. */
  readonly link: Int32Array;
}

/** Times by stacks. */
export interface StackTimes {
  readonly stacks: Stacks;
  readonly labels: Labels;
  readonly own: Readonly<Record<Measure, Float64Array>>;
}

/** Which times a flame graph shows. */
export const MEASURES = ["path_ran", "ran", "path_waited", "waited"] as const;
export type Measure = (typeof MEASURES)[number];

export interface WhyStart {
  readonly head: StartHead;
  /** By number of `seen`. */
  readonly classes: readonly Class[];
  readonly pieces: Pieces;
  /** Pieces of a lane: `first[lane] … first[lane + 1] - 1`. */
  readonly first: Uint32Array;
  readonly path: Path;
  readonly times: StackTimes;
}

export interface WhyPage {
  readonly file: string;
  readonly starts: readonly WhyStart[];
  readonly warnings: PackedWhy["warnings"];
}

export async function unpackWhy(packed: PackedWhy): Promise<WhyPage> {
  if (packed.schema !== WHY_SCHEMA) throw new Error(`this page holds ${packed.schema}, the viewer reads ${WHY_SCHEMA}`);
  const starts = await Promise.all(packed.starts.map(unpackStart));
  return { file: packed.file, starts, warnings: packed.warnings };
}

/** One less: what was 0 becomes -1. */
const lessOne = (values: Float64Array): Int32Array => Int32Array.from(values, (value) => value - 1);

async function unpackStart(packed: PackedStart): Promise<WhyStart> {
  const { pieces: packedPieces, path: packedPath, flames, ...head } = packed;
  const pieces = await unpackTable(packedPieces, ["lane", "from", "took", "seen", "node"]);
  const path = await unpackTable(packedPath, ["lane", "from", "took", "seen", "node", "owner", "link"]);
  const ends = (from: Float64Array, took: Float64Array) => from.map((at, i) => at + took[i]);
  const lanes = head.report.threads.length;
  const first = new Uint32Array(lanes + 1);
  for (const lane of pieces.lane) {
    if (lane >= lanes) throw new Error("the page has pieces of a thread that it does not name");
    first[lane + 1]++;
  }
  for (let lane = 0; lane < lanes; lane++) first[lane + 1] += first[lane];
  return {
    head,
    classes: head.seen.map(({ seen }) => classOf(seen)),
    pieces: {
      count: packedPieces.count,
      from: pieces.from,
      to: ends(pieces.from, pieces.took),
      seen: Uint8Array.from(pieces.seen),
      node: pieces.node,
      lane: Int32Array.from(pieces.lane),
    },
    first,
    path: {
      count: packedPath.count,
      from: path.from,
      to: ends(path.from, path.took),
      seen: Uint8Array.from(path.seen),
      node: path.node,
      lane: lessOne(path.lane),
      owner: lessOne(path.owner).map((owner) => (owner < 0 ? -1 : (head.shared[owner] ?? -1))),
      link: lessOne(path.link),
    },
    times: await unpackTimes(flames),
  };
}

async function unpackTimes(packed: PackedStart["flames"]): Promise<StackTimes> {
  const [names, files, sources] = await Promise.all([packed.names, packed.objects, packed.sources].map(unpackTexts));
  const objects = files.map((file) => (file === "" ? "(code made at run time)" : file));
  const { object, source } = await unpackTable(packed.frames, ["object", "source"]);
  const count = packed.frames.count;
  if (names.length !== count) throw new Error("the frames of the page have other names");
  const same = Float64Array.from({ length: count }, (_, i) => i);
  const frames: Frames = { count, names, objects, sources, object, source, wrapper: new Float64Array(count), same };
  const nodes = await unpackTable(packed.nodes, ["caller", "what", ...MEASURES]);
  // Node 0 is the root, below which the threads stand.
  const behindRoot = (values: Float64Array) => {
    const all = new Float64Array(values.length + 1);
    all.set(values, 1);
    return all;
  };
  const label = (what: number) => (what < count ? what : what + objects.length);
  return {
    stacks: {
      count: packed.nodes.count + 1,
      parent: behindRoot(nodes.caller),
      frame: behindRoot(nodes.what.map(label)),
    },
    labels: { frames, processes: packed.threads },
    own: {
      path_ran: behindRoot(nodes.path_ran),
      ran: behindRoot(nodes.ran),
      path_waited: behindRoot(nodes.path_waited),
      waited: behindRoot(nodes.waited),
    },
  };
}

/** The labels of a stack, innermost first; the thread is left out. */
export function stackOf({ stacks, labels }: StackTimes, node: number): number[] {
  const found: number[] = [];
  for (let at = node; at > 0 && at < stacks.count; at = stacks.parent[at])
    if (stacks.frame[at] < labels.frames.count) found.push(stacks.frame[at]);
  return found;
}
