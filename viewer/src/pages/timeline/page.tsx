// The page of events that programs wrote.

import { TIMELINE_VIEWS } from "../../logic/address.ts";
import type { PackedTimeline } from "../../types/timeline.ts";
import { type Page, viewsOf } from "../page.ts";
import { GanttView } from "./gantt.tsx";
import { ListView } from "./list.tsx";
import { ObjectView } from "./object.tsx";
import { OverviewView } from "./overview.tsx";
import { PathView } from "./path.tsx";
import {
  chosenEvent,
  followTimeline,
  showObject,
  sisters,
  suggestions,
  timelineMatchesNothing,
  zeroHere,
  zeroText,
} from "./state.ts";

/** `text` is what the page embeds of it. */
export function pageOfTimeline(text: string): Page {
  const packed = JSON.parse(text) as PackedTimeline;
  const names = TIMELINE_VIEWS.filter((name) => name !== "path" || packed.path !== null);
  return {
    views: viewsOf(names, {
      timeline: { title: "Timeline", Content: OverviewView },
      path: { title: "Path", Content: PathView },
      object: { title: "Object", Content: ObjectView },
      gantt: { title: "Gantt", Content: GanttView },
      objects: { title: "Objects", Content: ListView },
    }),
    program: packed.name,
    placeholder: "filter by resource: https://example.org/a.js",
    fields: "none, all of it is one name",
    filterHelp: FILTER_HELP,
    follow: () => followTimeline(packed),
    matchesNothing: timelineMatchesNothing,
    suggestions,
    keys: KEYS,
    onKey,
  };
}

const KEYS = [
  ["Z", "zero time at the chosen event; with Shift: at the first event"],
  ["F", "only the chosen event and its sisters of the same type"],
  ["O  G", "the chosen event's object; the gantt along its links"],
] as const;

function onKey(key: string): boolean {
  if (key === "Z") {
    zeroText.value = "0";
    return true;
  }
  const event = chosenEvent.value;
  if (event === null) return false;
  const does: Readonly<Record<string, () => void>> = {
    z: zeroHere,
    f: sisters,
    o: () => showObject(event.object),
    g: () => showObject(event.object, "gantt"),
  };
  does[key]?.();
  return does[key] !== undefined;
}

const FILTER_HELP = (
  <p>
    All that is typed is one name. It is looked for in the names of resources, and the names are looked for in it: a
    whole address finds its host too. Upper and lower case are the same. Boxes beside the tapes filter by type. The
    address remembers both.
  </p>
);
