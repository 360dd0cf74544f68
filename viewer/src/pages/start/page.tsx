// The page of starts of a program: their times, the trace of one, and what starts touch.

import { VIEWS } from "../../logic/address.ts";
import { FIELDS } from "../../logic/filter.ts";
import { view } from "../../state.ts";
import type { Comparison, ReportDocument } from "../../types/document.ts";
import { embedded, type Page, viewsOf } from "../page.ts";
import { page, type Reported } from "../shared/document.ts";
import { followTouched } from "../touch/state.ts";
import { TOUCH_VIEWS } from "../touch/views.ts";
import { followTrace, startUnpacking, traceMatchesNothing } from "../trace/state.ts";
import { TRACE_VIEWS } from "../trace/views.ts";
import { AnswerView } from "./answer.tsx";
import { RunsView } from "./runs.tsx";

export function pageOfStarts(): Page {
  const made = reported();
  page.value = made;
  const unpack = startUnpacking();
  return {
    views: viewsOf(VIEWS, {
      answer: { title: "Answer", Content: AnswerView },
      runs: { title: "Runs", Content: RunsView },
      ...TRACE_VIEWS,
      ...TOUCH_VIEWS,
    }),
    program: made.document.variants.map((variant) => variant.name).join(", "),
    placeholder: "filter: file:libxul -cause:readahead",
    fields: FIELDS.join(", "),
    filterHelp: FILTER_HELP,
    // The events stand behind this script, so that the page is there before they are.
    follow: () => {
      followTrace(unpack, embedded("thaw-events"));
      followTouched(embedded("thaw-touched"));
    },
    // What starts touch is of other events.
    matchesNothing: () => view.value !== "touch" && traceMatchesNothing(),
  };
}

function reported(): Reported {
  const report = JSON.parse(embedded("thaw-report") ?? "null") as ReportDocument | null;
  if (report?.schema !== "thaw.report/1") throw new Error("this page holds no thaw.report/1");
  return { document: report, comparison: JSON.parse(embedded("thaw-comparison") ?? "null") as Comparison | null };
}

const FILTER_HELP = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. <code>file:</code>, <code>process:</code>,{" "}
    <code>cause:</code> (read, fault, readahead, metadata, write), <code>owner:</code> (app, system) and{" "}
    <code>function:</code> look at one field, a bare word at all of them. Quotes keep blanks together:{" "}
    <code>process:"Web Content"</code>. All views of the trace follow it, and those of the needed bytes; a view leaves
    out words about fields that it does not have. The address remembers it.
  </p>
);
