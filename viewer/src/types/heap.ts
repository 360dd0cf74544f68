// `thaw.heap-view/1` as the page embeds it; docs/view-format.md draws it, app/view/src/heap.rs writes it.

import type { PackedTable } from "./events.ts";
import type { Figures, Window as TimeWindow, Warning } from "./generated.ts";
import type { PackedTexts } from "./touched.ts";

export interface PackedHeapPage {
  readonly schema: string;
  readonly measure: "made" | "end" | "peak" | "temporary";
  readonly frames: {
    readonly names: PackedTexts;
    readonly objects: PackedTexts;
    readonly sources: PackedTexts;
    readonly table: PackedTable;
  };
  readonly recordings: readonly PackedRecording[];
}

/** What is not packed of a recording. */
export interface RecordingHead {
  readonly name: string;
  readonly command: readonly string[];
  readonly thaw_version: string;
  readonly created_unix_ns: number;
  readonly finished: boolean;
  readonly code: number | null;
  readonly signal: number | null;
  readonly nothing: string | null;
  readonly window: TimeWindow;
  readonly part: "all" | "filtered";
  readonly pruned: { readonly nodes: number; readonly kept: number; readonly share: number };
  readonly warnings: readonly Warning[];
}

export interface PackedRecording extends RecordingHead {
  /** JSON of a SlopReport, and of a GrowthReport: one text each. */
  readonly slop: PackedTexts;
  readonly growth: PackedTexts;
  readonly processes: readonly PackedHeapProcess[];
}

export interface HeapProcessHead {
  readonly pid: number;
  readonly ppid: number;
  readonly exe: string;
  readonly command: readonly string[];
  readonly tiers: readonly string[];
  readonly lost: number;
  readonly doubt: string;
  readonly start_us: number;
  readonly end_us: number;
  readonly peak_us: number;
  readonly peak_bytes: number;
  readonly peak_blocks: number;
  readonly figures: Figures;
  readonly step_ns: number;
  readonly moment_ns: number;
  readonly moments: number;
}

export interface PackedHeapProcess extends HeapProcessHead {
  readonly timeline: PackedTable;
  readonly stacks: PackedTable;
  readonly changes: PackedTable;
}
