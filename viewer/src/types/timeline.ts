// `thaw.timeline-view/1` as the page embeds it; docs/view-format.md draws it, app/view/src/timeline.rs writes it.

import type { PackedTable } from "./events.ts";
import type { PackedTexts } from "./touched.ts";

/** What is not packed of it. */
export interface TimelineHead {
  readonly name: string;
  /** The form that it was read from. */
  readonly form: string;
  readonly is_calibrated: boolean;
  readonly realtime_ns: number;
  readonly step_ns: number;
  readonly events: number;
  readonly lost: {
    readonly events: number;
    readonly overwritten: number;
    readonly types: number;
    readonly texts_cut: number;
  };
  readonly damage: readonly string[];
  readonly processes: readonly { readonly pid: number; readonly program: string; readonly filter: string }[];
  readonly threads: readonly { readonly tid: number; readonly name: string; readonly process: number }[];
}

export interface PackedTimeline extends TimelineHead {
  readonly schema: string;
  readonly end: number;
  readonly types: { readonly names: PackedTexts; readonly files: PackedTexts; readonly places: PackedTable };
  readonly texts: PackedTexts;
  readonly objects: PackedTable;
  readonly intervals: PackedTable;
  readonly moments: PackedTable;
  readonly path: PackedPath | null;
}

export interface PackedPath {
  readonly classes: readonly PathClass[];
  readonly why: PackedTexts;
  readonly steps: PackedTable;
}

/** How the owner of a piece of a path is known. */
export type PathClass = "work" | "linked" | "resource" | "queue" | "kernel" | "heuristic" | "unexplained";
