// What is around every view: the bar with tabs and filter, the help.

import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { filterText } from "./filter.ts";
import { HELP, helpOpen } from "./keys.ts";
import { harmless } from "./logic/format.ts";
import type { Page } from "./pages/page.ts";
import { theme, toggleTheme, view, views } from "./state.ts";

export function Frame({ page }: { page: Page }): JSX.Element {
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
  }, [theme.value]);
  const Content = page.views.get(view.value)?.Content;
  return (
    <>
      <Bar page={page} />
      <main>
        <div id={`view-${view.value}`} role="tabpanel" aria-labelledby={`tab-${view.value}`} data-view={view.value}>
          <Guard key={view.value}>
            {nothingMatches(page) && (
              <p class="none" role="status" data-part="nomatch">
                Nothing matches the filter “{harmless(filterText.value)}”.{" "}
                <button type="button" onClick={() => (filterText.value = "")}>
                  empty it
                </button>
              </p>
            )}
            {Content !== undefined && <Content />}
          </Guard>
        </div>
      </main>
      <Help page={page} />
    </>
  );
}

/** Whether there is a filter, and nothing of what the page holds passes it. */
function nothingMatches(page: Page): boolean {
  return filterText.value.trim() !== "" && page.matchesNothing();
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

function Bar({ page }: { page: Page }): JSX.Element {
  const names = page.program;
  return (
    <header>
      <h1>
        <span class="mark">thaw</span>{" "}
        <span class="program" title={harmless(names)}>
          {harmless(names)}
        </span>
      </h1>
      <Tabs page={page} />
      <Filter page={page} />
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

function Tabs({ page }: { page: Page }): JSX.Element {
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
    <div class="views" role="tablist" aria-label="Views" onKeyDown={move}>
      {[...page.views].map(([name, { title }], index) => (
        <button
          key={name}
          id={`tab-${name}`}
          type="button"
          role="tab"
          aria-selected={view.value === name}
          aria-controls={view.value === name ? `view-${name}` : undefined}
          tabIndex={view.value === name ? 0 : -1}
          title={`${title} (${index + 1})`}
          onClick={() => (view.value = name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

function Filter({ page }: { page: Page }): JSX.Element {
  return (
    <span class="filter">
      <input
        id="filter"
        type="search"
        placeholder={page.placeholder}
        aria-label={`Filter of all views. Fields: ${page.fields}; a minus excludes.`}
        value={filterText.value}
        spellcheck={false}
        autocomplete="off"
        list={page.suggestions === undefined ? undefined : "suggestions"}
        onInput={(event) => (filterText.value = event.currentTarget.value)}
      />
      {page.suggestions !== undefined && (
        <datalist id="suggestions">
          {page.suggestions().map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
    </span>
  );
}

function Help({ page }: { page: Page }): JSX.Element | null {
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
        {[
          [`1 … ${page.views.size}`, [...page.views.values()].map(({ title }) => title).join(", ")] as const,
          ...HELP,
          ...(page.keys ?? []),
        ].map(([keys, what]) => (
          <>
            <dt>{keys}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <h2>Filter</h2>
      {page.filterHelp}
      <form method="dialog">
        <button type="submit">close</button>
      </form>
    </dialog>
  );
}
