// What ran beside the path, what is not known, what was lost.

import type { JSX } from "preact";
import { harmless, nanos, percent, plural } from "../../logic/format.ts";
import { shortened } from "../../logic/timeline.ts";
import { Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { KNOWN, laneName, losses, StartChoice, whyWaiting } from "./parts.tsx";
import { start, whyPage } from "./state.ts";

export function BesideView(): JSX.Element {
  const wait = whyWaiting();
  if (wait !== null) return wait;
  const { head } = start.value!;
  const { off_path, competes_ns, objects, unexplained, cannot } = head.report;
  const beside = off_path.filter((row) => row.ran_ns > 0 || row.competes_ns > 0);
  const unknown = [...cannot.map((what) => `not known: ${what}`), ...(head.report.lost > 0 ? [losses(head)] : [])];
  const warnings = (whyPage.value?.warnings ?? []).filter((it) => !unknown.includes(it.text));
  return (
    <>
      <div class="tools">
        <StartChoice />
        <span class="totals">run {head.run}</span>
      </div>
      <Section
        title="What ran beside the path"
        note={
          competes_ns > 0
            ? `Less of this would not make the start faster, but for ${nanos(competes_ns)}, in which it had the CPU \
that the path waited for.`
            : "Less of this would not make the start faster."
        }
      >
        <Table
          name="beside"
          caption="Threads by what they ran beside the path"
          hideCaption
          rows={beside}
          rowKey={(_, index) => index}
          none="Nothing ran beside it."
          most={50}
          columns={[
            {
              key: "thread",
              label: "Thread",
              value: (row) => `${harmless(shortened(row.thread.name, 60))} ${row.thread.tid}`,
            },
            { key: "ran", label: "Ran", number: true, value: (row) => row.ran_ns, show: (row) => nanos(row.ran_ns) },
            {
              key: "competes",
              label: "Took the path's CPU",
              number: true,
              value: (row) => row.competes_ns,
              show: (row) => (row.competes_ns > 0 ? nanos(row.competes_ns) : ""),
            },
            { key: "samples", label: "Samples", number: true, value: (row) => row.samples, wide: true },
            { key: "known", label: "Known", value: (row) => KNOWN[row.confidence][0] },
          ]}
        />
      </Section>
      <Section title="Objects that run on the path">
        <Table
          name="objects"
          caption="Objects by their time on the path"
          hideCaption
          rows={objects}
          rowKey={(row) => row.object}
          none="No sample lies on the path."
          most={20}
          columns={[
            {
              key: "object",
              label: "Object",
              value: (row) => harmless(shortened(row.object, 200)) || "code made at run time",
            },
            {
              key: "share",
              label: "Share",
              number: true,
              value: (row) => row.share,
              show: (row) => percent(row.share),
              bar: (row) => row.share / Math.max(1e-9, ...objects.map((it) => it.share)),
            },
            { key: "time", label: "Time", number: true, value: (row) => row.ns, show: (row) => nanos(row.ns) },
            { key: "samples", label: "Samples", number: true, value: (row) => row.samples },
          ]}
        />
      </Section>
      <Section
        title="What is not known"
        note={unexplained.length > 0 ? "Time of the path that has no owner:" : undefined}
      >
        {unexplained.length > 0 && (
          <Table
            name="unexplained"
            caption="Time without an owner"
            hideCaption
            rows={unexplained}
            rowKey={(row) => row.why}
            columns={[
              { key: "why", label: "Why", value: (row) => harmless(row.why) },
              { key: "time", label: "Time", number: true, value: (row) => row.ns, show: (row) => nanos(row.ns) },
              { key: "pieces", label: "Pieces", number: true, value: (row) => row.pieces },
            ]}
          />
        )}
        <ul class="unknowns" data-part="cannot">
          {unknown.length === 0 && warnings.length === 0 && <li>Nothing was lost.</li>}
          {unknown.map((text) => (
            <li key={text}>{harmless(text)}</li>
          ))}
          {warnings.map((warning, i) => (
            <li key={i}>{harmless(warning.text)}</li>
          ))}
        </ul>
      </Section>
      <MergedLanes />
    </>
  );
}

/** Lanes whose short pieces were put together. */
function MergedLanes(): JSX.Element | null {
  const merged = start.value!.head.report.threads.filter((lane) => lane.is_merged);
  if (merged.length === 0) return null;
  return (
    <p class="note">
      Of {plural(merged.length, "thread", "threads")} ({merged.slice(0, 6).map(laneName).join(", ")}
      {merged.length > 6 && " …"}) short pieces are drawn together: of each part of the time what lasted longest in it.
    </p>
  );
}
