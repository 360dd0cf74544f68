// The flame graph of a heap recording: who allocates through whom, as areas.

import type { JSX } from "preact";
import type { Side } from "../../draw/flamegraph.ts";
import { bytes, count, percent, plural } from "../../logic/format.ts";
import { Choice } from "../../parts/bits.tsx";
import { FlameGraph } from "../../parts/flamegraph.tsx";
import { Missing, ModeChoice, ProcessChoice, waiting } from "./parts.tsx";
import {
  flameRange,
  flameSide,
  heapShape,
  heapTerms,
  labels,
  flame as made,
  matches,
  mode,
  modeName,
  objectRanks,
  recording,
} from "./state.ts";
import { SHAPE_NAMES } from "./treeparts.tsx";

export function FlameView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  return (
    <>
      <div class="tools">
        <ProcessChoice />
        <ModeChoice />
        <Choice label="tree" values={SHAPE_NAMES} value={heapShape.value} onChange={(value) => choose(value)} />
        <Choice
          label="side"
          values={
            [
              ["icicle", "icicle"],
              ["flame", "flame"],
            ] as const
          }
          value={flameSide.value}
          onChange={(value) => (flameSide.value = value)}
        />
      </div>
      <Missing head={recording.value!.head} />
      <Graph />
    </>
  );
}

function choose(shape: string): void {
  heapShape.value = shape;
  flameRange.value = null;
}

function Graph(): JSX.Element {
  const { tree, flame } = made.value;
  const [total, blocks] = tree.total;
  const all = bytes(total[0]);
  return (
    <FlameGraph
      name="flame"
      title={`${modeName(mode.value)}: ${all} in ${plural(blocks[0], "block", "blocks")}`}
      label={`Flame graph of ${all}; the tree view has the same as a table`}
      none="There are no such blocks."
      tree={tree}
      flame={flame}
      names={labels.value}
      terms={heapTerms.value}
      matches={matches.value}
      ranks={objectRanks.value}
      side={flameSide.value as Side}
      range={flameRange}
      moves={false}
      whole="the bytes"
      usage=""
      beyond="below"
      amount={bytes}
      cut={(name) => name}
      facts={(node) => [
        ["bytes", `${bytes(total[node])} · ${percent(total[node] / total[0])}`],
        ["blocks", count(blocks[node])],
      ]}
      hasOwn={heapShape.value === "down"}
    />
  );
}
