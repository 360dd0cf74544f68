// The trees of memory reports, as about:memory draws them, and of their differences.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, harmless, mebibytes, percent, plural, signed } from "../../logic/format.ts";
import { hasDoubtful, isDoubtful, type MemoryLine, memoryLines, sifted, type Trees } from "../../logic/memory.ts";
import { largestChanges } from "../../logic/memorydiff.ts";
import { Choice, Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { TreeGrid } from "../../parts/treegrid.tsx";
import type { MemoryNode, MemoryProcess } from "../../types/document.ts";
import { memoryWaiting } from "./parts.tsx";
import {
  memoryPage,
  memoryPattern,
  memoryProcess,
  memoryVerbose,
  memoryWanted,
  treesBase,
  treesBefore,
  treesChosen,
  treesInSight,
  treesNumber,
} from "./state.ts";

/** Open trees of one process that are shown without being asked for. */
const FIRST_TREES = 1;
/** Processes that are open at first. */
const FIRST_PROCESSES = 3;

/** Amounts as the terminal and about:memory have them, so that all three can be compared. */
export function amount(node: MemoryNode, difference: boolean): string {
  const one = (value: number) =>
    node.units === 0 ? mebibytes(value) : node.units === 3 ? `${(value / 100).toFixed(2)} %` : count(value);
  return difference ? signed(node.amount, one) : one(node.amount);
}

/** A name with its slashes: inside a name they are written as backslashes. */
export const nodeName = (node: MemoryNode): string => harmless(node.name.replaceAll("\\", "/"));

const PRESENCE: Record<string, [string, string]> = {
  "second-only": ["[+]", "only in the second"],
  "first-only": ["[−]", "only in the first"],
  added: ["[!]", "a leaf in one, a tree in the other"],
};

const DOUBTFUL = "negative, or more than its whole tree: a reporter is wrong";

function Doubt(): JSX.Element {
  return (
    <span class="more" title={DOUBTFUL}>
      {" "}
      [?!]
    </span>
  );
}

export function MemoryView(): JSX.Element {
  const wait = memoryWaiting();
  if (wait !== null) return wait;
  const trees = treesInSight.value;
  if (trees === null)
    return (
      <p class="none">
        No report of the program is here: thaw memory watch asks programs with thaw_memreport at its marks.
      </p>
    );
  const sets = memoryPage.value!.trees;
  const chosenSet = treesChosen.value!;
  const states = sets.filter((set) => !set.difference);
  // Long names beside each other have no room.
  const few = sets.reduce((letters, set) => letters + shortName(set.name).length, 0) < 60;
  const names = trees.processes.map((process) => process.name);
  const chosen = names.includes(memoryProcess.value) ? memoryProcess.value : "";
  const processes = trees.processes.filter((process) => chosen === "" || process.name === chosen);
  const { wanted, wrong } = memoryWanted.value;
  const warnings = [...trees.warnings, ...trees.processes.flatMap((process) => process.warnings)];
  return (
    <>
      <div class="tools">
        {sets.length > 1 && few && (
          <Choice
            label="shown"
            values={sets.map((set, number) => [String(number), harmless(shortName(set.name))] as const)}
            value={String(sets.indexOf(chosenSet))}
            onChange={(value) => (treesNumber.value = value)}
          />
        )}
        {sets.length > 1 && !few && (
          <label class="choice">
            <span class="what">shown</span>
            <select
              value={String(sets.indexOf(chosenSet))}
              onChange={(event) => (treesNumber.value = event.currentTarget.value)}
            >
              {sets.map((set, number) => (
                <option key={number} value={String(number)}>
                  {harmless(shortName(set.name))}
                </option>
              ))}
            </select>
          </label>
        )}
        {!chosenSet.difference && states.length > 1 && (
          <label class="choice">
            <span class="what">compared with</span>
            <select
              value={treesBase.value === null ? "" : String(sets.indexOf(treesBase.value))}
              onChange={(event) => (treesBefore.value = event.currentTarget.value)}
            >
              <option value="">nothing</option>
              {states.map(
                (set) =>
                  set !== chosenSet && (
                    <option key={sets.indexOf(set)} value={String(sets.indexOf(set))}>
                      {harmless(shortName(set.name))}
                    </option>
                  ),
              )}
            </select>
          </label>
        )}
        {names.length > 1 && (
          <label class="choice">
            <span class="what">process</span>
            <select value={chosen} onChange={(event) => (memoryProcess.value = event.currentTarget.value)}>
              <option value="">all {count(names.length)} processes</option>
              {names.map((name) => (
                <option key={name} value={name}>
                  {harmless(name)}
                </option>
              ))}
            </select>
          </label>
        )}
        <Choice
          label="nodes"
          values={
            [
              ["0", "from 1 %"],
              ["1", "all"],
            ] as const
          }
          value={memoryVerbose.value}
          onChange={(value) => (memoryVerbose.value = value)}
        />
        <Choice
          label="filter is"
          values={
            [
              ["0", "words"],
              ["1", "a regular expression"],
            ] as const
          }
          value={memoryPattern.value}
          onChange={(value) => (memoryPattern.value = value)}
        />
      </div>
      <p class="note">
        {harmless(trees.name)}
        {trees.difference && ": the second less the first; what did not change is left out"}.
        {wanted !== null && wrong === null && " Only paths that match the filter; shares and sums are of these."}
      </p>
      {wrong !== null && (
        <p class="note" role="alert">
          The filter is no regular expression, so nothing matches it: {wrong}.
        </p>
      )}
      {warnings.length > 0 && (
        <ul class="warnings">
          {warnings.slice(0, 8).map((warning, index) => (
            <li key={index}>{harmless(warning.text)}</li>
          ))}
          {warnings.length > 8 && <li>and {count(warnings.length - 8)} more: thaw memory show prints all of them</li>}
        </ul>
      )}
      {trees.difference && <Largest trees={{ ...trees, processes }} />}
      {processes.length === 0 && <p class="none">{trees.difference ? "Nothing changed." : "The report is empty."}</p>}
      {processes.map((process, index) => (
        <ProcessPart
          key={`${trees.name} ${process.name}`}
          process={process}
          difference={trees.difference}
          open={index < FIRST_PROCESSES || chosen !== ""}
        />
      ))}
    </>
  );
}

/** What grew and what shrank, leaf by leaf. */
function Largest({ trees }: { trees: Trees }): JSX.Element | null {
  const { wanted } = memoryWanted.value;
  const [chosen, setChosen] = useState("");
  // Trees overlap: one at a time.
  const roots = [
    ...new Set(trees.processes.flatMap((it) => it.trees.filter((tree) => tree.units === 0).map((tree) => tree.name))),
  ];
  const root = roots.includes(chosen) ? chosen : roots[0];
  if (root === undefined) return null;
  const changes = largestChanges(trees, root).filter((it) => wanted === null || wanted(it.path, it.process));
  const most = Math.max(1, ...changes.map((it) => Math.abs(it.node.amount)));
  return (
    <Section title="Largest changes">
      {roots.length > 1 && (
        <div class="tools">
          <label class="choice">
            <span class="what">of</span>
            <select value={root} onChange={(event) => setChosen(event.currentTarget.value)}>
              {roots.map((it) => (
                <option key={it} value={it}>
                  {harmless(it)}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <Table
        name="changes"
        caption={`What grew and what shrank of ${harmless(root)}`}
        hideCaption
        rows={changes}
        rowKey={(it) => `${it.process} ${it.path}`}
        most={10}
        none="Nothing."
        columns={[
          {
            key: "path",
            label: "Path",
            value: (it) => it.path,
            show: (it) => <span class="treename">{harmless(it.path.replaceAll("\\", "/"))}</span>,
          },
          {
            key: "process",
            label: "Process",
            wide: true,
            value: (it) => it.process,
            show: (it) => harmless(it.process),
          },
          {
            key: "change",
            label: "Change",
            number: true,
            value: (it) => it.node.amount,
            show: (it) => <span class={it.node.amount > 0 ? "more" : "less"}>{amount(it.node, true)}</span>,
            bar: (it) => Math.abs(it.node.amount) / most,
          },
        ]}
      />
    </Section>
  );
}

const shortName = (name: string): string =>
  name.includes("/") && !name.includes("→") ? name.replace(/^.*\//, "") : name;

function ProcessPart({
  process,
  difference,
  open,
}: {
  process: MemoryProcess;
  difference: boolean;
  open: boolean;
}): JSX.Element | null {
  const { wanted: passing } = memoryWanted.value;
  const [wanted, setWanted] = useState<ReadonlySet<string> | null>(null);
  const trees = useMemo(
    () => process.trees.flatMap((tree) => sifted(tree, passing, process.name) ?? []),
    [process, passing],
  );
  const others = useMemo(
    () => process.others.filter((node) => passing === null || passing(node.name, process.name)),
    [process, passing],
  );
  if (trees.length === 0 && others.length === 0) return null;
  const doubtful =
    !difference &&
    (trees.some((tree) => hasDoubtful(tree, tree.amount)) ||
      others.some((node) => isDoubtful(node.amount, node.amount)));
  const explicit = trees.find((tree) => tree.name === "explicit");
  const resident = others.find((node) => node.name === "resident");
  const isOpen = (tree: MemoryNode, index: number) =>
    wanted === null ? index < FIRST_TREES || passing !== null : wanted.has(tree.name);
  const figures = [explicit, resident].flatMap((node) =>
    node === undefined ? [] : [`${node.name} ${amount(node, difference)}`],
  );
  return (
    <details class="process" open={open || passing !== null}>
      <summary>
        <strong>{harmless(process.name)}</strong> <span class="soft">{figures.join(", ")}</span>
      </summary>
      <p class="chips">
        {trees.map((tree, index) => (
          <button
            key={tree.name}
            type="button"
            aria-pressed={isOpen(tree, index)}
            onClick={() => {
              const next = new Set(trees.filter(isOpen).map((it) => it.name));
              if (!next.delete(tree.name)) next.add(tree.name);
              setWanted(next);
            }}
          >
            {nodeName(tree)} <span class="soft">{amount(tree, difference)}</span>
          </button>
        ))}
      </p>
      {trees.filter(isOpen).map((tree) => (
        <TreePart key={tree.name} tree={tree} difference={difference} />
      ))}
      {others.length > 0 && (
        <Section title={`Other measurements (${count(others.length)})`}>
          <Table
            name="others"
            caption={`Single figures of ${harmless(process.name)}`}
            hideCaption
            rows={others}
            rowKey={(node) => node.name}
            most={14}
            columns={[
              {
                key: "name",
                label: "Name",
                value: (node) => node.name,
                show: (node) => (
                  <span class="treename" title={harmless(node.description)}>
                    {nodeName(node)}
                    {!difference && isDoubtful(node.amount, node.amount) && <Doubt />}
                    {node.reports > 1 && <span class="soft"> [{count(node.reports)}]</span>}
                  </span>
                ),
              },
              {
                key: "amount",
                label: difference ? "Change" : "Amount",
                number: true,
                value: (node) => node.amount,
                show: (node) => amount(node, difference),
              },
              {
                key: "what",
                label: "What it is",
                wide: true,
                value: (node) => node.description,
                show: (node) => (
                  <span class="soft clamp" title={harmless(node.description)}>
                    {harmless(node.description)}
                  </span>
                ),
              },
            ]}
          />
        </Section>
      )}
      {doubtful && <p class="note">[?!]: {DOUBTFUL}.</p>}
    </details>
  );
}

interface Line extends MemoryLine {
  readonly indent: number;
}

function TreePart({ tree, difference }: { tree: MemoryNode; difference: boolean }): JSX.Element {
  const [flipped, setFlipped] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState<string | null>(null);
  const verbose = memoryVerbose.value === "1";
  const lines: Line[] = useMemo(
    () =>
      memoryLines(tree, { difference, verbose, flipped }).map((line) => ({
        ...line,
        indent: line.depth,
        depth: line.depth + 1,
      })),
    [tree, difference, verbose, flipped],
  );
  const flip = (line: Line) => {
    const next = new Set(flipped);
    if (!next.delete(line.key)) next.add(line.key);
    setFlipped(next);
  };
  const line = lines.find((it) => it.key === active);
  return (
    <Section title={`${nodeName(tree)}: ${amount(tree, difference)}`}>
      <TreeGrid
        name={`memory-${tree.name.replaceAll(/[^a-z0-9]+/gi, "-")}`}
        caption={`Tree of ${nodeName(tree)}; arrow keys move, open and close`}
        nameLabel="Name"
        rows={lines}
        short={lines.length < 40}
        label={(it) => (
          <span class="treename">
            {nodeName(it.node)}
            {it.doubtful && <Doubt />}
            {it.node.reports > 1 && <span class="soft"> [{count(it.node.reports)}]</span>}
            {it.node.presence !== undefined && (
              <span class="presence" title={PRESENCE[it.node.presence][1]}>
                {" "}
                {PRESENCE[it.node.presence][0]}
              </span>
            )}
          </span>
        )}
        title={(it) => harmless(`${it.node.name}\n${it.node.description}`)}
        text={(it) => it.node.name}
        faint={(it) => it.node.below === "folded"}
        onFlip={flip}
        active={active}
        onActive={(it) => setActive(it.key)}
        none="Nothing."
        columns={[
          {
            key: "amount",
            label: difference ? "Change" : "Amount",
            number: true,
            width: "110px",
            value: (it) => it.node.amount,
            show: (it) => (
              <span class={difference ? (it.node.amount > 0 ? "more" : "less") : ""}>
                {amount(it.node, difference)}
              </span>
            ),
            bar: (it) => (difference ? Math.min(1, Math.abs(it.share ?? 0)) : (it.share ?? 0)),
          },
          {
            key: "share",
            label: "Share",
            number: true,
            width: "70px",
            value: (it) => it.share,
            show: (it) => percent(it.share),
          },
        ]}
      />
      {line !== undefined && (
        <p class="note detail">
          <span class="functionname">{harmless(line.key)}</span>{" "}
          {line.node.reports > 1 && `(${plural(line.node.reports, "report", "reports")}) `}
          {harmless(line.node.description)}
        </p>
      )}
    </Section>
  );
}
