// How long, where it goes, what would help most; the figures behind it; the doubts.

import type { JSX } from "preact";
import { css, stateColour } from "../../draw/palette.ts";
import { passes } from "../../logic/filter.ts";
import {
  bytes,
  commandLine,
  count,
  date,
  harmless,
  intervalS,
  nanos,
  percent,
  plural,
  seconds,
  times,
} from "../../logic/format.ts";
import { wasteOf } from "../../logic/tree.ts";
import { AsTable, PathName, Section, State } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type { Cell, FileReport, ReportDocument, TraceDocument, Warning } from "../../types/document.ts";
import { page } from "../shared/document.ts";
import { FileLink } from "../shared/filelink.tsx";
import { TraceLine, usefulWords } from "../trace/parts.tsx";
import { terms, traceDocument } from "../trace/state.ts";

export function AnswerView(): JSX.Element | null {
  const made = page.value;
  if (made === null) return null;
  const { document } = made;
  return (
    <>
      <ol class="sentences">
        {document.answer.map((sentence, index) => (
          <li key={index}>{harmless(sentence)}</li>
        ))}
      </ol>
      <States document={document} />
      <Milestones cells={document.statistics.cells} />
      <Costs />
      <Warnings warnings={document.warnings} />
      <Recording document={document} />
    </>
  );
}

function States({ document }: { document: ReportDocument }): JSX.Element {
  const { cells } = document.statistics;
  const several = document.variants.length > 1;
  const most = Math.max(...cells.map((cell) => cell.median_s.interval?.high ?? cell.median_s.value ?? 0), 1e-9);
  const columns: Column<Cell>[] = [
    {
      key: "state",
      label: several ? "Program, state" : "Cache state",
      value: (cell) => `${several ? `${cell.variant_name} ` : ""}${cell.state}`,
      show: (cell) => (
        <>
          {several && <span class="variant">{harmless(cell.variant_name)}</span>} <State state={cell.state} />
        </>
      ),
    },
    {
      key: "picture",
      label: "CPU, waiting",
      title: "CPU in the program, CPU in the kernel, rest; the line is the 95 % interval of the median",
      value: () => null,
      show: (cell) => <StateBar cell={cell} most={most} />,
      wide: true,
    },
    {
      key: "median",
      label: "Median",
      number: true,
      value: (cell) => cell.median_s.value,
      show: (cell) => seconds(cell.median_s.value),
    },
    {
      key: "interval",
      label: "95 % interval",
      number: true,
      value: (cell) => cell.median_s.interval?.low ?? null,
      show: (cell) => intervalS(cell.median_s.value, cell.median_s.interval) || "–",
    },
    {
      key: "mean",
      label: "Mean",
      number: true,
      value: (cell) => cell.mean_s.value,
      show: (cell) =>
        `${seconds(cell.mean_s.value)}${cell.mean_half_width === null ? "" : ` ± ${percent(cell.mean_half_width)}`}`,
    },
    {
      key: "range",
      label: "Fastest … slowest",
      number: true,
      value: (cell) => cell.min_s,
      show: (cell) => `${seconds(cell.min_s)} … ${seconds(cell.max_s)}`,
      wide: true,
    },
    {
      key: "cpu",
      label: "CPU",
      title: "User and kernel",
      number: true,
      value: (cell) => (cell.user_s.value ?? 0) + (cell.system_s.value ?? 0),
      show: (cell) => seconds((cell.user_s.value ?? 0) + (cell.system_s.value ?? 0)),
    },
    {
      key: "read",
      label: "Read",
      number: true,
      value: (cell) => cell.read_bytes,
      show: (cell) => bytes(cell.read_bytes),
    },
    {
      key: "requests",
      label: "Requests",
      number: true,
      value: (cell) => cell.read_requests,
      show: (cell) => count(cell.read_requests),
    },
    {
      key: "runs",
      label: "Runs",
      number: true,
      value: (cell) => cell.runs,
      show: (cell) => `${cell.runs}${cell.rejected > 0 ? ` (+${cell.rejected} rejected)` : ""}`,
    },
  ];
  return (
    <Section title="How long a start takes">
      <Table
        name="states"
        caption="Start time by cache state"
        hideCaption
        columns={columns}
        rows={cells}
        rowKey={(cell) => `${cell.variant}${cell.state}`}
        none="No timed run was finished."
      />
      {cells.length > 0 && (
        <p class="key" aria-hidden="true">
          <span>
            <span class="swatch user" /> CPU in the program
          </span>
          <span>
            <span class="swatch system" /> CPU in the kernel (may overlap on several cores)
          </span>
          <span>
            <span class="swatch rest" /> until ready
          </span>
          <span>
            <span class="swatch whisker" /> 95 % interval of the median
          </span>
        </p>
      )}
    </Section>
  );
}

function StateBar({ cell, most }: { cell: Cell; most: number }): JSX.Element {
  const share = (value: number) => `${(value / most) * 100}%`;
  const median = cell.median_s.value ?? 0;
  const user = Math.min(cell.user_s.value ?? 0, median);
  const system = Math.min(cell.system_s.value ?? 0, median - user);
  const { interval } = cell.median_s;
  const colour = css(stateColour(cell.state, theme.value));
  return (
    <span class="statebar" aria-hidden="true">
      <span class="rest" style={{ width: share(median), background: colour }} />
      <span class="user" style={{ width: share(user), background: colour }} />
      <span class="system" style={{ left: share(user), width: share(system), background: colour }} />
      {interval !== null && (
        <span class="whisker" style={{ left: share(interval.low), width: share(interval.high - interval.low) }} />
      )}
    </span>
  );
}

function Milestones({ cells }: { cells: readonly Cell[] }): JSX.Element | null {
  const names = [...new Set(cells.flatMap((cell) => cell.milestones.map((milestone) => milestone.name)))];
  if (names.length === 0) return null;
  const several = cells.some((cell) => cell.variant !== 0);
  const of = (cell: Cell, name: string) => cell.milestones.find((milestone) => milestone.name === name);
  const most = Math.max(
    ...cells.flatMap((cell) => cell.milestones.map(({ median_s: it }) => it.interval?.high ?? it.value ?? 0)),
    1e-9,
  );
  const columns: Column<Cell>[] = [
    {
      key: "state",
      label: "Cache state",
      value: (cell) => cell.state,
      show: (cell) => (
        <>
          {several && <span class="variant">{harmless(cell.variant_name)}</span>} <State state={cell.state} />
        </>
      ),
    },
    {
      key: "picture",
      label: "Since exec",
      value: () => null,
      wide: true,
      show: (cell) => <MilestoneDots cell={cell} most={most} />,
    },
    ...names.map(
      (name): Column<Cell> => ({
        key: name,
        label: harmless(name),
        number: true,
        value: (cell) => of(cell, name)?.median_s.value ?? null,
        show: (cell) => {
          const milestone = of(cell, name);
          if (milestone === undefined) return "–";
          return (
            <>
              {seconds(milestone.median_s.value)}{" "}
              <span class="soft">{intervalS(milestone.median_s.value, milestone.median_s.interval)}</span>
              {milestone.runs < cell.runs ? (
                <span class="soft">
                  {" "}
                  in {milestone.runs} of {cell.runs}
                </span>
              ) : null}
            </>
          );
        },
      }),
    ),
  ];
  return (
    <Section title="Milestones">
      <Table
        name="milestones"
        caption="When the readiness probes fired: medians with their 95 % intervals"
        hideCaption
        columns={columns}
        rows={cells.filter((cell) => cell.milestones.length > 0)}
        rowKey={(cell) => `${cell.variant}${cell.state}`}
      />
    </Section>
  );
}

function MilestoneDots({ cell, most }: { cell: Cell; most: number }): JSX.Element {
  const share = (at: number) => `${(at / most) * 100}%`;
  return (
    <span class="dotline" aria-hidden="true">
      {cell.milestones.map(({ name, median_s: { value, interval } }) => (
        <>
          {interval !== null && (
            <span class="whisker" style={{ left: share(interval.low), width: share(interval.high - interval.low) }} />
          )}
          <span
            class="point"
            title={`${harmless(name)}: ${seconds(value)}`}
            style={{ left: share(value ?? 0), background: css(stateColour(cell.state, theme.value)) }}
          />
        </>
      ))}
    </span>
  );
}

/** The files that were waited for longest, and the sums by cause and owner. */
function Costs(): JSX.Element | null {
  const trace = traceDocument.value;
  if (trace === null) return null;
  const { report } = trace;
  const files = report.files
    .filter(
      (file) =>
        (file.waiting > 0 || file.filled > 0) &&
        passes(
          terms.value.filter((term) => term.field !== "process" && term.field !== "cause"),
          { file: file.path, owner: file.owner },
        ),
    )
    .sort((a, b) => b.waiting - a.waiting || b.filled - a.filled)
    .slice(0, 12);
  const most = Math.max(...files.map((file) => file.waiting), 1);
  const words = usefulWords();
  const columns: Column<FileReport>[] = [
    { key: "file", label: "File", value: (file) => file.path, show: (file) => <FileLink path={file.path} /> },
    {
      key: "waiting",
      label: "Waited",
      number: true,
      value: (file) => file.waiting / 1e9,
      show: (file) => nanos(file.waiting),
      bar: (file) => file.waiting / most,
    },
    {
      key: "share",
      label: "Share",
      number: true,
      value: (file) => file.waiting / Math.max(report.totals.waiting, 1),
      show: (file) => percent(file.waiting / Math.max(report.totals.waiting, 1)),
    },
    {
      key: "filled",
      label: "Came in",
      title: "Bytes that came into the page cache",
      number: true,
      value: (file) => file.filled,
      show: (file) => bytes(file.filled),
    },
    {
      key: "unasked",
      label: `${words.not[0].toUpperCase()}${words.not.slice(1)}`,
      title: `Share of them that was ${words.not}`,
      number: true,
      value: wasteOf,
      show: (file) => (file.filled > 0 && wasteOf(file) !== null ? percent((wasteOf(file) ?? 0) / file.filled) : "–"),
    },
    {
      key: "requests",
      label: "Requests",
      number: true,
      value: (file) => file.requests,
      show: (file) => count(file.requests),
    },
  ];
  const { totals } = report;
  return (
    <Section title="What the disk was waited for" note={`${waitedWords(trace)}${neededWords(totals)}`}>
      <OnOtherDisks trace={trace} />
      <div class="columns">
        <Table
          name="costs"
          caption="Files by waiting time"
          hideCaption
          columns={columns}
          rows={files}
          rowKey={(_, index) => index}
          none="No file passes the filter."
        />
        <div class="narrow">
          <Shares
            title="Why pages came"
            what="Cause"
            figure="Came in"
            rows={report.by_cause.map((it) => ({ name: it.cause, value: it.filled, text: bytes(it.filled) }))}
          />
          <Shares
            title="Whose files were waited for"
            what="Owner"
            figure="Waited"
            rows={report.by_owner.map((it) => ({
              name: it.owner === "app" ? "the program's own" : "the system's",
              value: it.waiting,
              text: nanos(it.waiting),
            }))}
          />
        </div>
      </div>
      <TraceLine />
    </Section>
  );
}

function waitedWords({ state, wall_s, report: { totals } }: TraceDocument): string {
  const whole = wall_s === null ? "" : ` of ${seconds(wall_s)}`;
  const requests = `${plural(totals.requests, "request", "requests")}, ${plural(totals.seeks, "seek", "seeks")}`;
  const brought = `${bytes(totals.read_from_disk)} in ${requests}`;
  return `In the traced ${state} start the disk was waited for ${nanos(totals.waiting)}${whole}: ${brought}.`;
}

/** What a start needs of what was read, as far as that is known. */
function neededWords({ needed, needed_of, need_unknown_files }: TraceDocument["report"]["totals"]): string {
  if (needed == null) return "";
  const unknown = `what it needs of ${plural(need_unknown_files, "file", "files")} is unknown`;
  const known = `what was read of files that no other process maps (${bytes(needed_of)})`;
  return ` A start needs ${bytes(needed)} of ${need_unknown_files > 0 ? `${known}; ${unknown}` : "it"}.`;
}

/** One sentence: what the order of its requests costs a start on disks that are not here. */
function OnOtherDisks({ trace }: { trace: TraceDocument }): JSX.Element | null {
  const disks = trace.disks?.disks ?? [];
  if (disks.length === 0) return null;
  const parts = disks.map(
    (it) => `${nanos(it.as_is_ns)} on ${it.disk}, in the disk’s order ${nanos(it.sorted_ns)} (${times(it.ratio)} less)`,
  );
  return (
    <p class="note" data-part="otherdisks" title={harmless(disks.map((it) => `${it.disk}: ${it.title}`).join("\n"))}>
      On other disks the same requests would have taken {harmless(parts.join("; "))}.
    </p>
  );
}

function Shares({
  title,
  what,
  figure,
  rows,
}: {
  title: string;
  what: string;
  figure: string;
  rows: readonly { name: string; value: number; text: string }[];
}): JSX.Element {
  const sum = rows.reduce((total, row) => total + row.value, 0) || 1;
  return (
    <Table
      name="shares"
      caption={title}
      copy={false}
      columns={[
        { key: "name", label: what, value: (row) => row.name },
        {
          key: "value",
          label: figure,
          number: true,
          value: (row) => row.value,
          show: (row) => row.text,
          bar: (row) => row.value / sum,
        },
        {
          key: "share",
          label: "Share",
          number: true,
          value: (row) => row.value / sum,
          show: (row) => percent(row.value / sum),
        },
      ]}
      rows={rows}
      rowKey={(row) => row.name}
    />
  );
}

function Warnings({ warnings }: { warnings: readonly Warning[] }): JSX.Element {
  return (
    <Section title={warnings.length === 0 ? "No warnings" : plural(warnings.length, "warning", "warnings")}>
      {warnings.length === 0 ? (
        <p class="none">Nothing about this recording calls for caution.</p>
      ) : (
        <ul class="warnings">
          {warnings.map((warning, index) => (
            <li key={index}>
              <span class="kind">{warning.kind}</span> {harmless(warning.text)}
              {warning.hint !== undefined && <span class="hint"> {harmless(warning.hint)}</span>}
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

/** A fact as it was written down; a size that is no round figure of a device as sizes are read. */
function factOf(key: string, value: string): readonly [string, string] {
  const size = key.endsWith("_bytes") && /^\d+$/.test(value) ? Number(value) : 0;
  return size >= 1e6 ? [key.replace(/_bytes$/, ""), bytes(size)] : [key, value];
}

function Recording({ document }: { document: ReportDocument }): JSX.Element {
  const { recording, variants, binaries, facts } = document;
  const trace = traceDocument.value;
  return (
    <Section title="The recording">
      <dl class="facts">
        <dt>Made</dt>
        <dd>
          {date(recording.created_unix_ns)} with thaw {harmless(recording.thaw_version)}
          {recording.finished ? "" : ", interrupted"}
        </dd>
        <dt>By</dt>
        <dd>
          <code>{harmless(commandLine(recording.command_line))}</code> in <code>{harmless(recording.cwd)}</code>
        </dd>
        {variants.map((variant) => (
          <>
            <dt>{harmless(variant.name)}</dt>
            <dd>
              <code>{harmless(commandLine(variant.argv))}</code>
            </dd>
          </>
        ))}
        {Object.entries(facts).map(([subject, pairs]) => (
          <>
            <dt>{harmless(subject)}</dt>
            <dd>
              {Object.entries(pairs)
                .map(([key, value]) => factOf(key, value))
                .map(([key, value]) => (
                  <span class="fact" key={key}>
                    <span class="what">{harmless(key)}</span> {harmless(value)}
                  </span>
                ))}
            </dd>
          </>
        ))}
        {(trace?.report.info.cannot.length ?? 0) > 0 && (
          <>
            <dt>Unknown</dt>
            <dd>The trace cannot tell: {trace?.report.info.cannot.map(harmless).join("; ")}.</dd>
          </>
        )}
      </dl>
      {binaries.length > 0 && (
        <AsTable summary={`${plural(binaries.length, "binary", "binaries")} that ran, with their build-ids`}>
          {() => (
            <Table
              name="binaries"
              caption="Binaries that ran"
              hideCaption
              columns={[
                { key: "path", label: "Binary", value: (it) => it.path, show: (it) => <PathName path={it.path} /> },
                { key: "size", label: "Size", number: true, value: (it) => it.size, show: (it) => bytes(it.size) },
                {
                  key: "build",
                  label: "Build-id",
                  value: (it) => it.build_id,
                  show: (it) => <code>{harmless(it.build_id ?? "–")}</code>,
                },
              ]}
              rows={binaries}
              rowKey={(it) => it.path}
            />
          )}
        </AsTable>
      )}
    </Section>
  );
}
