// What a page of where time went shows just now.

import { computed, signal } from "@preact/signals";
import { otherColour, rankColour, type Theme } from "../../draw/palette.ts";
import { typed } from "../../filter.ts";
import { downTree, loaded, matchesOf, type Tree, treeOf } from "../../logic/calltree.ts";
import { passes, type Subject, termsAbout } from "../../logic/filter.ts";
import { type Flame, flameOf } from "../../logic/flame.ts";
import { layout, type Row } from "../../logic/waterfall.ts";
import { type Class, MEASURES, type Measure, unpackWhy, type WhyPage, type WhyStart } from "../../logic/why.ts";
import { kept, keptRange, visiblePart } from "../../state.ts";
import type { PackedWhy, SharedOwner, StartHead } from "../../types/why.ts";

/** `null`: not unpacked yet. */
export const whyPage = signal<WhyPage | null>(null);
export const whyDamaged = signal<string | null>(null);

export function followWhy(packed: PackedWhy): void {
  unpackWhy(packed).then(
    (page) => (whyPage.value = page),
    (error: unknown) => (whyDamaged.value = String(error)),
  );
}

/** Line of the start in sight. */
export const startLine = kept("start", "0");
/** Line of the owner that is chosen in the table; empty: none. */
export const ownerLine = kept("owner", "");
export const lanesShown = kept("lanes", "all", ["all", "path"]);
export const waterfallPart = visiblePart(keptRange("wfx"), keptRange("wfy"));
export const stackMeasure = kept("times", "path_ran", MEASURES);
export const stackShape = kept("sshape", "down", ["down", "up"]);
export const stackRange = keptRange("stx");

export const start = computed<WhyStart | null>(
  () => whyPage.value?.starts[Number(startLine.value)] ?? whyPage.value?.starts[0] ?? null,
);

export const startName = (head: StartHead): string => `${head.variant_name}, ${head.state}`;

export function showStart(line: string): void {
  startLine.value = line;
  ownerLine.value = "";
  waterfallPart.reset();
  stackRange.value = null;
}

/** The chosen owner's number; `null`: none. */
export const chosenOwner = computed<number | null>(() => {
  const line = ownerLine.value === "" ? -1 : Number(ownerLine.value);
  return start.value?.head.owners[line] === undefined ? null : line;
});

// ---- the filter ----

const ownerTerms = computed(() => termsAbout(typed.value, ["function", "file", "process"]));
/** Only words that name threads take lanes away. */
const laneTerms = computed(() => typed.value.filter((term) => term.field === "process"));
export const stackTerms = computed(() => termsAbout(typed.value, ["function", "file"]));

function subjectOf(owner: SharedOwner): Subject {
  const { object, function: name, caller } = owner.what;
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return { process: owner.thread, function: `${text(name)} ${text(caller)} ${owner.text}`, file: text(object) };
}

/** Lines of owners that pass. */
export const ownersInSight = computed<readonly number[]>(() =>
  (start.value?.head.owners ?? []).flatMap((owner, line) => (passes(ownerTerms.value, subjectOf(owner)) ? [line] : [])),
);

export const rows = computed<readonly Row[]>(() => {
  const lanes = start.value?.head.report.threads ?? [];
  return layout(
    lanes,
    (lane) =>
      (lanesShown.value === "all" || lanes[lane].path_ns > 0) &&
      passes(laneTerms.value, { process: `${lanes[lane].thread.name} ${lanes[lane].thread.tid}` }),
  );
});

export const stackMatches = computed(() => matchesOf(start.value!.times.labels, stackTerms.value));

export const whyMatchesNothing = (): boolean => {
  if (start.value === null || typed.value.length === 0) return false;
  const including = stackTerms.value.some((term) => !term.exclude);
  return ownersInSight.value.length === 0 && !(including && stackMatches.value.includes(1));
};

// ---- stacks ----

export const measured = computed<Measure>(() => stackMeasure.value as Measure);

export const stackFlame = computed<{ readonly tree: Tree; readonly flame: Flame }>(() => {
  const { stacks, labels, own } = start.value!.times;
  const times = own[measured.value];
  const all = loaded(stacks, { bytes: times, blocks: times });
  const tree = treeOf(all, labels, stackShape.value === "up" ? "up" : "down");
  return { tree, flame: flameOf(tree) };
});

/** Objects by the time that their functions are seen in, in all measures together, the largest first. */
export const stackRanks = computed<readonly number[]>(() => {
  const { stacks, labels, own } = start.value!.times;
  const { frames } = labels;
  const sums = new Float64Array(frames.objects.length);
  for (const times of MEASURES.map((name) => own[name])) {
    const { total } = downTree(loaded(stacks, { bytes: times, blocks: times }));
    const all = total[0][0] || 1;
    for (let node = 1; node < stacks.count; node++)
      if (stacks.frame[node] < frames.count) sums[frames.object[stacks.frame[node]]] += total[0][node] / all;
  }
  return [...sums.keys()].filter((object) => sums[object] > 0).sort((a, b) => sums[b] - sums[a]);
});

// ---- colours ----

const RANKS: Readonly<Record<Class, number>> = {
  user: 0,
  kernel: 5,
  runs: -1,
  cpu: 8,
  disk: 1,
  lock: 3,
  pipe: 6,
  child: 2,
  sleep: 7,
  other: 4,
  unknown: -1,
};

/** What runs without a sample is the program or the kernel: between their colours. */
export function classColour(of: Class, theme: Theme): number {
  if (of === "runs") return theme === "dark" ? 0x9db8e8 : 0x9fb4ff;
  return RANKS[of] < 0 ? otherColour(theme) : rankColour(RANKS[of], theme);
}
