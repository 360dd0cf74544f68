// For those who use keys alone, a screen reader, larger letters, or fewer colours.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, inject } from "vitest";
import type { Page } from "playwright-core";
import { HEAP_VIEWS, VIEWS } from "../../src/logic/address.ts";
import { address, go, heapTest, inBrowser, openTables, settled, useBrowser } from "./browser.ts";

const { open } = useBrowser();
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds wrong with what is shown, by all of its rules or by some; one line each. */
async function violations(page: Page, rules: readonly string[] | null): Promise<string[]> {
  return page.evaluate(async (only) => {
    interface Result {
      readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string; readonly any: readonly { readonly message: string }[] }[] }[];
    }
    const { axe } = window as unknown as { axe: { run: (of: Document, options: object) => Promise<Result> } };
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...(only === null ? {} : { runOnly: only }) });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)}: ${any[0]?.message ?? ""}`));
  }, rules);
}

async function checked(path: string, views: readonly string[]): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    // Only colours differ where it is dark.
    const rules = colorScheme === "light" ? null : ["color-contrast"];
    // The page's own policy lets no other script in.
    const { page } = await open(path, "", { colorScheme, bypassCSP: true, reducedMotion: "reduce" });
    await page.evaluate(AXE);
    for (const view of views) {
      await go(page, `#${view}`);
      await openTables(page, view);
      expect(await violations(page, rules), `${path} ${view} ${colorScheme}`).toEqual([]);
      expect(await page.evaluate(() => document.getAnimations().length), view).toBe(0);
    }
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    expect(await violations(page, rules), "help").toEqual([]);
    await page.close();
  }
}

inBrowser("views of starts have names, roles and contrast", async () => {
  await checked("laptop", [...VIEWS, "files?shape=table", "disk?q=file:libxul"]);
  await checked("comparison", ["answer", "runs"]);
  await checked("no-trace", VIEWS);
});

heapTest("so have views of heaps", async () => {
  await checked(join(inject("heap"), "modes.html"), [...HEAP_VIEWS, "heap?mode=at", "tree?mode=at&q=leak", "flame?q=leak"]);
  await checked(join(inject("heap"), "growth.html"), ["growth"]);
  await checked(join(inject("heap"), "clownshoes.html"), ["slop"]);
  await checked(join(inject("heap"), "change.html"), ["change?mode=made"]);
});

inBrowser("so have views of memory", async () => {
  for (const name of ["report", "reports"]) await checked(join(inject("heap"), `${name}.html`), ["memory"]);
  for (const name of ["watch", "watches"]) await checked(join(inject("heap"), `${name}.html`), ["time"]);
});

/** What has the focus, and whether one sees that. */
async function focused(page: Page): Promise<{ name: string; seen: boolean; place: string }> {
  return page.evaluate(() => {
    const it = document.activeElement as HTMLElement;
    const { width, height } = it.getBoundingClientRect();
    const style = getComputedStyle(it);
    const name = it.getAttribute("aria-label") ?? it.textContent ?? "";
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return { name: `${it.tagName.toLowerCase()} ${name.trim().slice(0, 40)}`, seen: outlined && width > 0 && height > 0, place: it.closest("header") !== null ? "header" : it.closest("main") !== null ? "main" : "" };
  });
}

inBrowser("Tab goes through the bar and the view, and one sees where it is", async () => {
  for (const view of VIEWS) {
    const { page } = await open("laptop", `#${view}`);
    await settled(page, view);
    const stops: string[] = [];
    for (let i = 0; i < 30; i++) {
      await page.keyboard.press("Tab");
      const { name, seen, place } = await focused(page);
      if (name.startsWith("body")) break;
      expect(seen, `${view}: ${name}`).toBe(true);
      stops.push(place);
    }
    // The tabs are one stop; then the filter and two buttons.
    expect(stops.slice(0, 4), view).toEqual(["header", "header", "header", "header"]);
    expect(new Set(stops.slice(4)), view).toEqual(new Set(["main"]));
    await page.close();
  }
});

inBrowser("tabs, help and filter by keys: arrows, Escape, Enter", async () => {
  const { page, trouble } = await open("laptop");
  await settled(page, "answer");
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowRight");
  await settled(page, "runs");
  expect((await focused(page)).name).toBe("button Runs");
  await page.keyboard.press("End");
  await settled(page, VIEWS.at(-1)!);
  await page.keyboard.press("Home");
  await settled(page, "answer");
  for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  // Where one came from.
  expect((await focused(page)).name).toBe("button Help: keys and filter");
  await page.keyboard.press("/");
  await page.keyboard.type("libxul");
  await address(page, /q=libxul/);
  await page.keyboard.press("Escape");
  expect(await page.locator("#filter").inputValue()).toBe("libxul");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelector<HTMLInputElement>("#filter")?.value === "");
  expect(trouble).toEqual([]);
});

inBrowser("arrow keys move what is drawn, and scroll the page where there is nothing to move", async () => {
  const { page } = await open("laptop", "#processes", { viewport: { width: 1000, height: 500 } });
  await settled(page, "processes");
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => scrollY > 0);
  await page.keyboard.press("Home");
  await page.waitForFunction(() => scrollY === 0);
  await page.keyboard.press("w");
  const near = await address(page, /px=/);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((before) => location.hash !== before, near);
  await page.keyboard.press("Home");
  await page.waitForFunction(() => !location.hash.includes("px="));
});

inBrowser("a row that a click chooses is chosen by Enter too", async () => {
  const { page, trouble } = await open("laptop", "#processes");
  await settled(page, "processes");
  await page.locator("[data-table=processes] tbody th button").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("[data-table=processes] tbody tr:nth-child(2)[aria-selected=true]");
  await address(page, /process=\d/);
  const watch = await open(join(inject("heap"), "watch.html"));
  await watch.page.locator("[data-table=watchprocesses] tbody th button").first().focus();
  await watch.page.keyboard.press("Enter");
  await address(watch.page, /wproc=\d/);
  expect([...trouble, ...watch.trouble]).toEqual([]);
});

heapTest("a moment of a heap is typed as well as clicked", async () => {
  const { page, trouble } = await open(join(inject("heap"), "modes.html"), "#tree?mode=at");
  await settled(page, "tree");
  await page.getByLabel("T", { exact: false }).and(page.locator("input.moment")).fill("0");
  await page.keyboard.press("Tab");
  await address(page, /[?&]at=0(&|$)/);
  await page.waitForFunction(() => document.querySelector(".choice[aria-label=blocks] [aria-pressed=true]")?.textContent?.startsWith("live at 0") === true);
  expect(trouble).toEqual([]);
});
