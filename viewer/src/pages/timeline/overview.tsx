// All tapes, the filter by type, and what is chosen.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, nanos, percent, plural } from "../../logic/format.ts";
import { DONE, type Timeline, threadName, typeName, WAITED, WORKED } from "../../logic/timeline.ts";
import { setBox, type TypeLine, typeLines } from "../../logic/typetree.ts";
import { Choice, Section } from "../../parts/bits.tsx";
import { TreeGrid } from "../../parts/treegrid.tsx";
import {
  ObjectLink,
  PathLegend,
  relative,
  Source,
  shownName,
  TimelineFacts,
  TypeLegend,
  timelineWaiting,
} from "./parts.tsx";
import {
  type Chosen,
  chosen,
  chosenEvent,
  ROWS,
  type RowKind,
  rowKind,
  rules,
  rulesKept,
  setRules,
  showObject,
  sisters,
  sourcePattern,
  tapePart,
  tapeRows,
  timeline,
  types,
  typesShown,
  zero,
  zeroHere,
  zeroText,
} from "./state.ts";
import { TapePlot } from "./tapes.tsx";

export function OverviewView(): JSX.Element {
  const wait = timelineWaiting();
  if (wait !== null) return wait;
  const of = timeline.value!;
  const tapes = tapeRows.value!;
  const height = Math.max(260, Math.min(innerHeight - 330, 34 + Math.max(8, tapes.rows.length) * 18));
  const what = { objects: "objects", types: "types", namespaces: "namespaces", threads: "threads" }[tapes.set.kind];
  const onLane = (lane: number) => {
    if (tapes.set.kind === "objects") showObject(lane);
  };
  return (
    <div class="timeline">
      <div class="tools">
        <Choice
          label="a tape for each of the"
          value={rowKind.value}
          values={ROWS.map((it): readonly [RowKind, string] => [it, it])}
          onChange={(value) => {
            rowKind.value = value;
            tapePart.y.value = null;
          }}
        />
        <ZeroTime />
        <span class="totals" data-part="totals">
          {count(tapes.rows.length)} of {count(tapes.set.lanes.count)} {what}
        </span>
      </div>
      {tapes.rows.length === 0 && rulesKept.value !== "" && (
        <p class="none" data-part="nothingchecked">
          Nothing of the types that are checked is left.
        </p>
      )}
      {tapes.rows.length > 0 && (
        <figure>
          <figcaption>
            what waits and what is worked on, against time{" "}
            {zero.value === 0 ? "since the first event" : "relative to the zero time"}; more rows: drag, ↑ ↓
          </figcaption>
          <TapePlot
            name="tapes"
            label={
              `${plural(tapes.rows.length, "tape", "tapes")} of ${what} over time. ` +
              "The view Objects holds them as a table, and the view Object all events of one."
            }
            tapes={tapes}
            part={tapePart}
            height={height}
            path={of.path}
            onLane={onLane}
          />
        </figure>
      )}
      <TypeLegend of={of} />
      {of.path !== null && of.path.length > 0 && <PathLegend path={of.path} />}
      <div class="columns">
        <Details of={of} />
        <Types />
      </div>
      <TimelineFacts of={of} />
    </div>
  );
}

function ZeroTime(): JSX.Element {
  return (
    <span class="choice">
      <button type="button" disabled={chosenEvent.value === null} onClick={zeroHere} title="z">
        zero time at the chosen event
      </button>
      {zero.value !== 0 && (
        <button type="button" onClick={() => (zeroText.value = "0")} title="Z">
          zero at the first event
        </button>
      )}
    </span>
  );
}

/** `+1.5 ms – +2.0 ms (0.5 ms)`. */
function between(from: number, to: number): string {
  return `${relative(from)} – ${relative(to)} (${nanos(to - from)})`;
}

export function Details({ of }: { of: Timeline }): JSX.Element {
  const event = chosenEvent.value;
  return (
    <Section title="Chosen event">
      {event === null ? (
        <p class="none">A click on a tape chooses an event.</p>
      ) : (
        <div data-part="details">
          <Facts of={of} event={event} />
          <p class="chips">
            <button type="button" onClick={sisters} title="f">
              only it and its sisters
            </button>
            <button type="button" onClick={() => showObject(event.object)} title="o">
              all of this object
            </button>
            <button type="button" onClick={() => showObject(event.object, "gantt")} title="g">
              gantt along its links
            </button>
            <button type="button" onClick={() => (chosen.value = "")}>
              choose none
            </button>
          </p>
        </div>
      )}
      <label class="choice sourcepattern">
        <span class="what">link to the source</span>
        <input
          type="text"
          value={sourcePattern.value}
          placeholder="https://…/{file}#L{line}"
          spellcheck={false}
          aria-label="Address of a place in the source, with {file} and {line}"
          onInput={(it) => (sourcePattern.value = it.currentTarget.value)}
        />
      </label>
    </Section>
  );
}

function Facts({ of, event }: { of: Timeline; event: Chosen }): JSX.Element {
  const rows: (readonly [string, JSX.Element | string])[] = [
    ["resource", <ObjectLink key="resource" of={of} object={event.object} />],
  ];
  if (event.kind === "interval") {
    const { begin, work, end, state, poster, worker, type, place } = of.intervals;
    const i = event.number;
    const is = (bit: number) => (state[i] & bit) !== 0;
    rows.push(["type", shownName(typeName(of, type[i]), 300)]);
    rows.push(["wait", is(WAITED) ? between(begin[i], work[i]) : "it did not wait"]);
    const open = is(DONE) ? "" : ", never done: until the end of the trace";
    rows.push(["execution", is(WORKED) ? `${between(work[i], end[i])}${open}` : `never worked on${open}`]);
    rows.push(["posted from", is(WAITED) ? shownName(threadName(of, poster[i])) : "–"]);
    rows.push(["worked on by", is(WORKED) ? shownName(threadName(of, worker[i])) : "–"]);
    rows.push(["source", <Source key="source" of={of} place={place[i]} />]);
  } else {
    const { at, type, thread, place } = of.moments;
    const i = event.number;
    rows.push(["type", shownName(typeName(of, type[i]), 300)]);
    rows.push(["at", relative(at[i])]);
    rows.push(["on", shownName(threadName(of, thread[i]))]);
    rows.push(["source", <Source key="source" of={of} place={place[i]} />]);
  }
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd data-fact={name}>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Types(): JSX.Element | null {
  const [flipped, setFlipped] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState<string | null>(null);
  const [tree, shown] = [types.value, typesShown.value];
  const lines = useMemo(
    () => (tree === null || shown === null ? [] : typeLines(tree, shown, flipped)),
    [tree, shown, flipped],
  );
  if (tree === null) return null;
  const flip = (line: TypeLine) => {
    const next = new Set(flipped);
    if (!next.delete(line.key)) next.add(line.key);
    setFlipped(next);
  };
  const set = (line: TypeLine) => setRules(setBox(rules.value, line.key, line.box !== "all"));
  return (
    <Section title={`Types (${count(tree.types)})`}>
      <p class="chips">
        <button type="button" disabled={rulesKept.value === ""} onClick={() => (rulesKept.value = "")}>
          show all types
        </button>
      </p>
      <TreeGrid
        name="types"
        caption="Types by namespace; a box shows or hides all below it"
        nameLabel="Type"
        rows={lines}
        short={lines.length < 30}
        label={(line) => (
          <label class="typename">
            <input
              type="checkbox"
              checked={line.box === "all"}
              ref={(box) => {
                if (box !== null) box.indeterminate = line.box === "some";
              }}
              aria-label={`show ${shownName(line.node.key || "all types", 200)}`}
              onChange={() => set(line)}
            />
            {shownName(line.node.label, 80)}
          </label>
        )}
        title={(line) => shownName(line.node.key, 400)}
        text={(line) => line.key}
        faint={(line) => line.box === "none"}
        onFlip={flip}
        active={active}
        onActive={(line) => setActive(line.key)}
        none="Nothing."
        columns={[
          {
            key: "count",
            label: "Events",
            number: true,
            width: "90px",
            value: (line) => line.node.count,
            show: (line) => count(line.node.count),
            bar: (line) => line.node.count / Math.max(1, tree.count),
          },
          {
            key: "share",
            label: "Share",
            number: true,
            width: "64px",
            value: (line) => line.node.count / Math.max(1, tree.count),
            show: (line) => percent(line.node.count / Math.max(1, tree.count)),
          },
        ]}
      />
    </Section>
  );
}
