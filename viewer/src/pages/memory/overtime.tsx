// Resident memory over time, with the marks that were set; two watches beside each other.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import { Chart } from "../../draw/chart.tsx";
import { drawMoments } from "../../draw/moments.ts";
import { css, ground, rankColour, type Theme } from "../../draw/palette.ts";
import { bytes, commandLine, count, date, harmless, percent, seconds, signed } from "../../logic/format.ts";
import { mostOf, RESIDENTS, type Resident, type Watch, watchLines } from "../../logic/memory.ts";
import { bytesLabel, sinceLabel } from "../../logic/ticks.ts";
import { Choice, Dot, FactList, Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { theme, view } from "../../state.ts";
import type { WatchCheckpoint, WatchTotal } from "../../types/document.ts";
import { memoryWaiting } from "./parts.tsx";
import { memoryPage, treesNumber, watchInSight, watchNumber, watchProcess, watchSize } from "./state.ts";

const MEANING: Record<Resident, string> = {
  rss: "resident pages; shared ones count in each process",
  pss: "resident pages, each divided by the processes that have it: what to compare",
  uss: "pages that nobody else has",
  swap: "swapped out",
};

/** Marks that people set, without the checkpoints that are always there. */
const isMark = (checkpoint: WatchCheckpoint) => !["peak", "last"].includes(checkpoint.name);

export function TimeView(): JSX.Element {
  const wait = memoryWaiting();
  if (wait !== null) return wait;
  const { watches, pairs } = memoryPage.value!;
  if (watches.length === 0)
    return (
      <p class="none">This page has reports only: thaw memory watch -o FILE -- PROGRAM records memory over time.</p>
    );
  return (
    <>
      {watches.length > 1 ? <Both watches={watches} /> : <One watch={watches[0]} />}
      {pairs.length > 0 && (
        <Section title="Checkpoints of both" note="One run is one sample: repeat it before believing a small change.">
          <Pairs />
        </Section>
      )}
      <WatchFacts />
    </>
  );
}

const colourOf = (resident: Resident, shade: Theme) =>
  css(rankColour({ rss: 4, pss: 0, uss: 2, swap: 3 }[resident], shade));

function One({ watch }: { watch: Watch }): JSX.Element {
  const shade = theme.value;
  const [at, setAt] = useState<number | null>(null);
  const process =
    watchProcess.value === "" || watch.processes[Number(watchProcess.value)] === undefined
      ? null
      : Number(watchProcess.value);
  const lines = useMemo(() => watchLines(watch, process), [watch, process]);
  const shown = RESIDENTS.filter((it) => it !== "swap" || lines.swap.some((value) => value !== null && value > 0));
  const data = useMemo(() => [watch.seconds, ...shown.map((it) => lines[it])] as unknown as uPlot.AlignedData, [lines]);
  const over = (chart: uPlot) =>
    drawMoments(
      chart,
      watch.checkpoints
        .filter(isMark)
        .map((it) => ({ s: it.at_s, text: harmless(it.name), colour: css(ground(shade).text) })),
    );
  const summary = watch.processes.map((it, line) => ({ ...it, line, most: mostOf(watch, line) }));
  const most = Math.max(1, ...summary.map((it) => it.most.pss));
  return (
    <>
      <div class="tools">
        <label class="choice">
          <span class="what">process</span>
          <select
            value={process === null ? "" : String(process)}
            onChange={(event) => (watchProcess.value = event.currentTarget.value)}
          >
            <option value="">all {count(watch.processes.length)} processes together</option>
            {watch.processes.map((it, line) => (
              <option key={line} value={String(line)}>
                {harmless(it.name)} {it.pid}
              </option>
            ))}
          </select>
        </label>
        <ul class="legend">
          {shown.map((it) => (
            <li key={it}>
              <span class="item" title={MEANING[it]}>
                <Dot colour={colourOf(it, shade)} />
                <span class="name">{it.toUpperCase()}</span>
                <span class="figure">{at === null ? "" : bytes(lines[it][at])}</span>
              </span>
            </li>
          ))}
        </ul>
      </div>
      <Section
        title={
          process === null
            ? "Memory over time"
            : `Memory over time: ${harmless(watch.processes[process].name)} ${watch.processes[process].pid}`
        }
      >
        <p class="hoverline">
          {at === null ? (
            <span class="soft">Dragging comes closer, a double click shows all again.</span>
          ) : (
            `${seconds(watch.seconds[at])}: ` +
            shown.map((it) => `${it.toUpperCase()} ${bytes(lines[it][at])}`).join(", ")
          )}
        </p>
        <Chart
          name="watch"
          label="Resident memory over time"
          theme={shade}
          height={300}
          data={data}
          series={shown.map((it) => ({
            stroke: colourOf(it, shade),
            width: it === "pss" ? 2 : 1.3,
            spanGaps: false,
            points: { show: watch.seconds.length < 60, size: 4 },
          }))}
          xLabel="time since the watch began"
          xFormat={sinceLabel}
          yFormat={bytesLabel}
          yFromZero
          over={over}
          onHover={setAt}
        />
      </Section>
      <div class="columns">
        <Section title="Checkpoints">
          <Checkpoints watch={watch} />
        </Section>
        <Section title={`Processes (${count(summary.length)})`} note="Each at its most.">
          <Table
            name="watchprocesses"
            caption="Processes; a click shows one"
            hideCaption
            rows={summary}
            rowKey={(it) => it.line}
            most={12}
            sort="-pss"
            onRow={(it) => (watchProcess.value = watchProcess.value === String(it.line) ? "" : String(it.line))}
            selected={(it) => it.line === process}
            columns={[
              { key: "name", label: "Name", value: (it) => it.name, show: (it) => harmless(it.name) },
              { key: "pid", label: "Process", number: true, value: (it) => it.pid },
              {
                key: "pss",
                label: "PSS",
                number: true,
                value: (it) => it.most.pss,
                show: (it) => bytes(it.most.pss),
                bar: (it) => it.most.pss / most,
              },
              {
                key: "rss",
                label: "RSS",
                number: true,
                wide: true,
                value: (it) => it.most.rss,
                show: (it) => bytes(it.most.rss),
              },
              { key: "uss", label: "USS", number: true, value: (it) => it.most.uss, show: (it) => bytes(it.most.uss) },
            ]}
          />
        </Section>
      </div>
    </>
  );
}

function Checkpoints({ watch }: { watch: Watch }): JSX.Element {
  const sets = memoryPage.value!.trees;
  const before = new Map(
    watch.checkpoints.map((it, index) => [it.name, index > 0 && isMark(it) ? watch.checkpoints[index - 1] : null]),
  );
  return (
    <Table
      name="checkpoints"
      caption="Marks, the peak and the end"
      hideCaption
      rows={watch.checkpoints}
      rowKey={(it) => it.name}
      columns={[
        {
          key: "name",
          label: "Mark",
          value: (it) => it.name,
          show: (it) => {
            const set = sets.findIndex((trees) => trees.name === it.name && isMark(it));
            const name = isMark(it) ? (
              <strong>{harmless(it.name)}</strong>
            ) : (
              <span class="soft">{harmless(it.name)}</span>
            );
            if (set < 0) return name;
            const go = () => {
              treesNumber.value = String(set);
              view.value = "memory";
            };
            return (
              <button type="button" class="plain" onClick={go}>
                {name} ›
              </button>
            );
          },
        },
        { key: "at", label: "At", number: true, value: (it) => it.at_s, show: (it) => seconds(it.at_s) },
        { key: "pss", label: "PSS", number: true, value: (it) => it.total.pss, show: (it) => bytes(it.total.pss) },
        {
          key: "change",
          label: "Since the mark before",
          number: true,
          value: (it) => (before.get(it.name) == null ? null : it.total.pss - before.get(it.name)!.total.pss),
          show: (it) =>
            before.get(it.name) == null ? "" : <Change value={it.total.pss - before.get(it.name)!.total.pss} />,
        },
        {
          key: "rss",
          label: "RSS",
          number: true,
          wide: true,
          value: (it) => it.total.rss,
          show: (it) => bytes(it.total.rss),
        },
        {
          key: "uss",
          label: "USS",
          number: true,
          wide: true,
          value: (it) => it.total.uss,
          show: (it) => bytes(it.total.uss),
        },
        { key: "processes", label: "Processes", number: true, wide: true, value: (it) => it.total.processes },
      ]}
    />
  );
}

function Change({ value }: { value: number }): JSX.Element {
  return <span class={value > 0 ? "more" : "less"}>{signed(value, bytes)}</span>;
}

/** Both from the beginning of their watches, with the marks of the first above and those of the second below. */
function Both({ watches }: { watches: readonly Watch[] }): JSX.Element {
  const shade = theme.value;
  const size = watchSize.value as Resident;
  const [first, second] = watches;
  const data = useMemo(() => merged(first, second, size), [first, second, size]);
  const colours = [css(rankColour(0, shade)), css(rankColour(1, shade))];
  const over = (chart: uPlot) =>
    drawMoments(
      chart,
      watches.flatMap((watch, k) =>
        watch.checkpoints.filter(isMark).map((it) => ({ s: it.at_s, text: harmless(it.name), colour: colours[k] })),
      ),
    );
  return (
    <>
      <div class="tools">
        <Choice
          label="size"
          values={RESIDENTS.map((it) => [it, it.toUpperCase()] as const)}
          value={size}
          onChange={(value) => (watchSize.value = value)}
        />
        <ul class="legend">
          {watches.map((watch, k) => (
            <li key={k}>
              <span class="item">
                <Dot colour={colours[k]} />
                <span class="name">{harmless(watch.name)}</span>
              </span>
            </li>
          ))}
        </ul>
      </div>
      <Section title={`${size.toUpperCase()} over time: ${MEANING[size]}`}>
        <Chart
          name="watches"
          label="Resident memory of both over time"
          theme={shade}
          height={300}
          data={data}
          series={colours.map((stroke) => ({ stroke, width: 1.6, spanGaps: true, points: { show: false } }))}
          xLabel="time since each watch began"
          xFormat={sinceLabel}
          yFormat={bytesLabel}
          yFromZero
          over={over}
        />
      </Section>
    </>
  );
}

/** Two lines on one axis of time. */
function merged(first: Watch, second: Watch, size: Resident): uPlot.AlignedData {
  const points = new Map<number, [number | null, number | null]>();
  [first, second].forEach((watch, k) => {
    const line = watchLines(watch, null)[size];
    watch.seconds.forEach((s, i) => {
      const point = points.get(s) ?? [null, null];
      point[k] = line[i];
      points.set(s, point);
    });
  });
  const seconds = [...points.keys()].sort((a, b) => a - b);
  return [seconds, seconds.map((s) => points.get(s)![0]), seconds.map((s) => points.get(s)![1])];
}

function Pairs(): JSX.Element {
  const size = watchSize.value as Resident;
  const of = (total: WatchTotal | null) => total?.[size] ?? null;
  const change = (first: WatchTotal | null, second: WatchTotal | null) =>
    first === null || second === null ? null : second[size] - first[size];
  return (
    <Table
      name="pairs"
      caption="Checkpoints of both watches"
      hideCaption
      rows={memoryPage.value!.pairs}
      rowKey={(it) => it.name}
      columns={[
        { key: "name", label: "Mark", value: (it) => it.name, show: (it) => harmless(it.name) },
        {
          key: "first",
          label: `First ${size.toUpperCase()}`,
          number: true,
          value: (it) => of(it.first),
          show: (it) => bytes(of(it.first)),
        },
        {
          key: "second",
          label: `Second ${size.toUpperCase()}`,
          number: true,
          value: (it) => of(it.second),
          show: (it) => bytes(of(it.second)),
        },
        {
          key: "change",
          label: "Change",
          number: true,
          value: (it) => change(it.first, it.second),
          show: (it) => (change(it.first, it.second) === null ? "" : <Change value={change(it.first, it.second)!} />),
        },
        {
          key: "share",
          label: "Of the first",
          number: true,
          value: (it) =>
            change(it.first, it.second) === null || of(it.first) === 0
              ? null
              : change(it.first, it.second)! / of(it.first)!,
          show: (it) =>
            change(it.first, it.second) === null || of(it.first) === 0
              ? ""
              : signed(change(it.first, it.second)! / of(it.first)!, percent),
        },
      ]}
    />
  );
}

function WatchFacts(): JSX.Element {
  const { watches } = memoryPage.value!;
  return (
    <Section title={watches.length > 1 ? "The watches" : "The watch"}>
      {watches.length > 1 && (
        <div class="tools">
          <Choice
            label="watch"
            values={watches.map((watch, k) => [String(k), harmless(watch.name)] as const)}
            value={watchNumber.value}
            onChange={(value) => (watchNumber.value = value)}
          />
        </div>
      )}
      <Facts watch={watchInSight.value!} />
    </Section>
  );
}

function Facts({ watch }: { watch: Watch }): JSX.Element {
  const whose =
    "program" in watch.head.whose ? `process ${watch.head.whose.program} and its children` : "what thaw started";
  const samples =
    watch.seconds.length < watch.taken
      ? `${count(watch.seconds.length)} of ${count(watch.taken)}: ` +
        "of each stretch of time the one with the largest PSS, and all marks"
      : count(watch.taken);
  const rows: [string, string][] = [
    ["file", harmless(watch.name)],
    ["command", watch.head.command.length === 0 ? whose : harmless(commandLine(watch.head.command))],
    ["begun", date(watch.head.created_unix_ns)],
    ["samples", samples],
    ...(watch.unseen > 0
      ? ([["not seen", `${count(watch.unseen)} processes of other users, at most`]] as [string, string][])
      : []),
  ];
  return <FactList rows={rows} />;
}
