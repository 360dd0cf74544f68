// What starts were seen to touch, and what its view shows of it just now.

import { computed, effect, signal } from "@preact/signals";
import { typed } from "../../filter.ts";
import { termsAbout } from "../../logic/filter.ts";
import { enginesOf, type TouchedFile, type TouchedProgram, unpackTouched } from "../../logic/touched.ts";
import { kept, keptRange, view, visiblePart } from "../../state.ts";
import type { TouchEngine } from "../../types/document.ts";
import { whenFileChanges } from "../shared/chosenfile.ts";

/** Index of the program in sight. */
export const touchProgram = kept("program", "0");
/** Key of a column of the files; `-` before it: the largest first. */
export const touchSort = kept("tsort", "-needed");
/** Whose touches the map shows; empty: the best there is of the file. */
export const touchEngine = kept("by", "");
export const touchColour = kept("tcolour", "time", ["time", "order"]);
/** Number of the marked page of the file; empty: none. */
export const touchPage = kept("page", "");
export const functionList = kept("tlist", "all", ["all", "lonely", "page"]);
/** Key of a column of the functions; `-` before it: the largest first. */
export const functionSort = kept("tfsort", "order");

export const touchPart = visiblePart(keptRange("tx"), keptRange("ty"));
whenFileChanges(() => {
  touchPart.reset();
  touchPage.value = "";
});

/** `null`: not unpacked yet. */
export const touchedPrograms = signal<readonly TouchedProgram[] | null>(null);
/** Why it cannot be shown. */
export const touchedDamaged = signal<string | null>(null);

/** Has it unpacked once somebody looks at it. `text` is what the page embeds of it. */
export function followTouched(text: string | null): void {
  const stop = effect(() => {
    if (view.value !== "touch") return;
    const unpacked = text === null ? Promise.resolve([]) : unpackTouched(text);
    unpacked.then(
      (programs) => (touchedPrograms.value = programs),
      (error: unknown) => (touchedDamaged.value = String(error)),
    );
    queueMicrotask(() => stop());
  });
}

export const touchTerms = computed(() => termsAbout(typed.value, ["file", "owner", "function"]));

/** Whose touches the map shows; `null`: nobody looked at this file. */
export function chosenEngine(file: TouchedFile): TouchEngine | null {
  const engines = enginesOf(file);
  return engines.find((engine) => engine === touchEngine.value) ?? engines[0] ?? null;
}
