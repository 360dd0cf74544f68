// The picture of tapes, which the views of all objects, of links and of the path share.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { css, ground, mixed, pixel } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import { fill, type Pixels } from "../../draw/raster.ts";
import { band, drawLink, drawShot, drawTape, rowsInSight, rowTop } from "../../draw/tapes.ts";
import { lowerBound } from "../../logic/columns.ts";
import { harmless, nanos } from "../../logic/format.ts";
import { momentTicks } from "../../logic/moments.ts";
import { DEEP, numberAt, placeAt } from "../../logic/tapes.ts";
import { MARK, objectName, type PathStep, shortened, type Timeline, typeName } from "../../logic/timeline.ts";
import { length, type Range, type Viewport } from "../../logic/view.ts";
import { theme, type VisiblePart } from "../../state.ts";
import { relative, shownName } from "./parts.tsx";
import { pathColour } from "./pathcolours.ts";
import { chosen, chosenEvent, type Tapes, tapeColours, zero } from "./state.ts";

/** Height of a row at first, and at least, in CSS pixels. */
const [ROW, LEAST] = [18, 1];
const AXIS = 30;

/** A line from a row to another. */
export interface Way {
  readonly fromRow: number;
  readonly toRow: number;
  readonly at: number;
  readonly to: number;
}

export interface TapePlotProps {
  readonly name: string;
  readonly label: string;
  readonly tapes: Tapes;
  readonly part: VisiblePart;
  /** Height of the picture in CSS pixels, its axis with it. */
  readonly height: number;
  /** What stands beside a row; else its lane's name. */
  readonly indent?: (row: number) => number;
  readonly ways?: readonly Way[];
  readonly path?: readonly PathStep[] | null;
  readonly onLane?: (lane: number) => void;
}

const narrow = () => innerWidth < 700;

export function TapePlot(props: TapePlotProps): JSX.Element {
  const { tapes, part } = props;
  const { of, set, rows, look, mips } = tapes;
  const shade = theme.value;
  const inside = props.height - AXIS - 4;
  // Rows stand close enough to be told apart, never closer than a pixel.
  const most = Math.max(1, Math.floor(inside / LEAST));
  const first = Math.max(1, Math.min(rows.length, Math.floor(inside / ROW)));
  const whole: Viewport = {
    x: { from: -Math.max(1, of.end) * 0.01, to: Math.max(1, of.end) * 1.01 },
    y: { from: -Math.max(rows.length, Math.floor(inside / ROW)), to: 0 },
  };
  const start: Range = { from: -Math.max(first, Math.floor(inside / ROW)), to: 0 };
  const seen = part.of(whole);
  const viewport: Viewport = { x: seen.x, y: part.y.value === null ? start : atMost(seen.y, most) };
  const show = (next: Viewport) => {
    part.x.value = next.x.from <= whole.x.from && next.x.to >= whole.x.to ? null : next.x;
    const y = length(next.y) > most ? start : next.y;
    part.y.value = y.from === start.from && y.to === start.to ? null : y;
  };
  const colours = useMemo(() => tapeColours(shade), [shade]);
  const rowOf = useMemo(() => {
    const places = new Map<number, number>();
    if (set.kind === "objects") for (const [row, lane] of rows.entries()) places.set(lane, row);
    return places;
  }, [rows]);
  const margins: Margins = { left: narrow() ? 110 : 250, right: 12, top: 4, bottom: AXIS - 4 };
  const event = chosenEvent.value;

  const paint = (to: Pixels, view: Viewport, perPixel: number) => {
    const colour = ground(shade);
    const [from, behind] = rowsInSight(view, rows.length);
    const stripe = pixel(colour.stripe);
    for (let row = from; row < behind; row++) {
      const [top, bottom] = [rowTop(row, view, to.height), rowTop(row + 1, view, to.height)].map(Math.round);
      if (event !== null && set.kind === "objects" && rows[row] === event.object)
        fill(to, 0, top, to.width, bottom, pixel(colour.band));
      else if (row % 2 === 1 && bottom - top > 4) fill(to, 0, top, to.width, bottom, stripe);
    }
    paintZero(to, view, pixel(colour.life));
    for (let row = from; row < behind; row++) drawTape(to, mips, rows[row], row, view, colours);
    if (set.hasMarks) paintMarks(to, view, of, tapes, colours, from, behind);
    for (const way of props.ways ?? [])
      drawLink(to, view, way.fromRow, way.at, way.toRow, way.to, pixel(mixed(colour.text, colour.paper, 0.7)));
    if (props.path != null) paintPath(to, view, props.path, rowOf, shade, perPixel);
    if (event !== null) paintChosen(to, view, of, event, rowOf, pixel(colour.text), perPixel);
  };
  const find = (view: Viewport, size: Size, x: number, y: number): number => {
    const row = Math.floor((y / size.height) * length(view.y) - view.y.to);
    if (row < 0 || row >= rows.length) return -1;
    const perX = length(view.x) / size.width;
    const [time, reach] = [view.x.from + x * perX, 4 * perX];
    const mark = set.hasMarks ? markAt(of, tapes, rows[row], time, reach) : -1;
    const place = placeAt(set.lanes, rows[row], look, time, reach);
    // A mark lies on top of what is there.
    if (mark >= 0) return of.intervals.count + mark;
    return place >= 0 ? numberAt(set.lanes, place) : of.intervals.count + of.moments.count + row;
  };
  const pick = (found: number) => {
    if (found < of.intervals.count) chosen.value = `i${found}`;
    else if (found < of.intervals.count + of.moments.count) chosen.value = `m${found - of.intervals.count}`;
    else props.onLane?.(rows[found - of.intervals.count - of.moments.count]);
  };
  return (
    <div class="tapes" style={{ height: `${props.height}px` }}>
      <Plot
        name={props.name}
        label={props.label}
        theme={shade}
        whole={whole}
        smallest={{ x: 20, y: 2 }}
        viewport={viewport}
        onView={show}
        margins={margins}
        xTicks={(view, pixels) => momentTicks(view.x, zero.value, pixels, 100)}
        yTicks={null}
        axes="xy"
        scene={[tapes, colours, event?.number, event?.kind, zero.value, props.ways, props.path, props.height]}
        paint={paint}
        write={(context, view, size) => {
          context.font = "11px system-ui, sans-serif";
          context.textBaseline = "middle";
          context.textAlign = "left";
          const high = size.height / length(view.y);
          // Where rows are low only some have a name.
          const each = Math.max(1, Math.ceil(12 / high));
          const [from, behind] = rowsInSight(view, rows.length);
          const room = margins.left - 10;
          for (let row = Math.ceil(from / each) * each; row < behind; row += each) {
            const y = rowTop(row + 0.5, view, size.height);
            if (y < 0 || y > size.height) continue;
            const indent = Math.min((props.indent?.(row) ?? 0) * 10, room / 2);
            const isChosen = event !== null && set.kind === "objects" && rows[row] === event.object;
            context.fillStyle = css(isChosen ? ground(shade).text : ground(shade).faint);
            const text = harmless(shortened(set.name(of, rows[row]), Math.floor((room - indent) / 5.6)));
            context.fillText(text, indent - margins.left + 2, y, room - indent);
          }
        }}
        find={find}
        describe={(found) => <Tip of={of} tapes={tapes} found={found} />}
        onPick={pick}
      />
    </div>
  );
}

function atMost(range: Range, most: number): Range {
  return length(range) <= most ? range : { from: range.to - most, to: range.to };
}

function paintZero(to: Pixels, view: Viewport, colour: number): void {
  if (zero.value === 0) return;
  const x = Math.round(((zero.value - view.x.from) / length(view.x)) * to.width);
  fill(to, x, 0, x + 2, to.height, colour);
}

function paintMarks(
  to: Pixels,
  view: Viewport,
  of: Timeline,
  { rows, look }: Tapes,
  colours: Uint32Array,
  from: number,
  behind: number,
): void {
  const { at, what, type } = of.moments;
  const scale = to.width / length(view.x);
  for (let row = from; row < behind; row++) {
    const [low, last] = [of.firstMoment[rows[row]], of.firstMoment[rows[row] + 1]];
    if (low === last) continue;
    const [top, bottom] = band(row, view, to.height);
    let drawn = -1;
    for (let i = low + lowerBound(at.subarray(low, last), view.x.from); i < last && at[i] <= view.x.to; i++) {
      if (what[i] !== MARK || (look.types !== null && look.types[type[i]] === 0)) continue;
      const x = ((at[i] - view.x.from) * scale) | 0;
      if (x === drawn) continue;
      drawn = x;
      drawShot(to, x, top, bottom, colours[look.colour[type[i]] | DEEP]);
    }
  }
}

function markAt(of: Timeline, { look }: Tapes, object: number, time: number, reach: number): number {
  const { at, what, type } = of.moments;
  const [low, last] = [of.firstMoment[object], of.firstMoment[object + 1]];
  let best = -1;
  for (let i = low + lowerBound(at.subarray(low, last), time - reach); i < last && at[i] <= time + reach; i++)
    if (what[i] === MARK && (look.types === null || look.types[type[i]] === 1))
      if (best < 0 || Math.abs(at[i] - time) < Math.abs(at[best] - time)) best = i;
  return best;
}

function paintPath(
  to: Pixels,
  view: Viewport,
  path: readonly PathStep[],
  rowOf: ReadonlyMap<number, number>,
  shade: "light" | "dark",
  perPixel: number,
): void {
  const x = (time: number) => Math.round(((time - view.x.from) / length(view.x)) * to.width);
  const thick = Math.max(3, Math.round(4 * perPixel));
  let before: number | undefined;
  for (const step of path) {
    const row = step.object === null ? undefined : rowOf.get(step.object);
    const colour = pixel(pathColour(step.class, shade));
    const at = row ?? before;
    if (at === undefined) continue;
    const bottom = Math.round(rowTop(at + 1, view, to.height));
    fill(to, x(step.from), bottom - thick, Math.max(x(step.to), x(step.from) + 2), bottom, colour);
    if (before !== undefined && before !== at) {
      const other = Math.round(rowTop(before + 1, view, to.height));
      const left = x(step.from);
      fill(
        to,
        left,
        Math.min(other, bottom) - thick,
        left + Math.max(1, Math.round(perPixel)),
        Math.max(other, bottom),
        colour,
      );
    }
    before = at;
  }
}

function paintChosen(
  to: Pixels,
  view: Viewport,
  of: Timeline,
  event: NonNullable<typeof chosenEvent.value>,
  rowOf: ReadonlyMap<number, number>,
  colour: number,
  perPixel: number,
): void {
  const row = rowOf.get(event.object);
  if (row === undefined) return;
  const x = (time: number) => Math.round(Math.max(-10, Math.min(2, (time - view.x.from) / length(view.x))) * to.width);
  const [top, bottom] = band(row, view, to.height);
  const [from, end] =
    event.kind === "interval"
      ? [of.intervals.begin[event.number], of.intervals.end[event.number]]
      : [of.moments.at[event.number], of.moments.at[event.number]];
  const [left, right] = [x(from) - 2, Math.max(x(end), x(from) + 1) + 2];
  const wide = Math.max(1, Math.round(perPixel));
  fill(to, left, top - 2, right, top - 2 + wide, colour);
  fill(to, left, bottom + 1, right, bottom + 1 + wide, colour);
  fill(to, left, top - 2, left + wide, bottom + 2, colour);
  fill(to, right - wide, top - 2, right, bottom + 2, colour);
}

function Tip({ of, tapes, found }: { of: Timeline; tapes: Tapes; found: number }): JSX.Element {
  const { intervals, moments } = of;
  if (found >= intervals.count + moments.count) {
    const lane = tapes.rows[found - intervals.count - moments.count];
    return <strong>{shownName(tapes.set.name(of, lane), 200)}</strong>;
  }
  if (found >= intervals.count) {
    const i = found - intervals.count;
    return (
      <>
        <strong>{shownName(objectName(of, moments.object[i]), 200)}</strong>
        {shownName(typeName(of, moments.type[i]), 120)} at {relative(moments.at[i])}
      </>
    );
  }
  const { begin, work, end, state } = intervals;
  return (
    <>
      <strong>{shownName(objectName(of, intervals.object[found]), 200)}</strong>
      {shownName(typeName(of, intervals.type[found]), 120)}
      <br />
      {(state[found] & 1) !== 0 && `waits ${nanos(work[found] - begin[found])} `}
      {(state[found] & 2) !== 0 && `is worked on ${nanos(end[found] - work[found])} `}
      {(state[found] & 4) === 0 && "and never ended"}
      <br />
      <span class="soft">from {relative(begin[found])}</span>
    </>
  );
}
