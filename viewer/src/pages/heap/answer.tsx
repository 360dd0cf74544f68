// What a heap recording answers first: what held the memory when there was most of it, and what was never given back.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import {
  filtered,
  joined,
  largestSites,
  loaded,
  nameOf,
  objectName,
  objectOf,
  type Site,
  treeOf,
} from "../../logic/calltree.ts";
import { bytes, count, harmless, percent, plural, seconds } from "../../logic/format.ts";
import { type HeapProcess, type Mode, ownOf } from "../../logic/heap.ts";
import { Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { view } from "../../state.ts";
import { Missing, ProcessChoice, waiting } from "./parts.tsx";
import {
  heapMode,
  heapShape,
  heapTerms,
  labels,
  processesInSight,
  processLine,
  processName,
  recording,
} from "./state.ts";

/** Sites that are listed. */
const SITES = 6;

export function HeapAnswerView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  const processes = processesInSight.value;
  return (
    <>
      <div class="tools">
        <ProcessChoice />
      </div>
      <Missing head={recording.value!.head} />
      <Held processes={processes} mode="peak" />
      <Held processes={processes} mode="end" />
      <Waste processes={processes} />
    </>
  );
}

/** What the stacks of some processes hold. */
function useSites(
  processes: readonly HeapProcess[],
  mode: Mode,
): { readonly all: number; readonly blocks: number; readonly sites: readonly Site[] } {
  const [names, terms] = [labels.value, heapTerms.value];
  return useMemo(() => {
    const parts = processes.map((process) => loaded(process.stacks, ownOf(process, mode, 0)));
    const grown = treeOf(
      filtered(processLine.value === null ? joined(parts, names.frames) : parts[0], names, terms),
      names,
      "up",
    );
    return { all: grown.total[0][0], blocks: grown.total[1][0], sites: largestSites(grown, SITES) };
  }, [processes, mode, names, terms]);
}

function Held({ processes, mode }: { processes: readonly HeapProcess[]; mode: "peak" | "end" }): JSX.Element {
  const { all, blocks, sites } = useSites(processes, mode);
  const names = labels.value;
  const one = processes.length === 1 ? processes[0] : undefined;
  const who = one === undefined ? `${count(processes.length)} processes` : harmless(processName(one));
  const when =
    one === undefined ? "at their peaks" : `at its peak, ${seconds(one.head.peak_us / 1e6)} after the recording began`;
  const held = `${bytes(all)} in ${plural(blocks, "block", "blocks")}`;
  const title =
    mode === "peak"
      ? `${who} held ${held} ${when}`
      : all === 0
        ? "Everything was freed"
        : recording.value!.head.finished
          ? `${held} ${blocks === 1 ? "was" : "were"} not freed`
          : `${held} ${blocks === 1 ? "is" : "are"} live`;
  const largest = sites[0];
  const callers = (site: Site) => site.callers.map((caller) => harmless(nameOf(names, caller))).join(" < ");
  const objectText = (site: Site) =>
    objectOf(names, site.label) < 0 ? "" : harmless(objectName(names.frames.objects[objectOf(names, site.label)]));
  return (
    <Section
      title={title}
      note={
        largest !== undefined &&
        `The largest place, ${harmless(nameOf(names, largest.label))}, ` +
          `has ${percent(largest.bytes / Math.max(1, all))} of it.`
      }
    >
      {sites.length > 0 && (
        <Table
          name={`sites-${mode}`}
          caption={
            mode === "peak"
              ? "What held it, by the function that wanted it"
              : "What was not freed, by the function that wanted it"
          }
          hideCaption
          rows={sites}
          rowKey={(site) => String(site.label)}
          columns={[
            {
              key: "function",
              label: "Wanted by",
              value: (site) => nameOf(names, site.label),
              show: (site) => (
                <span class="functionname" title={harmless(nameOf(names, site.label))}>
                  {harmless(nameOf(names, site.label))}
                </span>
              ),
            },
            {
              key: "bytes",
              label: "Bytes",
              number: true,
              value: (site) => site.bytes,
              show: (site) => bytes(site.bytes),
            },
            {
              key: "share",
              label: "Share",
              number: true,
              value: (site) => site.bytes,
              show: (site) => percent(site.bytes / Math.max(1, all)),
            },
            {
              key: "blocks",
              label: "Blocks",
              number: true,
              wide: true,
              value: (site) => site.blocks,
              show: (site) => count(site.blocks),
            },
            {
              key: "callers",
              label: "Mostly for",
              wide: true,
              value: callers,
              show: (site) => (
                <span class="soft clamp" title={callers(site)}>
                  {callers(site)}
                </span>
              ),
            },
            {
              key: "object",
              label: "Object",
              wide: true,
              value: objectText,
              show: (site) => <span class="soft">{objectText(site)}</span>,
            },
          ]}
        />
      )}
      {all > 0 && (
        <p class="below">
          <button type="button" onClick={() => open("tree", mode)}>
            all places
          </button>
          <button type="button" onClick={() => open("flame", mode)}>
            as a flame graph
          </button>
        </p>
      )}
    </Section>
  );
}

function open(name: "tree" | "flame", mode: "peak" | "end"): void {
  heapMode.value = mode;
  heapShape.value = name === "tree" ? "up" : "down";
  view.value = name;
}

/** Rounding comes last: it is mostly little. */
function Waste({ processes }: { processes: readonly HeapProcess[] }): JSX.Element | null {
  const sum = (of: (process: HeapProcess) => number) => processes.reduce((all, process) => all + of(process), 0);
  const [made, temporary] = [
    sum(({ head }) => head.figures.made.blocks),
    sum(({ head }) => head.figures.temporary.blocks),
  ];
  if (made === 0) return null;
  return (
    <p class="note">
      {percent(temporary / made)} of all {plural(made, "block", "blocks")}
      {" were freed by the next event of their thread. "}
      <button type="button" class="plain" onClick={() => (view.value = "slop")}>
        What the allocator rounds up
      </button>
      ,{" "}
      <button type="button" class="plain" onClick={() => (view.value = "growth")}>
        buffers that grow too slowly
      </button>
      .
    </p>
  );
}
