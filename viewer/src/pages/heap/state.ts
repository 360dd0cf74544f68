// What a page of a heap recording shows just now.

import { computed, signal } from "@preact/signals";
import { typed } from "../../filter.ts";
import {
  byChange,
  compared,
  downTree,
  filtered,
  joined,
  type Labels,
  type Loaded,
  loaded,
  matchesOf,
  type Shape,
  type Tree,
  treeOf,
} from "../../logic/calltree.ts";
import { termsAbout } from "../../logic/filter.ts";
import { type Flame, flameOf } from "../../logic/flame.ts";
import { seconds, splitPath } from "../../logic/format.ts";
import {
  type HeapPage,
  type HeapProcess,
  type HeapRecording,
  liveAt,
  MODES,
  type Mode,
  ownOf,
  unpackHeap,
} from "../../logic/heap.ts";
import { kept, keptRange } from "../../state.ts";
import type { PackedHeapPage } from "../../types/heap.ts";

/** `null`: not unpacked yet. */
export const heapPage = signal<HeapPage | null>(null);
export const heapDamaged = signal<string | null>(null);

export const heapRecording = kept("rec", "0", ["0", "1"]);
/** A process's line, or `all`; empty: the one that allocated most. */
export const heapProcess = kept("proc", "");
/** Empty: what the page was made for. */
export const heapMode = kept("mode", "", ["", ...MODES]);
/** Microseconds since the recording began. */
export const heapAt = kept("at", "");
/** Two moments that are compared, microseconds; empty: half of the time, and the end. */
export const heapFrom = kept("from", "");
export const heapTo = kept("to", "");
export const heapShape = kept("hshape", "down", ["down", "up", "module"]);
export const heapSort = kept("hsort", "-bytes");
export const heapOpening = kept("hopen", "0.05", ["2", "0.2", "0.05", "0.01"]);
export const flameSide = kept("side", "icicle", ["icicle", "flame"]);
export const flameRange = keptRange("fz");
export const changeShape = kept("cshape", "up", ["down", "up", "module"]);

export function followHeap(packed: PackedHeapPage): void {
  unpackHeap(packed).then(
    (unpackedPage) => (heapPage.value = unpackedPage),
    (error: unknown) => (heapDamaged.value = String(error)),
  );
}

export const recording = computed<HeapRecording | null>(
  () => heapPage.value?.recordings[Number(heapRecording.value)] ?? heapPage.value?.recordings[0] ?? null,
);

/** The line of the process that allocated most. */
export const busiest = computed(() => {
  const processes = recording.value?.processes ?? [];
  let most = 0;
  processes.forEach(({ head }, line) => {
    if (head.figures.made.bytes > processes[most].head.figures.made.bytes) most = line;
  });
  return most;
});

/** The line of the process in sight; `null`: all of them. */
export const processLine = computed<number | null>(() => {
  if (heapProcess.value === "all") return null;
  const line = heapProcess.value === "" ? busiest.value : Number(heapProcess.value);
  return recording.value?.processes[line] === undefined ? busiest.value : line;
});

export const processesInSight = computed<readonly HeapProcess[]>(() => {
  const processes = recording.value?.processes ?? [];
  return processLine.value === null ? processes : processes.slice(processLine.value, processLine.value + 1);
});

export const mode = computed<Mode>(() =>
  heapMode.value === "" ? (heapPage.value?.measure ?? "peak") : (heapMode.value as Mode),
);
/** The moment of the mode `at`: if nobody chose one, the last. */
export const atUs = computed(() => {
  const number = Number(heapAt.value);
  return heapAt.value !== "" && Number.isFinite(number)
    ? number
    : Math.max(0, ...processesInSight.value.map(({ head }) => head.end_us));
});

export const modeName = (of: Mode): string =>
  ({
    made: "all made",
    peak: "live at peak",
    end: "live at end",
    temporary: "temporary",
    at: `live at ${seconds(atUs.value / 1e6)}`,
  })[of];

export const processName = (process: HeapProcess): string => `${splitPath(process.head.exe)[1]} ${process.head.pid}`;

export const labels = computed<Labels>(() => ({
  frames: heapPage.value!.frames,
  processes: (recording.value?.processes ?? []).map(processName),
}));

/** Words about functions and objects. */
export const heapTerms = computed(() => termsAbout(typed.value, ["function", "file"]));
export const matches = computed(() => matchesOf(labels.value, heapTerms.value));

/** Whether no stack of any process passes the filter. */
export const heapMatchesNothing = (): boolean =>
  recording.value !== null &&
  heapTerms.value.length > 0 &&
  processesInSight.value.length > 0 &&
  tree.value.total[1][0] === 0;

const inSight = computed<Loaded>(() => {
  const processes = processesInSight.value;
  const parts = processes.map((process) =>
    loaded(process.stacks, ownOf(process, mode.value, mode.value === "at" ? atUs.value : 0)),
  );
  return processLine.value !== null ? parts[0] : joined(parts, labels.value.frames);
});

/** All of what is in sight, whatever is filtered. */
export const allBytes = computed(() => inSight.value.own[0].reduce((sum, value) => sum + value, 0));

export const tree = computed<Tree>(() =>
  treeOf(filtered(inSight.value, labels.value, heapTerms.value), labels.value, heapShape.value as Shape),
);

/** The flame graph has all stacks: what matches is told apart by colour. */
const flameTree = computed<Tree>(() =>
  heapTerms.value.length === 0 ? tree.value : treeOf(inSight.value, labels.value, heapShape.value as Shape),
);
export const flame = computed<{ readonly tree: Tree; readonly flame: Flame }>(() => ({
  tree: flameTree.value,
  flame: flameOf(flameTree.value),
}));

/** Objects by what they allocate themselves in all modes together, the largest first: for colours that stay. */
export const objectRanks = computed<readonly number[]>(() => {
  const { frames } = labels.value;
  const sums = new Float64Array(frames.objects.length);
  for (const process of processesInSight.value) {
    const { stacks } = process;
    const down = downTree(loaded(stacks, process.own.made));
    const all = down.total[0][0] || 1;
    // By boxes, not by leaves: a colour is for what is seen.
    for (let node = 1; node < stacks.count; node++)
      sums[frames.object[stacks.frame[node]]] += down.total[0][node] / all;
  }
  return [...sums.keys()]
    .filter((object) => sums[object] > 0 && frames.objects[object] !== "")
    .sort((a, b) => sums[b] - sums[a]);
});

// ---- two recordings, or two moments of one ----

const lastUs = computed(() => Math.max(0, ...processesInSight.value.map(({ head }) => head.end_us)));
const firstUs = computed(() => Math.min(lastUs.value, ...processesInSight.value.map(({ head }) => head.start_us)));
const within = (text: string, otherwise: number): number => {
  const number = Number(text);
  return text !== "" && Number.isFinite(number) ? Math.min(lastUs.value, Math.max(firstUs.value, number)) : otherwise;
};
export const fromUs = computed(() => within(heapFrom.value, (firstUs.value + lastUs.value) / 2));
export const toUs = computed(() => within(heapTo.value, lastUs.value));
/** Chooses both; the earlier one first. */
export function compareMoments(oneUs: number, otherUs: number): void {
  heapFrom.value = String(Math.round(Math.min(oneUs, otherUs)));
  heapTo.value = String(Math.round(Math.max(oneUs, otherUs)));
}

const changed = computed<Loaded | null>(() => {
  const page = heapPage.value;
  if (page === null) return null;
  if (page.recordings.length < 2) {
    const at = (us: number) => processesInSight.value.map((process) => loaded(process.stacks, liveAt(process, us)));
    return compared(at(fromUs.value), at(toUs.value), page.frames);
  }
  // A moment of one recording is none of the other.
  const of = mode.value === "at" ? "end" : mode.value;
  const [after, before] = page.recordings.map(({ processes }) =>
    processes.map((process) => loaded(process.stacks, process.own[of])),
  );
  return compared(before, after, page.frames);
});
export const changeTree = computed<Tree | null>(() =>
  changed.value === null
    ? null
    : treeOf(
        filtered(changed.value, labels.value, heapTerms.value),
        labels.value,
        changeShape.value as Shape,
        byChange,
      ),
);
