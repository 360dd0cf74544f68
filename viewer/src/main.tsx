// The page: reads what is embedded, follows the address and the keys, and shows a view. It is of starts of a program, of a heap recording, or of memory
// reports and watches.

import { Component, render, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { HEAP_VIEWS, MEMORY_VIEWS, type ViewName } from "./logic/address.ts";
import { FIELDS } from "./logic/filter.ts";
import { harmless, splitPath } from "./logic/format.ts";
import { HELP, followKeys, helpOpen } from "./keys.ts";
import { followHeap, heapMatchesNothing } from "./heapstate.ts";
import { followMemory, memoryMatchesNothing } from "./memorystate.ts";
import {
  startMatchesNothing,
  drawings,
  filterText,
  followAddress,
  followTouched,
  followTrace,
  page,
  theme,
  toggleTheme,
  view,
  views,
  type Page,
} from "./state.ts";
import type { PackedHeapPage } from "./types/heap.ts";
import type { PackedMemoryPage } from "./types/memory.ts";
import type { Comparison, ReportDocument } from "./types/document.ts";
import { AnswerView } from "./views/answer.tsx";
import { RunsView } from "./views/runs.tsx";
import { DiskView } from "./views/disk.tsx";
import { FileView } from "./views/file.tsx";
import { FilesView } from "./views/files.tsx";
import { ProcessesView } from "./views/processes.tsx";
import { TouchView } from "./views/touch.tsx";
import { HeapAnswerView } from "./views/heapanswer.tsx";
import { HeapView } from "./views/heap.tsx";
import { HeapTreeView } from "./views/heaptree.tsx";
import { FlameView } from "./views/heapflame.tsx";
import { SlopView } from "./views/heapslop.tsx";
import { GrowthView } from "./views/heapgrowth.tsx";
import { ChangeView } from "./views/heapchange.tsx";
import { MemoryView } from "./views/memory.tsx";
import { TimeView } from "./views/memorytime.tsx";

const TITLES: Record<ViewName, readonly [string, () => JSX.Element | null]> = {
  answer: ["Answer", () => (views.value === HEAP_VIEWS ? <HeapAnswerView /> : <AnswerView />)],
  runs: ["Runs", RunsView],
  disk: ["Disk", DiskView],
  file: ["File", FileView],
  files: ["Files", FilesView],
  processes: ["Processes", ProcessesView],
  touch: ["Needed bytes", TouchView],
  heap: ["Over time", HeapView],
  tree: ["Tree", HeapTreeView],
  flame: ["Flame graph", FlameView],
  slop: ["Slop", SlopView],
  growth: ["Growth", GrowthView],
  change: ["Difference", ChangeView],
  time: ["Over time", TimeView],
  memory: ["Reports", MemoryView],
};

/** What a page is about, as far as its frame differs. */
interface Kind {
  readonly program: string;
  readonly placeholder: string;
  readonly fields: string;
  readonly filter: JSX.Element;
  /** Unpacks what is behind the first look. */
  readonly follow: () => void;
  /** Whether the filter lets nothing pass; `false` while that is not known. */
  readonly matchesNothing: () => boolean;
}
let kind: Kind;

const embedded = (id: string): string | null => document.getElementById(id)?.textContent ?? null;

function load(): Kind {
  const [heap, memory] = [embedded("thaw-heap"), embedded("thaw-memory")];
  if (heap !== null) return ofHeap(heap);
  if (memory !== null) return ofMemory(memory);
  page.value = starts();
  return {
    program: page.value.document.variants.map((variant) => variant.name).join(", "),
    placeholder: "filter: file:libxul -cause:readahead",
    fields: FIELDS.join(", "),
    filter: START_FILTER,
    // The events stand behind this script, so that the page is there before they are.
    follow: () => {
      followTrace(embedded("thaw-events"));
      followTouched(embedded("thaw-touched"));
    },
    matchesNothing: startMatchesNothing,
  };
}

function starts(): Page {
  const report = JSON.parse(embedded("thaw-report") ?? "null") as ReportDocument | null;
  if (report?.schema !== "thaw.report/1") throw new Error("this page holds no thaw.report/1");
  return { document: report, comparison: JSON.parse(embedded("thaw-comparison") ?? "null") as Comparison | null };
}

function ofHeap(text: string): Kind {
  const packed = JSON.parse(text) as PackedHeapPage;
  views.value = HEAP_VIEWS;
  return {
    program: splitPath(packed.recordings[0]?.command[0] ?? "heap")[1],
    placeholder: "filter: function:parse file:libc -std::",
    fields: "function, file (the object)",
    filter: HEAP_FILTER,
    follow: () => followHeap(packed),
    matchesNothing: heapMatchesNothing,
  };
}

function ofMemory(text: string): Kind {
  const packed = JSON.parse(text) as PackedMemoryPage;
  views.value = MEMORY_VIEWS.filter((name) =>
    name === "time" ? packed.watches.length > 0 : packed.trees.length > 0 || packed.watches.length === 0,
  );
  return {
    program: splitPath(packed.name)[1],
    placeholder: "filter: js -cached process:Main",
    fields: "file (the path), process",
    filter: MEMORY_FILTER,
    follow: () => followMemory(packed),
    matchesNothing: memoryMatchesNothing,
  };
}

const START_FILTER = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. <code>file:</code>, <code>process:</code>,{" "}
    <code>cause:</code> (read, fault, readahead, metadata, write), <code>owner:</code> (app, system) and{" "}
    <code>function:</code> look at one field, a bare word at all of them. Quotes keep blanks together:{" "}
    <code>process:"Web Content"</code>. All views of the trace follow it, and those of the needed bytes; a view leaves
    out words about fields that it does not have. The address remembers it.
  </p>
);
const HEAP_FILTER = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. <code>function:</code> looks at functions,{" "}
    <code>file:</code> at their objects, a bare word at both. Trees and tables show the stacks that match each word in
    some frame, and add up these alone; the flame graph keeps all and colours what matches. Quotes keep blanks together.
    The address remembers it.
  </p>
);
const MEMORY_FILTER = (
  <p>
    Words are joined by “and”; <code>-</code> before a word excludes. A bare word looks at paths and names of processes,{" "}
    <code>file:</code> at paths, <code>process:</code> at processes. Quotes keep blanks together. As a regular
    expression (in the page's head) it looks at paths, and upper and lower case differ. Sums and shares are of what
    matches. The address remembers it.
  </p>
);

function App(): JSX.Element {
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
  }, [theme.value]);
  const [, View] = TITLES[view.value];
  return (
    <>
      <Bar />
      <main>
        <div id={`view-${view.value}`} role="tabpanel" aria-labelledby={`tab-${view.value}`} data-view={view.value}>
          <Guard key={view.value}>
            {nothingMatches() && (
              <p class="none" role="status" data-part="nomatch">
                Nothing matches the filter “{harmless(filterText.value)}”.{" "}
                <button type="button" onClick={() => (filterText.value = "")}>
                  empty it
                </button>
              </p>
            )}
            <View />
          </Guard>
        </div>
      </main>
      <Help />
    </>
  );
}

/** Whether there is a filter, and nothing of what the page holds passes it. */
function nothingMatches(): boolean {
  return filterText.value.trim() !== "" && kind.matchesNothing();
}

/** A view that fails says so; the others stay. */
class Guard extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };
  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <p class="failed" role="alert">
        This view cannot be shown: {String(this.state.error)}. The other views are not touched by that.
      </p>
    );
  }
}

function Bar(): JSX.Element {
  const names = kind.program;
  return (
    <header>
      <h1>
        <span class="mark">thaw</span>{" "}
        <span class="program" title={harmless(names)}>
          {harmless(names)}
        </span>
      </h1>
      <Tabs />
      <Filter />
      <span class="buttons">
        <button
          type="button"
          class="icon"
          onClick={toggleTheme}
          title={`${theme.value === "dark" ? "light" : "dark"} (t)`}
          aria-label={theme.value === "dark" ? "Switch to light colours" : "Switch to dark colours"}
        >
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button
          type="button"
          class="icon"
          onClick={() => (helpOpen.value = true)}
          title="keys (?)"
          aria-label="Help: keys and filter"
        >
          ?
        </button>
      </span>
    </header>
  );
}

function Tabs(): JSX.Element {
  const move = (event: KeyboardEvent) => {
    const all = views.value;
    const at = all.indexOf(view.value);
    const to: Readonly<Record<string, number>> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
    if (to[event.key] === undefined) return;
    event.preventDefault();
    const next = all[(to[event.key] + all.length) % all.length];
    view.value = next;
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <nav role="tablist" aria-label="Views" onKeyDown={move}>
      {views.value.map((name, index) => (
        <button
          key={name}
          id={`tab-${name}`}
          type="button"
          role="tab"
          aria-selected={view.value === name}
          aria-controls={view.value === name ? `view-${name}` : undefined}
          tabIndex={view.value === name ? 0 : -1}
          title={`${TITLES[name][0]} (${index + 1})`}
          onClick={() => (view.value = name)}
        >
          {TITLES[name][0]}
        </button>
      ))}
    </nav>
  );
}

function Filter(): JSX.Element {
  return (
    <span class="filter">
      <input
        id="filter"
        type="search"
        placeholder={kind.placeholder}
        aria-label={`Filter of all views. Fields: ${kind.fields}; a minus excludes.`}
        value={filterText.value}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => (filterText.value = event.currentTarget.value)}
      />
    </span>
  );
}

function Help(): JSX.Element | null {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} aria-label="Keys and filter" onClose={() => (helpOpen.value = false)}>
      <h2>Keys</h2>
      <dl class="keys">
        {[[`1 … ${views.value.length}`, views.value.map((name) => TITLES[name][0]).join(", ")] as const, ...HELP].map(
          ([keys, what]) => (
            <>
              <dt>{keys}</dt>
              <dd>{what}</dd>
            </>
          ),
        )}
      </dl>
      <h2>Filter</h2>
      {kind.filter}
      <form method="dialog">
        <button type="submit">close</button>
      </form>
    </dialog>
  );
}

function start(): void {
  const root = document.getElementById("thaw");
  if (root === null) return;
  root.textContent = "";
  try {
    kind = load();
  } catch (error) {
    root.textContent = `This report cannot be shown: ${String(error)}`;
    return;
  }
  document.documentElement.dataset.theme = theme.value;
  followAddress();
  followKeys();
  render(<App />, root);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", kind.follow);
  else kind.follow();
  // For claims/viewer.
  (window as unknown as { thawDrawings: typeof drawings }).thawDrawings = drawings;
}

start();
