// A flame graph with what belongs to it: title, note, where one has come to, the legend, and the picture. What it
// measures and where its range is kept is the page's.

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { boxColours, padded, paintFlame, ROW, rowAt, type Side, writeFlame } from "../draw/flamegraph.ts";
import { css, ground, rankColour } from "../draw/palette.ts";
import { type Margins, Plot } from "../draw/plot.tsx";
import { type Labels, nameOf, objectName, objectOf, type Tree } from "../logic/calltree.ts";
import type { Term } from "../logic/filter.ts";
import { boxAt, boxesAround, type Flame, inside, matchedShare, rowsWithin } from "../logic/flame.ts";
import { count, harmless, percent } from "../logic/format.ts";
import { clampInto, length, type Range } from "../logic/view.ts";
import { theme } from "../state.ts";
import { Legend, Section } from "./bits.tsx";

const MARGINS: Margins = { left: 1, right: 1, top: 1, bottom: 1 };
/** Rows that are drawn at most: canvases have an end. */
const MOST_ROWS = 220;
/** Rows that there is room for, however few there are. */
const LEAST_ROWS = 6;
/** What lies above and below the picture, in CSS pixels. */
const AROUND = 260;
/** Objects in the legend. */
const MOST_OBJECTS = 9;
/** Letters of a name in the picture and its tip, and where there is less room. */
const [LONG, SHORT] = [300, 200];
/** A share of everything from which on it is all of it. */
const ALL = 0.999999;

export interface FlameGraphProps {
  /** The plot's, for tests and keys. */
  readonly name: string;
  readonly title: string;
  /** What a screen reader says instead of the picture. */
  readonly label: string;
  /** What is said where there are no boxes. */
  readonly none: string;
  readonly tree: Tree;
  /** The boxes of that tree. */
  readonly flame: Flame;
  readonly names: Labels;
  /** Words of the filter, and by label: 1 passes them. */
  readonly terms: readonly Term[];
  readonly matches: Uint8Array;
  /** Objects by rank: of their colours, and in the legend. */
  readonly ranks: readonly number[];
  readonly side: Side;
  /** The share of everything that is in sight; `null`: all. */
  readonly range: Signal<Range | null>;
  /** Deep stacks do not make the picture higher than the window: they are moved up and down in it. */
  readonly moves: boolean;
  /** What an amount is a part of: "the bytes". */
  readonly whole: string;
  /** Of the note: how it is used beyond coming closer, and where rows lie that are not drawn. */
  readonly usage: string;
  readonly beyond: string;
  readonly amount: (value: number) => string;
  /** A name in about as many letters. */
  readonly cut: (name: string, letters: number) => string;
  /** What a box's tip says of a node between its object and its own amount. */
  readonly facts: (node: number) => readonly (readonly [string, string])[];
  /** Whether a node has an amount of its own beside that of those on it. */
  readonly hasOwn: boolean;
}

/** How deep the stacks in sight are, and which of their rows are. */
function useRows({ flame, side, range, moves }: FlameGraphProps) {
  const x = inside(range.value);
  // Narrower boxes than about a pixel are not seen.
  const rows = Math.min(
    MOST_ROWS,
    useMemo(() => rowsWithin(flame, x.from, x.to, length(x) / 1200), [flame, x.from, x.to]),
  );
  const y = padded(side === "icicle" ? { from: -rows, to: 0 } : { from: 0, to: rows }, rows, side);
  const room = moves ? Math.floor((innerHeight - AROUND) / ROW) : rows;
  const shown = Math.max(LEAST_ROWS, Math.min(rows, room));
  // At first the ground is in sight.
  const stand: Range = side === "icicle" ? { from: -shown, to: 0 } : { from: 0, to: shown };
  const [low, setLow] = useState<number | null>(null);
  useEffect(() => setLow(null), [flame, side]);
  const seen = clampInto(low === null ? stand : { from: low, to: low + shown }, y);
  return { rows, shown, viewport: { x, y: seen }, y, setLow };
}

export function FlameGraph(props: FlameGraphProps): JSX.Element {
  const { tree, flame, names, matches, ranks, side, range, cut } = props;
  const shade = theme.value;
  const searching = props.terms.some((term) => !term.exclude);
  const { rows, shown, viewport, y, setLow } = useRows(props);
  const colours = useMemo(
    () =>
      boxColours({
        label: tree.label,
        frames: names.frames.count,
        objectOf: (label) => objectOf(names, label),
        matching: (label) => matches[label] === 1,
        searching,
        ranks,
        theme: shade,
      }),
    [tree, matches, searching, shade, ranks],
  );
  const share = useMemo(
    () => (searching ? matchedShare(flame, (node) => matches[tree.label[node]] === 1) : 0),
    [flame, matches, searching],
  );
  if (flame.rows === 0) return <p class="none">{props.none}</p>;
  const isDim = (box: number) => colours.dim[flame.node[box]] === 1;
  const colourOf = (box: number) => colours.boxes[flame.node[box]];
  const zoomTo = (box: number) => {
    const [from, wide] = [flame.x[box], flame.wide[box]];
    range.value = wide > ALL ? null : { from, to: Math.min(1, from + wide) };
  };
  return (
    <Section title={props.title} note={<Note {...props} rows={rows} shown={shown} share={searching ? share : null} />}>
      <Crumbs {...props} zoomTo={zoomTo} />
      <Objects {...props} />
      <div class="flame" style={{ height: `${shown * ROW + 2}px` }}>
        <Plot
          key={side}
          name={props.name}
          label={props.label}
          theme={shade}
          whole={{ x: { from: 0, to: 1 }, y }}
          smallest={{ x: 1e-6, y: shown }}
          viewport={viewport}
          onView={(next) => {
            range.value = length(next.x) > ALL ? null : next.x;
            // Rows keep their height.
            if (props.moves && Math.abs(length(next.y) - shown) < 1e-6) setLow(next.y.from);
          }}
          margins={MARGINS}
          xTicks={null}
          yTicks={null}
          axes={props.moves ? "xy" : "x"}
          scene={[flame, colours, side, shown]}
          paint={(to, seen, perPixel) => {
            const small = (box: number) =>
              searching && !isDim(box)
                ? { colour: colourOf(box), found: true }
                : { colour: colours.small, found: false };
            paintFlame(to, flame, seen, side, colourOf, small, perPixel);
          }}
          write={(context, seen, size) => {
            const named = (box: number) => harmless(cut(nameOf(names, tree.label[flame.node[box]]), LONG));
            const ink = (box: number) => css(isDim(box) ? ground(shade).faint : ground(shade).text);
            writeFlame(context, flame, seen, size, side, named, ink);
          }}
          find={(seen, size, px, py) => {
            const at = seen.x.from + (px / size.width) * length(seen.x);
            const row = rowAt(seen.y.to - (py / size.height) * length(seen.y), side);
            return boxAt(flame, row, at, (0.5 / size.width) * length(seen.x));
          }}
          describe={(box) => <Tip {...props} node={flame.node[box]} />}
          onPick={zoomTo}
        />
      </div>
    </Section>
  );
}

/** `share` is what matches; `null`: nothing is searched for. */
function Note(props: FlameGraphProps & { rows: number; shown: number; share: number | null }): JSX.Element {
  const { flame, tree, rows, share } = props;
  return (
    <>
      A click or Ctrl and the wheel come closer, dragging moves, a double click shows all again. {props.usage}
      {count(flame.count)} boxes, {count(flame.rows)} rows
      {rows < flame.rows && `; ${props.beyond} row ${count(rows)} there is nothing that could be seen at this zoom`}
      {props.shown < rows && "; ↑ and ↓ move along deep stacks"}.
      {share !== null &&
        (share > 0
          ? ` The filter matches ${props.amount(share * tree.total[0][0])}, ${percent(share)} of ${props.whole}.`
          : " The filter matches nothing.")}
    </>
  );
}

/** The boxes that one has come closer to, the outermost first. */
function Crumbs(props: FlameGraphProps & { zoomTo: (box: number) => void }): JSX.Element {
  const { tree, flame, names, range, cut } = props;
  const x = inside(range.value);
  const zoomed = length(x) < ALL ? boxesAround(flame, x) : [];
  return (
    <p class="crumbs">
      <button type="button" class="plain" disabled={zoomed.length === 0} onClick={() => (range.value = null)}>
        all
      </button>
      {zoomed.slice(-4).map((box) => (
        <>
          <span class="soft"> › </span>
          <button key={box} type="button" class="plain functionname" onClick={() => props.zoomTo(box)}>
            {harmless(cut(nameOf(names, tree.label[flame.node[box]]), SHORT))}
          </button>
        </>
      ))}
    </p>
  );
}

/** What colours stand for, the first ranks. */
function Objects({ names, ranks, cut }: FlameGraphProps): JSX.Element {
  const { objects } = names.frames;
  return (
    <Legend
      label="objects"
      items={ranks.slice(0, MOST_OBJECTS).map((object, rank) => ({
        colour: css(rankColour(rank, theme.value)),
        name: cut(objectName(objects[object]), SHORT),
        figure: "",
        word: { field: "file", text: objects[object] },
      }))}
    />
  );
}

function Tip({ node, tree, names, cut, facts, amount, hasOwn }: FlameGraphProps & { node: number }): JSX.Element {
  const label = tree.label[node];
  const object = objectOf(names, label);
  const own = tree.own[0][node];
  return (
    <>
      <strong class="functionname wrap">{harmless(cut(nameOf(names, label), LONG))}</strong>
      <dl>
        {object >= 0 && <dt>object</dt>}
        {object >= 0 && <dd>{harmless(cut(objectName(names.frames.objects[object]), SHORT))}</dd>}
        {facts(node).map(([name, text]) => (
          <>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </>
        ))}
        {hasOwn && own > 0 && <dt>of itself</dt>}
        {hasOwn && own > 0 && <dd>{amount(own)}</dd>}
      </dl>
    </>
  );
}
