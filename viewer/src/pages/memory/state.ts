// What a page of memory reports and watches shows just now.

import { computed, signal } from "@preact/signals";
import { filterText, typed } from "../../filter.ts";
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
import { kept } from "../../state.ts";
import type { PackedMemoryPage } from "../../types/memory.ts";

/** `null`: not unpacked yet. */
export const memoryPage = signal<MemoryPage | null>(null);
export const memoryDamaged = signal<string | null>(null);

export const treesNumber = kept("trees", "0");
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

export function followMemory(packed: PackedMemoryPage): void {
  unpackMemory(packed).then(
    (unpackedPage) => (memoryPage.value = unpackedPage),
    (error: unknown) => (memoryDamaged.value = String(error)),
  );
}

export const treesInSight = computed<Trees | null>(
  () => memoryPage.value?.trees[Number(treesNumber.value)] ?? memoryPage.value?.trees[0] ?? null,
);
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
