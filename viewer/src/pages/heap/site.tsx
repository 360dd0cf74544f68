// A place of a program that allocates: the innermost function, and who called it.

import type { JSX } from "preact";
import { passes } from "../../logic/filter.ts";
import { count, harmless } from "../../logic/format.ts";
import type { HeapFrame } from "../../types/document.ts";
import { heapTerms } from "./state.ts";

/** A place: the innermost function in a line, its callers below. */
export function SiteName({ site, rows = 3 }: { site: readonly HeapFrame[]; rows?: number }): JSX.Element {
  if (site.length === 0) return <span class="soft">(no stack)</span>;
  const text = site.map(frameName).join("\n< ");
  return (
    <span class="place" title={harmless(text)}>
      {site.slice(0, rows).map((frame, index) => (
        <span key={index} class={index === 0 ? "functionname" : "functionname soft"}>
          {index > 0 && "< "}
          {harmless(frameName(frame))} <span class="soft">{harmless(placeOf(frame))}</span>
        </span>
      ))}
      {site.length > rows && <span class="soft">and {count(site.length - rows)} more callers</span>}
    </span>
  );
}

const moduleName = (frame: HeapFrame) => (frame.module === "" ? "(no file)" : frame.module.replace(/^.*\//, ""));
/** `file.c:12`, or the object. */
const placeOf = (frame: HeapFrame) =>
  frame.file === null
    ? moduleName(frame)
    : `${frame.file.replace(/^.*\//, "")}${frame.line === null ? "" : `:${frame.line}`}`;
export const frameName = (frame: HeapFrame) => frame.function ?? `${moduleName(frame)}+0x${frame.address.toString(16)}`;

/** Whether a place passes the filter: some frame matches each word. */
export function sitePasses(site: readonly HeapFrame[]): boolean {
  const subjects = site.map((frame) => ({ function: frameName(frame), file: frame.module }));
  return heapTerms.value.every(
    (term) => subjects.some((subject) => passes([{ ...term, exclude: false }], subject)) !== term.exclude,
  );
}
