// The page of one heap recording, or of two that are compared.

import { HEAP_VIEWS } from "../../logic/address.ts";
import { splitPath } from "../../logic/format.ts";
import type { PackedHeapPage } from "../../types/heap.ts";
import { type Page, viewsOf } from "../page.ts";
import { HeapAnswerView } from "./answer.tsx";
import { ChangeView } from "./change.tsx";
import { FlameView } from "./flame.tsx";
import { GrowthView } from "./growth.tsx";
import { HeapView } from "./overtime.tsx";
import { SlopView } from "./slop.tsx";
import { followHeap, heapMatchesNothing } from "./state.ts";
import { HeapTreeView } from "./tree.tsx";

/** `text` is what the page embeds of it. */
export function pageOfHeap(text: string): Page {
  const packed = JSON.parse(text) as PackedHeapPage;
  return {
    views: viewsOf(HEAP_VIEWS, {
      answer: { title: "Answer", Content: HeapAnswerView },
      heap: { title: "Over time", Content: HeapView },
      tree: { title: "Tree", Content: HeapTreeView },
      flame: { title: "Flame graph", Content: FlameView },
      slop: { title: "Slop", Content: SlopView },
      growth: { title: "Growth", Content: GrowthView },
      change: { title: "Difference", Content: ChangeView },
    }),
    program: splitPath(packed.recordings[0]?.command[0] ?? "heap")[1],
    placeholder: "filter: function:parse file:libc -std::",
    fields: "function, file (the object)",
    filterHelp: FILTER_HELP,
    follow: () => followHeap(packed),
    matchesNothing: heapMatchesNothing,
  };
}

const FILTER_HELP = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. <code>function:</code> looks at functions,{" "}
    <code>file:</code> at their objects, a bare word at both. Trees and tables show the stacks that match each word in
    some frame, and add up these alone; the flame graph keeps all and colours what matches. Quotes keep blanks together.
    The address remembers it.
  </p>
);
