// `thaw.memory-view/1` as the page embeds it; docs/view-format.md draws it, app/view/src/memory.rs writes it.

import type { PackedTable } from "./events.ts";
import type { CourseCheckpoint, Warning, WatchCheckpoint, WatchHead, WatchPair } from "./generated.ts";
import type { PackedTexts } from "./touched.ts";

export interface PackedMemoryPage {
  readonly schema: string;
  readonly name: string;
  readonly trees: readonly PackedTrees[];
  readonly watches: readonly PackedWatch[];
  readonly pairs: readonly WatchPair[];
  readonly course: PackedCourse | null;
}

/** Versions of a program at the checkpoints of a scenario. */
export interface PackedCourse {
  readonly checkpoints: readonly CourseCheckpoint[];
  /** By checkpoint and version: the number of their trees; `null`: there are none. */
  readonly trees: readonly (readonly (number | null)[])[];
}

export interface PackedTrees {
  readonly name: string;
  readonly difference: boolean;
  /** One text: JSON of the processes. */
  readonly processes: PackedTexts;
  readonly reporters: readonly unknown[];
  readonly warnings: readonly Warning[];
}

export interface PackedWatch {
  readonly name: string;
  readonly head: WatchHead;
  readonly checkpoints: readonly WatchCheckpoint[];
  readonly unseen: number;
  /** Samples of the file. */
  readonly taken: number;
  readonly processes: readonly { readonly pid: number; readonly name: string }[];
  readonly samples: PackedTable;
  readonly residents: PackedTable;
}
