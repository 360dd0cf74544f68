// A tree as a table: rows open and close, any number of them, by mouse and by keys. Only the rows in sight are in the
// page.

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Column, Head, nextSort } from "./table.tsx";

/** What a row needs to be a row of a tree. */
export interface Branch {
  /** Names it as long as the page lives. */
  readonly key: string;
  /** From 1, for screen readers. */
  readonly depth: number;
  /** How far it stands in. */
  readonly indent: number;
  readonly open: boolean;
  readonly leaf: boolean;
}

export interface TreeGridProps<Row extends Branch> {
  readonly name: string;
  readonly caption: string;
  readonly nameLabel: string;
  readonly rows: readonly Row[];
  readonly columns: readonly (Column<Row> & { readonly width: string })[];
  readonly label: (row: Row) => ComponentChildren;
  readonly title?: (row: Row) => string;
  readonly text: (row: Row) => string;
  readonly faint?: (row: Row) => boolean;
  readonly onFlip: (row: Row) => void;
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
  readonly active: string | null;
  readonly onActive: (row: Row) => void;
  /** Rows are shown at once instead of a window of them. */
  readonly short?: boolean;
  readonly none: string;
}

/** Height of a row in CSS pixels: the style sheet has the same. */
const HIGH = 24;
const [BEYOND, STEP] = [16, 8];
/** Steps that are stood in at most: beyond, names would have no room. */
const MOST_INDENT = 24;

export function TreeGrid<Row extends Branch>(props: TreeGridProps<Row>): JSX.Element {
  const { rows, columns, caption } = props;
  const box = useRef<HTMLDivElement>(null);
  // Several trees of one name may be in a page.
  const own = useId();
  const [first, setFirst] = useState(0);
  const at = rows.findIndex((row) => row.key === props.active);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || at < 0 || props.short === true) return;
    // Below the head, which stays.
    const [top, bottom] = [at * HIGH, (at + 2) * HIGH];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  }, [props.active]);
  if (rows.length === 0) return <p class="none">{props.none}</p>;
  const visible = Math.ceil((box.current?.clientHeight ?? 560) / HIGH);
  const from = props.short === true ? 0 : Math.max(0, Math.min(first, rows.length - visible) - BEYOND);
  const to = props.short === true ? rows.length : Math.min(rows.length, first + visible + STEP + BEYOND);
  const scrolled = () => {
    const now = Math.floor((box.current?.scrollTop ?? 0) / HIGH / STEP) * STEP;
    if (now !== first) setFirst(now);
  };
  const go = (index: number) => props.onActive(rows[Math.max(0, Math.min(rows.length - 1, index))]);
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[at];
    const parent = () => {
      let up = at;
      while (up > 0 && rows[up].depth >= row.depth) up--;
      return up;
    };
    switch (event.key) {
      case "ArrowDown":
        go(at + 1);
        break;
      case "ArrowUp":
        go(Math.max(0, at - 1));
        break;
      case "PageDown":
        go(at + visible - 2);
        break;
      case "PageUp":
        go(Math.max(0, at - visible + 2));
        break;
      case "Home":
        go(0);
        break;
      case "End":
        go(rows.length - 1);
        break;
      case "ArrowRight":
        if (row === undefined) go(0);
        else if (!row.leaf && !row.open) props.onFlip(row);
        else go(at + 1);
        break;
      case "ArrowLeft":
        if (row === undefined) go(0);
        else if (row.open) props.onFlip(row);
        else go(parent());
        break;
      case "Enter":
      case " ":
        if (row === undefined) go(0);
        else if (!row.leaf) props.onFlip(row);
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  const id = (index: number) => `${own}-${index}`;
  const sort = props.sort ?? null;
  return (
    <div class="table" data-table={props.name}>
      <div class={`rows tree ${props.short === true ? "short" : ""}`} ref={box} tabIndex={-1} onScroll={scrolled}>
        <table
          // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: on another element its cells had no role.
          role="treegrid"
          tabIndex={0}
          aria-label={caption}
          aria-rowcount={rows.length + 1}
          aria-activedescendant={at >= 0 ? id(at) : undefined}
          onKeyDown={keys}
        >
          <colgroup>
            <col />
            {columns.map((column) => (
              <col key={column.key} class={column.wide === true ? "wide" : ""} style={{ width: column.width }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">{props.nameLabel}</th>
              {columns.map((column) =>
                props.onSort === undefined ? (
                  <th
                    key={column.key}
                    scope="col"
                    class={`number ${column.wide === true ? "wide" : ""}`}
                    title={column.title}
                  >
                    {column.label}
                  </th>
                ) : (
                  <Head
                    key={column.key}
                    column={column}
                    sort={sort}
                    onSort={() => props.onSort?.(nextSort(sort, column.key, column.number === true))}
                  />
                ),
              )}
            </tr>
          </thead>
          <tbody>
            <Space rows={from} />
            {rows.slice(from, to).map((row, index) => (
              <tr
                key={row.key}
                id={id(from + index)}
                aria-level={row.depth}
                aria-expanded={row.leaf ? undefined : row.open}
                aria-rowindex={from + index + 2}
                aria-selected={row.key === props.active}
                class={`${row.key === props.active ? "chosen" : ""} ${props.faint?.(row) === true ? "faint" : ""}`}
                onClick={() => props.onActive(row)}
                onDblClick={() => !row.leaf && props.onFlip(row)}
              >
                <th
                  scope="row"
                  data-value={props.text(row)}
                  title={props.title?.(row)}
                  style={{ paddingLeft: `${6 + Math.min(row.indent, MOST_INDENT) * 14}px` }}
                >
                  {row.leaf ? (
                    <span class="twist" aria-hidden="true" />
                  ) : (
                    <button
                      type="button"
                      class="twist"
                      tabIndex={-1}
                      aria-label={row.open ? "close" : "open"}
                      onClick={(event) => {
                        event.stopPropagation();
                        props.onActive(row);
                        props.onFlip(row);
                      }}
                    >
                      {row.open ? "▾" : "▸"}
                    </button>
                  )}
                  {props.label(row)}
                </th>
                {columns.map((column) => {
                  const bar = column.bar?.(row);
                  const value = column.value(row);
                  return (
                    <td
                      key={column.key}
                      class={`${column.number === true ? "number" : ""} ${column.wide === true ? "wide" : ""}`}
                      data-value={value}
                    >
                      {bar !== undefined && (
                        <span
                          class="bar"
                          aria-hidden="true"
                          style={{ width: `${Math.max(0, Math.min(1, bar)) * 100}%` }}
                        />
                      )}
                      <span class="on">{column.show === undefined ? value : column.show(row)}</span>
                    </td>
                  );
                })}
              </tr>
            ))}
            <Space rows={rows.length - to} />
          </tbody>
        </table>
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
