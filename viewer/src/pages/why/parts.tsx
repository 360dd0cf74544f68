// What the views of where time went share.

import type { JSX } from "preact";
import { count, harmless, nanos, percent, plural } from "../../logic/format.ts";
import { Choice } from "../../parts/bits.tsx";
import type { Confidence, LaneHead, StartHead } from "../../types/why.ts";
import { showStart, start, startLine, startName, whyDamaged, whyPage } from "./state.ts";

/** What stands instead of a view while there is nothing to show; `null`: there is. */
export function whyWaiting(): JSX.Element | null {
  if (whyDamaged.value !== null)
    return (
      <p class="failed" role="alert">
        This page cannot be shown: {whyDamaged.value}.
      </p>
    );
  if (whyPage.value === null) return <p class="none">Unpacking the start …</p>;
  if (start.value === null) return <p class="none">The recording has no traced start.</p>;
  return null;
}

/** Which start, where there are several. */
export function StartChoice(): JSX.Element | null {
  const starts = whyPage.value?.starts ?? [];
  if (starts.length < 2) return null;
  return (
    <Choice
      label="start"
      value={String(starts.indexOf(start.value!))}
      values={starts.map(({ head }, line) => [String(line), harmless(startName(head))] as const)}
      onChange={(line) => line !== startLine.value && showStart(line)}
    />
  );
}

/** The answer in a sentence or two. */
export function Summary({ head }: { head: StartHead }): JSX.Element {
  const several = head.runs.length > 1;
  return (
    <p class="lead" data-part="summary">
      <b>{harmless(head.variant_name)}</b> ({head.state}) is ready after <b>{nanos(head.ready_ns)}</b>
      {several && `, the mean of ${count(head.runs.length)} traced starts`}. Of this {percent(head.explained_share)} has
      an owner. {several && `Drawn is run ${head.run}, the middle one: ${nanos(head.report.ready_ns)}.`}
    </p>
  );
}

export const KNOWN: Readonly<Record<Confidence, readonly [string, string]>> = {
  measured: ["measured", "the kernel wrote down each change"],
  sampled: ["sampled", "how long the thread ran is measured; in which function is known by samples"],
  inferred: ["concluded", "how long is measured; whose it is is concluded by rules"],
  unknown: ["unknown", "nothing tells"],
};

export const laneName = ({ thread }: LaneHead): string => `${harmless(thread.name)} ${thread.tid}`;

/** Losses of the drawn run, and what cannot be known of it. */
export const losses = (head: StartHead): string =>
  head.report.lost === 0
    ? ""
    : `${plural(head.report.lost, "record was", "records were")} lost: what they told is missing.`;
