// One file: what came in and what was asked for against time, and how much of each section that is.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { causeColour, css, ground, mixed, pixel, type Theme } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import { drawMarks, fill, nearestMark, type Pixels } from "../../draw/raster.ts";
import { askedSpans, type SectionBar, sectionBars, spanBytes } from "../../logic/asked.ts";
import { gather } from "../../logic/columns.ts";
import {
  ASKED_AROUND,
  ASKED_BY_READ,
  CAUSES,
  type Section as ElfSection,
  groupBy,
  sectionsOf,
  type Touches,
  type TraceTouches,
} from "../../logic/events.ts";
import { bytes, count, harmless, micros, nanos, percent, plural, splitPath } from "../../logic/format.ts";
import { type Marks, marksOf } from "../../logic/marks.ts";
import { bytesLabel, ticks, timeLabel } from "../../logic/ticks.ts";
import { wasteOf } from "../../logic/tree.ts";
import { length, type Viewport } from "../../logic/view.ts";
import { AsTable, Dot, Legend, PathName, Section, Switches, ThreeBars } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { Cause, FileReport } from "../../types/document.ts";
import { chooseFile, chosenFile } from "../shared/chosenfile.ts";
import { TraceChoice, TraceLine, Waiting } from "./parts.tsx";
import { askMask, fileLayers, filePart, fillMask, type Opened, opened, touched } from "./state.ts";

const MARGINS: Margins = { left: 62, right: 92, top: 8, bottom: 26 };

export function FileView(): JSX.Element {
  const [trace, rest] = [opened.value, touched.value];
  if (trace === null || rest === null) return <Waiting />;
  const { files } = trace.document.report;
  const named = files.findIndex((file) => file.path === chosenFile.value);
  const line = named >= 0 ? named : costliest(files);
  if (line < 0) return <p class="none">The traced start touched no file.</p>;
  return (
    <div class="file">
      <div class="tools">
        <TraceChoice />
        <FileChoice files={files} line={line} />
        <Switches
          label="draw"
          value={new Set(fileLayers.value.split(","))}
          values={[
            ["fills", "what came in"],
            ["asks", "what was asked for"],
          ]}
          onChange={(value) => (fileLayers.value = [...value].sort().reverse().join(",") || "none")}
        />
      </div>
      <OneFile key={`${trace.document.run} ${line}`} trace={trace} touches={rest} line={line} file={files[line]} />
    </div>
  );
}

/** The regular file that was waited for longest. */
function costliest(files: readonly FileReport[]): number {
  let best = -1;
  files.forEach((file, line) => {
    const before = files[best];
    if (file.kind !== "regular") return;
    if (
      before === undefined ||
      file.waiting > before.waiting ||
      (file.waiting === before.waiting && file.filled > before.filled)
    )
      best = line;
  });
  return best >= 0 ? best : files.length - 1;
}

function FileChoice({ files, line }: { files: readonly FileReport[]; line: number }): JSX.Element {
  const order = files
    .map((_, index) => index)
    .filter((index) => files[index].filled > 0 || files[index].asked > 0 || index === line);
  order.sort((a, b) => files[b].waiting - files[a].waiting || files[b].filled - files[a].filled);
  return (
    <label class="choice filechoice">
      <span class="what">file</span>
      <select value={files[line].path} onChange={(event) => chooseFile(event.currentTarget.value)}>
        {order.slice(0, 400).map((index) => (
          <option key={index} value={files[index].path}>
            {harmless(splitPath(files[index].path)[1])} · {bytes(files[index].filled)} ·{" "}
            {harmless(splitPath(files[index].path)[0])}
          </option>
        ))}
      </select>
    </label>
  );
}

interface Layer {
  readonly touches: Touches;
  readonly numbers: Uint32Array;
  readonly marks: Marks;
  readonly category: Uint32Array;
}

/** A layer's touches of one file as marks: moments in time, ranges in the file. */
function layerOf(touches: Touches, numbers: Uint32Array): Layer {
  const marks = marksOf(
    gather(touches.at, numbers),
    gather(touches.offset, numbers),
    new Float32Array(numbers.length),
    Float32Array.from(gather(touches.len, numbers)),
  );
  return { touches, numbers, marks, category: gather(touches.how, numbers) };
}

function OneFile({
  trace,
  touches,
  line,
  file,
}: {
  trace: Opened;
  touches: TraceTouches;
  line: number;
  file: FileReport;
}): JSX.Element {
  const { fills, asks } = touches;
  const sections = useMemo(() => sectionsOf(trace.events, line), [trace, line]);
  const mine = useMemo(() => {
    const of = (all: Touches) => {
      const { first, order } = groupBy(all.file, trace.document.report.files.length);
      return order.slice(first[line], first[line + 1]);
    };
    return { fills: of(fills), asks: of(asks) };
  }, [trace, line]);
  const [fillsShown, asksShown] = [fillMask.value, askMask.value];
  const shown = useMemo(
    () => ({
      fills: layerOf(
        fills,
        mine.fills.filter((i) => fillsShown[i] === 1),
      ),
      asks: layerOf(
        asks,
        mine.asks.filter((i) => asksShown[i] === 1),
      ),
    }),
    [mine, fillsShown, asksShown],
  );
  const asked = useMemo(
    () => askedSpans(asks, shown.asks.numbers, file.kind === "regular" ? file.size : null),
    [shown],
  );
  const bars = useMemo(() => sectionBars(sections, fills, shown.fills.numbers, asked, file.size, file), [shown, asked]);
  const all = shown.fills.numbers.length === mine.fills.length && shown.asks.numbers.length === mine.asks.length;
  return (
    <>
      <h2 class="filename">
        <PathName path={file.path} />
      </h2>
      <Figures file={file} asked={all ? file.asked : spanBytes(asked)} />
      <Picture trace={trace} file={file} sections={sections} layers={shown} />
      <Bars bars={bars} file={file} />
      <Touched trace={trace} layers={shown} />
      <TraceLine />
    </>
  );
}

function Figures({ file, asked }: { file: FileReport; asked: number }): JSX.Element {
  const waste = wasteOf({ ...file, asked });
  const known = file.needed !== null;
  const items: [string, string, number | null][] = [
    ["size", bytes(file.size), file.size],
    ["came in", bytes(file.filled), file.filled],
    ["asked for", file.kind === "metadata" ? "–" : bytes(asked), asked],
    ...(known ? [["needed", bytes(file.needed), file.needed] as [string, string, number | null]] : []),
    ...(file.held_by
      ? [
          [
            "needed",
            `unknown (mapped by ${plural(file.held_by.processes, "process", "processes")}, ` +
              `such as ${file.held_by.example})`,
            null,
          ] as [string, string, number | null],
        ]
      : []),
    [
      known ? "not needed" : "not asked for",
      waste !== null && file.filled > 0 ? `${bytes(waste)} (${percent(waste / file.filled)})` : "–",
      waste,
    ],
    ["requests", count(file.requests), file.requests],
    ["waited", nanos(file.waiting), file.waiting],
    ["pieces on disk", count(file.extents), file.extents],
    ["opened", file.opens === null ? "–" : plural(file.opens, "time", "times"), file.opens],
    ...(file.syncs > 0
      ? [["synced", plural(file.syncs, "time", "times"), file.syncs] as [string, string, number | null]]
      : []),
    [
      "owner",
      (file.owner === "app" ? "the program" : "the system") +
        (file.owned_by?.what ? ` (${file.owned_by.rule} ${file.owned_by.what})` : ""),
      null,
    ],
  ];
  return (
    <dl class="figures" data-part="file">
      {items.map(([name, text, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd data-value={value}>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

interface PictureProps {
  readonly trace: Opened;
  readonly file: FileReport;
  readonly sections: readonly ElfSection[];
  readonly layers: { readonly fills: Layer; readonly asks: Layer };
}

/** Colours of asks: reads, faults that missed, faults mapped from the cache. */
function askColours(shade: Theme): [number, number, number] {
  const { text } = ground(shade);
  return [causeColour("read", shade), causeColour("fault", shade), mixed(text, ground(shade).paper, 0.42)];
}

/** What came in is paler than what was asked for, which lies on it. */
function fillColour(cause: Cause, shade: Theme): number {
  const [strong, pale] = shade === "dark" ? [1, 0.65] : [0.75, 0.5];
  return mixed(causeColour(cause, shade), ground(shade).paper, cause === "readahead" ? strong : pale);
}

function Picture({ trace, file, sections, layers }: PictureProps): JSX.Element {
  const shade = theme.value;
  const drawn = new Set(fileLayers.value.split(","));
  const whole = useMemo(() => wholeOf(trace, file, layers), [trace, file, layers]);
  const viewport = filePart.of(whole);
  const fillColours = Uint32Array.from(CAUSES, (cause) => pixel(fillColour(cause, shade)));
  const asked = Uint32Array.from(askColours(shade), (colour) => pixel(colour));
  const paint = (to: Pixels, part: Viewport, perPixel: number) => {
    paintStripes(to, part, sections, shade);
    paintGrid(to, part, perPixel, shade);
    const least = Math.round(2 * perPixel);
    if (drawn.has("fills"))
      drawMarks(to, layers.fills.marks, null, part, layers.fills.category, fillColours, Math.round(3 * perPixel));
    if (drawn.has("asks")) drawMarks(to, layers.asks.marks, null, part, layers.asks.category, asked, least);
  };
  const find = (part: Viewport, size: Size, x: number, y: number) => {
    for (const name of ["asks", "fills"] as const) {
      if (!drawn.has(name)) continue;
      const k = nearestMark(layers[name].marks, null, part, size, x, y, 6);
      // Even numbers are fills, odd ones asks.
      if (k >= 0) return layers[name].numbers[k] * 2 + (name === "asks" ? 1 : 0);
    }
    return -1;
  };
  const [byRead, byMiss, around] = askColours(shade).map(css);
  return (
    <>
      <figure>
        <figcaption>
          offset in the file against time since exec{sections.length > 0 ? "; stripes are ELF sections" : ""}
        </figcaption>
        <Plot
          name="file"
          label={
            `Offsets of ${harmless(file.path)} against time: ` +
            `${plural(layers.fills.numbers.length, "fill", "fills")}, ` +
            `${plural(layers.asks.numbers.length, "ask", "asks")}. The tables below hold them.`
          }
          theme={shade}
          whole={whole}
          smallest={{ x: 20, y: 16_384 }}
          viewport={viewport}
          onView={(part) => filePart.show(part, whole)}
          margins={sections.length > 0 ? MARGINS : { ...MARGINS, right: 10 }}
          xTicks={(part, pixels) => ticks(part.x, pixels, 90, timeLabel)}
          yTicks={(part, pixels) => ticks(part.y, pixels, 44, bytesLabel)}
          axes="xy"
          scene={[layers, fileLayers.value]}
          paint={paint}
          write={(context, part, size) => writeSections(context, part, size, sections, shade)}
          find={find}
          describe={(found) => <TouchTip trace={trace} layers={layers} found={found} sections={sections} />}
        />
      </figure>
      <div class="legends">
        {drawn.has("fills") && (
          <Legend
            label="What came in"
            items={CAUSES.filter((_, number) => layers.fills.category.includes(number)).map((cause) => ({
              colour: css(fillColour(cause, shade)),
              name: `came in: ${cause}`,
              figure: "",
              word: { field: "cause", text: cause },
            }))}
          />
        )}
        {drawn.has("asks") && (
          <ul class="legend" aria-label="What was asked for">
            {[
              ["asked by read", byRead],
              ["asked by a fault that missed", byMiss],
              ["mapped around a fault", around],
            ].map(([name, colour]) => (
              <li key={name}>
                <span class="item">
                  <Dot colour={colour} />
                  {name}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </>
  );
}

function wholeOf(trace: Opened, file: FileReport, layers: PictureProps["layers"]): Viewport {
  let [end, high, low] = [0, 0, Infinity];
  for (const { marks } of [layers.fills, layers.asks]) {
    for (let k = 0; k < marks.x.length; k++) {
      end = Math.max(end, marks.x[k]);
      high = Math.max(high, marks.y[k] + marks.high[k]);
      low = Math.min(low, marks.y[k]);
    }
  }
  const { requests } = trace.events;
  const last = requests.count > 0 ? requests.start[requests.count - 1] : end;
  const most = Math.max(end, last, 1);
  // A device is as large as its disk: only what was touched of it is worth the room.
  const [from, to] =
    file.kind === "regular"
      ? [0, Math.max(file.size, high, 4096)]
      : [Number.isFinite(low) ? low : 0, Math.max(high, 4096)];
  return {
    x: { from: -most * 0.01, to: most * 1.01 },
    y: { from: from - (to - from) * 0.015, to: to + (to - from) * 0.015 },
  };
}

function paintStripes(to: Pixels, part: Viewport, sections: readonly ElfSection[], shade: Theme): void {
  const colour = pixel(ground(shade).stripe);
  const toY = (offset: number) => Math.round(to.height - ((offset - part.y.from) / length(part.y)) * to.height);
  sections.forEach((section, index) => {
    if (index % 2 === 0)
      fill(
        to,
        0,
        Math.max(0, toY(section.offset + section.len)),
        to.width,
        Math.min(to.height, toY(section.offset)),
        colour,
      );
  });
}

function paintGrid(to: Pixels, part: Viewport, perPixel: number, shade: Theme): void {
  const colour = pixel(ground(shade).grid);
  for (const { value } of ticks(part.x, to.width / perPixel, 90, timeLabel)) {
    const x = Math.round(((value - part.x.from) / length(part.x)) * to.width);
    fill(to, x, 0, x + 1, to.height, colour);
  }
}

/** Names of sections at the right edge, as many as fit. */
function writeSections(
  context: CanvasRenderingContext2D,
  part: Viewport,
  size: Size,
  sections: readonly ElfSection[],
  shade: Theme,
): void {
  context.font = "10px ui-monospace, monospace";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = css(ground(shade).faint);
  const toY = (offset: number) => size.height - ((offset - part.y.from) / length(part.y)) * size.height;
  const taken: number[] = [];
  for (const section of [...sections].sort((a, b) => b.len - a.len)) {
    const top = Math.max(0, toY(section.offset + section.len));
    const bottom = Math.min(size.height, toY(section.offset));
    const middle = (top + bottom) / 2;
    if (bottom <= 0 || top >= size.height || taken.some((y) => Math.abs(y - middle) < 11)) continue;
    taken.push(middle);
    context.fillText(harmless(section.name).slice(0, 14), size.width + 6, middle);
  }
}

function TouchTip({
  trace,
  layers,
  found,
  sections,
}: {
  trace: Opened;
  layers: PictureProps["layers"];
  found: number;
  sections: readonly ElfSection[];
}): JSX.Element {
  const ask = found % 2 === 1;
  const { touches } = ask ? layers.asks : layers.fills;
  const i = Math.floor(found / 2);
  const at = touches.offset[i];
  const section = sections.find((it) => it.offset <= at && at < it.offset + it.len);
  const how = ask
    ? touches.how[i] === ASKED_BY_READ
      ? "asked by read"
      : touches.how[i] === ASKED_AROUND
        ? "mapped around a fault, from the cache"
        : "asked by a fault that missed"
    : `came in for ${CAUSES[touches.how[i]]}`;
  return (
    <>
      <strong>{how}</strong>
      <dl>
        <dt>offset</dt>
        <dd>
          {bytes(at)} ({count(at)})
        </dd>
        <dt>bytes</dt>
        <dd>{count(touches.len[i])}</dd>
        {section !== undefined && (
          <>
            <dt>section</dt>
            <dd>
              <code>{harmless(section.name)}</code>
            </dd>
          </>
        )}
        <dt>when</dt>
        <dd>{micros(touches.at[i])}</dd>
        <dt>for</dt>
        <dd>{harmless(trace.names.processes[touches.process[i]] ?? "?")}</dd>
      </dl>
    </>
  );
}

/** Two notes, for the two ways in which "needed" is known. */
const BY_PAGE =
  "“Needed” is exact by page: what another traced start touched while read-ahead was off (read_ahead_kb = 0). " +
  "Pages that other programs kept in memory then are not in it. " +
  "“Asked for” is what reads and faults of this trace asked for.";
const AT_LEAST =
  "“Asked for” is what reads and faults of this trace asked for, in whole pages: a lower bound of what is needed, " +
  "for a page that was already in the cache can be mapped around a fault without a word. " +
  "A traced start with read-ahead off (read_ahead_kb = 0) makes it exact: " +
  "`thaw record` makes one unless it is told not to.";

function Bars({ bars, file }: { bars: readonly SectionBar[]; file: FileReport }): JSX.Element {
  const waited = new Map(file.sections.map((section) => [section.name, section.waiting]));
  const most = Math.max(...bars.map((bar) => bar.size), 1);
  const known = file.needed !== null;
  const useful = (bar: SectionBar) => bar.needed ?? bar.asked;
  const share = (bar: SectionBar) => (bar.read > 0 ? Math.min(1, useful(bar) / bar.read) : null);
  const columns: Column<SectionBar>[] = [
    { key: "section", label: "Section", value: (bar) => bar.name, show: (bar) => <code>{harmless(bar.name)}</code> },
    {
      key: "picture",
      label: `Size, read, ${known ? "needed" : "asked for"}`,
      value: () => null,
      wide: true,
      show: (bar) => <ThreeBars size={bar.size} read={bar.read} useful={useful(bar)} most={most} />,
    },
    { key: "size", label: "Size", number: true, value: (bar) => bar.size, show: (bar) => bytes(bar.size) },
    {
      key: "read",
      label: "Read",
      title: "Came into the page cache",
      number: true,
      value: (bar) => bar.read,
      show: (bar) => bytes(bar.read),
    },
    ...(known
      ? [
          {
            key: "needed",
            label: "Needed",
            title: "Touched by a start without read-ahead",
            number: true,
            value: (bar: SectionBar) => bar.needed,
            show: (bar: SectionBar) => bytes(bar.needed),
          },
        ]
      : []),
    {
      key: "asked",
      label: "Asked for",
      title: "By reads and faults, at least",
      number: true,
      value: (bar) => bar.asked,
      show: (bar) => bytes(bar.asked),
    },
    {
      key: "share",
      label: "Of read",
      title: `${known ? "Needed" : "Asked for"} as a share of read`,
      number: true,
      value: share,
      show: (bar) => percent(share(bar)),
    },
    {
      key: "waited",
      label: "Waited",
      number: true,
      value: (bar) => (waited.get(bar.name) ?? 0) / 1e9,
      show: (bar) => (waited.has(bar.name) ? nanos(waited.get(bar.name)) : "–"),
    },
  ];
  return (
    <Section title={`Size, read, ${known ? "needed" : "asked for"}`} note={known ? BY_PAGE : AT_LEAST}>
      <Table
        name="sections"
        caption="Sections of the file"
        hideCaption
        columns={columns}
        rows={bars.filter((bar) => bar.size > 0 || bar.read > 0)}
        rowKey={(bar) => `${bar.name}${bar.offset}`}
        sort="-size"
        most={60}
      />
    </Section>
  );
}

function Touched(props: { trace: Opened; layers: PictureProps["layers"] }): JSX.Element {
  return (
    <AsTable summary="The picture as a table (at most 1,000 of each kind)">
      {() => <ListedTouches {...props} />}
    </AsTable>
  );
}

function ListedTouches({ trace, layers }: { trace: Opened; layers: PictureProps["layers"] }): JSX.Element {
  type Row = { readonly touches: Touches; readonly i: number; readonly what: string };
  const rows: Row[] = [];
  for (const [layer, ask] of [
    [layers.fills, false],
    [layers.asks, true],
  ] as const) {
    for (const i of layer.numbers.subarray(0, 1000)) {
      const how = layer.touches.how[i];
      rows.push({
        touches: layer.touches,
        i,
        what: ask ? ["asked by read", "asked by fault", "mapped around"][how] : `came in: ${CAUSES[how]}`,
      });
    }
  }
  rows.sort((a, b) => a.touches.at[a.i] - b.touches.at[b.i]);
  const columns: Column<Row>[] = [
    {
      key: "at",
      label: "When",
      number: true,
      value: (row) => row.touches.at[row.i] / 1e6,
      show: (row) => micros(row.touches.at[row.i]),
    },
    { key: "what", label: "What", value: (row) => row.what },
    {
      key: "offset",
      label: "Offset",
      number: true,
      value: (row) => row.touches.offset[row.i],
      show: (row) => count(row.touches.offset[row.i]),
    },
    {
      key: "len",
      label: "Bytes",
      number: true,
      value: (row) => row.touches.len[row.i],
      show: (row) => count(row.touches.len[row.i]),
    },
    {
      key: "process",
      label: "Process",
      value: (row) => trace.names.processes[row.touches.process[row.i]] ?? "?",
      show: (row) => harmless(trace.names.processes[row.touches.process[row.i]] ?? "?"),
    },
  ];
  return (
    <Table
      name="touches"
      caption="What came in and what was asked for"
      hideCaption
      columns={columns}
      rows={rows}
      rowKey={(_, index) => index}
      most={100}
    />
  );
}
