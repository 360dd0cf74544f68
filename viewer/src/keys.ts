// Keys that work in every view. A plot takes those that move.

import { signal } from "@preact/signals";
import { activePlot } from "./draw/plots.ts";
import { filterText } from "./filter.ts";
import type { Step } from "./logic/view.ts";
import { toggleTheme, view, views } from "./state.ts";

export const helpOpen = signal(false);

/** For the help dialog, behind the numbers of the views. */
export const HELP: readonly (readonly [string, string])[] = [
  ["/", "to the filter box; Esc leaves it, once more empties it"],
  ["W  S   or   +  −", "closer, farther in time; with Shift: vertically; a map: both ways"],
  ["A  D   or   ←  →", "back, on in time"],
  ["↑  ↓", "up, down"],
  ["↑ ↓ ← → in a tree", "move; → opens, ← closes or goes to the parent; Enter does either"],
  ["Home", "all of it"],
  ["T", "light or dark"],
  ["?", "this help"],
  [
    "mouse",
    "Ctrl and wheel: closer in time, with Shift vertically; the wheel alone scrolls · drag: move · " +
      "Shift and drag: zoom into a box · double click: all of it",
  ],
];

const middle = { x: 0.5, y: 0.5 };
const STEPS: Readonly<Record<string, Step>> = {
  w: { kind: "zoom", axis: "x", factor: 1 / 1.5, at: middle },
  s: { kind: "zoom", axis: "x", factor: 1.5, at: middle },
  "+": { kind: "zoom", axis: "both", factor: 1 / 1.5, at: middle },
  "=": { kind: "zoom", axis: "both", factor: 1 / 1.5, at: middle },
  "-": { kind: "zoom", axis: "both", factor: 1.5, at: middle },
  W: { kind: "zoom", axis: "y", factor: 1 / 1.5, at: middle },
  S: { kind: "zoom", axis: "y", factor: 1.5, at: middle },
  a: { kind: "pan", x: -0.2, y: 0 },
  d: { kind: "pan", x: 0.2, y: 0 },
  A: { kind: "pan", x: -0.6, y: 0 },
  D: { kind: "pan", x: 0.6, y: 0 },
  ArrowLeft: { kind: "pan", x: -0.2, y: 0 },
  ArrowRight: { kind: "pan", x: 0.2, y: 0 },
  ArrowUp: { kind: "pan", x: 0, y: 0.2 },
  ArrowDown: { kind: "pan", x: 0, y: -0.2 },
  Home: { kind: "reset" },
};

/** `ofPage` hears the keys that nobody else took. */
export function followKeys(ofPage: (key: string) => boolean = () => false): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (target !== null && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
      if (event.key === "Escape") {
        // The browser would empty a box for searching.
        event.preventDefault();
        target.blur();
      }
      return;
    }
    if (handled(event.key, target) || (!helpOpen.value && ofPage(event.key))) event.preventDefault();
  });
}

function handled(key: string, target: HTMLElement | null): boolean {
  const number = Number(key);
  if (number >= 1 && number <= views.value.length) {
    view.value = views.value[number - 1];
    return true;
  }
  switch (key) {
    case "?":
      helpOpen.value = !helpOpen.value;
      return true;
    case "Escape":
      if (helpOpen.value) helpOpen.value = false;
      else if (filterText.value !== "") filterText.value = "";
      else return false;
      return true;
    case "/":
      document.querySelector<HTMLInputElement>("#filter")?.focus();
      return true;
    case "t":
      toggleTheme();
      return true;
  }
  if (helpOpen.value) return false;
  const plot = activePlot();
  // Arrow keys and Home scroll the page where there is nothing to move, and inside tabs and scrolled tables.
  const scrolls = key.startsWith("Arrow") || key === "Home";
  const elsewhere = target?.closest("[role=tablist], .scroll, .rows, details") != null;
  const by = STEPS[key];
  if (plot === null || by === undefined || (scrolls && elsewhere)) return false;
  return plot.take(by) || !scrolls;
}
