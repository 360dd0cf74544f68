// The file in sight, the same in all views of one file.

import { addressText } from "../../logic/address.ts";
import { kept, view } from "../../state.ts";

/** Its path; empty: the one that the view has first. */
export const chosenFile = kept("file", "");

const changes: (() => void)[] = [];

/** Calls back before another file comes into sight: what a view shows of the old one means nothing for it. */
export function whenFileChanges(forget: () => void): void {
  changes.push(forget);
}

/** Puts a file into sight, in the views of one file. */
export function chooseFile(path: string): void {
  if (chosenFile.value === path) return;
  for (const forget of changes) forget();
  chosenFile.value = path;
}

/** The address of a file's own view, with nothing else chosen. */
export const fileAddress = (path: string): string => addressText({ view: "file", values: { file: path } });

/** Puts a file into sight, and the view of one file with it. */
export function openFile(path: string): void {
  chooseFile(path);
  view.value = "file";
}
