// What a page of starts was made of, for all its views.

import { signal } from "@preact/signals";
import type { Comparison, ReportDocument } from "../../types/document.ts";

/** The report, and another one that it is compared with. */
export interface Reported {
  readonly document: ReportDocument;
  readonly comparison: Comparison | null;
}
/** `null` until it was read, and on pages of another kind. */
export const page = signal<Reported | null>(null);
