// All files: as a tree of folders, as a table, and as areas.

import { treemap, treemapSquarify } from "d3-hierarchy";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { css, ground, mixed, type Theme } from "../../draw/palette.ts";
import { passes } from "../../logic/filter.ts";
import { bytes, count, harmless, nanos, percent, plural, seconds, splitPath } from "../../logic/format.ts";
import { askedByFile, sums } from "../../logic/sums.ts";
import { type FileFigures, type FolderNode, folderTree, type SumKey, usefulOf, wasteOf } from "../../logic/tree.ts";
import { Choice, Section } from "../../parts/bits.tsx";
import { asTsv, type Column, CopyButton, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { FileReport, TraceDocument } from "../../types/document.ts";
import { fileAddress, openFile } from "../shared/chosenfile.ts";
import { FileLink } from "../shared/filelink.tsx";
import { TraceChoice, TraceLine, usefulWords } from "./parts.tsx";
import { filesOpen, filesShape, filesSort, masks, opened, shares, terms, touched, traceDocument } from "./state.ts";

/** A line of the table: the report's file, with the figures that pass the filter. */
interface Line extends FileFigures {
  readonly file: FileReport;
}

export function FilesView(): JSX.Element {
  const trace = traceDocument.value;
  const lines = useMemo(
    () => (trace === null ? [] : linesOf(trace)),
    [trace, opened.value, touched.value, terms.value, masks.value],
  );
  if (trace === null)
    return <p class="none">This recording has no trace, so it does not know which files were read.</p>;
  const shape = filesShape.value;
  return (
    <div class="files">
      <div class="tools">
        <TraceChoice />
        <Choice
          label="as"
          value={shape}
          values={[
            ["tree", "tree"],
            ["table", "table"],
          ]}
          onChange={(value) => (filesShape.value = value)}
        />
        <Totals lines={lines} all={trace.report.files.length} />
      </div>
      {lines.length === 0 ? (
        <p class="none">No file passes the filter.</p>
      ) : (
        <>
          <Areas lines={lines} />
          {shape === "table" ? <Flat lines={lines} /> : <Tree lines={lines} />}
          <Often trace={trace} />
        </>
      )}
      <TraceLine />
    </div>
  );
}

function linesOf(trace: TraceDocument): Line[] {
  const { files } = trace.report;
  const [known, rest] = [opened.value, touched.value];
  const line = (file: FileReport, number: number, part: Partial<FileFigures>): Line => {
    const filled = part.filled ?? file.filled;
    return {
      file,
      line: number,
      path: file.path,
      size: file.size,
      filled,
      useful: part.useful ?? usefulOf(file),
      waste:
        (part.useful === undefined
          ? wasteOf(file)
          : wasteOf({ kind: file.kind, filled, asked: part.useful, needed: null })) ?? 0,
      bytes: part.bytes ?? file.bytes_from_disk,
      requests: part.requests ?? file.requests,
      waiting: part.waiting ?? file.waiting / 1e9,
      extents: file.extents,
    };
  };
  if (terms.value.length === 0) return files.map((file, number) => line(file, number, {}));
  if (known === null || rest === null) {
    return files
      .map((file, number) => line(file, number, {}))
      .filter((it) => passes(terms.value, { file: it.path, owner: it.file.owner }));
  }
  const added = sums(known.events.requests, rest, masks.value, shares.value, "file", files.length);
  const partly = added.some((sum) => sum.passing > 0 && sum.passing < sum.events);
  const asked = partly
    ? askedByFile(
        rest.asks,
        masks.value.asks,
        files.map((file) => (file.kind === "regular" ? file.size : null)),
      )
    : null;
  return files.flatMap((file, number) => {
    const sum = added[number];
    if (sum.events === 0 ? !passes(terms.value, { file: file.path, owner: file.owner }) : sum.passing === 0) return [];
    if (sum.passing === sum.events) return [line(file, number, {})];
    return [
      line(file, number, {
        filled: sum.filled,
        useful: asked?.[number] ?? 0,
        bytes: sum.bytes,
        requests: sum.requests,
        waiting: sum.waiting / 1e6,
      }),
    ];
  });
}

function total(lines: readonly Line[], key: SumKey): number {
  return lines.reduce((sum, line) => sum + line[key], 0);
}

function Totals({ lines, all }: { lines: readonly Line[]; all: number }): JSX.Element {
  const filled = total(lines, "filled");
  const words = usefulWords();
  return (
    <span class="totals" data-part="totals">
      {lines.length === all
        ? plural(all, "file", "files")
        : `${count(lines.length)} of ${plural(all, "file", "files")}`}{" "}
      · {bytes(filled)} came in, {percent(filled > 0 ? total(lines, "waste") / filled : 0)} {words.not} ·{" "}
      {plural(total(lines, "requests"), "request", "requests")} · {seconds(total(lines, "waiting"))} waited
    </span>
  );
}

// ---- columns that tree and table share ----

type Figures = Record<SumKey, number>;

function figureColumns<Row>(of: (row: Row) => Figures, most: Figures): Column<Row>[] {
  const words = usefulWords();
  const share = (key: SumKey) => (row: Row) => of(row)[key] / Math.max(most[key], 1e-12);
  return [
    {
      key: "waiting",
      label: "Waited",
      title: "Fair share of the time in which requests were in flight",
      number: true,
      value: (row) => of(row).waiting,
      show: (row) => seconds(of(row).waiting),
      bar: share("waiting"),
    },
    {
      key: "filled",
      label: "Came in",
      title: "Bytes that came into the page cache",
      number: true,
      value: (row) => of(row).filled,
      show: (row) => bytes(of(row).filled),
      bar: share("filled"),
    },
    {
      key: "useful",
      label: words.head,
      title: words.title,
      number: true,
      value: (row) => of(row).useful,
      show: (row) => bytes(of(row).useful),
    },
    {
      key: "waste",
      label: "Waste",
      title: `Came in, but was ${words.not}`,
      number: true,
      value: (row) => of(row).waste,
      show: (row) => bytes(of(row).waste),
      bar: share("waste"),
    },
    {
      key: "bytes",
      label: "From disk",
      title: "Bytes that requests brought",
      number: true,
      value: (row) => of(row).bytes,
      show: (row) => bytes(of(row).bytes),
    },
    {
      key: "requests",
      label: "Requests",
      number: true,
      value: (row) => of(row).requests,
      show: (row) => count(of(row).requests),
      bar: share("requests"),
    },
    { key: "size", label: "Size", number: true, value: (row) => of(row).size, show: (row) => bytes(of(row).size) },
  ];
}

const KEYS: readonly SumKey[] = ["size", "filled", "useful", "waste", "bytes", "requests", "waiting"];

function most(rows: readonly Figures[]): Figures {
  return Object.fromEntries(
    KEYS.map((key) => [key, rows.reduce((largest, row) => Math.max(largest, row[key]), 0)]),
  ) as Figures;
}

function Flat({ lines }: { lines: readonly Line[] }): JSX.Element {
  const columns: Column<Line>[] = [
    { key: "path", label: "File", value: (line) => line.path, show: (line) => <FileLink path={line.path} /> },
    ...figureColumns<Line>((line) => line, most(lines)),
    {
      key: "extents",
      label: "Pieces",
      title: "Extents on disk",
      number: true,
      value: (line) => line.extents,
      show: (line) => count(line.extents),
    },
    {
      key: "opens",
      label: "Opened",
      title: "At least",
      number: true,
      value: (line) => line.file.opens,
      show: (line) => count(line.file.opens),
      wide: true,
    },
    {
      key: "syncs",
      label: "Synced",
      number: true,
      value: (line) => line.file.syncs,
      show: (line) => (line.file.syncs > 0 ? count(line.file.syncs) : "–"),
      wide: true,
    },
    {
      key: "first",
      label: "First touch",
      number: true,
      value: (line) => (line.file.first_touch_ns === null ? null : line.file.first_touch_ns / 1e9),
      show: (line) => nanos(line.file.first_touch_ns),
      wide: true,
    },
    { key: "owner", label: "Owner", value: (line) => line.file.owner },
    { key: "kind", label: "Kind", value: (line) => line.file.kind, wide: true },
  ];
  return (
    <Section title="Files">
      <Table
        name="files"
        caption="Files of the traced start"
        hideCaption
        columns={columns}
        rows={lines}
        rowKey={(line) => line.line}
        sort={filesSort.value}
        onSort={(sort) => (filesSort.value = sort)}
      />
    </Section>
  );
}

interface TreeRow {
  readonly node: FolderNode;
  readonly depth: number;
  readonly open: boolean;
}

function Tree({ lines }: { lines: readonly Line[] }): JSX.Element {
  const by = filesSort.value.replace(/^-/, "");
  const key: SumKey = KEYS.find((it) => it === by) ?? "waiting";
  const tree = useMemo(() => folderTree(lines, key), [lines, key]);
  const open = new Set(filesOpen.value === "" ? defaultOpen(tree) : filesOpen.value.split("|"));
  const rows: TreeRow[] = [];
  const visit = (node: FolderNode, depth: number) => {
    for (const child of (node.children ?? []) as FolderNode[]) {
      const isOpen = child.children !== undefined && open.has(child.data.path);
      rows.push({ node: child, depth, open: isOpen });
      if (isOpen) visit(child, depth + 1);
    }
  };
  visit(tree, 0);
  const flip = (path: string) => {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    filesOpen.value = [...next].join("|") || "-";
  };
  const figures = (row: TreeRow): Figures => row.node.sums!;
  const columns: Column<TreeRow>[] = [
    {
      key: "path",
      label: "Folder, file",
      value: (row) => row.node.data.path,
      show: (row) => <TreeName row={row} onFlip={() => flip(row.node.data.path)} />,
    },
    ...figureColumns(figures, most(((tree.children ?? []) as FolderNode[]).map((node) => node.sums!))),
    {
      key: "files",
      label: "Files",
      number: true,
      value: (row) => (row.node.data.file !== null ? 1 : row.node.leaves().length),
      show: (row) => (row.node.data.file !== null ? "" : count(row.node.leaves().length)),
    },
    {
      key: "extents",
      label: "Pieces",
      number: true,
      value: (row) => row.node.data.file?.extents ?? null,
      show: (row) => (row.node.data.file === null ? "" : count(row.node.data.file.extents)),
    },
  ];
  return (
    <Section title="Folders">
      <TreeTable columns={columns} rows={rows} sort={`-${key}`} all={lines} />
    </Section>
  );
}

/** The way to the heaviest file, open at first. */
function defaultOpen(tree: FolderNode): string[] {
  const open: string[] = [];
  let node: FolderNode | undefined = tree;
  while (node !== undefined) {
    if (node.data.path !== "") open.push(node.data.path);
    node = (node.children as FolderNode[] | undefined)?.[0];
  }
  for (const child of (tree.children ?? []).slice(0, 3)) open.push(child.data.path);
  return open;
}

function TreeName({ row, onFlip }: { row: TreeRow; onFlip: () => void }): JSX.Element {
  const { data } = row.node;
  const indent = { paddingLeft: `${row.depth * 1.1}em` };
  if (data.file !== null) {
    const { path } = data.file;
    return (
      <span class="treename leaf" style={indent}>
        <a
          href={fileAddress(path)}
          title={harmless(path)}
          onClick={(event) => {
            event.preventDefault();
            openFile(path);
          }}
        >
          {harmless(data.name)}
        </a>
      </span>
    );
  }
  return (
    <span class="treename" style={indent}>
      <button type="button" class="fold" aria-expanded={row.open} onClick={onFlip}>
        <span aria-hidden="true">{row.open ? "▾" : "▸"}</span> {harmless(data.name)}/
      </button>
    </span>
  );
}

/** A tree keeps its own order; its head chooses by what. The clipboard gets the files. */
function TreeTable({
  columns,
  rows,
  sort,
  all,
}: {
  columns: readonly Column<TreeRow>[];
  rows: readonly TreeRow[];
  sort: string;
  all: readonly Line[];
}): JSX.Element {
  const flat: Column<Line>[] = [
    { key: "path", label: "path", value: (line) => line.path },
    ...KEYS.map((key) => ({ key, label: key, value: (line: Line) => line[key] })),
    { key: "extents", label: "extents", value: (line) => line.extents },
    { key: "owner", label: "owner", value: (line) => line.file.owner },
  ];
  const choose = (key: string) => {
    if (KEYS.some((it) => it === key)) filesSort.value = `-${key}`;
  };
  return (
    <div class="table" data-table="tree">
      <div class="scroll">
        <table>
          <caption class="unseen">Folders and files, the largest first</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th
                  key={column.key}
                  scope="col"
                  class={column.number === true ? "number" : ""}
                  title={column.title}
                  aria-sort={sort === `-${column.key}` ? "descending" : "none"}
                >
                  <button type="button" onClick={() => choose(column.key)}>
                    {column.label}
                    <span class="arrow" aria-hidden="true">
                      {sort === `-${column.key}` ? "▼" : ""}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, 1000).map((row) => (
              <tr
                key={`${row.node.data.path} ${row.node.data.file?.line ?? ""}`}
                class={row.node.data.file === null ? "folder" : ""}
              >
                {columns.map((column, index) => {
                  const bar = column.bar?.(row);
                  const content = (
                    <>
                      {bar !== undefined && (
                        <span class="bar" aria-hidden="true" style={{ width: `${Math.min(1, bar) * 100}%` }} />
                      )}
                      <span class="on">{column.show?.(row) ?? column.value(row)}</span>
                    </>
                  );
                  const kind = `${column.number === true ? "number" : ""} ${bar !== undefined ? "barred" : ""}`;
                  return index === 0 ? (
                    <th key={column.key} scope="row" data-value={column.value(row)}>
                      {content}
                    </th>
                  ) : (
                    <td key={column.key} class={kind} data-value={column.value(row)}>
                      {content}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="below">
        <CopyButton text={() => asTsv(flat, all)} what={plural(all.length, "file", "files")} />
      </div>
    </div>
  );
}

// ---- areas ----

/** As many areas as can be told apart. */
const AREAS = 120;

/** What came in as areas, the warmer the less of it was of use. The tables hold the same. */
function Areas({ lines }: { lines: readonly Line[] }): JSX.Element | null {
  const shade = theme.value;
  const cells = useMemo(() => {
    const large = [...lines]
      .sort((a, b) => b.filled - a.filled)
      .slice(0, AREAS)
      .filter((line) => line.filled > 0);
    const tree = folderTree(large, "filled");
    tree.sum((folder) => folder.file?.filled ?? 0).sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
    return treemap<FolderNode["data"]>()
      .tile(treemapSquarify.ratio(1.6))
      .size([100, 100])
      .paddingInner(0.18)
      .paddingOuter(0.1)(tree)
      .leaves();
  }, [lines]);
  if (cells.length === 0) return null;
  const words = usefulWords();
  return (
    <figure class="areas">
      <figcaption>
        what came in, by file:{" "}
        <span
          class="ramp"
          aria-hidden="true"
          style={{
            background: `linear-gradient(to right, ${css(areaColour(0, shade))}, ${css(areaColour(1, shade))})`,
          }}
        />{" "}
        from all {words.is} to nothing {words.is}
      </figcaption>
      <div class="treemap" aria-hidden="true">
        {cells.map((cell) => {
          const figures = cell.data.file!;
          const waste = figures.filled > 0 ? figures.waste / figures.filled : 0;
          const [width, height] = [cell.x1 - cell.x0, cell.y1 - cell.y0];
          return (
            <button
              key={figures.line}
              type="button"
              tabIndex={-1}
              title={`${harmless(figures.path)}: ${bytes(figures.filled)} came in, ${percent(waste)} ${words.not}`}
              style={{
                left: `${cell.x0}%`,
                top: `${cell.y0}%`,
                width: `${width}%`,
                height: `${height}%`,
                background: css(areaColour(waste, shade)),
              }}
              onClick={() => openFile(figures.path)}
            >
              {width > 5 && height > 9 && (
                <>
                  <span>{harmless(splitPath(figures.path)[1])}</span>
                  {height > 20 && <span class="figure">{bytes(figures.filled)}</span>}
                </>
              )}
            </button>
          );
        })}
      </div>
    </figure>
  );
}

function areaColour(waste: number, shade: Theme): number {
  const { paper } = ground(shade);
  const [useful, wasted] = shade === "light" ? [0xcde2f3, 0xecc08c] : [0x234866, 0x80582c];
  return mixed(mixed(wasted, useful, waste), paper, 0.94);
}

// ---- what else is odd about files ----

function Often({ trace }: { trace: TraceDocument }): JSX.Element {
  const { fragmented, synced, opened_often: often } = trace.report;
  return (
    <div class="columns three">
      {fragmented.length > 0 && (
        <Section title="In pieces on disk">
          <Table
            name="fragmented"
            caption="Files in more than one piece"
            hideCaption
            most={8}
            rows={fragmented}
            rowKey={(_, index) => index}
            columns={[
              { key: "path", label: "File", value: (it) => it.path, show: (it) => <FileLink path={it.path} /> },
              {
                key: "extents",
                label: "Pieces",
                number: true,
                value: (it) => it.extents,
                show: (it) => count(it.extents),
              },
              { key: "size", label: "Size", number: true, value: (it) => it.size, show: (it) => bytes(it.size) },
            ]}
          />
        </Section>
      )}
      {synced.length > 0 && (
        <Section title="Synced">
          <Table
            name="synced"
            caption="Files that were synced"
            hideCaption
            most={8}
            rows={synced}
            rowKey={(_, index) => index}
            columns={[
              { key: "path", label: "File", value: (it) => it.path, show: (it) => <FileLink path={it.path} /> },
              { key: "count", label: "Times", number: true, value: (it) => it.count, show: (it) => count(it.count) },
              { key: "took", label: "Took", number: true, value: (it) => it.took / 1e9, show: (it) => nanos(it.took) },
            ]}
          />
        </Section>
      )}
      {often.length > 0 && (
        <Section title="Opened often">
          <Table
            name="often"
            caption="Files that were opened often"
            hideCaption
            most={8}
            rows={often}
            rowKey={(_, index) => index}
            columns={[
              { key: "path", label: "File", value: (it) => it.path, show: (it) => <FileLink path={it.path} /> },
              { key: "count", label: "Times", number: true, value: (it) => it.count, show: (it) => count(it.count) },
            ]}
          />
        </Section>
      )}
    </div>
  );
}
