// A heap recording: what was live over time, the processes, the doubts.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import { Chart } from "../../draw/chart.tsx";
import { drawMoments } from "../../draw/moments.ts";
import { css, ground, rankColour } from "../../draw/palette.ts";
import { bytes, commandLine, count, date, harmless, percent, plural, seconds } from "../../logic/format.ts";
import { type HeapProcess, lineOf } from "../../logic/heap.ts";
import { bytesLabel, sinceLabel } from "../../logic/ticks.ts";
import { FactList, PathName, Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { theme, view } from "../../state.ts";
import type { RecordingHead } from "../../types/heap.ts";
import { hoverText, Missing, ProcessChoice, quantum, sum, waiting } from "./parts.tsx";
import {
  atUs,
  compareMoments,
  heapAt,
  heapMode,
  heapProcess,
  mode,
  processesInSight,
  processLine,
  recording,
} from "./state.ts";

export function HeapView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  const { head, processes } = recording.value!;
  const sight = processesInSight.value;
  return (
    <>
      <div class="tools">
        <ProcessChoice />
      </div>
      <Missing head={head} brief={false} />
      <Totals processes={sight} />
      <Over processes={sight} />
      <div class="columns">
        <Section title={`Processes (${count(processes.length)})`}>
          <Processes processes={processes} />
        </Section>
        <div>
          <Section title="The recording">
            <Facts head={head} />
          </Section>
          {(head.warnings.length > 0 || sight.some(({ head: it }) => it.doubt !== "" || it.lost > 0)) && (
            <Section title="Warnings">
              <ul class="warnings">
                {sight.flatMap(({ head: it }) => [
                  ...(it.doubt === ""
                    ? []
                    : [
                        <li key={`d${it.pid}`}>
                          process {it.pid}: {harmless(it.doubt)}
                        </li>,
                      ]),
                  ...(it.lost === 0
                    ? []
                    : [
                        <li key={`l${it.pid}`}>
                          process {it.pid} lost {count(it.lost)} events: its figures are too small
                        </li>,
                      ]),
                ])}
                {head.warnings.slice(0, 30).map((warning, index) => (
                  <li key={index}>
                    <span class="kind">{warning.kind}</span>
                    {harmless(warning.text)}{" "}
                    {warning.hint !== undefined && <span class="hint">{harmless(warning.hint)}</span>}
                  </li>
                ))}
                {head.warnings.length > 30 && (
                  <li>and {count(head.warnings.length - 30)} more: thaw heap report prints all of them</li>
                )}
              </ul>
            </Section>
          )}
        </div>
      </div>
    </>
  );
}

function Totals({ processes }: { processes: readonly HeapProcess[] }): JSX.Element {
  const of = (which: "made" | "peak" | "end" | "temporary" | "handed_over") => ({
    bytes: sum(processes, ({ head }) => head.figures[which].bytes),
    blocks: sum(processes, ({ head }) => head.figures[which].blocks),
  });
  const [made, peak, end, temporary, handed] = [of("made"), of("peak"), of("end"), of("temporary"), of("handed_over")];
  const life = sum(processes, ({ head }) => head.figures.lifetime_ns) / Math.max(1, made.blocks) / 1e9;
  const one = (name: string, text: string, small: string, value: number) => (
    <div key={name}>
      <dt>{name}</dt>
      <dd data-value={value}>
        {text} <small class="soft">{small}</small>
      </dd>
    </div>
  );
  return (
    <dl class="figures" data-part="head">
      {one("made", bytes(made.bytes), plural(made.blocks, "block", "blocks"), made.bytes)}
      {one(
        processes.length > 1 ? "at the peaks of all" : "at the peak",
        bytes(peak.bytes),
        plural(peak.blocks, "block", "blocks"),
        peak.bytes,
      )}
      {one("not freed", bytes(end.bytes), plural(end.blocks, "block", "blocks"), end.bytes)}
      {one(
        "temporary",
        percent(temporary.blocks / Math.max(1, made.blocks)),
        `of the blocks, ${bytes(temporary.bytes)}`,
        temporary.bytes,
      )}
      {one(
        "freed by another thread",
        percent(handed.blocks / Math.max(1, made.blocks)),
        "of the blocks",
        handed.blocks,
      )}
      {one("lived on average", seconds(life), "", life)}
    </dl>
  );
}

function Over({ processes }: { processes: readonly HeapProcess[] }): JSX.Element {
  const line = useMemo(() => lineOf(processes), [processes]);
  const [at, setAt] = useState<number | null>(null);
  const shade = theme.value;
  const [live, blocks] = [rankColour(0, shade), rankColour(2, shade)];
  const peaks =
    processes.length === 1 ? [{ s: processes[0].head.peak_us / 1e6, bytes: processes[0].head.peak_bytes }] : [];
  const chosen = mode.value === "at" ? atUs.value / 1e6 : null;
  const bytesData = useMemo(() => [line.seconds, line.most, line.bytes] as unknown as uPlot.AlignedData, [line]);
  const blocksData = useMemo(() => [line.seconds, line.blocks] as unknown as uPlot.AlignedData, [line]);
  const pick = (s: number) => {
    heapAt.value = String(Math.max(0, Math.round(s * 1e6)));
    heapMode.value = "at";
  };
  const over = (chart: uPlot) => {
    drawMoments(chart, [
      ...peaks.map((it) => ({ s: it.s, text: `peak ${bytes(it.bytes)}`, colour: css(rankColour(1, shade)) })),
      ...(chosen === null ? [] : [{ s: chosen, text: `T = ${seconds(chosen)}`, colour: css(ground(shade).text) }]),
    ]);
  };
  if (line.seconds.length < 2) return <p class="none">Nothing was allocated.</p>;
  return (
    <Section
      title="Live over time"
      note={
        <>
          A click chooses the moment T for “live at”; Ctrl and the wheel, or Shift and a drag, come closer, dragging
          moves, a double click shows all again.
        </>
      }
    >
      <p class="hoverline" aria-live="off">
        {hoverText(line, at, "live bytes; the thin line is the most within a step")}
      </p>
      <Chart
        name="live"
        label="Live bytes over time"
        theme={shade}
        height={230}
        data={bytesData}
        series={[
          { stroke: css(live), width: 0.5, fill: `${css(live)}22` },
          { stroke: css(live), width: 1.5 },
        ]}
        xLabel=""
        xFormat={sinceLabel}
        yFormat={bytesLabel}
        yFromZero
        over={over}
        scene={[chosen, processes]}
        onPick={pick}
        onHover={setAt}
      />
      <figcaption class="chartcaption">blocks</figcaption>
      <Chart
        name="blocks"
        label="Live blocks over time"
        theme={shade}
        height={150}
        data={blocksData}
        series={[{ stroke: css(blocks), width: 1.5, fill: `${css(blocks)}22` }]}
        xLabel="time since the recording began"
        xFormat={sinceLabel}
        yFormat={(value) => count(value)}
        yFromZero
        onPick={pick}
        scene={[processes]}
        onHover={setAt}
      />
      {mode.value === "at" && (
        <p class="below">
          <span>T = {seconds(atUs.value / 1e6)}:</span>
          <button type="button" onClick={() => (view.value = "tree")}>
            show the tree
          </button>
          <button type="button" onClick={() => (view.value = "flame")}>
            show the flame graph
          </button>
          <button type="button" onClick={() => sinceThen(processes)}>
            what changed until the end
          </button>
          <span class="soft">{quantum(processes)}</span>
        </p>
      )}
    </Section>
  );
}

function sinceThen(processes: readonly HeapProcess[]): void {
  compareMoments(atUs.value, Math.max(atUs.value, ...processes.map(({ head }) => head.end_us)));
  view.value = "change";
}

function Processes({ processes }: { processes: readonly HeapProcess[] }): JSX.Element {
  const lines = processes.map((process, line) => ({ process, line }));
  const most = Math.max(1, ...processes.map(({ head }) => head.figures.made.bytes));
  return (
    <Table
      name="heapprocesses"
      caption="Processes; a click shows one"
      hideCaption
      rows={lines}
      rowKey={(it) => it.line}
      most={15}
      sort="-made"
      onRow={(it) => (heapProcess.value = String(it.line))}
      selected={(it) => it.line === processLine.value}
      columns={[
        {
          key: "exe",
          label: "Program",
          value: (it) => it.process.head.exe,
          show: (it) => <PathName path={it.process.head.exe} />,
        },
        { key: "pid", label: "Process", number: true, value: (it) => it.process.head.pid },
        {
          key: "made",
          label: "Made",
          number: true,
          value: (it) => it.process.head.figures.made.bytes,
          show: (it) => bytes(it.process.head.figures.made.bytes),
          bar: (it) => it.process.head.figures.made.bytes / most,
        },
        {
          key: "blocks",
          label: "Blocks",
          number: true,
          wide: true,
          value: (it) => it.process.head.figures.made.blocks,
          show: (it) => count(it.process.head.figures.made.blocks),
        },
        {
          key: "peak",
          label: "Peak",
          number: true,
          value: (it) => it.process.head.peak_bytes,
          show: (it) => bytes(it.process.head.peak_bytes),
        },
        {
          key: "end",
          label: "Not freed",
          number: true,
          value: (it) => it.process.head.figures.end.bytes,
          show: (it) => bytes(it.process.head.figures.end.bytes),
        },
      ]}
    />
  );
}

function Facts({ head }: { head: RecordingHead }): JSX.Element {
  const ended = !head.finished
    ? "the program still ran when this was read"
    : head.signal !== null
      ? `ended by signal ${head.signal}`
      : head.code !== null
        ? `exit code ${head.code}`
        : "ended";
  const rows: [string, string][] = [
    ["command", harmless(commandLine(head.command))],
    ["recording", harmless(head.name)],
    ["made", date(head.created_unix_ns)],
    ["thaw", harmless(head.thaw_version)],
    ["end", ended],
  ];
  return <FactList rows={rows} />;
}
