// What all views of a trace have.

import type { JSX } from "preact";
import { harmless } from "../../logic/format.ts";
import { page } from "../shared/document.ts";
import { noEvents, traceDocument, traceNumber } from "./state.ts";

/** Which trace is in sight, where there are several. */
export function TraceChoice(): JSX.Element | null {
  const traces = page.value?.document.traces ?? [];
  if (traces.length < 2) return null;
  return (
    <label class="choice">
      <span class="what">trace</span>
      <select value={traceNumber.value} onChange={(event) => (traceNumber.value = event.currentTarget.value)}>
        {traces.map((trace, index) => (
          <option key={trace.run} value={String(index)}>
            {harmless(trace.variant)}, {trace.state}, run {trace.run}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What a trace calls the useful part of what came in: known by page where one start was made without read-ahead. */
export function usefulWords(): {
  readonly head: string;
  readonly is: string;
  readonly not: string;
  readonly title: string;
} {
  return traceDocument.value?.report.totals.needed == null
    ? {
        head: "Asked for",
        is: "asked for",
        not: "not asked for",
        title: "By reads and faults, in whole pages, at least",
      }
    : {
        head: "Needed",
        is: "needed",
        not: "not needed",
        title:
          "By page, from a traced start without read-ahead; asked for by reads and faults where that does not tell, " +
          "or where a filter leaves events out",
      };
}

/** Said where the events are not (yet) there. */
export function Waiting(): JSX.Element {
  const reason = noEvents.value;
  return <p class="none">{reason ?? "Unpacking the events of the trace …"}</p>;
}

/** Where the figures of a trace come from, in one line. */
export function TraceLine(): JSX.Element | null {
  const trace = traceDocument.value;
  if (trace === null) return null;
  return (
    <p class="note">
      Traced start: run {trace.run} of {harmless(trace.variant)}, {trace.state}, with{" "}
      {harmless(trace.report.info.engine)}
      {trace.report.info.lost > 0 ? `, ${trace.report.info.lost} records lost` : ""}. Its times are not comparable with
      the timed runs.
    </p>
  );
}
