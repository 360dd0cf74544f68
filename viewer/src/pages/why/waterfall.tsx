// The waterfall: a lane for each thread, and the path over them.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { css, ground, mixed, pixel } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import { fill, type Pixels } from "../../draw/raster.ts";
import { rowsInSight, rowTop } from "../../draw/tapes.ts";
import { isDense, paintHops, paintRow, paintStretches } from "../../draw/waterfall.ts";
import { nameOf } from "../../logic/calltree.ts";
import { count, harmless, nanos, percent, plural } from "../../logic/format.ts";
import { momentTicks } from "../../logic/moments.ts";
import { shortened } from "../../logic/timeline.ts";
import { length, type Range, type Viewport } from "../../logic/view.ts";
import {
  bandOf,
  byLane,
  full,
  laneLine,
  marksOf,
  pale,
  pathAt,
  pathLine,
  pieceAt,
  type Row,
  rowsOf,
} from "../../logic/waterfall.ts";
import { CLASS_NAMES, CLASSES, stackOf, type WhyStart } from "../../logic/why.ts";
import { Dot } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import { laneName } from "./parts.tsx";
import { chosenOwner, classColour, ownerLine, rows, waterfallPart } from "./state.ts";

const ROW = 18;
const [AXIS, MARKS] = [26, 18];
/** Frames of a stack in a tip. */
const MOST_FRAMES = 12;

const narrow = () => innerWidth < 700;

export function Waterfall({ of }: { of: WhyStart }): JSX.Element {
  const { head, pieces, path, first, classes } = of;
  const [shade, list, owner] = [theme.value, rows.value, chosenOwner.value];
  const ready = Math.max(1, head.report.ready_ns);
  const inside = Math.max(6 * ROW, Math.min(innerHeight - 300, list.length * ROW));
  const shown = Math.max(1, Math.floor(inside / ROW));
  const whole: Viewport = {
    x: { from: -ready * 0.005, to: ready * 1.005 },
    y: { from: -Math.max(list.length, shown), to: 0 },
  };
  const begin: Range = { from: -shown, to: 0 };
  const seen = waterfallPart.of(whole);
  const viewport: Viewport = { x: seen.x, y: waterfallPart.y.value === null ? begin : seen.y };
  const show = (next: Viewport) => {
    waterfallPart.x.value = next.x.from <= whole.x.from && next.x.to >= whole.x.to ? null : next.x;
    waterfallPart.y.value = next.y.from === begin.from && next.y.to === begin.to ? null : next.y;
  };
  const margins: Margins = { left: narrow() ? 110 : 210, right: 12, top: MARKS, bottom: AXIS };
  const places = useMemo(() => rowsOf(list, head.report.threads.length), [list, head]);
  const band = useMemo(() => bandOf(path), [path]);
  const marks = useMemo(() => marksOf(head.milestones, head.report.ready_ns), [head]);
  const onLanes = useMemo(() => byLane(path, head.report.threads.length), [path, head]);
  const lines = useMemo(
    () =>
      list.map((row) =>
        row.kind === "path"
          ? [pathLine(path, null, owner)]
          : row.kind === "lane"
            ? [laneLine(pieces, first[row.lane], first[row.lane + 1]), pathLine(path, onLanes[row.lane], owner)]
            : [],
      ),
    [list, of, owner],
  );
  const colours = useMemo(() => {
    const all = new Uint32Array(2 * classes.length + 3);
    classes.forEach((name, code) => {
      const colour = classColour(name, shade);
      all[full(code)] = pixel(colour);
      all[pale(code)] = pixel(mixed(colour, ground(shade).paper, shade === "dark" ? 0.3 : 0.26));
    });
    return all;
  }, [of, shade]);

  const paint = (to: Pixels, view: Viewport, perPixel: number) => {
    const tones = ground(shade);
    const [from, behind] = rowsInSight(view, list.length);
    for (let row = from; row < behind; row++) {
      const [top, bottom] = [rowTop(row, view, to.height), rowTop(row + 1, view, to.height)].map(Math.round);
      if (list[row].kind === "process") fill(to, 0, top, to.width, bottom, pixel(tones.band));
      else if (row % 2 === 1) fill(to, 0, top, to.width, bottom, pixel(tones.stripe));
    }
    const wide = Math.max(1, Math.round(perPixel));
    const scale = to.width / length(view.x);
    for (const { at } of marks) {
      const x = Math.round((at - view.x.from) * scale);
      fill(to, x, 0, x + wide, to.height, pixel(tones.way));
    }
    const [ink, soft] = [pixel(tones.text), pixel(mixed(tones.text, tones.paper, 0.3))];
    const dense = isDense(band.hops, view, to.width);
    if (dense) paintHops(to, band.hops, places, view, soft, wide);
    for (let row = from; row < behind; row++) paintRow(to, lines[row], row, view, colours);
    paintStretches(to, band.stretches, places, view, ink, Math.max(2, Math.round(2 * perPixel)));
    if (!dense) paintHops(to, band.hops, places, view, ink, wide);
  };
  const find = (view: Viewport, size: Size, x: number, y: number): number => {
    const row = Math.floor((y / size.height) * length(view.y) - view.y.to);
    if (row < 0 || row >= list.length) return -1;
    const perX = length(view.x) / size.width;
    const [time, reach] = [view.x.from + x * perX, 3 * perX];
    const at = list[row];
    if (at.kind === "path") return pieceAt(path, 0, path.count, time, reach);
    if (at.kind === "process") return path.count + pieces.count + row;
    const onPath = pathAt(path, at.lane, time, perX);
    if (onPath >= 0) return onPath;
    const piece = pieceAt(pieces, first[at.lane], first[at.lane + 1], time, reach);
    return path.count + (piece >= 0 ? piece : pieces.count + row);
  };
  const pick = (found: number) => {
    if (found < path.count && path.owner[found] >= 0)
      ownerLine.value = path.owner[found] === owner ? "" : String(path.owner[found]);
  };
  return (
    <div class="waterfall" style={{ height: `${inside + AXIS + MARKS}px` }}>
      <Plot
        name="waterfall"
        label={`${count(head.report.threads.length)} threads over ${nanos(ready)}. The table below holds who owns it.`}
        theme={shade}
        whole={whole}
        smallest={{ x: 1000, y: 4 }}
        viewport={viewport}
        onView={show}
        margins={margins}
        xTicks={(view, pixels) => momentTicks(view.x, 0, pixels, 100)}
        yTicks={null}
        axes="xy"
        scene={[lines, colours, places, inside]}
        paint={paint}
        write={(context, view, size) => {
          writeNames(context, view, size, of, list, margins.left - 10, shade);
          writeMarks(context, view, size, marks, css(ground(shade).faint));
        }}
        find={find}
        describe={(found) => <Tip of={of} list={list} found={found} />}
        onPick={pick}
      />
    </div>
  );
}

function writeNames(
  context: CanvasRenderingContext2D,
  view: Viewport,
  size: Size,
  of: WhyStart,
  list: readonly Row[],
  room: number,
  shade: "light" | "dark",
): void {
  context.textBaseline = "middle";
  context.textAlign = "left";
  const high = size.height / length(view.y);
  // Where rows are low only some have a name.
  const each = Math.max(1, Math.ceil(12 / high));
  const [from, behind] = rowsInSight(view, list.length);
  const headed = new Set(
    list.flatMap((row, place) =>
      row.kind === "process"
        ? list.slice(place + 1, place + 1 + row.lanes).map((it) => (it.kind === "lane" ? it.lane : -1))
        : [],
    ),
  );
  for (let place = Math.ceil(from / each) * each; place < behind; place += each) {
    const y = rowTop(place + 0.5, view, size.height);
    if (y < 0 || y > size.height) continue;
    const row = list[place];
    const strong = row.kind !== "lane" || of.head.report.threads[row.lane].path_ns > 0;
    const indent = row.kind === "lane" && headed.has(row.lane) ? 12 : 0;
    context.font = `${row.kind === "lane" ? "" : "600 "}11px system-ui, sans-serif`;
    context.fillStyle = css(strong ? ground(shade).text : ground(shade).faint);
    const name =
      row.kind === "path"
        ? "the path"
        : row.kind === "process"
          ? `${harmless(row.name)}${row.pid === null ? "" : ` ${row.pid}`}`
          : laneName(of.head.report.threads[row.lane]);
    context.fillText(shortened(name, Math.floor((room - indent) / 5.6)), indent - room - 8, y, room - indent);
  }
}

function writeMarks(
  context: CanvasRenderingContext2D,
  view: Viewport,
  size: Size,
  marks: readonly { readonly at: number; readonly name: string }[],
  colour: string,
): void {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = colour;
  // From the right: the last one is the end, which is told in any case.
  let room = size.width + 10;
  for (const { at, name } of [...marks].reverse()) {
    const x = ((at - view.x.from) / length(view.x)) * size.width;
    const text = harmless(shortened(name, 40));
    const wide = context.measureText(text).width;
    const left = Math.min(x - wide / 2, size.width - wide + 10);
    if (x < 0 || x > size.width || left + wide > room || left < 0) continue;
    context.fillText(text, left, -MARKS / 2);
    room = left - 10;
  }
}

function Tip({ of, list, found }: { of: WhyStart; list: readonly Row[]; found: number }): JSX.Element | null {
  const { head, path, pieces } = of;
  if (found >= path.count + pieces.count) {
    const row = list[found - path.count - pieces.count];
    if (row?.kind === "lane") return <LaneTip of={of} lane={row.lane} />;
    if (row?.kind !== "process") return null;
    return (
      <>
        <strong>{harmless(row.name)}</strong>
        {plural(row.lanes, "thread", "threads")}
      </>
    );
  }
  const onPath = found < path.count;
  const from = onPath ? path : pieces;
  const i = onPath ? found : found - path.count;
  const lane = head.report.threads[from.lane[i]];
  const owner = onPath ? head.owners[path.owner[i]] : undefined;
  const link = onPath && path.link[i] >= 0 ? head.seen[path.link[i]] : undefined;
  const wakes = link !== undefined && path.lane[i + 1] >= 0 ? head.report.threads[path.lane[i + 1]] : undefined;
  const merged = !onPath && lane?.is_merged === true;
  return (
    <>
      <strong>{lane === undefined ? "not known" : laneName(lane)}</strong>
      <Dot colour={css(classColour(of.classes[from.seen[i]], theme.value))} /> {head.seen[from.seen[i]].text},{" "}
      {nanos(from.to[i] - from.from[i])}
      {merged && " (short pieces are put together)"}
      <br />
      <span class="soft">
        from {nanos(from.from[i])} {onPath ? "· on the path" : "· beside the path"}
      </span>
      {wakes !== undefined && (
        <>
          <br />
          then {laneName(wakes)} goes on, which {link!.text.replace(/^waits/, "waited").replace(/^sleeps/, "slept")}
        </>
      )}
      {owner !== undefined && (
        <p class="soft owns">
          owner: {harmless(shortened(owner.text, 160))}
          {head.runs.length > 1 && " (mean)"}
        </p>
      )}
      <Stack of={of} node={from.node[i]} />
    </>
  );
}

function LaneTip({ of, lane }: { of: WhyStart; lane: number }): JSX.Element {
  const one = of.head.report.threads[lane];
  return (
    <>
      <strong>{laneName(one)}</strong>
      ran {nanos(one.ran_ns)}, had no CPU {nanos(one.lacked_cpu_ns)}, waited {nanos(one.waited_ns)}
      <br />
      {nanos(one.path_ns)} of it on the path
    </>
  );
}

function Stack({ of, node }: { of: WhyStart; node: number }): JSX.Element | null {
  const labels = stackOf(of.times, node);
  if (labels.length === 0) return null;
  return (
    <ol class="tipstack functionname">
      {labels.slice(0, MOST_FRAMES).map((label, i) => (
        <li key={i}>{harmless(shortened(nameOf(of.times.labels, label), 90))}</li>
      ))}
      {labels.length > MOST_FRAMES && <li class="soft">{count(labels.length - MOST_FRAMES)} more</li>}
    </ol>
  );
}

/** What the colours mean, and how much of the path each has. */
export function ClassLegend({ of }: { of: WhyStart }): JSX.Element {
  const times = new Map<string, number>();
  const { path, classes, head } = of;
  for (let i = 0; i < path.count; i++) {
    const name = classes[path.seen[i]];
    times.set(name, (times.get(name) ?? 0) + path.to[i] - path.from[i]);
  }
  const seen = new Set(classes);
  return (
    <ul class="legend" aria-label="Colours, and their time on the path" data-part="classes">
      {CLASSES.filter((name) => seen.has(name)).map((name) => (
        <li key={name}>
          <span class="item">
            <Dot colour={css(classColour(name, theme.value))} />
            <span class="name">{CLASS_NAMES[name]}</span>{" "}
            <span class="figure">
              {times.has(name) ? `${nanos(times.get(name))}, ${share(times.get(name)!, head.report.ready_ns)}` : "–"}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

const share = (ns: number, of: number): string => percent(of === 0 ? 0 : ns / of);
