// The stacks of a heap recording as a tree: who allocates through whom.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { byBytes, type Labels, linesOf, MOST_LINES, nameOf, type Tree, type TreeLine } from "../../logic/calltree.ts";
import { bytes, count, percent, plural } from "../../logic/format.ts";
import { Choice, Section } from "../../parts/bits.tsx";
import { TreeGrid } from "../../parts/treegrid.tsx";
import { Missing, ModeChoice, ProcessChoice, quantum, waiting } from "./parts.tsx";
import {
  allBytes,
  heapOpening,
  heapShape,
  heapSort,
  heapTerms,
  labels,
  mode,
  modeName,
  processesInSight,
  recording,
  tree,
} from "./state.ts";
import { Detail, Label, OPENINGS, SHAPE_NAMES, titleOf, useFlipped } from "./treeparts.tsx";

export function HeapTreeView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  return (
    <>
      <div class="tools">
        <ProcessChoice />
        <ModeChoice />
        <Choice
          label="tree"
          values={SHAPE_NAMES}
          value={heapShape.value}
          onChange={(value) => (heapShape.value = value)}
        />
        <Choice
          label="open from"
          values={OPENINGS}
          value={heapOpening.value}
          onChange={(value) => (heapOpening.value = value)}
        />
      </div>
      <Missing head={recording.value!.head} />
      <TreePart />
    </>
  );
}

function TreePart(): JSX.Element {
  const about = `${heapShape.value} ${heapOpening.value} ${recording.value?.head.name}`;
  const [flipped, flip] = useFlipped(about);
  const [active, setActive] = useState<string | null>(null);
  const [grown, names, sort] = [tree.value, labels.value, heapSort.value];
  const [total, own] = [grown.total[0], grown.own[0]];
  const lines = useMemo(() => {
    const opening = { share: Number(heapOpening.value) || 0.05, flipped };
    return linesOf(grown, opening, byBytes, orderOf(grown, names, sort));
  }, [grown, names, sort, flipped, heapOpening.value]);
  const all = allBytes.value;
  const share = (line: TreeLine) => (all > 0 ? total[line.node] / all : 0);
  const shown = total[0];
  const down = heapShape.value === "down";
  const activeLine = lines.find((line) => line.key === active);
  return (
    <Section
      title={`${modeName(mode.value)}: ${bytes(shown)} in ${plural(grown.total[1][0], "block", "blocks")}`}
      note={
        <>
          {heapTerms.value.length > 0 &&
            `Only stacks that match the filter: ${percent(all > 0 ? shown / all : 0)} of ${bytes(all)}. `}
          {mode.value === "at" && `${quantum(processesInSight.value)}. `}
          {down
            ? "A function's children are what it called."
            : "Below a function stand its callers; wrappers of malloc are left out. "}
          {!down && "Callers of less than 0.005 % are not told apart (…)."}
        </>
      }
    >
      <TreeGrid
        name="tree"
        caption="Stacks; arrow keys move, open and close"
        nameLabel={heapShape.value === "module" ? "Object, function, callers" : "Function"}
        rows={lines}
        short={lines.length < 12}
        label={(line) => <Label line={line} tree={grown} names={names} />}
        title={(line) => titleOf(names, grown.label[line.node])}
        text={(line) => nameOf(names, grown.label[line.node])}
        onFlip={(line) => flip(line.key)}
        active={active}
        onActive={(line) => setActive(line.key)}
        sort={sort}
        onSort={(next) => (heapSort.value = next)}
        none={heapTerms.value.length > 0 ? "No stack matches the filter." : "There are no such blocks."}
        columns={[
          {
            key: "bytes",
            label: "Bytes",
            number: true,
            width: "96px",
            value: (line) => total[line.node],
            show: (line) => bytes(total[line.node]),
            bar: share,
          },
          {
            key: "share",
            label: "Share",
            number: true,
            width: "64px",
            value: share,
            show: (line) => percent(share(line)),
          },
          ...(down
            ? [
                {
                  key: "own",
                  label: "Own",
                  title: "Of itself, without what it called",
                  number: true,
                  width: "84px",
                  wide: true,
                  value: (line: TreeLine) => own[line.node],
                  show: (line: TreeLine) => (own[line.node] === 0 ? "" : bytes(own[line.node])),
                },
              ]
            : []),
          {
            key: "blocks",
            label: "Blocks",
            number: true,
            width: "88px",
            value: (line) => grown.total[1][line.node],
            show: (line) => count(grown.total[1][line.node]),
          },
          {
            key: "mean",
            label: "Mean",
            title: "Bytes of a block",
            number: true,
            width: "80px",
            wide: true,
            value: (line) => total[line.node] / Math.max(1, grown.total[1][line.node]),
            show: (line) => bytes(total[line.node] / Math.max(1, grown.total[1][line.node])),
          },
        ]}
      />
      {lines.length >= MOST_LINES && <p class="note">Only the first {count(MOST_LINES)} open rows are shown.</p>}
      {activeLine !== undefined && <Detail label={grown.label[activeLine.node]} names={names} />}
    </Section>
  );
}

function orderOf(grown: Tree, names: Labels, sort: string): ((a: number, b: number) => number) | null {
  if (sort === "-bytes" || sort === "-share") return null;
  const sign = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  const values: Record<string, (node: number) => number> = {
    bytes: (node) => grown.total[0][node],
    share: (node) => grown.total[0][node],
    own: (node) => grown.own[0][node],
    blocks: (node) => grown.total[1][node],
    mean: (node) => grown.total[0][node] / Math.max(1, grown.total[1][node]),
  };
  const value = values[key];
  return value === undefined
    ? null
    : (a, b) =>
        sign * (value(a) - value(b)) || nameOf(names, grown.label[a]).localeCompare(nameOf(names, grown.label[b]));
}
