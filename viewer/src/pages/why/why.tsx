// Where the time went: the waterfall, and below it who owns the path.

import type { JSX } from "preact";
import { css } from "../../draw/palette.ts";
import { count, harmless, nanos, percent, plural } from "../../logic/format.ts";
import { shortened } from "../../logic/timeline.ts";
import { ownedBy } from "../../logic/waterfall.ts";
import { classOfOwner, type WhyStart } from "../../logic/why.ts";
import { Choice, Dot, Section } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { SharedOwner } from "../../types/why.ts";
import { KNOWN, losses, StartChoice, Summary, whyWaiting } from "./parts.tsx";
import { chosenOwner, classColour, lanesShown, ownerLine, ownersInSight, rows, start } from "./state.ts";
import { ClassLegend, Waterfall } from "./waterfall.tsx";

/** Hand-overs that are listed. */
const MOST_LINKS = 12;

export function WhyView(): JSX.Element {
  const wait = whyWaiting();
  if (wait !== null) return wait;
  const of = start.value!;
  const { head } = of;
  return (
    <>
      <Summary head={head} />
      {losses(head) !== "" && <p class="note">{losses(head)}</p>}
      <div class="tools">
        <StartChoice />
        <Choice
          label="threads"
          value={lanesShown.value}
          values={[
            ["all", `all ${count(head.report.threads.length)}`],
            ["path", "of the path"],
          ]}
          onChange={(value) => (lanesShown.value = value)}
        />
        <span class="totals" data-part="totals">
          {plural(rows.value.filter((row) => row.kind === "lane").length, "thread", "threads")}; full colours and the
          line below them are the path. Drag, or ↑ ↓ and A D: move; Ctrl and the wheel, or W S: closer
        </span>
      </div>
      <ClassLegend of={of} />
      {head.report.threads.length === 0 ? <p class="none">No thread was seen in this start.</p> : <Waterfall of={of} />}
      <Owners of={of} />
      <Links of={of} />
    </>
  );
}

/** The colour of what an owner does. */
function ownerColour({ what }: SharedOwner): string {
  return css(classColour(classOfOwner(what), theme.value));
}

function Owners({ of }: { of: WhyStart }): JSX.Element {
  const { owners, runs } = of.head;
  const chosen = chosenOwner.value;
  const most = Math.max(1e-9, ...owners.map((owner) => owner.share));
  const drawn = chosen === null ? null : ownedBy(of.path, chosen);
  const columns: Column<number>[] = [
    {
      key: "share",
      label: "Share",
      number: true,
      value: (line) => owners[line].share,
      show: (line) => percent(owners[line].share),
      bar: (line) => owners[line].share / most,
    },
    {
      key: "time",
      label: "Time",
      number: true,
      value: (line) => owners[line].ns,
      show: (line) => nanos(owners[line].ns),
    },
    {
      key: "interval",
      label: "95 %",
      title: runs.length > 1 ? "by what differs from start to start" : "by the samples",
      value: (line) => owners[line].low_ns,
      show: (line) =>
        owners[line].low_ns === null ? "" : `${nanos(owners[line].low_ns)} – ${nanos(owners[line].high_ns)}`,
      wide: true,
    },
    {
      key: "thread",
      label: "Thread",
      value: (line) => harmless(owners[line].thread),
      show: (line) => harmless(shortened(owners[line].thread, 60)),
    },
    {
      key: "what",
      label: "What it does",
      value: (line) => harmless(owners[line].text),
      show: (line) => (
        <span title={harmless(shortened(owners[line].text, 1000))}>
          <Dot colour={ownerColour(owners[line])} /> {harmless(shortened(owners[line].text, 220))}
        </span>
      ),
    },
    ...(runs.length > 1
      ? [
          {
            key: "starts",
            label: "Starts",
            number: true,
            title: `of ${runs.length}`,
            value: (line: number) => owners[line].starts,
            wide: true,
          },
        ]
      : []),
    {
      key: "known",
      label: "Known",
      value: (line) => owners[line].confidence,
      show: (line) => <span title={KNOWN[owners[line].confidence][1]}>{KNOWN[owners[line].confidence][0]}</span>,
    },
  ];
  return (
    <Section
      title="Who owns the time, from exec to ready"
      note={
        drawn === null
          ? "A click on a line, or on a piece of the path, shows what of the path it owns."
          : drawn.pieces === 0
            ? `The chosen one owns nothing in the run that is drawn.`
            : `The chosen one owns ${nanos(drawn.ns)} of the run that is drawn, in \
${plural(drawn.pieces, "piece", "pieces")}.`
      }
    >
      <Table
        name="owners"
        caption="Owners of the path, longest first"
        hideCaption
        rows={ownersInSight.value}
        rowKey={(line) => line}
        columns={columns}
        most={25}
        none="Nobody owns any of it."
        selected={(line) => line === chosen}
        onRow={(line) => (ownerLine.value = line === chosen ? "" : String(line))}
      />
    </Section>
  );
}

function Links({ of }: { of: WhyStart }): JSX.Element | null {
  const links = of.head.report.links.filter((link) => link.ns > 0).slice(0, MOST_LINKS);
  if (links.length === 0) return null;
  return (
    <Section
      title={`Who waited for whom on the path (run ${of.head.run})`}
      note="The time itself belongs to the owners above: to what the other thread did until then."
    >
      <Table
        name="links"
        caption="Hand-overs of the path, longest first"
        hideCaption
        rows={links}
        rowKey={(_, index) => index}
        columns={[
          { key: "time", label: "Time", number: true, value: (link) => link.ns, show: (link) => nanos(link.ns) },
          { key: "count", label: "Times", number: true, value: (link) => link.count },
          { key: "text", label: "Who, for whom", value: (link) => harmless(shortened(link.text, 300)) },
        ]}
      />
    </Section>
  );
}
