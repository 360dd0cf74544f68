// What came of an object: a tape for each that its links lead to, in the order of the tree.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { count, nanos } from "../../logic/format.ts";
import { linkTree, MOST_LINKED, objectName, originOf, type Timeline } from "../../logic/timeline.ts";
import { AsTable, Choice } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { Details } from "./overview.tsx";
import { ObjectLink, relative, shownName, TypeLegend, timelineWaiting } from "./parts.tsx";
import { fromOrigin, ganttPart, objectInSight, showObject, tapesOf, timeline } from "./state.ts";
import { TapePlot, type Way } from "./tapes.tsx";

export function GanttView(): JSX.Element {
  const wait = timelineWaiting();
  if (wait !== null) return wait;
  const object = objectInSight.value;
  if (object === null) return <p class="none">No event names an object.</p>;
  return <Gantt of={timeline.value!} object={object} />;
}

function Gantt({ of, object }: { of: Timeline; object: number }): JSX.Element {
  const origin = useMemo(() => originOf(of, object), [of, object]);
  const root = fromOrigin.value === "1" ? origin : object;
  const { rows, more } = useMemo(() => linkTree(of, root), [of, root]);
  const tapes = useMemo(() => tapesOf(Uint32Array.from(rows, (row) => row.object)), [rows]);
  const ways = useMemo(
    () =>
      rows.flatMap((row, index): Way[] =>
        row.parent === null ? [] : [{ fromRow: row.parent, toRow: index, at: row.at, to: row.at }],
      ),
    [rows],
  );
  const spans = useMemo(() => rows.map((row) => spanOf(of, row.object)), [rows]);
  const height = Math.max(120, Math.min(innerHeight - 280, 40 + rows.length * 18));
  return (
    <div class="gantt">
      <h2 class="filename">{shownName(objectName(of, root), 300)}</h2>
      <div class="tools">
        <Choice
          label="from"
          value={fromOrigin.value}
          values={[
            ["0", "this object"],
            ["1", "where its links begin"],
          ]}
          onChange={(value) => {
            fromOrigin.value = value;
            ganttPart.reset();
          }}
        />
        <span class="totals" data-part="totals">
          {count(rows.length)} {rows.length === 1 ? "object" : "objects"}
          {more && `: more than ${count(MOST_LINKED)} are not shown`}
        </span>
      </div>
      {rows.length === 1 && <p class="note">No link leads from it: it caused nothing that the trace knows of.</p>}
      {tapes !== null && (
        <figure>
          <figcaption>what its links lead to, each object where it was linked first; lines are the links</figcaption>
          <TapePlot
            name="gantt"
            label={`${count(rows.length)} objects along links, over time. The table below holds the same.`}
            tapes={tapes}
            part={ganttPart}
            height={height}
            indent={(row) => rows[row].depth}
            ways={ways}
            onLane={(lane) => showObject(lane)}
          />
        </figure>
      )}
      <TypeLegend of={of} />
      <Details of={of} />
      <AsTable summary="the objects as a table">
        {() => (
          <Table
            name="gantt"
            caption="Objects along links"
            hideCaption
            rows={rows.map((row, index) => ({ ...row, ...spans[index], index }))}
            rowKey={(row) => row.index}
            columns={[
              {
                key: "object",
                label: "Object",
                value: (row) => objectName(of, row.object),
                show: (row) => (
                  <span style={{ paddingLeft: `${Math.min(row.depth, 24) * 12}px` }}>
                    <ObjectLink of={of} object={row.object} />
                  </span>
                ),
              },
              { key: "depth", label: "Depth", number: true, value: (row) => row.depth },
              {
                key: "linked",
                label: "Linked at",
                number: true,
                value: (row) => (row.parent === null ? null : row.at),
                show: (row) => (row.parent === null ? "–" : relative(row.at)),
              },
              {
                key: "from",
                label: "From",
                number: true,
                value: (row) => row.from,
                show: (row) => (row.from === null ? "–" : relative(row.from)),
              },
              { key: "took", label: "Took", number: true, value: (row) => row.took, show: (row) => nanos(row.took) },
            ]}
          />
        )}
      </AsTable>
    </div>
  );
}

/** From an object's first interval to the end of its last. */
function spanOf(of: Timeline, object: number): { readonly from: number | null; readonly took: number | null } {
  const [first, behind] = [of.firstInterval[object], of.firstInterval[object + 1]];
  if (first === behind) return { from: null, took: null };
  const from = of.intervals.begin[first];
  let to = from;
  for (let i = first; i < behind; i++) to = Math.max(to, of.intervals.end[i]);
  return { from, took: to - from };
}
