// A heap recording: what was live over time, the processes, the doubts.

import { useMemo, useState } from "preact/hooks";
import type { JSX } from "preact";
import type uPlot from "uplot";
import { Chart } from "../draw/chart.tsx";
import { css, ground, rankColour } from "../draw/palette.ts";
import { MODES, lineOf, type HeapProcess, type Line } from "../logic/heap.ts";
import { bytes, commandLine, count, date, harmless, percent, plural, seconds } from "../logic/format.ts";
import { bytesLabel, sinceLabel } from "../logic/ticks.ts";
import { Choice, FactList, PathName, Section } from "../parts/bits.tsx";
import { Table } from "../parts/table.tsx";
import {
  atUs,
  compareMoments,
  fromUs,
  heapAt,
  heapDamaged,
  heapMode,
  heapPage,
  heapProcess,
  heapRecording,
  mode,
  modeName,
  processLine,
  processName,
  processesInSight,
  recording,
  toUs,
} from "../heapstate.ts";
import { theme, view } from "../state.ts";
import type { RecordingHead } from "../types/heap.ts";

/** What stands instead of a view while there is nothing to show; `null`: there is. */
export function waiting(): JSX.Element | null {
  if (heapDamaged.value !== null)
    return (
      <p class="failed" role="alert">
        This recording cannot be shown: {heapDamaged.value}.
      </p>
    );
  if (heapPage.value === null) return <p class="none">Unpacking the recording …</p>;
  if ((recording.value?.processes.length ?? 0) === 0)
    return <p class="none">{recording.value?.head.nothing ?? "The recording has no process."}</p>;
  return null;
}

/** Recording and process: what all views of a heap begin with. */
export function ProcessChoice({ all = true }: { all?: boolean }): JSX.Element {
  const recordings = heapPage.value?.recordings ?? [];
  const processes = recording.value?.processes ?? [];
  const order = processes
    .map((_, line) => line)
    .sort((a, b) => processes[b].head.figures.made.bytes - processes[a].head.figures.made.bytes);
  return (
    <>
      {recordings.length > 1 && (
        <Choice
          label="recording"
          values={recordings.map(
            ({ head }, number) =>
              [String(number), harmless(number === 0 ? `after: ${head.name}` : `before: ${head.name}`)] as const,
          )}
          value={heapRecording.value}
          onChange={(value) => (heapRecording.value = value)}
        />
      )}
      {processes.length > 1 && (
        <label class="choice processchoice">
          <span class="what">process</span>
          <select
            value={processLine.value === null ? "all" : String(processLine.value)}
            onChange={(event) => (heapProcess.value = event.currentTarget.value)}
            aria-label="process"
          >
            {all && <option value="all">all {count(processes.length)} processes</option>}
            {order.map((line) => (
              <option key={line} value={String(line)}>
                {harmless(processName(processes[line]))} · {bytes(processes[line].head.figures.made.bytes)}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

/** Which blocks. */
export function ModeChoice({ moment = true }: { moment?: boolean }): JSX.Element {
  const modes = MODES.filter((it) => moment || it !== "at");
  return (
    <>
      <Choice
        label="blocks"
        values={modes.map((it) => [it, modeName(it)] as const)}
        value={!moment && mode.value === "at" ? "end" : mode.value}
        onChange={(value) => (heapMode.value = value)}
      />
      {moment && mode.value === "at" && (
        <MomentField name="T" us={atUs.value} onChange={(us) => (heapAt.value = String(Math.max(0, Math.round(us))))} />
      )}
    </>
  );
}

/** A moment to be typed, in seconds since the recording began. */
function MomentField({
  name,
  us,
  onChange,
}: {
  name: string;
  us: number;
  onChange: (us: number) => void;
}): JSX.Element {
  return (
    <label class="choice">
      <span class="what">{name}</span>
      <input
        type="number"
        class="moment"
        step="any"
        min="0"
        value={Number((us / 1e6).toPrecision(6))}
        onChange={(event) =>
          Number.isFinite(event.currentTarget.valueAsNumber) && onChange(event.currentTarget.valueAsNumber * 1e6)
        }
      />
      <span class="what unit">s</span>
    </label>
  );
}

/** What was folded or filtered away, where that is so; in full once, where the recording is shown as a whole. */
export function Missing({ head, brief = true }: { head: RecordingHead; brief?: boolean }): JSX.Element | null {
  const { pruned, part } = head;
  if (pruned.share === 0 && part === "all") return null;
  return (
    <p class="note">
      {part === "filtered" &&
        "This page was made of a part of the recording only (filter, window of time, or threads). "}
      {pruned.share > 0 &&
        brief &&
        `Branches below ${(pruned.share * 100).toPrecision(2)} % of their process are put together as “(smaller)”.`}
      {pruned.share > 0 &&
        !brief &&
        `This page holds ${count(pruned.kept)} nodes for the ${count(pruned.nodes)} of the recording: branches below ${(pruned.share * 100).toPrecision(2)} % of their process, in every mode, by bytes and by blocks, are put together as “(smaller)”, and told apart only by the function that wanted the memory. No byte is left out.`}
    </p>
  );
}

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

function sum(processes: readonly HeapProcess[], of: (process: HeapProcess) => number): number {
  return processes.reduce((all, process) => all + of(process), 0);
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
    marks(chart, [
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

/** The line over time, to choose two moments from. */
export function Moments(): JSX.Element {
  const processes = processesInSight.value;
  const line = useMemo(() => lineOf(processes), [processes]);
  const [at, setAt] = useState<number | null>(null);
  const shade = theme.value;
  const live = rankColour(0, shade);
  const data = useMemo(() => [line.seconds, line.bytes] as unknown as uPlot.AlignedData, [line]);
  const [from, to] = [fromUs.value / 1e6, toUs.value / 1e6];
  const text = css(ground(shade).text);
  const over = (chart: uPlot) => {
    const [left, right] = [from, to].map((s) =>
      Math.max(chart.bbox.left, Math.min(chart.bbox.left + chart.bbox.width, chart.valToPos(s, "x", true))),
    );
    chart.ctx.fillStyle = `${css(rankColour(1, shade))}22`;
    chart.ctx.fillRect(left, chart.bbox.top, right - left, chart.bbox.height);
    marks(chart, [
      { s: from, text: "from", colour: text },
      { s: to, text: "to", colour: text },
    ]);
  };
  if (line.seconds.length < 2) return <p class="none">Nothing was allocated.</p>;
  return (
    <Section title="Two moments" note={<>Dragging over the line chooses a stretch of time; {quantum(processes)}.</>}>
      <div class="tools">
        <MomentField name="from" us={fromUs.value} onChange={(us) => compareMoments(us, toUs.value)} />
        <MomentField name="to" us={toUs.value} onChange={(us) => compareMoments(fromUs.value, us)} />
      </div>
      <p class="hoverline" aria-live="off">
        {hoverText(line, at, "live bytes")}
      </p>
      <Chart
        name="moments"
        label="Live bytes over time"
        theme={shade}
        height={130}
        data={data}
        series={[{ stroke: css(live), width: 1.5, fill: `${css(live)}22` }]}
        xLabel=""
        xFormat={sinceLabel}
        yFormat={bytesLabel}
        yFromZero
        over={over}
        scene={[from, to, processes]}
        onRange={(a, b) => compareMoments(a * 1e6, b * 1e6)}
        onHover={setAt}
      />
    </Section>
  );
}

/** How exact a moment is. */
export function quantum(processes: readonly HeapProcess[]): string {
  const longest = Math.max(0, ...processes.map(({ head }) => head.moment_ns)) / 1e9;
  return `what each stack held is known at steps of ${seconds(longest)}`;
}

function hoverText(line: Line, at: number | null, nothing: string): JSX.Element {
  if (at === null || at >= line.seconds.length) return <span class="soft">{nothing}</span>;
  return (
    <>
      {seconds(line.seconds[at])}: {bytes(line.bytes[at])} in {plural(line.blocks[at], "block", "blocks")}, at most{" "}
      {bytes(line.most[at])}
    </>
  );
}

/** Named vertical lines; a name that would cover the one before stands lower. */
export function marks(
  chart: uPlot,
  list: readonly { readonly s: number; readonly text: string; readonly colour: string }[],
): void {
  const { ctx, bbox } = chart;
  const scale = devicePixelRatio || 1;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  const ends: number[] = [];
  for (const { s, text, colour } of [...list].sort((a, b) => a.s - b.s)) {
    const x = Math.round(chart.valToPos(s, "x", true)) + 0.5;
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.lineWidth = scale;
    ctx.setLineDash([4 * scale, 3 * scale]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(text).width;
    const left = x + 4 * scale + width > bbox.left + bbox.width ? x - 4 * scale - width : x + 4 * scale;
    let row = 0;
    while (row < ends.length && ends[row] > left) row++;
    ends[row] = left + width + 6 * scale;
    ctx.fillText(text, left, bbox.top + (2 + row * 14) * scale);
  }
  ctx.restore();
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
    ? "processes were still running when the recording ended"
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
