// The flame graph of a heap recording: who allocates through whom, as areas.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { paintFlame, ROW, rowAt, type Side, writeFlame } from "../../draw/flamegraph.ts";
import { css, ground, mixed, otherColour, pixel, rankColour } from "../../draw/palette.ts";
import { type Margins, Plot } from "../../draw/plot.tsx";
import type { Pixels } from "../../draw/raster.ts";
import { nameOf, objectName, objectOf } from "../../logic/calltree.ts";
import { boxAt, matchedShare, pathTo, rowsWithin } from "../../logic/flame.ts";
import { bytes, count, harmless, percent, plural } from "../../logic/format.ts";
import { length, type Viewport } from "../../logic/view.ts";
import { Choice, Legend, Section } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import { Missing, ModeChoice, ProcessChoice, waiting } from "./parts.tsx";
import {
  flameRange,
  flameSide,
  heapShape,
  heapTerms,
  labels,
  flame as made,
  matches,
  mode,
  modeName,
  objectRanks,
  recording,
} from "./state.ts";
import { objectColour, SHAPE_NAMES } from "./treeparts.tsx";

const MARGINS: Margins = { left: 1, right: 1, top: 1, bottom: 1 };
/** Rows that are drawn at most: canvases have an end. */
const MOST_ROWS = 220;
/** Objects in the legend. */
const MOST_OBJECTS = 9;

export function FlameView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  return (
    <>
      <div class="tools">
        <ProcessChoice />
        <ModeChoice />
        <Choice label="tree" values={SHAPE_NAMES} value={heapShape.value} onChange={(value) => choose(value)} />
        <Choice
          label="side"
          values={
            [
              ["icicle", "icicle"],
              ["flame", "flame"],
            ] as const
          }
          value={flameSide.value}
          onChange={(value) => (flameSide.value = value)}
        />
      </div>
      <Missing head={recording.value!.head} />
      <Graph />
    </>
  );
}

function choose(shape: string): void {
  heapShape.value = shape;
  flameRange.value = null;
}

function Graph(): JSX.Element {
  const { tree, flame } = made.value;
  const [names, found, shade, side] = [labels.value, matches.value, theme.value, flameSide.value as Side];
  const searching = heapTerms.value.some((term) => !term.exclude);
  const x = inside(flameRange.value);
  const total = tree.total[0];
  const all = total[0];
  // Narrower boxes than about a pixel are not seen.
  const rows = Math.min(
    MOST_ROWS,
    useMemo(() => rowsWithin(flame, x.from, x.to, length(x) / 1200), [flame, x.from, x.to]),
  );
  const colours = useMemo(
    () =>
      boxColours(
        tree.label,
        names.frames.count,
        (label) => objectOf(names, label),
        (label) => found[label] === 1,
        searching,
      ),
    [tree, found, searching, shade, objectRanks.value],
  );
  const share = useMemo(
    () => (searching ? matchedShare(flame, (node) => found[tree.label[node]] === 1) : 0),
    [flame, found, searching],
  );
  if (flame.rows === 0) return <p class="none">There are no such blocks.</p>;
  const y = side === "icicle" ? { from: -rows, to: 0 } : { from: 0, to: rows };
  const whole: Viewport = { x: { from: 0, to: 1 }, y };
  const viewport: Viewport = { x, y };
  const zoomed = length(x) < 0.999999 ? path(x) : [];
  const labelOf = (box: number) => tree.label[flame.node[box]];
  return (
    <Section
      title={`${modeName(mode.value)}: ${bytes(all)} in ${plural(tree.total[1][0], "block", "blocks")}`}
      note={
        <>
          A click or Ctrl and the wheel come closer, dragging moves, a double click shows all again.{" "}
          {count(flame.count)} boxes, {count(flame.rows)} rows
          {rows < flame.rows && `; below row ${count(rows)} there is nothing that could be seen at this zoom`}.
          {searching &&
            (share > 0
              ? ` The filter matches ${bytes(share * all)}, ${percent(share)} of the bytes.`
              : " The filter matches nothing.")}
        </>
      }
    >
      <p class="crumbs">
        <button type="button" class="plain" disabled={zoomed.length === 0} onClick={() => (flameRange.value = null)}>
          all
        </button>
        {zoomed.slice(-4).map((box) => (
          <>
            <span class="soft"> › </span>
            <button key={box} type="button" class="plain functionname" onClick={() => zoomTo(box)}>
              {harmless(nameOf(names, labelOf(box)))}
            </button>
          </>
        ))}
      </p>
      <Objects />
      <div class="flame" style={{ height: `${Math.max(6, rows) * ROW + 2}px` }}>
        <Plot
          key={side}
          name="flame"
          label={`Flame graph of ${bytes(all)}; the tree view has the same as a table`}
          theme={shade}
          whole={{ x: whole.x, y: padded(y, rows, side) }}
          smallest={{ x: 1e-6, y: length(padded(y, rows, side)) }}
          viewport={{ x: viewport.x, y: padded(y, rows, side) }}
          onView={(next) => (flameRange.value = length(next.x) > 0.999999 ? null : next.x)}
          margins={MARGINS}
          xTicks={null}
          yTicks={null}
          axes="x"
          scene={[flame, colours, side, rows]}
          paint={(to: Pixels, seen, perPixel) =>
            paintFlame(
              to,
              flame,
              seen,
              side,
              (box) => colours.boxes[flame.node[box]],
              (box) =>
                searching && colours.dim[flame.node[box]] === 0
                  ? { colour: colours.boxes[flame.node[box]], found: true }
                  : { colour: colours.small, found: false },
              perPixel,
            )
          }
          write={(context, seen, size) =>
            writeFlame(
              context,
              flame,
              seen,
              size,
              side,
              (box) => harmless(nameOf(names, labelOf(box))),
              (box) => css(colours.dim[flame.node[box]] === 1 ? ground(shade).faint : ground(shade).text),
            )
          }
          find={(seen, size, px, py) => {
            const at = seen.x.from + (px / size.width) * length(seen.x);
            const row = rowAt(seen.y.to - (py / size.height) * length(seen.y), side);
            return boxAt(flame, row, at, (0.5 / size.width) * length(seen.x));
          }}
          describe={tip}
          onPick={(box) => zoomTo(box)}
        />
      </div>
    </Section>
  );

  function zoomTo(box: number): void {
    flameRange.value =
      flame.wide[box] > 0.999999 ? null : { from: flame.x[box], to: Math.min(1, flame.x[box] + flame.wide[box]) };
  }

  /** The boxes that are as wide as what is seen, or wider: where one has come to. */
  function path(range: { from: number; to: number }): number[] {
    let last = -1;
    const middle = (range.from + range.to) / 2;
    for (let row = 0; row < flame.rows; row++) {
      const box = boxAt(flame, row, middle, 0);
      if (box < 0 || flame.wide[box] < length(range) * 0.999) break;
      last = box;
    }
    return last < 0 ? [] : pathTo(flame, last);
  }

  function tip(box: number): JSX.Element {
    const node = flame.node[box];
    const label = labelOf(box);
    const object = objectOf(names, label);
    return (
      <>
        <strong class="functionname wrap">{harmless(nameOf(names, label))}</strong>
        <dl>
          {object >= 0 && <dt>object</dt>}
          {object >= 0 && <dd>{harmless(objectName(names.frames.objects[object]))}</dd>}
          <dt>bytes</dt>
          <dd>
            {bytes(total[node])} · {percent(total[node] / all)}
          </dd>
          <dt>blocks</dt>
          <dd>{count(tree.total[1][node])}</dd>
          {tree.own[0][node] > 0 && heapShape.value === "down" && <dt>of itself</dt>}
          {tree.own[0][node] > 0 && heapShape.value === "down" && <dd>{bytes(tree.own[0][node])}</dd>}
        </dl>
      </>
    );
  }
}

/** What colours stand for, the objects that allocate most first. */
function Objects(): JSX.Element {
  const { objects } = labels.value.frames;
  const ranks = objectRanks.value.slice(0, MOST_OBJECTS);
  return (
    <Legend
      label="objects"
      items={ranks.map((object) => ({
        colour: objectColour(object),
        name: objectName(objects[object]),
        figure: "",
        word: { field: "file", text: objects[object] },
      }))}
    />
  );
}

/** Few rows must not become high ones. */
function padded(y: { from: number; to: number }, rows: number, side: Side): { from: number; to: number } {
  const more = Math.max(0, 6 - rows);
  return side === "icicle" ? { from: y.from - more, to: y.to } : { from: y.from, to: y.to + more };
}

function inside(range: { from: number; to: number } | null): { from: number; to: number } {
  return range === null || range.to <= 0 || range.from >= 1
    ? { from: 0, to: 1 }
    : { from: Math.max(0, range.from), to: Math.min(1, range.to) };
}

interface BoxColours {
  /** By node of the tree, for the raster. */
  readonly boxes: Uint32Array;
  /** By node: 1 does not match what is searched for. */
  readonly dim: Uint8Array;
  readonly small: number;
}

/** Pale enough for words on them; functions of one object differ a little, so that neighbours can be told apart. */
function boxColours(
  label: Uint32Array,
  frames: number,
  objectOfLabel: (label: number) => number,
  matching: (label: number) => boolean,
  searching: boolean,
): BoxColours {
  const shade = theme.value;
  const { paper } = ground(shade);
  const ranks = new Map(objectRanks.value.map((object, rank) => [object, rank]));
  const boxes = new Uint32Array(label.length);
  const dim = new Uint8Array(label.length);
  const known = new Map<number, number>();
  for (let node = 0; node < label.length; node++) {
    const id = label[node];
    const hit = matching(id);
    dim[node] = searching && !hit ? 1 : 0;
    let colour = known.get(id);
    if (colour === undefined) {
      const rank = ranks.get(objectOfLabel(id));
      const base =
        id >= frames && rank === undefined
          ? ground(shade).life
          : rank === undefined
            ? otherColour(shade)
            : rankColour(rank, shade);
      const vary = ((Math.imul(id + 1, 2654435761) >>> 24) / 255 - 0.5) * 0.14;
      const share = dim[node] === 1 ? 0.12 : hit ? 0.8 : (shade === "dark" ? 0.4 : 0.42) + vary;
      colour = pixel(mixed(base, paper, share));
      known.set(id, colour);
    }
    boxes[node] = colour;
  }
  return { boxes, dim, small: pixel(mixed(otherColour(shade), paper, searching ? 0.15 : 0.35)) };
}
