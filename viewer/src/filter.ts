// The words of the filter box, which all views of a page follow.

import { computed } from "@preact/signals";
import { parseFilter } from "./logic/filter.ts";
import { kept } from "./state.ts";

/** As it is typed. */
export const filterText = kept("q", "");
/** As it was understood. */
export const typed = computed(() => parseFilter(filterText.value));

/** Adds a word to the filter, or takes it out if it is there. */
export function toggleWord(word: string): void {
  const words = filterText.value.match(/-?(?:[a-z]+:)?(?:"[^"]*"|\S+)/gi) ?? [];
  const without = words.filter((known) => known !== word);
  filterText.value = (without.length < words.length ? without : [...words, word]).join(" ");
}
