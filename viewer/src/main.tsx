// The page: reads what is embedded, follows the address and the keys, and shows a view.

import { Component, render, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { VIEWS, type ViewName } from "./logic/address.ts";
import { FIELDS } from "./logic/filter.ts";
import { harmless } from "./logic/format.ts";
import { HELP, followKeys, helpOpen } from "./keys.ts";
import { drawings, filterText, followAddress, followTouched, followTrace, page, theme, toggleTheme, view, type Page } from "./state.ts";
import type { Comparison, ReportDocument } from "./types/document.ts";
import { AnswerView } from "./views/answer.tsx";
import { RunsView } from "./views/runs.tsx";
import { DiskView } from "./views/disk.tsx";
import { FileView } from "./views/file.tsx";
import { FilesView } from "./views/files.tsx";
import { ProcessesView } from "./views/processes.tsx";
import { TouchView } from "./views/touch.tsx";

const TITLES: Record<ViewName, readonly [string, () => JSX.Element | null]> = {
  answer: ["Answer", AnswerView],
  runs: ["Runs", RunsView],
  disk: ["Disk", DiskView],
  file: ["File", FileView],
  files: ["Files", FilesView],
  processes: ["Processes", ProcessesView],
  touch: ["Needed bytes", TouchView],
};

const embedded = (id: string): string | null => document.getElementById(id)?.textContent ?? null;

function load(): Page {
  const report = JSON.parse(embedded("thaw-report") ?? "null") as ReportDocument | null;
  if (report?.schema !== "thaw.report/1") throw new Error("this page holds no thaw.report/1");
  return { document: report, comparison: JSON.parse(embedded("thaw-comparison") ?? "null") as Comparison | null };
}

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
            <View />
          </Guard>
        </div>
      </main>
      <Help />
    </>
  );
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
  const names = page.value?.document.variants.map((variant) => variant.name).join(", ") ?? "";
  return (
    <header>
      <h1>
        <span class="mark">thaw</span> <span class="program" title={harmless(names)}>{harmless(names)}</span>
      </h1>
      <Tabs />
      <Filter />
      <span class="buttons">
        <button type="button" class="icon" onClick={toggleTheme} title={`${theme.value === "dark" ? "light" : "dark"} (t)`} aria-label={theme.value === "dark" ? "Switch to light colours" : "Switch to dark colours"}>
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" class="icon" onClick={() => (helpOpen.value = true)} title="keys (?)" aria-label="Help: keys and filter">
          ?
        </button>
      </span>
    </header>
  );
}

function Tabs(): JSX.Element {
  const move = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const next = VIEWS[(VIEWS.indexOf(view.value) + by + VIEWS.length) % VIEWS.length];
    view.value = next;
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <nav role="tablist" aria-label="Views" onKeyDown={move}>
      {VIEWS.map((name, index) => (
        <button key={name} id={`tab-${name}`} type="button" role="tab" aria-selected={view.value === name} aria-controls={`view-${name}`} tabIndex={view.value === name ? 0 : -1} title={`${TITLES[name][0]} (${index + 1})`} onClick={() => (view.value = name)}>
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
        placeholder="filter: file:libxul -cause:readahead"
        aria-label={`Filter of all views. Fields: ${FIELDS.join(", ")}; a minus excludes.`}
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
        {HELP.map(([keys, what]) => (
          <>
            <dt>{keys}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <h2>Filter</h2>
      <p>
        Words are joined by “and”; <code>-</code> before a word excludes. <code>file:</code>, <code>process:</code>, <code>cause:</code> (read, fault, readahead, metadata, write), <code>owner:</code> (app, system) and <code>function:</code> look at one field, a bare word at all of them. Quotes keep
        blanks together: <code>process:"Web Content"</code>. All views of the trace follow it, and those of the needed bytes; a word about a field that a view does not know says nothing there. The address remembers it.
      </p>
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
    page.value = load();
  } catch (error) {
    root.textContent = `This report cannot be shown: ${String(error)}`;
    return;
  }
  document.documentElement.dataset.theme = theme.value;
  followAddress();
  followKeys();
  render(<App />, root);
  // The events stand behind this script, so that the page is there before they are.
  const follow = () => {
    followTrace(embedded("thaw-events"));
    followTouched(embedded("thaw-touched"));
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", follow);
  else follow();
  // For claims/viewer.
  (window as unknown as { thawDrawings: typeof drawings }).thawDrawings = drawings;
}

start();
