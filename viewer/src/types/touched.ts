// `thaw.touched/1` as the page embeds it; docs/view-format.md draws it, app/view/src/touched.rs writes it.

import type { PackedTable } from "./events.ts";
import type { TouchReport } from "./generated.ts";

/** Texts joined by NUL, deflate-raw, base64. */
export interface PackedTexts {
  readonly count: number;
  readonly data: string;
}

export interface PackedTouchedProgram {
  readonly variant: string;
  readonly report: TouchReport;
  readonly names: PackedTexts;
  readonly read: PackedTable;
  /** By the name of the engine. */
  readonly touched: Readonly<Record<string, PackedTable>>;
  readonly functions: PackedTable;
}

export interface PackedTouched {
  readonly schema: string;
  readonly programs: readonly PackedTouchedProgram[];
}
