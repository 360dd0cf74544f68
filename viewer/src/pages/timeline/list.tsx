// The objects of the first view as a table.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { filterText } from "../../filter.ts";
import { gather } from "../../logic/columns.ts";
import { count, nanos } from "../../logic/format.ts";
import { givenName, mainType, objectName, type Timeline, typeName } from "../../logic/timeline.ts";
import { Rows } from "../../parts/rows.tsx";
import type { Column } from "../../parts/table.tsx";
import { ObjectLink, relative, shownName, timelineWaiting } from "./parts.tsx";
import { objectsShown, timeline } from "./state.ts";

export function ListView(): JSX.Element {
  const wait = timelineWaiting();
  if (wait !== null) return wait;
  return <List of={timeline.value!} />;
}

interface Sums {
  readonly waited: Float64Array;
  readonly worked: Float64Array;
  readonly first: Float64Array;
  readonly events: Uint32Array;
}

function sumsOf(of: Timeline): Sums {
  const objects = of.objects.count;
  const [waited, worked] = [new Float64Array(objects), new Float64Array(objects)];
  const first = new Float64Array(objects).fill(Number.POSITIVE_INFINITY);
  const events = new Uint32Array(objects);
  const { object, begin, work, end, state } = of.intervals;
  for (let i = 0; i < object.length; i++) {
    const o = object[i];
    waited[o] += work[i] - begin[i];
    worked[o] += end[i] - work[i];
    if (begin[i] < first[o]) first[o] = begin[i];
    events[o] += (state[i] & 1) + ((state[i] >> 1) & 1) + ((state[i] >> 2) & 1);
  }
  const { moments } = of;
  for (let i = 0; i < moments.count; i++) {
    const o = moments.object[i];
    if (moments.at[i] < first[o]) first[o] = moments.at[i];
    events[o]++;
  }
  return { waited, worked, first, events };
}

function List({ of }: { of: Timeline }): JSX.Element {
  const [sort, setSort] = useState("-waited");
  const sums = useMemo(() => sumsOf(of), [of]);
  const passing = objectsShown.value;
  const rows = useMemo(() => {
    const all = new Uint32Array(of.objects.count);
    let n = 0;
    for (let object = 0; object < all.length; object++)
      if (passing === null || passing[object] === 1) all[n++] = object;
    return all.slice(0, n);
  }, [of, passing]);
  const columns: (Column<number> & { readonly width: string })[] = [
    {
      key: "name",
      label: "Resource",
      width: "auto",
      value: (row) => objectName(of, row),
      show: (row) => <ObjectLink of={of} object={row} />,
    },
    {
      key: "type",
      label: "Type",
      width: "24%",
      value: (row) => (mainType(of, row) === 0 ? "" : typeName(of, mainType(of, row))),
      show: (row) => (mainType(of, row) === 0 ? "" : shownName(typeName(of, mainType(of, row)))),
    },
    {
      key: "first",
      label: "First event",
      number: true,
      width: "130px",
      value: (row) => (Number.isFinite(sums.first[row]) ? sums.first[row] : null),
      show: (row) => (Number.isFinite(sums.first[row]) ? relative(sums.first[row]) : "–"),
    },
    figure("waited", "Waited", (row) => sums.waited[row], nanos),
    figure("worked", "Worked on", (row) => sums.worked[row], nanos),
    figure("events", "Events", (row) => sums.events[row], count),
  ];
  const order = useMemo(() => inOrder(of, rows, sums, sort), [rows, sums, sort]);
  return (
    <Rows
      name="objects"
      caption="Objects with what they waited and were worked on, all types together"
      columns={columns}
      order={order}
      sort={sort}
      onSort={setSort}
      none={`No object passes the filter “${shownName(filterText.value, 80)}”.`}
    />
  );
}

function figure(
  key: string,
  label: string,
  value: (row: number) => number,
  show: (value: number) => string,
): Column<number> & { readonly width: string } {
  return { key, label, number: true, width: "100px", value, show: (row) => show(value(row)) };
}

function inOrder(of: Timeline, rows: Uint32Array, sums: Sums, sort: string): Uint32Array {
  const down = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  const places = Uint32Array.from(rows, (_, place) => place);
  if (key === "name" || key === "type") {
    const text = (row: number) =>
      key === "name" ? givenName(of, row) || objectName(of, row) : typeName(of, mainType(of, row));
    const keys = Array.from(rows, text);
    places.sort((a, b) => down * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) || a - b);
  } else {
    const values = sums[key as keyof Sums] ?? sums.waited;
    places.sort((a, b) => down * (values[rows[a]] - values[rows[b]]) || a - b);
  }
  return gather(rows, places);
}
