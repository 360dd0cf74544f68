// `thaw.why-view/1` as the page embeds it; docs/view-format.md draws it, app/view/src/why.rs writes it. Reports inside
// it are those of measure/cpu/src/report.rs.

import type { CacheState, Warning } from "./document.ts";
import type { PackedTable } from "./events.ts";
import type { PackedTexts } from "./touched.ts";

/** What is done in a piece: `user`, `kernel`, `runs`, `lacks_cpu`, `unknown`, or `{ waits: "disk_read" }`. */
export type Seen = string | { readonly waits: string };

export type Confidence = "measured" | "sampled" | "inferred" | "unknown";

/** Whose time it is, over all starts. */
export interface SharedOwner {
  readonly what: Readonly<Record<string, unknown>>;
  readonly thread: string;
  readonly ns: number;
  readonly share: number;
  readonly low_ns: number | null;
  readonly high_ns: number | null;
  readonly starts: number;
  readonly samples: number;
  readonly confidence: Confidence;
  readonly text: string;
}

export interface ThreadName {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
}

/** A thread's lane, without its pieces. */
export interface LaneHead {
  readonly thread: ThreadName;
  readonly of_tree: boolean;
  readonly made_by: number | null;
  readonly is_merged: boolean;
  readonly ran_ns: number;
  readonly lacked_cpu_ns: number;
  readonly waited_ns: number;
  readonly unknown_ns: number;
  readonly path_ns: number;
}

/** Threads that waited for each other on the path. */
export interface LinkRow {
  readonly kind: string;
  readonly woken: ThreadName;
  readonly waker: ThreadName;
  readonly count: number;
  readonly ns: number;
  readonly text: string;
}

/** What a thread ran beside the path. */
export interface OffPath {
  readonly thread: ThreadName;
  readonly ran_ns: number;
  readonly samples: number;
  readonly competes_ns: number;
  readonly confidence: Confidence;
}

export interface WhyReport {
  readonly ready_ns: number;
  readonly explained_share: number;
  readonly objects: readonly {
    readonly object: string;
    readonly ns: number;
    readonly share: number;
    readonly samples: number;
  }[];
  readonly links: readonly LinkRow[];
  readonly threads: readonly LaneHead[];
  readonly off_path: readonly OffPath[];
  readonly competes_ns: number;
  readonly unexplained: readonly { readonly why: string; readonly ns: number; readonly pieces: number }[];
  readonly cannot: readonly string[];
  readonly lost: number;
}

/** What is not packed of a start. */
export interface StartHead {
  readonly variant_name: string;
  readonly state: CacheState;
  readonly runs: readonly number[];
  readonly ready_ns: number;
  readonly explained_share: number;
  readonly owners: readonly SharedOwner[];
  /** By owner of the drawn run: its number among `owners`. */
  readonly shared: readonly (number | null)[];
  readonly run: number;
  readonly report: WhyReport;
  readonly milestones: readonly { readonly name: string; readonly at_ns: number }[];
  readonly seen: readonly { readonly seen: Seen; readonly text: string }[];
}

export interface PackedStart extends StartHead {
  readonly pieces: PackedTable;
  readonly path: PackedTable;
  readonly flames: {
    readonly names: PackedTexts;
    readonly objects: PackedTexts;
    readonly sources: PackedTexts;
    readonly frames: PackedTable;
    readonly threads: readonly string[];
    readonly nodes: PackedTable;
  };
}

export interface PackedWhy {
  readonly schema: string;
  readonly file: string;
  readonly starts: readonly PackedStart[];
  readonly warnings: readonly Warning[];
}
