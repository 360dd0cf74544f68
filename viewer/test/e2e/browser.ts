// A browser, and a page opened from disk in it.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { usefulOf, wasteOf } from "../../src/logic/tree.ts";
import type { Comparison, FileReport, ReportDocument, TouchReport } from "../../src/types/document.ts";
import type { PackedEvents } from "../../src/types/events.ts";

const cannot = inject("cannot");

/** A test that needs a browser; where there is none it is skipped, and counted with the reason. */
export const inBrowser = cannot === "" ? test : test.skip;
if (cannot !== "" && process.env.THAW_SKIP_LOG !== undefined)
  appendFileSync(process.env.THAW_SKIP_LOG, `viewer end to end: ${cannot}\n`);

/** A test that needs a heap recording too. */
export function heapTest(name: string, run: () => Promise<void>): void {
  const reason = inject("noHeap");
  if (reason !== "" && process.env.THAW_SKIP_LOG !== undefined)
    appendFileSync(process.env.THAW_SKIP_LOG, `viewer end to end: ${reason}\n`);
  (reason === "" ? inBrowser : inBrowser.skip)(name, run);
}

export interface Opened {
  readonly page: Page;
  /** Everything that went wrong in it, and everything that it asked the network for. */
  readonly trouble: string[];
}

const pathOf = (name: string): string => (name.endsWith(".html") ? name : join(inject("pages"), `${name}.html`));

/** `open` takes the name of a made page, or the path of any. */
export function browserOfTests(): {
  open: (name: string, hash?: string, options?: BrowserContextOptions) => Promise<Opened>;
} {
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (cannot !== "") return;
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu"],
    });
  });
  afterAll(async () => browser?.close());
  return {
    open: async (name, hash = "", options = {}) => {
      const context = await browser!.newContext({ viewport: { width: 1280, height: 800 }, ...options });
      // A busy machine is no failure; the test's own limit ends what hangs.
      context.setDefaultTimeout(0);
      const page = await context.newPage();
      const trouble: string[] = [];
      const url = pathToFileURL(pathOf(name)).href;
      page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning") trouble.push(message.text());
      });
      page.on("pageerror", (error) => trouble.push(String(error)));
      page.on("dialog", (dialog) => {
        trouble.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on("request", (request) => {
        // Data and blobs come from the page itself.
        if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url()))
          trouble.push(`asked for ${request.url()}`);
      });
      await page.goto(url + hash);
      await page.waitForSelector("main [data-view]");
      return { page, trouble };
    },
  };
}

/** What is embedded in a page (named as `open` takes it), as the page itself was given it. */
export function embedded(name: string): {
  document: ReportDocument;
  events: PackedEvents;
  comparison: Comparison | null;
} {
  const html = readFileSync(pathOf(name), "utf8");
  const part = (id: string) => {
    const text = html.match(new RegExp(`<script type="application/json" id="${id}">(.*?)</script>`, "s"))?.[1];
    return text === undefined ? null : JSON.parse(text);
  };
  return { document: part("thaw-report"), events: part("thaw-events"), comparison: part("thaw-comparison") };
}

/** The report's document beside the page. */
export function documentOf(name: string): ReportDocument {
  return JSON.parse(readFileSync(join(inject("pages"), `${name}.json`), "utf8"));
}

/** What a start touches, beside the page. */
export function touchReportOf(name: string): TouchReport {
  return JSON.parse(readFileSync(join(inject("pages"), `${name}.touch.json`), "utf8"));
}

/** A table of the page: one record of `data-value`s per row. */
export async function rows(page: Page, table: string): Promise<(string | null)[][]> {
  await page.waitForSelector(`[data-table=${table}] tbody tr`);
  return page.$$eval(`[data-table=${table}] tbody tr:not(.space)`, (list) =>
    list.map((row) => [...row.children].map((cell) => cell.getAttribute("data-value"))),
  );
}

export async function head(page: Page, table: string): Promise<string[]> {
  return page.$$eval(`[data-table=${table}] thead th`, (list) =>
    list.map((cell) => cell.textContent?.replace(/[▲▼]/g, "").trim() ?? ""),
  );
}

/** The first cells of a file's row, as the table of files has them. */
export function fileRow(file: FileReport): (string | null)[] {
  const figures = [
    file.waiting / 1e9,
    file.filled,
    usefulOf(file),
    wasteOf(file) ?? 0,
    file.bytes_from_disk,
    file.requests,
    file.size,
  ].map(String);
  return [file.path, ...figures, file.extents === null ? null : String(file.extents)];
}

/** One column of a table, by its head. */
export async function column(page: Page, table: string, name: string): Promise<(string | null)[]> {
  // Rows first: they wait until the table is there.
  const list = await rows(page, table);
  const names = await head(page, table);
  const at = names.indexOf(name);
  expect(at, `no column "${name}" in ${names.join(", ")}`).toBeGreaterThanOrEqual(0);
  return list.map((row) => row[at]);
}

/** The figure below a heading of a list of figures. */
export async function figure(page: Page, part: string, name: string): Promise<number> {
  const value = await page
    .locator(`[data-part=${part}]:not([aria-busy=true]) div`, {
      has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }),
    })
    .locator("dd")
    .getAttribute("data-value");
  return Number(value);
}

/** The disk view's figures, added up over all disks; the page is left at the last. */
export async function allDisks(page: Page): Promise<{ requests: number; bytes: number; seeks: number }> {
  await page.waitForSelector("[data-part=head]");
  const choices = page.locator(".choice[aria-label=device] button");
  const sum = { requests: 0, bytes: 0, seeks: 0 };
  for (let disk = 0; disk < Math.max(1, await choices.count()); disk++) {
    if ((await choices.count()) > 0) await choices.nth(disk).click();
    if ((await choices.count()) > 0)
      await page.locator(".choice[aria-label=device] button[aria-pressed=true]").nth(0).waitFor();
    sum.requests += await figure(page, "head", "shown");
    sum.bytes += await figure(page, "head", "bytes");
    sum.seeks += await figure(page, "head", "as read");
  }
  return sum;
}

/** Waits until a view is there with all that it unpacks, and was drawn. */
export async function settled(page: Page, view: string): Promise<void> {
  await page.waitForSelector(`[data-view=${view}]`);
  await page.waitForFunction(
    () =>
      // biome-ignore lint/performance/useDomNodeTextContent: only what is seen counts, line by line.
      !/^Unpacking/m.test(document.querySelector<HTMLElement>("main")?.innerText ?? "") &&
      document.querySelector("main [aria-busy=true]") === null,
  );
  await page.evaluate(() => new Promise((frame) => requestAnimationFrame(() => requestAnimationFrame(frame))));
}

/** Shows another view, or another part of one: by the address, as the links of a page do. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => (location.hash = to), hash);
  await settled(page, hash.replace(/^#/, "").split("?")[0]);
}

/** Opens the tables behind the pictures of the view in sight. */
export async function openTables(page: Page, view: string): Promise<void> {
  await page.$$eval("details.astable:not([open]) > summary", (list) =>
    list.forEach((it) => {
      (it as HTMLElement).click();
    }),
  );
  await page.waitForFunction(() =>
    [...document.querySelectorAll("details.astable")].every((it) => it.children.length > 1),
  );
  await settled(page, view.split("?")[0]);
}

/** Waits until a plot was drawn and stands still; the picture as text. */
export async function picture(page: Page, plot: string): Promise<string> {
  const canvas = page.locator(`[data-plot=${plot}] canvas`);
  await canvas.waitFor();
  let before = "";
  for (;;) {
    const now = await canvas.evaluate(async (element: HTMLCanvasElement) => {
      await new Promise((frame) => requestAnimationFrame(() => requestAnimationFrame(frame)));
      return element.toDataURL();
    });
    if (now === before && now.length > 3000) return now;
    before = now;
  }
}

/** Waits until the address holds what is looked for. */
export async function address(page: Page, wanted: RegExp): Promise<string> {
  await page.waitForFunction((source) => new RegExp(source).test(decodeURIComponent(location.hash)), wanted.source);
  return page.evaluate(() => location.hash);
}
