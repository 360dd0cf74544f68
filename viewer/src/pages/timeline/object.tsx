// One object: all its events, what caused it, what it caused, and what is known of it.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, nanos, plural } from "../../logic/format.ts";
import {
  addressName,
  childrenOf,
  eventsOf,
  objectName,
  parentsOf,
  type Relation,
  type Timeline,
  threadName,
  typeName,
} from "../../logic/timeline.ts";
import { AsTable, FactList, Section } from "../../parts/bits.tsx";
import { Rows } from "../../parts/rows.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Details } from "./overview.tsx";
import { ObjectLink, relative, Source, shownName, timelineWaiting } from "./parts.tsx";
import { ganttPart, objectInSight, showObject, tapesOf, timeline, zero } from "./state.ts";
import { TapePlot } from "./tapes.tsx";

/** Longest name that is shown whole. */
const WHOLE_NAME = 2000;

export function ObjectView(): JSX.Element {
  const wait = timelineWaiting();
  if (wait !== null) return wait;
  const of = timeline.value!;
  const object = objectInSight.value;
  if (object === null) return <p class="none">No event names an object.</p>;
  return <OneObject key={object} of={of} object={object} />;
}

function OneObject({ of, object }: { of: Timeline; object: number }): JSX.Element {
  const events = useMemo(() => eventsOf(of, object), [of, object]);
  const [parents, children] = useMemo(() => [parentsOf(of, object), childrenOf(of, object)], [of, object]);
  const [sort, setSort] = useState("at");
  const name = objectName(of, object);
  const process = of.objects.process[object];
  const whose = process === 0 ? undefined : of.head.processes[process - 1];
  const tapes = useMemo(() => tapesOf(Uint32Array.of(object)), [of, object]);
  const args = events.filter((event) => event.kind === "arg");
  const columns: (Column<number> & { readonly width: string })[] = [
    {
      key: "at",
      label: "At",
      number: true,
      width: "130px",
      value: (row) => (events[row].at - zero.value) / 1e9,
      show: (row) => relative(events[row].at),
    },
    { key: "what", label: "What", width: "70px", value: (row) => events[row].kind },
    {
      key: "type",
      label: "Type",
      width: "26%",
      value: (row) => (events[row].type === 0 ? "" : typeName(of, events[row].type)),
      show: (row) => (events[row].type === 0 ? "" : shownName(typeName(of, events[row].type))),
    },
    {
      key: "thread",
      label: "Thread",
      width: "16%",
      value: (row) => (events[row].thread === null ? null : threadName(of, events[row].thread)),
      show: (row) => (events[row].thread === null ? "–" : shownName(threadName(of, events[row].thread))),
    },
    {
      key: "more",
      label: "Says",
      width: "auto",
      value: (row) => (events[row].other === null ? events[row].text : objectName(of, events[row].other)),
      show: (row) =>
        events[row].other === null ? (
          <span title={shownName(events[row].text, 1000)}>{shownName(events[row].text, 200)}</span>
        ) : (
          <>
            to <ObjectLink of={of} object={events[row].other} />
          </>
        ),
    },
    {
      key: "source",
      label: "Source",
      width: "18%",
      wide: true,
      value: (row) => events[row].place,
      show: (row) => (events[row].place === 0 ? "" : <Source of={of} place={events[row].place} />),
    },
  ];
  const order = useMemo(() => inOrder(events.length, columns, sort), [events, sort, zero.value]);
  return (
    <div class="oneobject">
      <h2 class="filename" data-part="objectname">
        {shownName(name, WHOLE_NAME)}
        {name.length > WHOLE_NAME && <span class="soft"> ({count(name.length)} characters)</span>}
      </h2>
      <FactList
        rows={[
          ["address", addressName(of, object)],
          ["process", whose === undefined ? "not known" : `${shownName(whose.program, 200)} (${whose.pid})`],
          ["events", plural(events.length, "event", "events")],
          ...(events.length === 0
            ? []
            : [["life", `${relative(events[0].at)} – ${relative(events[events.length - 1].at)}`] as const]),
          ...lengths(of, object),
        ]}
      />
      <p class="chips">
        <button type="button" onClick={() => showObject(object, "gantt")} title="g">
          gantt along its links
        </button>
      </p>
      {tapes !== null && (
        <TapePlot
          name="object"
          label={`The tape of ${shownName(name, 80)}; the table below holds all its events.`}
          tapes={tapes}
          part={ganttPart}
          height={92}
        />
      )}
      <div class="columns">
        <Section title={`Caused by (${count(parents.length)})`}>
          <Relations of={of} list={parents} name="parents" none="No link leads to it." />
        </Section>
        <Section title={`Caused (${count(children.length)})`}>
          <Relations of={of} list={children} name="children" none="No link leads from it." />
        </Section>
      </div>
      {args.length > 0 && (
        <Section title={`Arguments (${count(args.length)})`}>
          <Table
            name="args"
            caption="What its program says of it"
            hideCaption
            rows={args}
            rowKey={(_, index) => index}
            most={40}
            columns={[
              { key: "key", label: "Name", value: (it) => shownName(keyOf(it.text)[0], 200) },
              { key: "value", label: "Value", value: (it) => shownName(keyOf(it.text)[1], WHOLE_NAME) },
              { key: "at", label: "At", number: true, value: (it) => it.at, show: (it) => relative(it.at) },
            ]}
          />
        </Section>
      )}
      <Section title={`All its events (${count(events.length)})`}>
        <Rows
          name="objectevents"
          caption="All events of the object by time"
          columns={columns}
          order={order}
          sort={sort}
          onSort={setSort}
          none="No event."
        />
      </Section>
      <AsTable summary="the chosen event">{() => <Details of={of} />}</AsTable>
    </div>
  );
}

function keyOf(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** How long it waited and was worked on; of what was never done, until the end of the trace. */
function lengths(of: Timeline, object: number): (readonly [string, string])[] {
  const { begin, work, end, state } = of.intervals;
  let [waited, worked, open] = [0, 0, 0];
  for (let i = of.firstInterval[object]; i < of.firstInterval[object + 1]; i++) {
    waited += work[i] - begin[i];
    worked += end[i] - work[i];
    if ((state[i] & 4) === 0) open++;
  }
  const rows: (readonly [string, string])[] = [
    ["waited", nanos(waited)],
    ["was worked on", nanos(worked)],
  ];
  if (open > 0) rows.push(["never done", plural(open, "interval", "intervals")]);
  return rows;
}

function inOrder(rows: number, columns: readonly Column<number>[], sort: string): Uint32Array {
  const order = Uint32Array.from({ length: rows }, (_, row) => row);
  const down = sort.startsWith("-");
  const column = columns.find((it) => it.key === sort.replace(/^-/, ""));
  if (column === undefined) return order;
  if (column.key === "at") return down ? order.reverse() : order;
  const keys = Array.from(order, (row) => column.value(row) ?? "");
  const before = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0);
  order.sort((a, b) => (down ? -1 : 1) * before(keys[a], keys[b]) || a - b);
  return order;
}

function Relations(props: { of: Timeline; list: readonly Relation[]; name: string; none: string }): JSX.Element {
  const { of } = props;
  return (
    <Table
      name={props.name}
      caption="Linked objects"
      hideCaption
      rows={props.list}
      rowKey={(_, index) => index}
      most={20}
      none={props.none}
      columns={[
        {
          key: "object",
          label: "Object",
          value: (it) => objectName(of, it.object),
          show: (it) => <ObjectLink of={of} object={it.object} />,
        },
        {
          key: "type",
          label: "Link",
          value: (it) => (it.type === 0 ? "" : typeName(of, it.type)),
          show: (it) => (it.type === 0 ? "" : shownName(typeName(of, it.type))),
        },
        { key: "at", label: "At", number: true, value: (it) => it.at, show: (it) => relative(it.at) },
      ]}
    />
  );
}
