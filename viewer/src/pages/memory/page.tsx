// The page of memory reports, of watches over time and of courses: of those that are there.

import { MEMORY_VIEWS } from "../../logic/address.ts";
import { splitPath } from "../../logic/format.ts";
import type { PackedMemoryPage } from "../../types/memory.ts";
import { type Page, viewsOf } from "../page.ts";
import { CourseView } from "./course.tsx";
import { TimeView } from "./overtime.tsx";
import { MemoryView } from "./reports.tsx";
import { followMemory, memoryMatchesNothing } from "./state.ts";

/** `text` is what the page embeds of it. */
export function pageOfMemory(text: string): Page {
  const packed = JSON.parse(text) as PackedMemoryPage;
  const has = {
    versions: packed.course !== null,
    time: packed.watches.length > 0,
    memory: packed.trees.length > 0 || packed.watches.length === 0,
  };
  const names = MEMORY_VIEWS.filter((name) => has[name]);
  return {
    views: viewsOf(names, {
      versions: { title: "By version", Content: CourseView },
      time: { title: "Over time", Content: TimeView },
      memory: { title: "Reports", Content: MemoryView },
    }),
    program: splitPath(packed.name)[1],
    placeholder: "filter: js -cached process:Main",
    fields: "file (the path), process",
    filterHelp: FILTER_HELP,
    follow: () => followMemory(packed),
    matchesNothing: memoryMatchesNothing,
  };
}

const FILTER_HELP = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes.{" "}
    {"A bare word looks at paths and names of processes, "}
    <code>file:</code> at paths, <code>process:</code> at processes. Quotes keep blanks together. As a regular
    expression (in the page's head) it looks at paths, and upper and lower case differ. Sums and shares are of what
    matches. The address remembers it.
  </p>
);
