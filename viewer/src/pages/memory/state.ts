// What a page of memory reports and watches shows just now.

import { computed, signal } from "@preact/signals";
import { filterText, typed } from "../../filter.ts";
import { COURSE_SIZES } from "../../logic/course.ts";
import { termsAbout } from "../../logic/filter.ts";
import {
  type MemoryPage,
  sifted,
  type Trees,
  unpackMemory,
  type Watch,
  wantedByPattern,
  wantedByWords,
} from "../../logic/memory.ts";
import { treesDiff } from "../../logic/memorydiff.ts";
import { kept } from "../../state.ts";
import type { PackedMemoryPage } from "../../types/memory.ts";

/** `null`: not unpacked yet. */
export const memoryPage = signal<MemoryPage | null>(null);
export const memoryDamaged = signal<string | null>(null);

export const treesNumber = kept("trees", "0");
/** The trees that those in sight are compared with; empty: they are shown by themselves. */
export const treesBefore = kept("before", "");
/** A process's name; empty: all. */
export const memoryProcess = kept("mproc", "");
export const memoryVerbose = kept("verbose", "0", ["0", "1"]);
/** Whether the filter is one regular expression, instead of words. */
export const memoryPattern = kept("regex", "0", ["0", "1"]);
export const watchNumber = kept("watch", "0");
/** A process's line; empty: all together. */
export const watchProcess = kept("wproc", "");
/** Which size two watches are compared by. */
export const watchSize = kept("size", "pss", ["rss", "pss", "uss", "swap"]);

/** Which size versions are compared by, and whether its axis begins at 0. */
export const courseSize = kept("csize", "pss", COURSE_SIZES);
export const courseZero = kept("czero", "1", ["0", "1"]);
/** Numbers of the checkpoints whose lines are hidden though they would be shown, or the other way round. */
export const courseFlipped = kept("lines", "");

export function followMemory(packed: PackedMemoryPage): void {
  unpackMemory(packed).then(
    (unpackedPage) => (memoryPage.value = unpackedPage),
    (error: unknown) => (memoryDamaged.value = String(error)),
  );
}

/** What was chosen. */
export const treesChosen = computed<Trees | null>(
  () => memoryPage.value?.trees[Number(treesNumber.value)] ?? memoryPage.value?.trees[0] ?? null,
);
/** What it can be compared with: trees of the same kind that are no difference themselves. */
export const treesBase = computed<Trees | null>(() => {
  const [chosen, base] = [treesChosen.value, memoryPage.value?.trees[Number(treesBefore.value || Number.NaN)]];
  return chosen === null || base === undefined || base === chosen || chosen.difference || base.difference ? null : base;
});
/** What is shown: what was chosen, or how it differs. */
export const treesInSight = computed<Trees | null>(() => {
  const [chosen, base] = [treesChosen.value, treesBase.value];
  return chosen !== null && base !== null ? treesDiff(base, chosen) : chosen;
});
export const watchInSight = computed<Watch | null>(
  () => memoryPage.value?.watches[Number(watchNumber.value)] ?? memoryPage.value?.watches[0] ?? null,
);
export const memoryWanted = computed(() =>
  memoryPattern.value === "1"
    ? wantedByPattern(filterText.value)
    : { wanted: wantedByWords(termsAbout(typed.value, ["file", "process"])), wrong: null },
);

/** Whether no path of any process passes the filter. */
export function memoryMatchesNothing(): boolean {
  const [trees, { wanted }] = [treesInSight.value, memoryWanted.value];
  if (trees === null || wanted === null) return false;
  return trees.processes.every(
    (process) =>
      process.trees.every((tree) => sifted(tree, wanted, process.name) === null) &&
      !process.others.some((node) => wanted(node.name, process.name)),
  );
}
