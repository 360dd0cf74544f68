// Every view of every kind of page, with names that try to get out.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, expect, inject } from "vitest";
import { HEAP_VIEWS, VIEWS } from "../../src/logic/address.ts";
import { address, browserOfTests, go, heapTest, inBrowser, openTables, settled } from "./browser.ts";
import { NAMES, withStrangeNames } from "./names.ts";

const { open } = browserOfTests();
const folder = mkdtempSync(join(tmpdir(), "thaw-strange-"));
afterAll(() => rmSync(folder, { recursive: true }));

function strangePage(path: string): string {
  const to = join(folder, basename(path));
  writeFileSync(to, withStrangeNames(path));
  return to;
}

/** Letters that are not seen but turn, hide or break what stands beside them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

async function safe(page: Page, where: string): Promise<void> {
  const found = await page.evaluate((unseen) => {
    const strange = new RegExp(unseen);
    const all = [...document.querySelectorAll("main *, header *, dialog *")];
    const texts = all.flatMap((it) =>
      [...it.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.textContent ?? ""),
    );
    const words = all.flatMap((it) =>
      ["title", "aria-label", "placeholder"].flatMap((name) => it.getAttribute(name) ?? []),
    );
    return {
      hurt: "hurt" in window,
      made: document.querySelectorAll(
        "main script, main img, main b, header img, header b, dialog b, [onmouseover], [onerror], [href^='javascript']",
      ).length,
      unseen: [...texts, ...words]
        .filter((text) => strange.test(text.replaceAll(/[\n\t]/g, " ")))
        .map((text) => text.slice(0, 80)),
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      failed: document.querySelectorAll(".failed").length,
    };
  }, UNSEEN.source);
  expect(found, where).toEqual({ hurt: false, made: 0, unseen: [], wide: 0, failed: 0 });
}

/** Points at some of what is drawn, for names that only the pointer shows. */
async function point(page: Page, where: string): Promise<void> {
  for (const canvas of await page.locator("[data-plot] canvas").all()) {
    await canvas.scrollIntoViewIfNeeded();
    const box = (await canvas.boundingBox())!;
    for (const [x, y] of [
      [0.2, 0.1],
      [0.3, 0.3],
      [0.5, 0.5],
      [0.6, 0.7],
      [0.1, 0.02],
    ] as const) {
      await page.mouse.move(box.x + x * box.width, box.y + y * Math.min(box.height, 600));
      await safe(page, `${where} at ${x} ${y}`);
    }
  }
}

async function everyView(path: string, views: readonly string[]): Promise<void> {
  for (const width of [1280, 600]) {
    const { page, trouble } = await open(path, "", { viewport: { width, height: 800 } });
    for (const view of views) {
      await go(page, `#${view}`);
      await openTables(page, view);
      await safe(page, `${view} ${width}`);
      await point(page, `${view} ${width}`);
    }
    expect(trouble).toEqual([]);
    await page.close();
  }
}

inBrowser("views of starts", async () => {
  const page = strangePage(join(inject("pages"), "laptop.html"));
  await everyView(page, [...VIEWS, "files?shape=table", "disk?colour=process&ways=0", "processes?pcolour=cause"]);
  await everyView(strangePage(join(inject("pages"), "comparison.html")), ["answer", "runs"]);
});

heapTest("views of heaps", async () => {
  for (const name of ["modes", "growth", "clownshoes"])
    await everyView(strangePage(join(inject("heap"), `${name}.html`)), [
      ...HEAP_VIEWS,
      "tree?mode=made&hshape=up&hopen=0.01",
      "flame?mode=made&side=flame&hshape=up",
    ]);
  await everyView(strangePage(join(inject("heap"), "change.html")), ["change?mode=made"]);
});

inBrowser("views of memory reports and watches", async () => {
  for (const name of ["report", "reports"])
    await everyView(strangePage(join(inject("heap"), `${name}.html`)), ["memory", "memory?verbose=1"]);
  for (const name of ["watch", "watches"])
    await everyView(strangePage(join(inject("heap"), `${name}.html`)), ["time", "time?wproc=0"]);
});

heapTest("a row with such a name can be chosen, told in full and filtered by", async () => {
  const { page, trouble } = await open(strangePage(join(inject("heap"), "modes.html")), "#tree?mode=made&hopen=0.01");
  await settled(page, "tree");
  const names = await page.$$eval("[data-table=tree] tbody th", (list) =>
    list.map((it) => it.getAttribute("data-value") ?? ""),
  );
  for (const name of NAMES.slice(0, 5).filter((it) => names.some((of) => of.startsWith(it)))) {
    const row = page.locator("[data-table=tree] tbody tr").nth(names.findIndex((of) => of.startsWith(name)));
    await row.click();
    await page.waitForSelector("dl.detail");
    await safe(page, name.slice(0, 40));
    await page.getByRole("button", { name: "only stacks with it" }).click();
    await settled(page, "tree");
    await safe(page, `filter ${name.slice(0, 40)}`);
    // Written when things are quiet; before that the address below would be no change.
    await address(page, /[?&]q=/);
    await page.evaluate(() => (location.hash = "#tree?mode=made&hopen=0.01"));
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>("#filter")?.value === "");
  }
  expect(trouble).toEqual([]);
});
