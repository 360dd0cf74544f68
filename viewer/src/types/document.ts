// `thaw.report/1` as the page embeds it. The reports inside it are generated from the Rust types (generated.ts); what
// app/cli/src/document.rs puts around them is written here by hand, and test/e2e holds it against real documents.

import type { CacheState, DiskReport, IoReport, Statistics, Warning } from "./generated.ts";

export type * from "./generated.ts";

export interface ReportDocument {
  readonly schema: string;
  readonly recording: Source;
  readonly asked: Readonly<Record<string, unknown>>;
  readonly variants: readonly Variant[];
  readonly answer: readonly string[];
  readonly statistics: Statistics;
  readonly traces: readonly TraceDocument[];
  readonly facts: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly binaries: readonly Binary[];
  readonly warnings: readonly Warning[];
}

export interface Source {
  readonly file: string;
  readonly finished: boolean;
  readonly created_unix_ns: number;
  readonly thaw_version: string;
  readonly command_line: readonly string[];
  readonly cwd: string;
  readonly seed: number;
}

export interface Variant {
  readonly name: string;
  readonly argv: readonly string[];
}

export interface Binary {
  readonly path: string;
  readonly size: number;
  readonly build_id: string | null;
}

export interface TraceDocument {
  readonly run: number;
  readonly variant: string;
  readonly state: CacheState;
  readonly wall_s: number | null;
  readonly traced_runs: number;
  readonly report: IoReport;
  /** Missing in what older versions wrote. */
  readonly disks?: DiskReport | null;
}
