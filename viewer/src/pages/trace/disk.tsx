// Disk offset against time, and the same requests in the order of the disk.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { causeColour, css, ground, otherColour, paletteOf, pixel, RANK_COUNT, type Theme } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import { drawMarks, fill, nearestMark, type Pixels } from "../../draw/raster.ts";
import { gather } from "../../logic/columns.ts";
import {
  type ColourBy,
  causeName,
  type DiskPicture,
  kindMask,
  ownReads,
  usedDevices,
  type Weight,
  weights,
} from "../../logic/disk.ts";
import { CAUSES } from "../../logic/events.ts";
import { type Fold, folds, toAxis, toDisk } from "../../logic/fold.ts";
import { bytes, count, harmless, micros, nanos, plural, times } from "../../logic/format.ts";
import type { Marks } from "../../logic/marks.ts";
import { bytesSoFar, type Travel, travelAsRead, travelInOrder } from "../../logic/seeks.ts";
import { bytesLabel, type Tick, ticks, timeLabel } from "../../logic/ticks.ts";
import { deviceNumber } from "../../logic/unpacking.ts";
import { length, type Viewport } from "../../logic/view.ts";
import { AsTable, Choice, Legend, type LegendItem, PathName, Section, Switches, useLater } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { OnDisk } from "../../types/document.ts";
import { openFile } from "../shared/chosenfile.ts";
import { TraceChoice, TraceLine, Waiting } from "./parts.tsx";
import {
  diskColour,
  diskDevice,
  diskPart,
  diskScale,
  diskShow,
  diskWays,
  type Opened,
  opened,
  pictureOf,
  requestMask,
  sortedPart,
  touched,
} from "./state.ts";

const MARGINS: Margins = { left: 66, right: 10, top: 8, bottom: 26 };
const SORTED_MARGINS: Margins = { ...MARGINS, left: 12 };
/** How near the pointer must be, in pixels. */
const REACH = 8;

export function DiskView(): JSX.Element {
  const trace = opened.value;
  if (trace === null) return <Waiting />;
  if (trace.events.requests.count === 0)
    return (
      <p class="none">
        The traced start made no block request: everything it needed was in the cache, or the engine cannot see
        requests.
      </p>
    );
  return <Disk trace={trace} />;
}

/** What the two pictures show. */
interface Drawn {
  /** One byte per request, 1 is shown. */
  readonly mask: Uint8Array;
  readonly requests: number;
  readonly bytes: number;
  /** The same in the order of the disk. */
  readonly sortedMask: Uint8Array;
  readonly sorted: Marks;
}

/** What takes longer than the pictures, and is looked at after them. */
interface Figures {
  readonly asRead: Travel;
  readonly inOrder: Travel;
  readonly weights: readonly Weight[];
}

function Disk({ trace }: { trace: Opened }): JSX.Element {
  const { requests, devices } = trace.events;
  const filter = requestMask.value;
  const device = useMemo(() => deviceNumber(trace.events, diskDevice.value), [trace, diskDevice.value]);
  const toScale = diskScale.value === "true";
  const picture = useMemo(() => pictureOf(trace, device, toScale), [trace, device, toScale]);
  const by = diskColour.value as ColourBy;
  const kinds = useMemo(
    () => kindMask(requests, device, new Set(diskShow.value.split(","))),
    [trace, device, diskShow.value],
  );
  const drawn = useMemo(() => drawnOf(picture, filter, kinds), [picture, filter, kinds]);
  const { made: figures, fresh } = useLater(
    (): Figures => ({
      asRead: travelAsRead(requests, device, drawn.mask),
      inOrder: travelInOrder(picture.sorted.disk, picture.sorted.len, drawn.sortedMask),
      weights: weights(requests, drawn.mask, by),
    }),
    [drawn, by],
  );
  const colours = useColours(trace, by);
  const items = useMemo(
    () => (figures === null ? [] : legend(trace, figures.weights, by, theme.value, colours)),
    [figures, by, colours],
  );
  const viewport = diskPart.of(picture.whole);
  const props: DrawProps = { trace, picture, drawn, figures, viewport, colours, by };
  const used = useMemo(() => usedDevices(requests, devices), [trace]);
  return (
    <div class="disk">
      <div class="tools">
        <TraceChoice />
        <Choice
          label="colour"
          value={by}
          values={[
            ["file", "file"],
            ["process", "process"],
            ["cause", "cause"],
          ]}
          onChange={(value) => (diskColour.value = value)}
        />
        <Switches
          label="show"
          value={new Set(diskShow.value.split(","))}
          values={[
            ["reads", "reads"],
            ["writes", "writes"],
            ["others", "other programs"],
          ]}
          onChange={(value) =>
            (diskShow.value =
              [...value]
                .filter((it) => it !== "")
                .sort()
                .join(",") || "none")
          }
        />
        <Switches
          label=""
          value={new Set(diskWays.value === "1" ? ["ways"] : [])}
          values={[["ways", "head’s way"]]}
          onChange={(value) => (diskWays.value = value.has("ways") ? "1" : "0")}
        />
        <Choice
          label="disk"
          value={toScale ? "true" : "folded"}
          values={[
            ["folded", "gaps folded"],
            ["true", "to scale"],
          ]}
          onChange={rescale}
        />
        {used.length > 1 && (
          <Choice
            label="device"
            value={devices[device]}
            values={used.map((name) => [name, name] as const)}
            onChange={(name) => (diskDevice.value = name)}
          />
        )}
      </div>
      <Head drawn={drawn} figures={figures} fresh={fresh} />
      <div class="pair">
        <AgainstTime {...props} />
        <InOrder {...props} />
      </div>
      <Legend label="Colours" items={items} />
      <OtherDisks trace={trace} />
      <RequestTable {...props} />
      <TraceLine />
    </div>
  );
}

function drawnOf(
  { marks: { highest }, sorted: { order, len, y, high } }: DiskPicture,
  filter: Uint8Array,
  kinds: Uint8Array,
): Drawn {
  const mask = new Uint8Array(kinds.length);
  let requests = 0;
  for (let i = 0; i < mask.length; i++) {
    mask[i] = filter[i] & kinds[i];
    requests += mask[i];
  }
  const { x, bytes, shown: sortedMask } = bytesSoFar(len, order, mask);
  // Bytes both ways: a range is as wide as it is high.
  return { mask, requests, bytes, sortedMask, sorted: { x, y, wide: high, high, longest: highest, highest } };
}

function rescale(scale: string): void {
  // The same place has another height on the other scale.
  diskPart.reset();
  diskScale.value = scale;
}

function useColours(trace: Opened, by: ColourBy): Uint32Array {
  const bySize = useMemo(
    () =>
      by === "cause"
        ? []
        : weights(trace.events.requests, ownReads(trace.events.requests), by).map((weight) => weight.category),
    [trace, by],
  );
  return useMemo(() => {
    if (by === "cause") return Uint32Array.from(CAUSES, (cause) => pixel(causeColour(cause, theme.value)));
    const categories = by === "file" ? trace.names.files.length + 1 : trace.names.processes.length;
    return paletteOf(
      bySize.filter((category) => category !== 0),
      categories,
      theme.value,
    );
  }, [trace, by, theme.value]);
}

/** What is shown, and the way of the head over it. */
function Head({ drawn, figures, fresh }: { drawn: Drawn; figures: Figures | null; fresh: boolean }): JSX.Element {
  const travel = (it: Travel | undefined) =>
    it === undefined ? "…" : `${plural(it.seeks, "seek", "seeks")} over ${bytes(it.distance)}`;
  const less =
    figures !== null && figures.asRead.distance > 0
      ? figures.asRead.distance / Math.max(figures.inOrder.distance, 1)
      : 1;
  return (
    <dl class="figures" data-part="head" aria-busy={!fresh}>
      <div>
        <dt>shown</dt>
        <dd data-value={drawn.requests}>{plural(drawn.requests, "request", "requests")}</dd>
      </div>
      <div>
        <dt>bytes</dt>
        <dd data-value={drawn.bytes}>{bytes(drawn.bytes)}</dd>
      </div>
      <div>
        <dt>as read</dt>
        <dd data-value={figures?.asRead.seeks}>{travel(figures?.asRead)}</dd>
      </div>
      <div>
        <dt>in the disk’s order</dt>
        <dd data-value={figures?.inOrder.seeks}>{travel(figures?.inOrder)}</dd>
      </div>
      {less >= 1.05 && Number.isFinite(less) && (
        <div>
          <dt>the head’s way</dt>
          <dd>{times(less)} shorter</dd>
        </div>
      )}
    </dl>
  );
}

/** What the same requests would have cost elsewhere, in both orders: by the models of these disks. */
function OtherDisks({ trace }: { trace: Opened }): JSX.Element | null {
  const report = trace.document.disks;
  if (report == null || report.disks.length === 0) return null;
  const elsewhere = report.elsewhere > 0 ? `; ${count(report.elsewhere)} for other devices are left out` : "";
  const most = Math.max(...report.disks.map((it) => Math.max(it.as_is_ns, it.sorted_ns)), 1);
  const bar = (value: number, kind: string) => <span class={kind} style={{ width: `${(value / most) * 100}%` }} />;
  const columns: Column<OnDisk>[] = [
    {
      key: "disk",
      label: "Disk",
      value: (it) => it.disk,
      show: (it) => (
        <>
          {harmless(it.disk)} <span class="soft">{harmless(it.title)}</span>
        </>
      ),
    },
    {
      key: "picture",
      label: "As they came, sorted",
      value: () => null,
      wide: true,
      show: (it) => (
        <span class="orders" aria-hidden="true">
          {bar(it.as_is_ns, "came")}
          {bar(it.sorted_ns, "sorted")}
        </span>
      ),
    },
    {
      key: "asis",
      label: "As they came",
      title: "How long the disk is busy with the requests in the order of the trace",
      number: true,
      value: (it) => it.as_is_ns / 1e9,
      show: (it) => nanos(it.as_is_ns),
    },
    {
      key: "sorted",
      label: "Sorted",
      title: "All reads in the disk’s order, each byte once; then the writes",
      number: true,
      value: (it) => it.sorted_ns / 1e9,
      show: (it) => nanos(it.sorted_ns),
    },
    { key: "ratio", label: "Ratio", number: true, value: (it) => it.ratio, show: (it) => times(it.ratio) },
    {
      key: "seeks",
      label: "Seeks",
      title: "Requests that move the arm: as they came, sorted",
      number: true,
      value: (it) => it.as_is.seeks,
      show: (it) => `${count(it.as_is.seeks)} → ${count(it.sorted.seeks)}`,
    },
    {
      key: "start",
      label: "Whole start",
      title: "Disk and program: as they came, sorted",
      number: true,
      value: (it) => it.as_is.start_ns / 1e9,
      show: (it) => `${nanos(it.as_is.start_ns)} → ${nanos(it.sorted.start_ns)}`,
    },
  ];
  return (
    <Section
      title="The same requests on other disks"
      note={
        `By models of these disks, for the program’s own ${plural(report.requests, "request", "requests")} ` +
        `(writes too) of ${bytes(report.bytes)} until it was ready${elsewhere}. The filter does not change them.`
      }
    >
      <Table
        name="otherdisks"
        caption="As they came and sorted, on other disks"
        hideCaption
        columns={columns}
        rows={report.disks}
        rowKey={(it) => it.disk}
      />
    </Section>
  );
}

interface DrawProps {
  readonly trace: Opened;
  readonly picture: DiskPicture;
  readonly drawn: Drawn;
  readonly figures: Figures | null;
  readonly viewport: Viewport;
  readonly colours: Uint32Array;
  readonly by: ColourBy;
}

/** Round places to scale; folded, places at even distances. */
function diskTicks(fold: Fold): (viewport: Viewport, pixels: number) => Tick[] {
  return (viewport, pixels) => {
    if (fold.disk.length === 2)
      return ticks(viewport.y, pixels, 48, bytesLabel).map(({ value, label }) => ({
        value: toAxis(fold, value),
        label,
      }));
    const steps = Math.max(2, Math.floor(pixels / 48));
    const at = (k: number) => viewport.y.from + ((k + 0.5) / steps) * length(viewport.y);
    const seen = Array.from({ length: steps }, (_, k) => at(k)).filter(
      (value) => value >= fold.axis[0] && value <= fold.axis[fold.axis.length - 1],
    );
    const places = seen.map((value) => toDisk(fold, value));
    // As many digits as tell a label from the next one.
    const near = (k: number) =>
      Math.min(places[k] - (places[k - 1] ?? -Infinity), (places[k + 1] ?? Infinity) - places[k]);
    return seen.map((value, k) => ({
      value,
      label: bytesLabel(places[k], 10 ** Math.floor(Math.log10(Math.min(Math.max(near(k), 1000), 1e12)))),
    }));
  };
}
const timeTicks = (viewport: Viewport, pixels: number) => ticks(viewport.x, pixels, 90, timeLabel);

/** Shortened gaps and grid lines behind the marks. */
function grid(
  to: Pixels,
  fold: Fold,
  viewport: Viewport,
  perPixel: number,
  colours: Theme,
  vertical: typeof timeTicks | null,
): void {
  const toY = (value: number) => to.height - ((value - viewport.y.from) / length(viewport.y)) * to.height;
  const stripe = pixel(ground(colours).stripe);
  for (const gap of folds(fold)) {
    if (gap.to > viewport.y.from && gap.from < viewport.y.to)
      fill(
        to,
        0,
        Math.max(0, Math.round(toY(gap.to))),
        to.width,
        Math.min(to.height, Math.round(toY(gap.from))),
        stripe,
      );
  }
  const colour = pixel(ground(colours).grid);
  for (const { value } of diskTicks(fold)(viewport, to.height / perPixel)) {
    const y = Math.round(to.height - ((value - viewport.y.from) / length(viewport.y)) * to.height);
    fill(to, 0, y, to.width, y + 1, colour);
  }
  if (vertical === null) return;
  for (const { value } of vertical(viewport, to.width / perPixel)) {
    const x = Math.round(((value - viewport.x.from) / length(viewport.x)) * to.width);
    fill(to, x, 0, x + 1, to.height, colour);
  }
}

/** Marks are larger where there is room for them. */
const least = (marks: number, perPixel: number) => Math.round((marks < 5000 ? 3 : 2) * perPixel);

function AgainstTime({ trace, picture, drawn, figures, viewport, colours, by }: DrawProps): JSX.Element {
  const { requests } = trace.events;
  const { mask } = drawn;
  const { marks, whole, fold } = picture;
  const shade = theme.value;
  const ways = diskWays.value === "1";
  const paint = (to: Pixels, part: Viewport, perPixel: number) => {
    grid(to, fold, part, perPixel, shade, timeTicks);
    const tones = ground(shade);
    drawMarks(
      to,
      marks,
      mask,
      part,
      requests[by],
      colours,
      least(drawn.requests, perPixel),
      ways ? { line: pixel(tones.way), band: pixel(tones.band) } : null,
    );
  };
  return (
    <figure class="main">
      <figcaption>
        place on disk against time since exec, as the program read
        {fold.disk.length > 2 ? " · tinted: gaps drawn shorter than they are" : ""}
      </figcaption>
      <Plot
        name="disk"
        label={
          `Disk offset against time: ${plural(drawn.requests, "request", "requests")}, ${bytes(drawn.bytes)}, ` +
          `${plural(figures?.asRead.seeks ?? 0, "seek", "seeks")}. The table below holds them.`
        }
        theme={shade}
        whole={whole}
        smallest={{ x: 20, y: 65_536 }}
        viewport={viewport}
        onView={(part) => diskPart.show(part, whole)}
        margins={MARGINS}
        xTicks={timeTicks}
        yTicks={diskTicks(fold)}
        axes="xy"
        scene={[picture, drawn, colours, by, ways]}
        paint={paint}
        find={(part, size, x, y) => nearestMark(marks, mask, part, size, x, y, REACH)}
        describe={(i) => <RequestTip trace={trace} i={i} />}
        onPick={(i) => pick(trace, i)}
      />
    </figure>
  );
}

function InOrder({ trace, picture, drawn, figures, viewport, colours, by }: DrawProps): JSX.Element {
  const { requests } = trace.events;
  const { sorted, sortedMask } = drawn;
  const { whole, fold } = picture;
  const { order } = picture.sorted;
  const shade = theme.value;
  const ways = diskWays.value === "1";
  const all: Viewport = {
    x: { from: -Math.max(1, drawn.bytes) * 0.02, to: Math.max(1, drawn.bytes) * 1.02 },
    y: whole.y,
  };
  const category = useMemo(() => gather(requests[by], order), [picture, by]);
  const part: Viewport = { x: sortedPart.of(all).x, y: viewport.y };
  const byteTicks = (it: Viewport, pixels: number) => ticks(it.x, pixels, 70, bytesLabel);
  const paint = (to: Pixels, it: Viewport, perPixel: number) => {
    grid(to, fold, it, perPixel, shade, byteTicks);
    const tones = ground(shade);
    drawMarks(
      to,
      sorted,
      sortedMask,
      it,
      category,
      colours,
      least(drawn.requests, perPixel),
      ways ? { line: pixel(tones.way), band: pixel(tones.band) } : null,
    );
  };
  const find = (it: Viewport, size: Size, x: number, y: number) => {
    const k = nearestMark(sorted, sortedMask, it, size, x, y, REACH);
    return k < 0 ? -1 : order[k];
  };
  return (
    <figure class="side">
      <figcaption>in the disk’s order: bytes read so far</figcaption>
      <Plot
        name="sorted"
        label={
          `The same requests sorted by place on disk: ${plural(figures?.inOrder.seeks ?? 0, "seek", "seeks")} ` +
          `over ${bytes(figures?.inOrder.distance ?? 0)}.`
        }
        theme={shade}
        whole={all}
        smallest={{ x: 65_536, y: 65_536 }}
        viewport={part}
        onView={(it) => sortedPart.show(it, all)}
        margins={SORTED_MARGINS}
        xTicks={byteTicks}
        yTicks={null}
        axes="xy"
        scene={[picture, drawn, category, colours, ways]}
        paint={paint}
        find={find}
        describe={(i) => <RequestTip trace={trace} i={i} />}
        onPick={(i) => pick(trace, i)}
      />
    </figure>
  );
}

function fileName(trace: Opened, i: number): string {
  const line = trace.events.requests.file[i];
  if (line > 0) return trace.names.files[line - 1]?.path ?? "?";
  return trace.events.requests.served[i] === 1 ? "(metadata)" : "(not attributed)";
}

/** Where in its file a request lies; `null`: it serves none, or that is not unpacked yet. */
function fileOffset(trace: Opened, i: number): number | null {
  return trace.events.requests.served[i] === 0 ? (touched.value?.offsets[i] ?? null) : null;
}

function pick(trace: Opened, i: number): void {
  const { requests } = trace.events;
  if (requests.file[i] > 0 && requests.served[i] === 0) openFile(trace.names.files[requests.file[i] - 1].path);
}

function RequestTip({ trace, i }: { trace: Opened; i: number }): JSX.Element {
  const { requests, flags, devices } = trace.events;
  const queued = requests.start[i] - requests.from[i];
  const offset = fileOffset(trace, i);
  return (
    <>
      <strong>
        <PathName path={fileName(trace, i)} />
      </strong>
      <dl>
        <dt>request</dt>
        <dd>
          {requests.write[i] === 1 ? "write" : "read"} of {bytes(requests.len[i])}
          {` for ${causeName(requests.cause[i])} `}
          <code>{harmless(flags[requests.flags[i]] ?? "")}</code>
        </dd>
        {requests.served[i] === 0 && requests.file[i] > 0 && (
          <>
            <dt>in the file</dt>
            <dd>{offset === null ? "…" : `${bytes(offset)} (${count(offset)})`}</dd>
          </>
        )}
        <dt>on disk {devices[requests.device[i]]}</dt>
        <dd>
          {bytes(requests.disk[i])} ({count(requests.disk[i])})
        </dd>
        <dt>issued</dt>
        <dd>
          {micros(requests.start[i])}
          {queued > 0 ? `, ${micros(queued)} after its pages` : ""}
        </dd>
        <dt>took</dt>
        <dd>{requests.ended[i] === 1 ? micros(requests.end[i] - requests.start[i]) : "end not seen"}</dd>
        <dt>for</dt>
        <dd>{harmless(trace.names.processes[requests.process[i]] ?? "?")}</dd>
      </dl>
    </>
  );
}

/** Said where a category stands for what has no name. */
function categoryName(trace: Opened, by: ColourBy, category: number): string {
  if (by === "cause") return causeName(category);
  if (by === "process") return trace.names.processes[category] ?? "?";
  return category === 0 ? "(no file)" : (trace.names.files[category - 1]?.path ?? "?");
}

function legend(
  trace: Opened,
  shown: readonly Weight[],
  by: ColourBy,
  shade: Theme,
  colours: Uint32Array,
): LegendItem[] {
  const coloured = shown
    .filter((weight) => colours[weight.category] !== pixel(otherColour(shade)) || by === "cause")
    .slice(0, RANK_COUNT);
  const rest = shown.filter((weight) => !coloured.includes(weight));
  const items = coloured.map((weight) => ({
    colour: css(fromPixel(colours[weight.category])),
    name: categoryName(trace, by, weight.category),
    figure: `${bytes(weight.bytes)}, ${count(weight.requests)}`,
    word:
      weight.category === 0 && by !== "cause" ? null : { field: by, text: categoryName(trace, by, weight.category) },
  }));
  if (rest.length === 0) return items;
  const sum = (key: "bytes" | "requests") => rest.reduce((total, weight) => total + weight[key], 0);
  const what =
    by === "file" ? plural(rest.length, "other file", "other files") : plural(rest.length, "other", "others");
  return [
    ...items,
    {
      colour: css(otherColour(shade)),
      name: what,
      figure: `${bytes(sum("bytes"))}, ${count(sum("requests"))}`,
      word: null,
    },
  ];
}

function fromPixel(value: number): number {
  return ((value & 255) << 16) | (value & 0xff00) | ((value >> 16) & 255);
}

/** Requests in sight as a table: at most this many are listed. */
const LISTED = 2000;

function RequestTable(props: DrawProps): JSX.Element {
  return (
    <AsTable summary={`The requests in sight as a table (at most ${count(LISTED)})`}>
      {() => <ListedRequests {...props} />}
    </AsTable>
  );
}

function ListedRequests({ trace, picture, drawn, viewport }: DrawProps): JSX.Element {
  const { requests } = trace.events;
  const { marks } = picture;
  const rows = useMemo(() => {
    const list: number[] = [];
    for (let i = 0; i < requests.count && list.length < LISTED; i++) {
      if (drawn.mask[i] === 0 || requests.end[i] < viewport.x.from || requests.start[i] > viewport.x.to) continue;
      if (marks.y[i] + marks.high[i] < viewport.y.from || marks.y[i] > viewport.y.to) continue;
      list.push(i);
    }
    return list;
  }, [drawn, viewport.x.from, viewport.x.to, viewport.y.from, viewport.y.to]);
  const columns: Column<number>[] = [
    {
      key: "start",
      label: "Issued",
      number: true,
      value: (i) => requests.start[i] / 1e6,
      show: (i) => micros(requests.start[i]),
    },
    {
      key: "took",
      label: "Took",
      number: true,
      value: (i) => (requests.ended[i] === 1 ? (requests.end[i] - requests.start[i]) / 1e6 : null),
      show: (i) => (requests.ended[i] === 1 ? micros(requests.end[i] - requests.start[i]) : "–"),
    },
    {
      key: "disk",
      label: "Disk offset",
      number: true,
      value: (i) => requests.disk[i],
      show: (i) => count(requests.disk[i]),
    },
    { key: "len", label: "Bytes", number: true, value: (i) => requests.len[i], show: (i) => count(requests.len[i]) },
    {
      key: "file",
      label: "File",
      value: (i) => fileName(trace, i),
      show: (i) => <PathName path={fileName(trace, i)} />,
    },
    {
      key: "offset",
      label: "File offset",
      number: true,
      value: (i) => fileOffset(trace, i),
      show: (i) => {
        const offset = fileOffset(trace, i);
        return offset === null ? "–" : count(offset);
      },
    },
    {
      key: "process",
      label: "Process",
      value: (i) => trace.names.processes[requests.process[i]] ?? "?",
      show: (i) => harmless(trace.names.processes[requests.process[i]] ?? "?"),
    },
    { key: "cause", label: "Cause", value: (i) => causeName(requests.cause[i]) },
    {
      key: "flags",
      label: "Flags",
      value: (i) => trace.events.flags[requests.flags[i]] ?? "",
      show: (i) => harmless(trace.events.flags[requests.flags[i]] ?? ""),
    },
  ];
  return (
    <Table
      name="requests"
      caption="Requests in sight"
      hideCaption
      columns={columns}
      rows={rows}
      rowKey={(i) => i}
      most={100}
      none="No request in sight."
    />
  );
}
