// What a start really touches: the map of a file's pages, its sections, and the functions that were called.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { PAGE } from "../../logic/asked.ts";
import { passes, type Term } from "../../logic/filter.ts";
import { bytes, commandLine, count, harmless, percent, plural, splitPath } from "../../logic/format.ts";
import {
  enginesOf,
  sectionLines,
  type TouchedFile,
  type TouchedProgram,
  type TouchedSection,
  touchedFile,
} from "../../logic/touched.ts";
import { AsTable, Choice, PathName, Section, ThreeBars } from "../../parts/bits.tsx";
import { type Column, sorted, Table } from "../../parts/table.tsx";
import type { FunctionReport, StartsFrom, TouchEngine, TouchFileReport } from "../../types/document.ts";
import { chooseFile, chosenFile } from "../shared/chosenfile.ts";
import { page } from "../shared/document.ts";
import { FileLink } from "../shared/filelink.tsx";
import { FunctionsPart } from "./functions.tsx";
import { MapPart } from "./map.tsx";
import {
  chosenEngine,
  touchEngine,
  touchedDamaged,
  touchedPrograms,
  touchProgram,
  touchSort,
  touchTerms,
} from "./state.ts";

export function TouchView(): JSX.Element {
  const programs = touchedPrograms.value;
  if (touchedDamaged.value !== null) return <p class="none">What starts touched is damaged: {touchedDamaged.value}.</p>;
  if (programs === null) return <p class="none">Unpacking what starts touched …</p>;
  const program = programs[Number(touchProgram.value)] ?? programs[0];
  if (program === undefined) return <Nothing />;
  return <OneProgram key={program.variant} program={program} programs={programs} />;
}

/** How to have it looked at. */
function command(variant: string | null, engine: TouchEngine | null): string {
  const { recording, asked, variants } = page.value!.document;
  const app = typeof asked.app === "string" ? asked.app : null;
  const argv = (variants.find((it) => it.name === variant) ?? variants[0])?.argv ?? [];
  const words = ["thaw", "touch", ...(engine === null ? [] : ["--engine", engine]), "-o", recording.file];
  return harmless(
    commandLine(app !== null ? [...words, "--app", app] : [...words, "--", ...(argv.length > 0 ? argv : ["PROGRAM"])]),
  );
}

function Nothing(): JSX.Element {
  return (
    <div class="none" data-part="untouched">
      <p>
        No watched start tells what this program touches. This adds one to the recording, for each engine that works
        here:
      </p>
      <p>
        <code>{command(null, null)}</code>
      </p>
      <p>
        Then{" "}
        <code>
          {harmless(commandLine(["thaw", "report", page.value!.document.recording.file, "-o", "report.html"]))}
        </code>{" "}
        makes this page again.
      </p>
    </div>
  );
}

function OneProgram({
  program,
  programs,
}: {
  program: TouchedProgram;
  programs: readonly TouchedProgram[];
}): JSX.Element {
  const words = touchTerms.value;
  const lines = useMemo(() => linesOf(program, words), [program, words]);
  const order = sorted(lines, FILE_COLUMNS, touchSort.value);
  const named = program.report.files.findIndex((file) => file.path === chosenFile.value);
  // The metadata of a whole disk tells least.
  const line = named >= 0 ? named : ((order.find((it) => it.file.kind === "regular") ?? order[0])?.line ?? -1);
  const file = useMemo(() => (line < 0 ? null : touchedFile(program, line)), [program, line]);
  return (
    <div class="touch">
      <div class="tools">
        {programs.length > 1 && (
          <Choice
            label="program"
            value={String(programs.indexOf(program))}
            values={programs.map((it, index) => [String(index), harmless(it.variant)] as const)}
            onChange={(value) => (touchProgram.value = value)}
          />
        )}
        <FileChoice lines={order} line={line} program={program} />
        {file !== null && <EngineChoice file={file} />}
      </div>
      {file === null ? (
        <p class="none">{words.length > 0 ? "No file passes the filter." : "The watched starts touched no file."}</p>
      ) : (
        <OneFile key={line} program={program} file={file} words={words} />
      )}
      <Files lines={lines} chosen={line} program={program} />
      <Precision program={program} />
    </div>
  );
}

/** A file with its line in the report. */
interface Line {
  readonly line: number;
  readonly file: TouchFileReport;
}

/** Files of which something is known and that pass the filter, by themselves or by a function of theirs. */
function linesOf(program: TouchedProgram, words: readonly Term[]): Line[] {
  const lines = program.report.files.map((file, line) => ({ file, line }));
  const known = ({ file }: Line) =>
    (file.read ?? 0) > 0 || (file.needed ?? 0) > 0 || (file.resident ?? 0) > 0 || (file.functions?.called ?? 0) > 0;
  return lines.filter(
    (it) =>
      known(it) &&
      (words.length === 0 ||
        passes(words, { file: it.file.path, owner: it.file.owner }) ||
        (shownFunctions(program, touchedFile(program, it.line), words)?.includes(1) ?? false)),
  );
}

/** One byte per function of a file, 1 passes the filter; `null`: all of them do. */
export function shownFunctions(
  program: TouchedProgram,
  { report, functions }: TouchedFile,
  words: readonly Term[],
): Uint8Array | null {
  if (words.length === 0 || functions.count === 0) return null;
  const shown = Uint8Array.from(functions.name, (name) =>
    passes(words, { file: report.path, owner: report.owner, function: name > 0 ? program.names[name - 1] : "" })
      ? 1
      : 0,
  );
  return shown.includes(0) ? shown : null;
}

function FileChoice({
  lines,
  line,
  program,
}: {
  lines: readonly Line[];
  line: number;
  program: TouchedProgram;
}): JSX.Element {
  const shown = lines.slice(0, 400);
  const missing = line >= 0 && !shown.some((it) => it.line === line);
  const all = missing ? [{ line, file: program.report.files[line] }, ...shown] : shown;
  const by = touchSort.value.replace("-", "") === "read" ? "read" : "needed";
  const figure = (file: TouchFileReport) =>
    by === "read" ? file.read : (file.needed ?? file.read ?? file.resident ?? file.functions?.called_bytes ?? null);
  return (
    <>
      <label class="choice filechoice">
        <span class="what">file</span>
        <select
          value={line < 0 ? "" : program.report.files[line].path}
          onChange={(event) => chooseFile(event.currentTarget.value)}
        >
          {all.map(({ line: number, file }) => (
            <option key={number} value={file.path}>
              {harmless(splitPath(file.path)[1])} · {bytes(figure(file))} · {harmless(splitPath(file.path)[0])}
            </option>
          ))}
        </select>
      </label>
      {program.report.totals.read !== null && program.report.totals.needed !== null && (
        <Choice
          label="by"
          value={by}
          values={[
            ["needed", "needed"],
            ["read", "read"],
          ]}
          onChange={(value) => (touchSort.value = `-${value}`)}
        />
      )}
    </>
  );
}

const ENGINE_WORDS: Record<TouchEngine, string> = {
  byte: "bytes touched",
  page: "pages asked for",
  probe: "pages in memory after the start",
  function: "functions called",
};

function EngineChoice({ file }: { file: TouchedFile }): JSX.Element | null {
  const engines = enginesOf(file);
  if (engines.length < 2) return null;
  return (
    <Choice
      label="colour"
      value={chosenEngine(file) ?? ""}
      values={engines.map((engine) => [engine, ENGINE_WORDS[engine]] as const)}
      onChange={(engine) => (touchEngine.value = engine === engines[0] ? "" : engine)}
    />
  );
}

function OneFile({
  program,
  file,
  words,
}: {
  program: TouchedProgram;
  file: TouchedFile;
  words: readonly Term[];
}): JSX.Element {
  const shown = useMemo(() => shownFunctions(program, file, words), [program, file, words]);
  const { report } = file;
  return (
    <>
      <h2 class="filename">
        <FileLink path={report.path} />
      </h2>
      <Figures file={report} />
      {report.functions !== null && <Packed functions={report.functions} />}
      <MapPart program={program} file={file} shown={shown} />
      {report.kind === "regular" && <Sections file={report} />}
      {report.functions === null || report.functions.called === 0 ? (
        <NoFunctions program={program} file={report} />
      ) : (
        <FunctionsPart program={program} file={file} shown={shown} />
      )}
    </>
  );
}

function Figures({ file }: { file: TouchFileReport }): JSX.Element {
  const share =
    file.read !== null && file.read > 0 && file.needed !== null
      ? ` (${percent(Math.min(1, file.needed / file.read))})`
      : "";
  const items: [string, string, number | null][] = [
    ["size", file.kind === "metadata" ? "–" : bytes(file.size), file.size],
  ];
  if (file.read !== null) items.push(["read", bytes(file.read), file.read]);
  if (file.needed !== null) items.push(["needed", `${bytes(file.needed)}${share}`, file.needed]);
  if (file.resident !== null) items.push(["in memory after", bytes(file.resident), file.resident]);
  const { functions } = file;
  if (functions !== null) {
    items.push(
      ["functions called", `${count(functions.called)} of ${count(functions.total)}`, functions.called],
      ["their bytes", bytes(functions.called_bytes), functions.called_bytes],
      ["on pages", count(functions.pages), functions.pages],
      ["packed", plural(functions.packed_pages, "page", "pages"), functions.packed_pages],
      ["with one function alone", plural(functions.lonely_pages, "page", "pages"), functions.lonely_pages],
    );
  }
  return (
    <dl class="figures" data-part="touch">
      {items.map(([name, text, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd data-value={value}>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Where function starts come from decides how many are known. */
const STARTS: Record<StartsFrom, string> = {
  symbols: "its symbol table",
  unwind: "its unwind tables; code without such tables is not seen",
  exports: "what it exports, for it has neither symbols nor unwind tables",
};

/** What an order file could bring. */
function Packed({ functions }: { functions: FunctionReport }): JSX.Element {
  const most = Math.max(functions.pages, functions.packed_pages, 1);
  const bar = (pages: number) => ({ width: `${(pages / most) * 100}%` });
  const pages = (number: number) => `${plural(number, "page", "pages")} (${bytes(number * PAGE)})`;
  return (
    <section class="packed" data-part="packed">
      <p>
        Touched functions: {count(functions.called)}, {bytes(functions.called_bytes)}. They lie on{" "}
        {pages(functions.pages)}; packed together they would take {pages(functions.packed_pages)}. On{" "}
        {plural(functions.lonely_pages, "page", "pages")} one of them lies alone.
        {functions.starts !== null && ` Functions are known from ${STARTS[functions.starts]}.`}
      </p>
      <span class="packbars" aria-hidden="true">
        <span class="now" style={bar(functions.pages)}>
          <span class="lonely" style={{ width: `${(functions.lonely_pages / Math.max(1, functions.pages)) * 100}%` }} />
        </span>
        <span class="then" style={bar(functions.packed_pages)} />
      </span>
      <p class="key" aria-hidden="true">
        <span>
          <span class="swatch now" />
          pages now
        </span>
        <span>
          <span class="swatch lonely" />
          of these with one function alone
        </span>
        <span>
          <span class="swatch then" />
          packed
        </span>
      </p>
    </section>
  );
}

function Sections({ file }: { file: TouchFileReport }): JSX.Element {
  const lines = sectionLines(file);
  const most = Math.max(...lines.map((line) => line.size), 1);
  const useful = (line: TouchedSection) => line.needed ?? 0;
  const of = (part: number | null, whole: number | null) =>
    part === null || whole === null || whole === 0 ? null : Math.min(1, part / whole);
  const columns: Column<TouchedSection>[] = [
    {
      key: "section",
      label: "Section",
      value: (line) => line.name,
      show: (line) => <code>{harmless(line.name)}</code>,
    },
    {
      key: "picture",
      label: "Size, read, needed",
      value: () => null,
      wide: true,
      show: (line) => <ThreeBars size={line.size} read={line.read ?? 0} useful={useful(line)} most={most} />,
    },
    { key: "size", label: "Size", number: true, value: (line) => line.size, show: (line) => bytes(line.size) },
    {
      key: "read",
      label: "Read",
      title: "Came into the page cache in a cold start with the usual read-ahead",
      number: true,
      value: (line) => line.read,
      show: (line) => bytes(line.read),
    },
    {
      key: "readshare",
      label: "of size",
      number: true,
      value: (line) => of(line.read, line.size),
      show: (line) => percent(of(line.read, line.size)),
    },
    {
      key: "needed",
      label: "Needed",
      title: "Asked for by a cold start without read-ahead, in whole pages, cut at the section's borders",
      number: true,
      value: (line) => line.needed,
      show: (line) => bytes(line.needed),
    },
    {
      key: "neededshare",
      label: "of size",
      number: true,
      value: (line) => of(line.needed, line.size),
      show: (line) => percent(of(line.needed, line.size)),
    },
    {
      key: "ofread",
      label: "of read",
      title: "Needed as a share of read",
      number: true,
      value: (line) => of(line.needed, line.read),
      show: (line) => percent(of(line.needed, line.read)),
    },
    {
      key: "called",
      label: "Functions",
      title: "That were called",
      number: true,
      value: (line) => line.called,
      show: (line) => (line.called === 0 ? "" : count(line.called)),
    },
  ];
  const unknown = [
    ...(file.read === null ? ["read", "readshare", "ofread"] : []),
    ...(file.needed === null ? ["needed", "neededshare", "ofread"] : []),
    ...(file.functions === null ? ["called"] : []),
  ];
  return (
    <Section title="Sections: size, read, needed">
      <Table
        name="touchsections"
        caption="Sections of the file"
        hideCaption
        columns={columns.filter(({ key }) => !unknown.includes(key))}
        rows={lines}
        rowKey={(line) => `${line.name} ${line.offset}`}
        sort="-size"
        most={12}
      />
    </Section>
  );
}

function NoFunctions({ program, file }: { program: TouchedProgram; file: TouchFileReport }): JSX.Element {
  if (file.functions !== null)
    return <p class="note">None of its {plural(file.functions.total, "function", "functions")} was called.</p>;
  if (program.report.totals.functions !== null) return <p class="note">It has no functions that were watched.</p>;
  return (
    <p class="note">
      Which functions are called was not looked at: <code>{command(program.variant, "function")}</code>
    </p>
  );
}

const known =
  (of: (functions: FunctionReport) => number) =>
  ({ file }: Line) =>
    file.functions === null ? null : of(file.functions);
const FILE_COLUMNS: readonly Column<Line>[] = [
  { key: "path", label: "File", value: ({ file }) => file.path, show: ({ file }) => <Chosen path={file.path} /> },
  {
    key: "size",
    label: "Size",
    number: true,
    value: ({ file }) => file.size,
    show: ({ file }) => (file.kind === "metadata" ? "–" : bytes(file.size)),
  },
  { key: "read", label: "Read", number: true, value: ({ file }) => file.read, show: ({ file }) => bytes(file.read) },
  {
    key: "needed",
    label: "Needed",
    number: true,
    value: ({ file }) => file.needed,
    show: ({ file }) => bytes(file.needed),
  },
  {
    key: "resident",
    label: "In memory after",
    number: true,
    value: ({ file }) => file.resident,
    show: ({ file }) => bytes(file.resident),
  },
  {
    key: "called",
    label: "Called",
    title: "Functions that were called",
    number: true,
    value: known((it) => it.called),
    show: (line) => count(known((it) => it.called)(line)),
  },
  {
    key: "bytes",
    label: "Bytes",
    title: "Bytes of the functions that were called",
    number: true,
    value: known((it) => it.called_bytes),
    show: (line) => bytes(known((it) => it.called_bytes)(line)),
  },
  {
    key: "pages",
    label: "On pages",
    title: "Pages that they lie on",
    number: true,
    value: known((it) => it.pages),
    show: (line) => count(known((it) => it.pages)(line)),
  },
  {
    key: "packed",
    label: "Packed",
    title: "Pages that they would take side by side",
    number: true,
    value: known((it) => it.packed_pages),
    show: (line) => count(known((it) => it.packed_pages)(line)),
  },
  {
    key: "lonely",
    label: "Alone",
    title: "Pages on which one of them lies alone",
    number: true,
    value: known((it) => it.lonely_pages),
    show: (line) => count(known((it) => it.lonely_pages)(line)),
  },
];

/** A path that puts its file into sight. */
function Chosen({ path }: { path: string }): JSX.Element {
  const go = () => {
    chooseFile(path);
    scrollTo({ top: 0 });
  };
  return (
    <button type="button" class="plain" onClick={go}>
      <PathName path={path} />
    </button>
  );
}

function Files({
  lines,
  chosen,
  program,
}: {
  lines: readonly Line[];
  chosen: number;
  program: TouchedProgram;
}): JSX.Element {
  const { totals } = program.report;
  const unknown = [
    ...(["read", "needed", "resident"] as const).filter((key) => totals[key] === null),
    ...(totals.functions === null ? ["called", "bytes", "pages", "packed", "lonely"] : []),
  ];
  const columns = FILE_COLUMNS.filter(({ key }) => !(unknown as string[]).includes(key));
  return (
    <Section title="All files">
      <Table
        name="touchfiles"
        caption="Files that the watched starts touched"
        hideCaption
        columns={columns}
        rows={lines}
        rowKey={(line) => line.line}
        sort={touchSort.value}
        onSort={(sort) => (touchSort.value = sort)}
        selected={(line) => line.line === chosen}
        most={20}
        none="No file passes the filter."
      />
    </Section>
  );
}

/** What each engine knows and what it cannot know. */
function Precision({ program }: { program: TouchedProgram }): JSX.Element {
  const { engines, totals } = program.report;
  return (
    <>
      <AsTable summary="How precise this is">
        {() => (
          <section>
            <dl class="facts">
              {engines.map(({ engine, precision, cannot }) => (
                <>
                  <dt>{engine}</dt>
                  <dd>
                    {harmless(precision)}
                    {cannot.length > 0 && `. It cannot know: ${cannot.map(harmless).join("; ")}`}.
                  </dd>
                </>
              ))}
            </dl>
          </section>
        )}
      </AsTable>
      {totals.needed === null && (
        <p class="note">
          Which pages a cold start asks for was not looked at (root can):{" "}
          <code>{command(program.variant, "page")}</code>
        </p>
      )}
    </>
  );
}
