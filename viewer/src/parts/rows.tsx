// A table of any length: only the rows in sight are in the page.

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { count } from "../logic/format.ts";
import { asTsv, type Column, CopyButton, Head, nextSort, Row } from "./table.tsx";

export interface RowsProps {
  readonly name: string;
  readonly caption: string;
  /** Rows are numbers; a column knows what they stand for. */
  readonly columns: readonly (Column<number> & { readonly width: string })[];
  /** All rows, in their order. */
  readonly order: Uint32Array;
  readonly sort: string;
  readonly onSort: (sort: string) => void;
  readonly selected?: (row: number) => boolean;
  readonly none: string;
}

/** Height of a row in CSS pixels: the style sheet has the same. */
const HIGH = 24;
/** Rows that are made beyond the visible ones, and the step in which the window moves. */
const [BEYOND, STEP] = [16, 8];

export function Rows(props: RowsProps): JSX.Element {
  const { columns, order, sort, caption } = props;
  const box = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(0);
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollTop = 0;
    setFirst(0);
  }, [order]);
  if (order.length === 0) return <p class="none">{props.none}</p>;
  const visible = Math.ceil((box.current?.clientHeight ?? 480) / HIGH);
  const from = Math.max(0, Math.min(first, order.length - 1) - BEYOND);
  const to = Math.min(order.length, first + visible + STEP + BEYOND);
  const scrolled = () => {
    const at = Math.floor((box.current?.scrollTop ?? 0) / HIGH / STEP) * STEP;
    if (at !== first) setFirst(at);
  };
  const table = { columns, ...(props.selected === undefined ? {} : { selected: props.selected }) };
  return (
    <div class="table" data-table={props.name}>
      {/* biome-ignore lint/a11y/useSemanticElements: it holds one table, no fields. */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
      <div class="rows" ref={box} tabIndex={0} role="group" aria-label={caption} onScroll={scrolled}>
        <table aria-rowcount={order.length + 1}>
          <caption class="unseen">{caption}</caption>
          <colgroup>
            {columns.map((column) => (
              <col key={column.key} class={column.wide === true ? "wide" : ""} style={{ width: column.width }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map((column) => (
                <Head
                  key={column.key}
                  column={column}
                  sort={sort}
                  onSort={() => props.onSort(nextSort(sort, column.key, column.number === true))}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            <Space rows={from} />
            {[...order.subarray(from, to)].map((row, index) => (
              <Row key={row} row={row} table={table} place={from + index + 2} />
            ))}
            <Space rows={order.length - to} />
          </tbody>
        </table>
      </div>
      <div class="below">
        <CopyButton text={() => asTsv(columns, [...order])} what={`${count(order.length)} rows`} />
      </div>
    </div>
  );
}

/** Stands for rows that are not made. */
function Space({ rows }: { rows: number }): JSX.Element | null {
  if (rows === 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row without a tabindex takes no focus.
    <tr class="space" aria-hidden="true">
      {/* One cell: a wider one would bring columns back that a small window hides. */}
      <td style={{ height: `${rows * HIGH}px` }} />
    </tr>
  );
}
