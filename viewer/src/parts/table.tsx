// Tables: sortable, copied as tab-separated values, and never longer than a page can bear.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { count, tsv } from "../logic/format.ts";

export interface Column<Row> {
  readonly key: string;
  readonly label: string;
  /** What the column means, where its name does not say it. */
  readonly title?: string;
  /** Figures are set right, and the largest come first. */
  readonly number?: boolean;
  /** The figure or name itself: for sorting, for the clipboard, and for whoever reads the page by program. */
  readonly value: (row: Row) => string | number | null;
  /** As it is shown; the value itself if left out. */
  readonly show?: (row: Row) => ComponentChildren;
  /** 0..1: a bar behind the figure. */
  readonly bar?: (row: Row) => number;
  /** Only where there is room. */
  readonly wide?: boolean;
}

export interface TableProps<Row> {
  readonly name: string;
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row, index: number) => string | number;
  /** Key of a column; `-` before it: the largest first. `null`: as given. */
  readonly sort?: string | null;
  readonly onSort?: (sort: string) => void;
  readonly onRow?: (row: Row) => void;
  readonly selected?: (row: Row) => boolean;
  /** Rows shown before "show more". */
  readonly most?: number;
  /** Said instead of a table without rows. */
  readonly none?: string;
  readonly copy?: boolean;
  readonly hideCaption?: boolean;
}

/** The sort after a click on a column's head: figures begin with the largest, names with the first. */
export function nextSort(sort: string | null, key: string, number: boolean): string {
  const first = number ? `-${key}` : key;
  const other = number ? key : `-${key}`;
  return sort === first ? other : first;
}

/** Rows in the order that `sort` says; rows without a value come last. */
export function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sort: string | null | undefined,
): readonly Row[] {
  if (sort == null || sort === "") return rows;
  const down = sort.startsWith("-");
  const column = columns.find((it) => it.key === sort.replace(/^-/, ""));
  if (column === undefined) return rows;
  const keyed = rows.map((row) => ({ row, key: column.value(row) }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null);
    const order =
      typeof a.key === "number" && typeof b.key === "number"
        ? a.key - b.key
        : String(a.key).localeCompare(String(b.key));
    return down ? -order : order;
  });
  return keyed.map((it) => it.row);
}

export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { columns, rows, caption } = props;
  const [own, setOwn] = useState<string | null>(null);
  const [more, setMore] = useState(0);
  const sort = own ?? props.sort ?? null;
  const order = sorted(rows, columns, sort);
  const most = (props.most ?? 200) + more;
  const setSort = (key: string, number: boolean) => {
    const next = nextSort(sort, key, number);
    if (props.onSort !== undefined) props.onSort(next);
    else setOwn(next);
  };
  if (rows.length === 0) return <p class="none">{props.none ?? "Nothing to show."}</p>;
  return (
    <div class="table" data-table={props.name}>
      <div class="scroll">
        <table>
          <caption class={props.hideCaption === true ? "unseen" : ""}>{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head
                  key={column.key}
                  column={column}
                  sort={sort}
                  onSort={() => setSort(column.key, column.number === true)}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {order.slice(0, most).map((row, index) => (
              <Row key={props.rowKey(row, index)} row={row} table={props} />
            ))}
          </tbody>
        </table>
      </div>
      <div class="below">
        {order.length > most && (
          <button type="button" onClick={() => setMore(more + 500)}>
            show more ({count(order.length - most)} left)
          </button>
        )}
        {props.copy !== false && <CopyButton text={() => asTsv(columns, order)} what={`${count(order.length)} rows`} />}
      </div>
    </div>
  );
}

/** The head of one column, which sorts. */
export function Head<Row>({
  column,
  sort,
  onSort,
}: {
  column: Column<Row>;
  sort: string | null;
  onSort: () => void;
}): JSX.Element {
  const direction = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : "none";
  return (
    <th scope="col" class={classes(column)} aria-sort={direction} title={column.title}>
      <button type="button" onClick={onSort}>
        {column.label}
        <span class="arrow" aria-hidden="true">
          {direction === "ascending" ? "▲" : direction === "descending" ? "▼" : ""}
        </span>
      </button>
    </th>
  );
}

/** One row; `place` is its number in a table of which not all rows are made, the head being 1. */
export function Row<Row>({
  row,
  table,
  place,
}: {
  row: Row;
  table: Pick<TableProps<Row>, "columns" | "onRow" | "selected">;
  place?: number;
}): JSX.Element {
  const { onRow, selected } = table;
  const chosen = selected?.(row) === true;
  return (
    <tr
      class={`${onRow !== undefined ? "pick" : ""} ${chosen ? "chosen" : ""}`}
      aria-selected={selected === undefined ? undefined : chosen}
      aria-rowindex={place}
      onClick={onRow === undefined ? undefined : () => onRow(row)}
    >
      {table.columns.map((column, index) => {
        const value = column.value(row);
        const inner = column.show === undefined ? value : column.show(row);
        const bar = column.bar?.(row);
        const content = (
          <>
            {bar !== undefined && (
              <span class="bar" aria-hidden="true" style={{ width: `${Math.max(0, Math.min(1, bar)) * 100}%` }} />
            )}
            <span class="on">
              {index === 0 && onRow !== undefined ? <Picked chosen={chosen}>{inner}</Picked> : inner}
            </span>
          </>
        );
        return index === 0 ? (
          <th key={column.key} scope="row" class={classes(column)} data-value={value}>
            {content}
          </th>
        ) : (
          <td key={column.key} class={classes(column)} data-value={value}>
            {content}
          </td>
        );
      })}
    </tr>
  );
}

/** What a click on the row does, for those without a pointer: the row hears the click. */
function Picked({ chosen, children }: { chosen: boolean; children: ComponentChildren }): JSX.Element {
  return (
    <button type="button" class="plain" aria-pressed={chosen}>
      {children}
    </button>
  );
}

function classes<Row>(column: Column<Row>): string {
  const [number, wide] = [column.number === true ? "number" : "", column.wide === true ? "wide" : ""];
  return `${number} ${wide} ${column.bar !== undefined ? "barred" : ""}`.trim();
}

export function asTsv<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  return tsv(
    columns.map((column) => column.label),
    rows.map((row) => columns.map((column) => column.value(row))),
  );
}

/** Puts text into the clipboard; also where the page is a file and the browser asks no one. */
export function CopyButton({ text, what }: { text: () => string; what: string }): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async () => {
    const done = await toClipboard(text());
    setSaid(done ? `copied ${what}` : "the browser does not let this page copy");
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <span class="copy">
      <button type="button" onClick={() => void copy()} title="Copy the table as tab-separated values">
        copy as TSV
      </button>
      <span role="status">{said}</span>
    </span>
  );
}

async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
