// Flame graphs: where the path ran, where all threads did, and where waits began.

import type { JSX } from "preact";
import { harmless, nanos, percent } from "../../logic/format.ts";
import { shortened } from "../../logic/timeline.ts";
import type { Measure } from "../../logic/why.ts";
import { Choice } from "../../parts/bits.tsx";
import { FlameGraph } from "../../parts/flamegraph.tsx";
import { StartChoice, whyWaiting } from "./parts.tsx";
import {
  measured,
  stackFlame,
  stackMatches,
  stackMeasure,
  stackRange,
  stackRanks,
  stackShape,
  stackTerms,
  start,
} from "./state.ts";

const TIMES: readonly (readonly [Measure, string])[] = [
  ["path_ran", "ran on the path"],
  ["ran", "ran in all threads"],
  ["path_waited", "path waited"],
  ["waited", "all threads waited"],
];
const SAID: Readonly<Record<Measure, string>> = {
  path_ran: "The path runs",
  ran: "All threads of the program run",
  path_waited: "The path waits, by where the wait began,",
  waited: "All threads wait, by where the wait began,",
};

export function StacksView(): JSX.Element {
  const wait = whyWaiting();
  if (wait !== null) return wait;
  const choose = (signal: typeof stackMeasure) => (value: string) => {
    signal.value = value;
    stackRange.value = null;
  };
  return (
    <>
      <div class="tools">
        <StartChoice />
        <Choice label="time" values={TIMES} value={stackMeasure.value} onChange={choose(stackMeasure)} />
        <Choice
          label="stacks"
          values={
            [
              ["down", "up from callers"],
              ["up", "down from functions"],
            ] as const
          }
          value={stackShape.value}
          onChange={choose(stackShape)}
        />
      </div>
      <Graph />
    </>
  );
}

function Graph(): JSX.Element {
  const { tree, flame } = stackFlame.value;
  const names = start.value!.times.labels;
  const { frames } = names;
  const total = tree.total[0];
  const title = `${SAID[measured.value]} ${nanos(total[0])}`;
  const facts = (node: number): [string, string][] => {
    const label = tree.label[node];
    const source = label < frames.count ? frames.source[label] : 0;
    const time: [string, string] = ["time", `${nanos(total[node])} · ${percent(total[node] / total[0])}`];
    return source > 0 ? [["source", harmless(shortened(frames.sources[source - 1], 200))], time] : [time];
  };
  return (
    <FlameGraph
      name="stacks"
      title={title}
      label={`Flame graph: ${title}. The table of owners has the largest of it.`}
      none="There is no such time."
      tree={tree}
      flame={flame}
      names={names}
      terms={stackTerms.value}
      matches={stackMatches.value}
      ranks={stackRanks.value}
      side={stackShape.value === "up" ? "icicle" : "flame"}
      range={stackRange}
      moves={true}
      whole="the time"
      usage="The filter colours what it matches. "
      beyond="beyond"
      amount={nanos}
      cut={shortened}
      facts={facts}
      hasOwn={stackShape.value === "down"}
    />
  );
}
