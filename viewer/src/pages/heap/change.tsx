// Two heap recordings, or two moments of one: what the second has that the first had not.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { byChange, linesOf, nameOf, type TreeLine } from "../../logic/calltree.ts";
import { bytes, count, harmless, percent, seconds, signed } from "../../logic/format.ts";
import { Choice, Section } from "../../parts/bits.tsx";
import { TreeGrid } from "../../parts/treegrid.tsx";
import { Moments } from "./moments.tsx";
import { ModeChoice, ProcessChoice, waiting } from "./parts.tsx";
import {
  changeShape,
  changeTree,
  fromUs,
  heapOpening,
  heapPage,
  heapTerms,
  labels,
  mode,
  modeName,
  toUs,
} from "./state.ts";
import { Detail, Label, OPENINGS, SHAPE_NAMES, titleOf, useFlipped } from "./treeparts.tsx";

export function ChangeView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  const grown = changeTree.value;
  return grown === null ? <p class="none">There is nothing to compare.</p> : <Change grown={grown} />;
}

function Change({ grown }: { grown: NonNullable<typeof changeTree.value> }): JSX.Element {
  const [flipped, flip] = useFlipped(`${changeShape.value} ${heapOpening.value}`);
  const [active, setActive] = useState<string | null>(null);
  const [sort, setSort] = useState("-size");
  const names = labels.value;
  const [after, afterBlocks, before, beforeBlocks] = grown.total;
  const change = (node: number) => after[node] - before[node];
  const lines = useMemo(() => {
    const sign = sort.startsWith("-") ? -1 : 1;
    const value = {
      size: (node: number) => Math.abs(change(node)),
      change,
      after: (node: number) => after[node],
      before: (node: number) => before[node],
      blocks: (node: number) => afterBlocks[node] - beforeBlocks[node],
    }[sort.replace(/^-/, "")];
    const opening = { share: Number(heapOpening.value) || 0.05, flipped };
    return linesOf(
      grown,
      opening,
      byChange,
      sort === "-size" || value === undefined ? null : (a, b) => sign * (value(a) - value(b)),
    ).filter((line) => after[line.node] !== before[line.node] || afterBlocks[line.node] !== beforeBlocks[line.node]);
  }, [grown, flipped, sort, heapOpening.value]);
  const heads = heapPage.value!.recordings.map(({ head }) => head);
  const [second, first] = [heads[0], heads[1] ?? heads[0]];
  const moments = heads.length < 2;
  const [beforeName, afterName] = moments
    ? [fromUs.value, toUs.value].map((us) => `live at ${seconds(us / 1e6)}`)
    : [`before: ${first.name}`, `after: ${second.name}`];
  const most = Math.max(1, ...lines.map((line) => Math.abs(change(line.node))));
  const activeLine = lines.find((line) => line.key === active);
  const pruned = Math.max(first.pruned.share, second.pruned.share);
  return (
    <>
      <div class="tools">
        {moments ? <ProcessChoice /> : <ModeChoice moment={false} />}
        <Choice
          label="tree"
          values={SHAPE_NAMES}
          value={changeShape.value}
          onChange={(value) => (changeShape.value = value)}
        />
        <Choice
          label="open from"
          values={OPENINGS}
          value={heapOpening.value}
          onChange={(value) => (heapOpening.value = value)}
        />
      </div>
      {moments && <Moments />}
      <dl class="figures" data-part="change">
        <div>
          <dt>{harmless(beforeName)}</dt>
          <dd data-value={before[0]}>{bytes(before[0])}</dd>
        </div>
        <div>
          <dt>{harmless(afterName)}</dt>
          <dd data-value={after[0]}>{bytes(after[0])}</dd>
        </div>
        <div>
          <dt>change</dt>
          <dd data-value={change(0)}>
            {signed(change(0), bytes)}{" "}
            <small class="soft">
              {before[0] > 0 && `${signed(change(0) / before[0], percent)}, `}
              {signed(afterBlocks[0] - beforeBlocks[0], count)} blocks
            </small>
          </dd>
        </div>
      </dl>
      <Section
        title={
          moments ? "What changed between them" : `What changed: ${modeName(mode.value === "at" ? "end" : mode.value)}`
        }
        note={
          <>
            {moments
              ? "Blocks that came in between and are still there, less older ones that went; " +
                "what came and went again is not in it."
              : "All processes together. Functions are the same if their names and objects are, " +
                "whatever lines and addresses are."}{" "}
            What did not change is left out.
            {heapTerms.value.length > 0 && " Only stacks that match the filter."}
            {pruned > 0 &&
              ` Branches below ${(pruned * 100).toPrecision(2)} % of a process were put together: ` +
                "smaller changes may come from that."}
          </>
        }
      >
        <TreeGrid
          name="change"
          caption="Changes; arrow keys move, open and close"
          nameLabel="Function"
          rows={lines}
          short={lines.length < 20}
          label={(line) => <Label line={line} tree={grown} names={names} />}
          title={(line) => titleOf(names, grown.label[line.node])}
          text={(line) => nameOf(names, grown.label[line.node])}
          onFlip={(line) => flip(line.key)}
          active={active}
          onActive={(line) => setActive(line.key)}
          sort={sort}
          onSort={setSort}
          none="Nothing changed."
          columns={[
            {
              key: "size",
              label: "Change",
              title: "Sorted by size, whatever the sign",
              number: true,
              width: "104px",
              value: (line) => change(line.node),
              show: (line) => (
                <span class={change(line.node) > 0 ? "more" : "less"}>{signed(change(line.node), bytes)}</span>
              ),
              bar: (line: TreeLine) => Math.abs(change(line.node)) / most,
            },
            {
              key: "blocks",
              label: "Blocks",
              number: true,
              width: "92px",
              value: (line) => afterBlocks[line.node] - beforeBlocks[line.node],
              show: (line) => signed(afterBlocks[line.node] - beforeBlocks[line.node], count),
            },
            {
              key: "before",
              label: "Before",
              number: true,
              width: "88px",
              wide: true,
              value: (line) => before[line.node],
              show: (line) => bytes(before[line.node]),
            },
            {
              key: "after",
              label: "After",
              number: true,
              width: "88px",
              wide: true,
              value: (line) => after[line.node],
              show: (line) => bytes(after[line.node]),
            },
          ]}
        />
        {activeLine !== undefined && <Detail label={grown.label[activeLine.node]} names={names} />}
      </Section>
    </>
  );
}
