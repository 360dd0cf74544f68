// The address, which remembers what a page shows just now, and the theme. What a page shows lies in its own state.

import { computed, effect, type Signal, signal } from "@preact/signals";
import type { Theme } from "./draw/palette.ts";
import { addressText, parseAddress, VIEWS, type ViewName } from "./logic/address.ts";
import { parseRange, type Range, rangeText, type Viewport } from "./logic/view.ts";

// ---- the address ----

/** The views of this page, the first one first. */
export const views = signal<readonly ViewName[]>(VIEWS);
export const view = signal<ViewName>("answer");

interface Remembered {
  readonly name: string;
  read(text: string | undefined): void;
  write(): string;
}
const remembered: Remembered[] = [];

/** All pages are one program: of two values with one name, the address would forget what was chosen of the first. */
function remember(it: Remembered): void {
  if (remembered.some(({ name }) => name === it.name))
    throw new Error(`two values are named ${it.name} in the address`);
  remembered.push(it);
}

/** A signal that stands in the address unless it has its first value. `allowed` are its values, if they are few. */
export function kept(name: string, first: string, allowed?: readonly string[]): Signal<string> {
  const value = signal(first);
  remember({
    name,
    read: (text) => {
      value.value = text !== undefined && (allowed?.includes(text) ?? true) ? text : first;
    },
    write: () => (value.value === first ? "" : value.value),
  });
  return value;
}

/** Names of ranges in the address. */
const rangeNames: string[] = [];

/** The visible range of an axis; `null`: all of it. */
export function keptRange(name: string): Signal<Range | null> {
  rangeNames.push(name);
  const value = signal<Range | null>(null);
  remember({
    name,
    read: (text) => {
      value.value = parseRange(text ?? null);
    },
    write: () => (value.value === null ? "" : rangeText(value.value)),
  });
  return value;
}

/** The part of a picture that is in sight. */
export interface VisiblePart {
  readonly x: Signal<Range | null>;
  readonly y: Signal<Range | null>;
  /** What is shown of `whole`. */
  of(whole: Viewport): Viewport;
  show(part: Viewport, whole: Viewport): void;
  /** Shows all of it again. */
  reset(): void;
}

/** A visible part of these ranges; an axis without one is seen as a whole. */
export function visiblePart(x: Signal<Range | null>, y: Signal<Range | null> = signal(null)): VisiblePart {
  const inside = (range: Range | null, all: Range) =>
    range === null || range.to <= all.from || range.from >= all.to
      ? all
      : { from: Math.max(range.from, all.from), to: Math.min(range.to, all.to) };
  const part = (range: Range, all: Range) => (range.from <= all.from && range.to >= all.to ? null : range);
  return {
    x,
    y,
    of: (whole) => ({ x: inside(x.value, whole.x), y: inside(y.value, whole.y) }),
    show: (viewport, whole) => {
      x.value = part(viewport.x, whole.x);
      y.value = part(viewport.y, whole.y);
    },
    reset: () => {
      x.value = null;
      y.value = null;
    },
  };
}

/** What an address says of visible parts. */
const rangesOf = (text: string): string => {
  const { values } = parseAddress(text, views.value);
  return JSON.stringify(rangeNames.map((name) => values[name] ?? ""));
};

const address = computed(() =>
  addressText({ view: view.value, values: Object.fromEntries(remembered.map((it) => [it.name, it.write()])) }),
);

/** The address as it was last read or written here. */
let known = "";

function readAddress(): void {
  known = location.hash;
  const { view: name, values } = parseAddress(location.hash, views.value);
  view.value = name;
  for (const it of remembered) it.read(values[it.name]);
}

/** Writes the address, but never over one that was set and not yet read: "hashchange" comes later than the change. */
function writeAddress(text: string, way: "pushState" | "replaceState"): void {
  if (location.hash !== known) return;
  history[way](null, "", text);
  known = location.hash;
}

/** Follows the address, and writes it: at once for another view (so that "back" works), else when things are quiet. */
export function followAddress(): void {
  readAddress();
  addEventListener("hashchange", readAddress);
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let shownView = view.value;
  effect(() => {
    const text = address.value;
    clearTimeout(waiting);
    if (view.value !== shownView) {
      shownView = view.value;
      if (parseAddress(location.hash, views.value).view !== view.value) {
        writeAddress(text, "pushState");
        return;
      }
    }
    waiting = setTimeout(() => {
      if (location.hash === text || (location.hash === "" && text === `#${views.value[0]}`)) return;
      // Another part of a picture is a place to come back to; a word of the filter that is being typed is none.
      writeAddress(text, rangesOf(location.hash) === rangesOf(text) ? "replaceState" : "pushState");
    }, 120);
  });
}

// ---- light and dark ----

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(SYSTEM_DARK.matches);
SYSTEM_DARK.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});
/** What the reader chose; `null`: as the system. */
export const chosenTheme = signal<Theme | null>(storedTheme());
/** Whether the page is being printed: paper is white. */
export const printing = signal(false);
addEventListener("beforeprint", () => {
  printing.value = true;
});
addEventListener("afterprint", () => {
  printing.value = false;
});
export const theme = computed<Theme>(() =>
  printing.value ? "light" : (chosenTheme.value ?? (systemDark.value ? "dark" : "light")),
);

function storedTheme(): Theme | null {
  try {
    const stored = localStorage.getItem("thaw-theme");
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // Storage may be forbidden for files.
    return null;
  }
}

export function toggleTheme(): void {
  const next: Theme = theme.value === "dark" ? "light" : "dark";
  chosenTheme.value = next === (systemDark.value ? "dark" : "light") ? null : next;
  try {
    if (chosenTheme.value === null) localStorage.removeItem("thaw-theme");
    else localStorage.setItem("thaw-theme", chosenTheme.value);
  } catch {
    // It then lasts as long as the page.
  }
}

// ---- the trace in sight ----

// ---- what starts were seen to touch ----

// ---- the filter ----

// ---- figures for claims/viewer ----
