// The page of where the time of starts went.

import { WHY_VIEWS } from "../../logic/address.ts";
import type { PackedWhy } from "../../types/why.ts";
import { type Page, viewsOf } from "../page.ts";
import { BesideView } from "./beside.tsx";
import { StacksView } from "./stacks.tsx";
import { followWhy, ownerLine, whyMatchesNothing } from "./state.ts";
import { WhyView } from "./why.tsx";

/** `text` is what the page embeds of it. */
export function pageOfWhy(text: string): Page {
  const packed = JSON.parse(text) as PackedWhy;
  const names = new Set(packed.starts.map((start) => start.variant_name));
  return {
    views: viewsOf(WHY_VIEWS, {
      why: { title: "Where the time went", Content: WhyView },
      stacks: { title: "Flame graph", Content: StacksView },
      beside: { title: "Beside it, unknown", Content: BesideView },
    }),
    program: [...names].join(", "),
    placeholder: "filter: function:parse file:libc process:main",
    fields: "function, file (the object), process (the thread)",
    filterHelp: FILTER_HELP,
    follow: () => followWhy(packed),
    matchesNothing: whyMatchesNothing,
    keys: [["N", "no owner is chosen"]],
    onKey: (key) => {
      if (key !== "n" || ownerLine.value === "") return false;
      ownerLine.value = "";
      return true;
    },
  };
}

const FILTER_HELP = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. <code>function:</code> looks at functions,{" "}
    <code>file:</code> at their objects, <code>process:</code> at names of threads, a bare word at all of them. The
    table of owners shows what passes, the waterfall the threads that a <code>process:</code> names; the flame graph
    keeps all and colours what matches. Quotes keep blanks together. The address remembers it.
  </p>
);
