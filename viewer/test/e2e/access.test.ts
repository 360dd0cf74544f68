// For those who use keys alone, a screen reader, larger letters, or fewer colours.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { HEAP_VIEWS, TIMELINE_VIEWS, VIEWS, WHY_VIEWS } from "../../src/logic/address.ts";
import { address, browserOfTests, go, heapTest, inBrowser, openTables, settled } from "./browser.ts";

const { open } = browserOfTests();
const ACE = readFileSync(createRequire(import.meta.url).resolve("accessibility-checker-engine/ace.js"), "utf8");

/** All rules, or those that other colours can break. */
type Rules = "WCAG_2_2" | "colours";

/** A page that can be checked: its own policy lets no other script in. */
async function checkable(path: string): Promise<Page> {
  const { page } = await open(path, "", { colorScheme: "light", bypassCSP: true, reducedMotion: "reduce" });
  await page.evaluate(`${ACE}; globalThis.ace = ace;`);
  return page;
}

/** What IBM's checker finds wrong for certain with what is shown, or with a part of it; one line each. */
async function violations(page: Page, rules: Rules, part = "html"): Promise<string[]> {
  return page.evaluate(
    async ([rules, part]) => {
      interface Result {
        readonly ruleId: string;
        readonly value: readonly [string, string];
        readonly node: Element;
        readonly message: string;
        readonly snippet: string;
      }
      interface Checker {
        readonly addGuideline: (guideline: object) => void;
        readonly check: (of: Element, guideline: string) => Promise<{ readonly results: readonly Result[] }>;
      }
      const checker = new (globalThis as unknown as { ace: { Checker: new () => Checker } }).ace.Checker();
      checker.addGuideline({
        id: "colours",
        category: "Accessibility",
        checkpoints: [{ rules: [{ id: "text_contrast_sufficient", level: "VIOLATION" }] }],
      });
      const { results } = await checker.check(document.querySelector(part)!, rules);
      return (
        results
          .filter(({ value }) => value[0] === "VIOLATION" && value[1] === "FAIL")
          // Areas of files are as large as what came in; the tree and the table below them do the same.
          .filter(
            ({ ruleId, node }) =>
              ruleId !== "target_spacing_sufficient" || node.closest(".treemap[aria-hidden=true]") === null,
          )
          .map(({ ruleId, message, snippet }) => `${ruleId}: ${message}: ${snippet.slice(0, 160)}`)
      );
    },
    [rules, part] as const,
  );
}

/** Shows the page in the other colours, all drawn again. */
async function coloured(page: Page, view: string, colorScheme: "light" | "dark"): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await settled(page, view.split("?")[0]);
}

async function checked(path: string, views: readonly string[], help = false): Promise<void> {
  const page = await checkable(path);
  for (const view of views) {
    await go(page, `#${view}`);
    await openTables(page, view);
    expect(await violations(page, "WCAG_2_2"), `${path} ${view}`).toEqual([]);
    await coloured(page, view, "dark");
    expect(await violations(page, "colours"), `${path} ${view} dark`).toEqual([]);
    expect(await page.evaluate(() => document.getAnimations().length), view).toBe(0);
    await coloured(page, view, "light");
  }
  if (help) {
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    expect(await violations(page, "WCAG_2_2", "dialog"), `${path} help`).toEqual([]);
    await coloured(page, views.at(-1)!, "dark");
    expect(await violations(page, "colours", "dialog"), `${path} help dark`).toEqual([]);
  }
  await page.close();
}

inBrowser("the checker finds what is wrong, in light and dark", async () => {
  const rulesOf = (lines: readonly string[]) => [...new Set(lines.map((line) => line.split(":")[0]))];
  const page = await checkable("no-trace");
  await page.$eval("header .buttons button", (it) => {
    it.replaceChildren();
    for (const name of it.getAttributeNames()) it.removeAttribute(name);
  });
  await page.addStyleTag({
    content: "main p { color: light-dark(#000, #444) !important; background: light-dark(#fff, #333) !important }",
  });
  expect(rulesOf(await violations(page, "WCAG_2_2"))).toEqual(["input_label_exists"]);
  await coloured(page, "answer", "dark");
  expect(rulesOf(await violations(page, "colours"))).toEqual(["text_contrast_sufficient"]);
  await page.close();
});

inBrowser("views of starts have names, roles and contrast", async () => {
  // Some files are enough of a table.
  await checked("laptop", [...VIEWS, "files?shape=table&q=lib/x86", "disk?q=file:libxul"], true);
  await checked("comparison", ["answer", "runs"]);
  // Runs are the same with a trace and without.
  await checked(
    "no-trace",
    VIEWS.filter((view) => view !== "runs"),
  );
});

inBrowser("so have views of events", async () => {
  await checked("path", [...TIMELINE_VIEWS, "timeline?sel=i0&types=-disk", "object?obj=3&sel=m0"], true);
  await checked("no-events", ["timeline"]);
});

inBrowser("so have views of where time went", async () => {
  await checked("why", [...WHY_VIEWS, "why?owner=1&lanes=path", "stacks?sshape=up&q=function:decode"], true);
  await checked("no-why", [...WHY_VIEWS]);
});

heapTest("so have views of heaps", async () => {
  await checked(
    join(inject("heap"), "modes.html"),
    [...HEAP_VIEWS, "heap?mode=at", "tree?mode=at&q=leak", "flame?q=leak"],
    true,
  );
  await checked(join(inject("heap"), "growth.html"), ["growth"]);
  await checked(join(inject("heap"), "clownshoes.html"), ["slop"]);
  await checked(join(inject("heap"), "change.html"), ["change?mode=made"]);
});

inBrowser("so have views of memory", async () => {
  await checked(join(inject("heap"), "report.html"), ["memory"], true);
  await checked(join(inject("heap"), "reports.html"), ["memory"]);
  await checked(join(inject("heap"), "course.html"), ["versions", "memory?before=0&trees=1"]);
  await checked(join(inject("heap"), "watch.html"), ["time"], true);
  await checked(join(inject("heap"), "watches.html"), ["time"]);
});

/** What has the focus, and whether one sees that. */
async function focused(page: Page): Promise<{ name: string; seen: boolean; place: string }> {
  return page.evaluate(() => {
    const it = document.activeElement as HTMLElement;
    // A table that is scrolled is outlined where it is seen.
    const shown = it.closest("table") === it ? it.closest(".rows")! : it;
    const { width, height } = shown.getBoundingClientRect();
    const style = getComputedStyle(shown);
    const name = it.getAttribute("aria-label") ?? it.textContent ?? "";
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return {
      name: `${it.tagName.toLowerCase()} ${name.trim().slice(0, 40)}`,
      seen: outlined && width > 0 && height > 0,
      place: it.closest("header") !== null ? "header" : it.closest("main") !== null ? "main" : "",
    };
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

heapTest("a tree that has the focus is outlined where it is seen", async () => {
  const { page } = await open(join(inject("heap"), "modes.html"), "#tree");
  await settled(page, "tree");
  await page.locator("[role=treegrid]").focus();
  expect(await focused(page)).toEqual({
    name: "table Stacks; arrow keys move, open and close",
    seen: true,
    place: "main",
  });
  await page.close();
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
  await page.waitForFunction(
    () =>
      document.querySelector(".choice[aria-label=blocks] [aria-pressed=true]")?.textContent?.startsWith("live at 0") ===
      true,
  );
  expect(trouble).toEqual([]);
});
