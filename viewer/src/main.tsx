// Reads what is embedded: starts of a program, a heap recording, or memory reports and watches. Then follows the
// address and the keys, and shows a view.

import { render } from "preact";
import { drawings } from "./draw/drawings.ts";
import { Frame } from "./frame.tsx";
import { followKeys } from "./keys.ts";
import { pageOfHeap } from "./pages/heap/page.tsx";
import { pageOfMemory } from "./pages/memory/page.tsx";
import { embedded, type Page } from "./pages/page.ts";
import { pageOfStarts } from "./pages/start/page.tsx";
import { followAddress, theme, views } from "./state.ts";

function load(): Page {
  const [heap, memory] = [embedded("thaw-heap"), embedded("thaw-memory")];
  if (heap !== null) return pageOfHeap(heap);
  if (memory !== null) return pageOfMemory(memory);
  return pageOfStarts();
}

function start(): void {
  const root = document.getElementById("thaw");
  if (root === null) return;
  root.textContent = "";
  let page: Page;
  try {
    page = load();
    views.value = [...page.views.keys()];
  } catch (error) {
    root.textContent = `This report cannot be shown: ${String(error)}`;
    return;
  }
  document.documentElement.dataset.theme = theme.value;
  followAddress();
  followKeys();
  render(<Frame page={page} />, root);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", page.follow);
  else page.follow();
  // For claims/viewer.
  (window as unknown as { thawDrawings: typeof drawings }).thawDrawings = drawings;
}

start();
