// The process tree over time: when each process lived, and when it had requests in flight, for what.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { causeColour, css, ground, otherColour, paletteOf, pixel, RANK_COUNT, type Theme } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import { drawMarks, fill, type Pixels } from "../../draw/raster.ts";
import { toggleWord } from "../../filter.ts";
import { gather } from "../../logic/columns.ts";
import { causeName, ownReads, weights } from "../../logic/disk.ts";
import { CAUSES, type Touches } from "../../logic/events.ts";
import { written } from "../../logic/filter.ts";
import { bytes, count, harmless, micros, nanos, plural, seconds } from "../../logic/format.ts";
import { inFlightAt, type Lane, laneMarks, lanes } from "../../logic/lanes.ts";
import type { Marks } from "../../logic/marks.ts";
import { filesOfProcess, type ProcessFile, sums } from "../../logic/sums.ts";
import { ticks, timeLabel } from "../../logic/ticks.ts";
import { type ProcessLine, processTree } from "../../logic/tree.ts";
import { length, type Viewport } from "../../logic/view.ts";
import { Choice, Legend, type LegendItem, PathName, Section } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { ProcessReport, TraceDocument } from "../../types/document.ts";
import { FileLink } from "../shared/filelink.tsx";
import { TraceChoice, TraceLine, Waiting } from "./parts.tsx";
import {
  chosenProcess,
  masks,
  type Opened,
  opened,
  processColour,
  processesPart,
  requestMask,
  shares,
  terms,
  touched,
  traceDocument,
} from "./state.ts";

/** Height of a lane in pixels; names stand left of them. Many lanes are lower, so that the axis stays in sight. */
const laneHeight = (lanes: number) => (lanes > 14 ? 20 : 30);

interface Row {
  readonly line: number;
  readonly depth: number;
  readonly process: ProcessReport;
  readonly filled: number;
  readonly requests: number;
  /** Seconds of the time in which requests were in flight: its fair share. */
  readonly waiting: number;
}

export function ProcessesView(): JSX.Element {
  const trace = traceDocument.value;
  const rows = useMemo(
    () => (trace === null ? [] : rowsOf(trace)),
    [trace, opened.value, touched.value, terms.value, masks.value],
  );
  if (trace === null) return <p class="none">This recording has no trace, so it does not know which processes ran.</p>;
  if (trace.report.processes.length === 0) return <p class="none">The trace holds no process.</p>;
  const known = opened.value;
  const chosen =
    rows.find((row) => String(row.process.pid) === chosenProcess.value) ??
    rows.reduce((best, row) => (row.waiting > best.waiting ? row : best), rows[0]);
  return (
    <div class="processes">
      <div class="tools">
        <TraceChoice />
        <Choice
          label="colour"
          value={processColour.value}
          values={[
            ["file", "file"],
            ["cause", "cause"],
          ]}
          onChange={(value) => (processColour.value = value)}
        />
      </div>
      {known === null ? <Waiting /> : <Lanes trace={known} rows={rows} chosen={chosen} />}
      <div class="columns">
        <ProcessTable rows={rows} chosen={chosen} />
        {known !== null && touched.value !== null && <Chosen trace={known} fills={touched.value.fills} row={chosen} />}
      </div>
      <TraceLine />
    </div>
  );
}

/** Processes in the order of the tree with the figures that pass the filter. */
function rowsOf(trace: TraceDocument): Row[] {
  const { processes } = trace.report;
  const [known, rest] = [opened.value, touched.value];
  const tree: ProcessLine[] = processTree(processes);
  const added =
    terms.value.length > 0 && known !== null && rest !== null
      ? sums(known.events.requests, rest, masks.value, shares.value, "process", processes.length)
      : null;
  return tree.map(({ line, depth }) => {
    const process = processes[line];
    const sum = added?.[line];
    if (sum === undefined || sum.passing === sum.events) {
      return {
        line,
        depth,
        process,
        filled: process.filled,
        requests: process.requests,
        waiting: process.waiting / 1e9,
      };
    }
    return { line, depth, process, filled: sum.filled, requests: sum.requests, waiting: sum.waiting / 1e6 };
  });
}

function useColours(trace: Opened): { colours: Uint32Array; key: "file" | "cause"; legend: LegendItem[] } {
  const shade = theme.value;
  const key = processColour.value === "cause" ? "cause" : "file";
  const bySize = useMemo(
    () =>
      weights(trace.events.requests, ownReads(trace.events.requests), key).filter(
        (weight) => key === "cause" || weight.category !== 0,
      ),
    [trace, key],
  );
  return useMemo(() => {
    if (key === "cause") {
      const colours = Uint32Array.from(CAUSES, (cause) => pixel(causeColour(cause, shade)));
      const legend = bySize.map(
        (weight): LegendItem => ({
          colour: css(causeColour(CAUSES[weight.category], shade)),
          name: causeName(weight.category),
          figure: bytes(weight.bytes),
          word: { field: "cause", text: causeName(weight.category) },
        }),
      );
      return { colours, key, legend };
    }
    const colours = paletteOf(
      bySize.map((weight) => weight.category),
      trace.names.files.length + 1,
      shade,
    );
    const legend = bySize.slice(0, RANK_COUNT).map((weight): LegendItem => {
      const path = trace.names.files[weight.category - 1].path;
      const abgr = colours[weight.category];
      return {
        colour: css(((abgr & 255) << 16) | (abgr & 0xff00) | ((abgr >> 16) & 255)),
        name: path,
        figure: bytes(weight.bytes),
        word: { field: "file", text: path },
      };
    });
    if (bySize.length > RANK_COUNT)
      legend.push({
        colour: css(otherColour(shade)),
        name: plural(bySize.length - RANK_COUNT, "other file", "other files"),
        figure: "",
        word: null,
      });
    return { colours, key, legend };
  }, [trace, key, shade]);
}

function Lanes({ trace, rows, chosen }: { trace: Opened; rows: readonly Row[]; chosen: Row }): JSX.Element {
  const { requests } = trace.events;
  const shade = theme.value;
  const mask = requestMask.value;
  const { colours, key, legend } = useColours(trace);
  const whole = useMemo(() => wholeOf(trace, rows.length), [trace, rows.length]);
  const made = useMemo(() => {
    const all = lanes(requests, trace.document.report.processes.length, mask);
    return rows.map((row, index): { lane: Lane; marks: Marks; category: Uint32Array } => {
      const lane = all[row.line];
      const low = rows.length - 1 - index;
      const marks = laneMarks(lane, low + 0.29, low + 0.71);
      return { lane, marks, category: gather(requests[key], lane.numbers) };
    });
  }, [trace, mask, key, rows.map((row) => row.line).join()]);
  const viewport = processesPart.of(whole);
  const margins: Margins = { left: narrow() ? 96 : 190, right: 10, top: 6, bottom: 26 };
  const paint = (to: Pixels, part: Viewport, perPixel: number) => {
    paintGround(to, part, perPixel, rows, chosen, shade);
    for (const { marks, category } of made)
      drawMarks(to, marks, null, part, category, colours, Math.max(1, Math.round(perPixel)));
  };
  const find = (part: Viewport, size: Size, x: number, y: number) => {
    const index = Math.floor((y / size.height) * rows.length);
    const lane = made[index]?.lane;
    if (lane === undefined) return -1;
    const perX = length(part.x) / size.width;
    const request = inFlightAt(lane, part.x.from + x * perX, 3 * perX);
    // Lanes without a request there still say whose they are.
    return request >= 0 ? request : requests.count + index;
  };
  const pick = (found: number) => {
    const row =
      found >= requests.count
        ? rows[found - requests.count]
        : rows.find((it) => it.line + 1 === requests.process[found]);
    if (row !== undefined) chosenProcess.value = String(row.process.pid);
  };
  return (
    <>
      <figure>
        <figcaption>life of each process and its requests in flight, against time since exec</figcaption>
        <div class="lanes" style={{ height: `${rows.length * laneHeight(rows.length) + 34}px` }}>
          <Plot
            name="processes"
            label={
              `${plural(rows.length, "process", "processes")} over time with their requests in flight. ` +
              "The table below holds what each read and waited for."
            }
            theme={shade}
            whole={whole}
            smallest={{ x: 20, y: 1 }}
            viewport={viewport}
            onView={(part) => processesPart.show(part, whole)}
            margins={margins}
            xTicks={(part, pixels) => ticks(part.x, pixels, 90, timeLabel)}
            yTicks={null}
            axes="x"
            scene={[made, chosen.line, colours]}
            paint={paint}
            write={(context, _, size) => writeNames(context, size, rows, chosen, margins.left, shade)}
            find={find}
            describe={(found) =>
              found >= requests.count ? (
                <ProcessTip row={rows[found - requests.count]} />
              ) : (
                <FlightTip trace={trace} i={found} />
              )
            }
            onPick={pick}
          />
        </div>
      </figure>
      <Legend label="Colours" items={legend} />
    </>
  );
}

const narrow = () => innerWidth < 700;

function wholeOf(trace: Opened, lines: number): Viewport {
  const { requests } = trace.events;
  let end = 1;
  for (let i = 0; i < requests.count; i++) end = Math.max(end, requests.end[i]);
  for (const process of trace.document.report.processes)
    end = Math.max(end, (process.end_ns ?? process.start_ns) / 1e3);
  return { x: { from: -end * 0.01, to: end * 1.01 }, y: { from: 0, to: lines } };
}

function paintGround(
  to: Pixels,
  part: Viewport,
  perPixel: number,
  rows: readonly Row[],
  chosen: Row,
  shade: Theme,
): void {
  const tones = ground(shade);
  const toX = (time: number) => Math.round(((time - part.x.from) / length(part.x)) * to.width);
  const high = to.height / rows.length;
  rows.forEach((row, index) => {
    if (row === chosen)
      fill(to, 0, Math.round(index * high), to.width, Math.round((index + 1) * high), pixel(tones.stripe));
  });
  for (const { value } of ticks(part.x, to.width / perPixel, 90, timeLabel))
    fill(to, toX(value), 0, toX(value) + 1, to.height, pixel(tones.grid));
  rows.forEach(({ process }, index) => {
    const end = process.end_ns === null ? part.x.to : process.end_ns / 1e3;
    const [left, right] = [Math.max(-2, toX(process.start_ns / 1e3)), Math.min(to.width + 2, toX(end))];
    fill(
      to,
      left,
      Math.round((index + 0.29) * high),
      Math.max(right, left + 2),
      Math.round((index + 0.71) * high),
      pixel(tones.life),
    );
  });
}

function writeNames(
  context: CanvasRenderingContext2D,
  size: Size,
  rows: readonly Row[],
  chosen: Row,
  room: number,
  shade: Theme,
): void {
  const tones = ground(shade);
  const high = size.height / rows.length;
  context.textBaseline = "middle";
  context.textAlign = "left";
  rows.forEach((row, index) => {
    const left = -room + 4 + Math.min(row.depth, 6) * 10;
    context.font = row === chosen ? "600 12px system-ui, sans-serif" : "12px system-ui, sans-serif";
    context.fillStyle = css(tones.text);
    const name = fitted(
      context,
      harmless(row.process.comm),
      room - 12 - Math.min(row.depth, 6) * 10 - (room > 120 ? 48 : 0),
    );
    context.fillText(name, left, (index + 0.5) * high);
    if (room <= 120) return;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = css(tones.faint);
    context.textAlign = "right";
    context.fillText(String(row.process.pid), -8, (index + 0.5) * high);
    context.textAlign = "left";
  });
}

function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let kept = text.length;
  while (kept > 1 && context.measureText(`${text.slice(0, kept)}…`).width > room) kept--;
  return `${text.slice(0, kept)}…`;
}

function ProcessTip({ row }: { row: Row | undefined }): JSX.Element | null {
  if (row === undefined) return null;
  const { process } = row;
  return (
    <>
      <strong>
        {harmless(process.comm)} {process.pid}
      </strong>
      <dl>
        <dt>began</dt>
        <dd>{nanos(process.start_ns)}</dd>
        <dt>ended</dt>
        <dd>{process.end_ns === null ? "after the trace" : nanos(process.end_ns)}</dd>
        <dt>came in</dt>
        <dd>{bytes(row.filled)}</dd>
        <dt>waited</dt>
        <dd>
          {seconds(row.waiting)} in {plural(row.requests, "request", "requests")}
        </dd>
      </dl>
    </>
  );
}

function FlightTip({ trace, i }: { trace: Opened; i: number }): JSX.Element {
  const { requests } = trace.events;
  const path =
    requests.file[i] > 0
      ? trace.names.files[requests.file[i] - 1].path
      : requests.served[i] === 1
        ? "(metadata)"
        : "(not attributed)";
  return (
    <>
      <strong>
        <PathName path={path} />
      </strong>
      <dl>
        <dt>for</dt>
        <dd>{harmless(trace.names.processes[requests.process[i]] ?? "?")}</dd>
        <dt>in flight</dt>
        <dd>
          {micros(requests.from[i])} … {micros(requests.end[i])}
        </dd>
        <dt>took</dt>
        <dd>{micros(requests.end[i] - requests.from[i])}</dd>
        <dt>bytes</dt>
        <dd>
          {count(requests.len[i])} for {causeName(requests.cause[i])}
        </dd>
      </dl>
    </>
  );
}

function ProcessTable({ rows, chosen }: { rows: readonly Row[]; chosen: Row }): JSX.Element {
  const most = (key: "filled" | "waiting") => Math.max(...rows.map((row) => row[key]), 1e-12);
  const [mostFilled, mostWaiting] = [most("filled"), most("waiting")];
  const columns: Column<Row>[] = [
    {
      key: "process",
      label: "Process",
      value: (row) => row.process.comm,
      show: (row) => (
        <span style={{ paddingLeft: `${row.depth * 1.1}em` }} title={harmless(row.process.exe ?? "")}>
          {harmless(row.process.comm)}
        </span>
      ),
    },
    { key: "pid", label: "Number", number: true, value: (row) => row.process.pid },
    {
      key: "start",
      label: "Began",
      number: true,
      value: (row) => row.process.start_ns / 1e9,
      show: (row) => nanos(row.process.start_ns),
    },
    {
      key: "end",
      label: "Ended",
      number: true,
      value: (row) => (row.process.end_ns === null ? null : row.process.end_ns / 1e9),
      show: (row) => (row.process.end_ns === null ? "–" : nanos(row.process.end_ns)),
    },
    {
      key: "waiting",
      label: "Waited",
      number: true,
      value: (row) => row.waiting,
      show: (row) => seconds(row.waiting),
      bar: (row) => row.waiting / mostWaiting,
    },
    {
      key: "filled",
      label: "Brought in",
      number: true,
      value: (row) => row.filled,
      show: (row) => bytes(row.filled),
      bar: (row) => row.filled / mostFilled,
    },
    {
      key: "requests",
      label: "Requests",
      number: true,
      value: (row) => row.requests,
      show: (row) => count(row.requests),
    },
  ];
  return (
    <Section title="Processes">
      <Table
        name="processes"
        caption="Processes of the traced start"
        hideCaption
        columns={columns}
        rows={rows}
        rowKey={(row) => row.line}
        selected={(row) => row === chosen}
        onRow={(row) => (chosenProcess.value = String(row.process.pid))}
      />
    </Section>
  );
}

/** What the chosen process read and waited for, by file. */
function Chosen({ trace, fills, row }: { trace: Opened; fills: Touches; row: Row }): JSX.Element {
  const files = useMemo(
    () => filesOfProcess(trace.events.requests, fills, masks.value, shares.value, row.line + 1),
    [trace, row.line, masks.value],
  );
  const most = Math.max(...files.map((file) => file.waiting), 1e-12);
  const path = (file: ProcessFile) => trace.names.files[file.file]?.path ?? "(not attributed)";
  const columns: Column<ProcessFile>[] = [
    { key: "file", label: "File", value: path, show: (file) => <FileLink path={path(file)} /> },
    {
      key: "waiting",
      label: "Waited",
      number: true,
      value: (file) => file.waiting / 1e6,
      show: (file) => micros(file.waiting),
      bar: (file) => file.waiting / most,
    },
    {
      key: "filled",
      label: "Brought in",
      number: true,
      value: (file) => file.filled,
      show: (file) => bytes(file.filled),
    },
    {
      key: "requests",
      label: "Requests",
      number: true,
      value: (file) => file.requests,
      show: (file) => count(file.requests),
    },
  ];
  const word = written("process", `${row.process.comm} ${row.process.pid}`);
  return (
    <Section title={`What ${harmless(row.process.comm)} ${row.process.pid} read and waited for`}>
      <p class="note">
        <button type="button" onClick={() => toggleWord(word)}>
          only this process
        </button>{" "}
        everywhere
      </p>
      <Table
        name="processfiles"
        caption="Its files"
        hideCaption
        columns={columns}
        rows={files}
        rowKey={(file) => file.file}
        most={15}
        none="Nothing that passes the filter."
      />
    </Section>
  );
}
