// The functions of a file that were called, however many.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { PAGE } from "../../logic/asked.ts";
import { bytes, count, harmless, micros, plural } from "../../logic/format.ts";
import {
  functionsOn,
  indexOf,
  largeLength,
  listOrder,
  sectionAt,
  type TouchedFile,
  type TouchedProgram,
} from "../../logic/touched.ts";
import { Choice, Section, ThreeBars } from "../../parts/bits.tsx";
import { Rows } from "../../parts/rows.tsx";
import type { Column } from "../../parts/table.tsx";
import { functionList, functionSort, touchPage } from "./state.ts";

interface Props {
  readonly program: TouchedProgram;
  readonly file: TouchedFile;
  /** One byte per function, 1 passes the filter; `null`: all do. */
  readonly shown: Uint8Array | null;
}

export function FunctionsPart({ program, file, shown }: Props): JSX.Element {
  const { functions } = file;
  const [list, sort, marked] = [functionList.value, functionSort.value, touchPage.value];
  const index = useMemo(() => indexOf(functions), [file]);
  const order = useMemo(() => {
    const numbers =
      list === "page" && marked !== "" ? functionsOn(functions, index, Number(marked)) : [...functions.name.keys()];
    const wanted = numbers.filter(
      (i) => (shown === null || shown[i] === 1) && (list !== "lonely" || functions.lonely[i] > 0),
    );
    return listOrder(functions, program.names, Uint32Array.from(wanted), sort);
  }, [file, shown, list, sort, marked]);
  const lonely = useMemo(() => functions.lonely.reduce((sum, pages) => sum + (pages > 0 ? 1 : 0), 0), [file]);
  const most = useMemo(() => largeLength(functions), [file]);
  const known = file.report.read !== null || file.report.needed !== null;
  const nameOf = (i: number) => (functions.name[i] > 0 ? program.names[functions.name[i] - 1] : null);
  const or = (numbers: Float64Array, i: number) => (numbers[i] < 0 ? null : numbers[i]);
  const mark = (i: number) => (touchPage.value = String(Math.floor(functions.offset[i] / PAGE)));
  const figure = (numbers: Float64Array) => ({
    value: (i: number) => or(numbers, i),
    show: (i: number) => bytes(or(numbers, i)),
  });
  const columns: (Column<number> & { width: string })[] = [
    {
      key: "order",
      label: "Order",
      title: "Order of first calls, over all files",
      width: "5.5em",
      number: true,
      value: (i) => functions.order[i] + 1,
      show: (i) => count(functions.order[i] + 1),
    },
    {
      key: "at",
      label: "First call",
      width: "7em",
      number: true,
      value: (i) => functions.at[i] / 1e6,
      show: (i) => micros(functions.at[i]),
    },
    {
      key: "name",
      label: "Function",
      width: "auto",
      value: nameOf,
      show: (i) => (
        <button
          type="button"
          class="plain functionname"
          title={`${harmless(nameOf(i) ?? "(no name)")}: mark its page in the map`}
          onClick={() => mark(i)}
        >
          {harmless(nameOf(i) ?? "(no name)")}
        </button>
      ),
    },
    {
      key: "section",
      label: "Section",
      width: "8em",
      wide: true,
      value: (i) => sectionAt(file.report, functions.offset[i]),
      show: (i) => <code>{harmless(sectionAt(file.report, functions.offset[i]) ?? "")}</code>,
    },
    {
      key: "offset",
      label: "Offset",
      width: "8em",
      number: true,
      wide: true,
      value: (i) => functions.offset[i],
      show: (i) => <code>0x{functions.offset[i].toString(16)}</code>,
    },
    {
      key: "size",
      label: "Size",
      width: "6.5em",
      number: true,
      value: (i) => functions.len[i],
      show: (i) => bytes(functions.len[i]),
    },
    ...(known
      ? [
          {
            key: "picture",
            label: "Size, read, needed",
            title: `As wide as the column: ${bytes(most)} or more`,
            width: "15em",
            wide: true,
            value: () => null,
            show: (i: number) => (
              <ThreeBars
                size={Math.min(most, functions.len[i])}
                read={Math.min(most, or(functions.read, i) ?? 0)}
                useful={Math.min(most, or(functions.needed, i) ?? 0)}
                most={most}
              />
            ),
          },
          {
            key: "read",
            label: "Read",
            title: "Bytes of it that came into the page cache",
            width: "6.5em",
            number: true,
            wide: true,
            ...figure(functions.read),
          },
          {
            key: "needed",
            label: "Needed",
            title: "Bytes of it on pages that a start without read-ahead asked for",
            width: "6.5em",
            number: true,
            wide: true,
            ...figure(functions.needed),
          },
        ]
      : []),
    {
      key: "lonely",
      label: "Alone on",
      title: "Pages that it alone keeps in memory, without filling them",
      width: "6.5em",
      number: true,
      value: (i) => functions.lonely[i],
      show: (i) => (functions.lonely[i] > 0 ? plural(functions.lonely[i], "page", "pages") : ""),
    },
  ];
  return (
    <Section title="Functions that were called">
      <div class="tools">
        <Choice
          label="list"
          value={list}
          values={[
            ["all", `all (${count(functions.count)})`],
            ["lonely", `alone on a page (${count(lonely)})`],
            ...(marked === "" ? [] : [["page", `on the page at ${bytes(Number(marked) * PAGE)}`] as const]),
          ]}
          onChange={(value) => (functionList.value = value)}
        />
        <span class="totals">{plural(order.length, "function", "functions")}</span>
      </div>
      <Rows
        name="functions"
        caption="Functions that were called"
        columns={columns}
        order={order}
        sort={sort}
        onSort={(next) => (functionSort.value = next)}
        selected={(i) => Math.floor(functions.offset[i] / PAGE) === Number(marked || -1)}
        none="No function passes."
      />
    </Section>
  );
}
