// Reads what is embedded: starts of a program, a heap recording, memory reports and watches, events, or where time
// went. Then follows the address and the keys, and shows a view.

import { render } from "preact";
import { drawings } from "./draw/drawings.ts";
import { Frame } from "./frame.tsx";
import { followKeys } from "./keys.ts";
import { pageOfHeap } from "./pages/heap/page.tsx";
import { pageOfMemory } from "./pages/memory/page.tsx";
import { embedded, type Page } from "./pages/page.ts";
import { pageOfStarts } from "./pages/start/page.tsx";
import { pageOfTimeline } from "./pages/timeline/page.tsx";
import { pageOfWhy } from "./pages/why/page.tsx";
import { followAddress, theme, views } from "./state.ts";

function load(): Page {
  const [heap, memory, events, why] = ["thaw-heap", "thaw-memory", "thaw-timeline", "thaw-why"].map(embedded);
  if (heap !== null) return pageOfHeap(heap);
  if (memory !== null) return pageOfMemory(memory);
  if (events !== null) return pageOfTimeline(events);
  if (why !== null) return pageOfWhy(why);
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
  followKeys(page.onKey);
  render(<Frame page={page} />, root);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", page.follow);
  else page.follow();
  again();
  // For claims/viewer.
  (window as unknown as { thawDrawings: typeof drawings }).thawDrawings = drawings;
}

// A page of what goes on says after how many seconds there is more. The address, and so the view, stays; who looks
// elsewhere gets it when they look again.
function again(): void {
  const seconds = Number(document.querySelector<HTMLMetaElement>('meta[name="thaw-again"]')?.content ?? 0);
  if (seconds <= 0) return;
  setTimeout(() => {
    if (document.hidden) document.addEventListener("visibilitychange", () => location.reload(), { once: true });
    else location.reload();
  }, seconds * 1000);
}

start();
