// Pages of heap recordings and of memory reports: their figures are those of the documents, and they can be used by
// keys alone.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import {
  address,
  browserOfTests,
  column,
  figure,
  head,
  heapTest,
  inBrowser,
  picture,
  rows,
  settled,
} from "./browser.ts";

const { open } = browserOfTests();
const ROOT = join(import.meta.dirname, "../../..");
const folder = inject("heap");
const at = (name: string) => join(folder, name);
const thaw = (...words: string[]) =>
  execFileSync(join(ROOT, "target/debug/thaw"), words, {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "pipe"],
  });
const FIREFOX = ["start", "later"].map((name) => join(ROOT, `fixtures/memory/firefox/${name}.json.gz`));
/** A report with amounts that cannot be right. */
const WRONG = join(ROOT, "fixtures/memory/about-memory/state.json");

interface Held {
  readonly bytes: number;
  readonly blocks: number;
}
interface Node {
  readonly label: string;
  readonly total: Held;
  readonly children?: readonly Node[];
}

const value = async (page: Page, part: string, name: string) => figure(page, part, name);
const active = (page: Page, table: string) =>
  page.locator(`[data-table=${table}] tr[aria-selected=true] th`).getAttribute("data-value");

heapTest("figures and trees are the report's", async () => {
  const report = JSON.parse(thaw("heap", "report", "modes.heap", "--json"));
  const { page, trouble } = await open(at("modes.html"), "#heap");
  await page.waitForSelector("[data-part=head]");
  for (const [name, measure] of [
    ["made", "made"],
    ["at the peak", "peak"],
    ["not freed", "end"],
    ["temporary", "temporary"],
  ])
    expect(await value(page, "head", name), name).toBe(report.total[measure].bytes);
  for (const [shape, word] of [
    ["down", "down"],
    ["up", "up"],
  ]) {
    for (const [mode, words] of [
      ["made", ["--mode", "cumulative"]],
      ["peak", ["--mode", "live"]],
      ["end", ["--mode", "leaks"]],
      ["temporary", ["--mode", "temporary"]],
    ] as const) {
      const tree = JSON.parse(
        thaw("heap", "report", "modes.heap", "--json", "--tree", word, "--threshold", "0", ...words),
      ).tree as Node;
      await page.evaluate((hash) => (location.hash = hash), `#tree?mode=${mode}&hshape=${shape}&hopen=2`);
      await address(page, new RegExp(`mode=${mode}`));
      await page.waitForFunction(
        (text) => document.querySelector("section h2")?.textContent?.startsWith(text) === true,
        { made: "all made", peak: "live at peak", end: "live at end", temporary: "temporary" }[mode],
      );
      const first = (tree.children ?? [])
        .map((node) => [node.label, String(node.total.bytes), String(node.total.blocks)])
        .sort();
      const [name, bytes, blocks] = [
        await column(page, "tree", "Function"),
        await column(page, "tree", "Bytes"),
        await column(page, "tree", "Blocks"),
      ];
      expect(name.map((it, i) => [it, bytes[i], blocks[i]]).sort(), `${shape} ${mode}`).toEqual(first);
    }
  }
  expect(trouble).toEqual([]);
});

heapTest("what is live at a moment is the report's", async () => {
  const { page, trouble } = await open(at("modes.html"), "#tree?mode=at&hshape=up&hopen=2");
  // The last moment is the end.
  const report = JSON.parse(thaw("heap", "report", "modes.heap", "--json", "--mode", "leaks"));
  const sum = (await column(page, "tree", "Bytes")).reduce((all, it) => all + Number(it), 0);
  expect(sum).toBe(report.total.end.bytes);
  // A click into the line over time chooses one.
  await page.evaluate(() => (location.hash = "#heap"));
  await page.locator("[data-chart=live] .u-over").click({ position: { x: 200, y: 60 } });
  await address(page, /mode=at/);
  await address(page, /at=\d+/);
  await page.getByRole("button", { name: "show the tree" }).click();
  await page.waitForSelector("[data-view=tree]");
  expect(trouble).toEqual([]);
});

heapTest("two moments of one recording are compared", async () => {
  const report = JSON.parse(thaw("heap", "report", "modes.heap", "--json", "--mode", "leaks"));
  const { page, trouble } = await open(at("modes.html"), "#change?from=0&hopen=2");
  // From its beginning to its end a process comes to what it did not free.
  await page.waitForSelector("[data-part=change]");
  expect(await value(page, "change", "change")).toBe(report.total.end.bytes);
  // Between two moments of so short a program there may be no change, and no table.
  const changes = async () =>
    (await page.locator("[data-table=change]").count()) === 0
      ? 0
      : (await column(page, "change", "Change")).reduce((all, it) => all + Number(it), 0);
  expect(await changes()).toBe(report.total.end.bytes);
  // A drag over the line chooses others.
  const line = page.locator("[data-chart=moments] .u-over");
  const box = (await line.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.2, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 20, { steps: 5 });
  await page.mouse.up();
  await address(page, /from=[1-9]\d*/);
  await address(page, /to=\d+/);
  expect(await changes()).toBe(await value(page, "change", "change"));
  // The fields do the same without a pointer.
  await page.locator("input.moment").first().fill("0");
  await page.keyboard.press("Tab");
  await address(page, /from=0(&|$)/);
  expect(trouble).toEqual([]);
});

heapTest("a function's stacks are chosen and left out by a button", async () => {
  const all = JSON.parse(thaw("heap", "report", "modes.heap", "--json")).total.made.bytes;
  const leaked = JSON.parse(thaw("heap", "report", "modes.heap", "--json", "--function", "leak")).total.made.bytes;
  const { page, trouble } = await open(at("modes.html"), "#tree?mode=made&hshape=up&hopen=2");
  const sum = async () => (await column(page, "tree", "Bytes")).reduce((sum, it) => sum + Number(it), 0);
  await page.locator('[data-table=tree] tbody th[data-value="leak"]').first().click();
  await page.getByRole("button", { name: "only stacks with it" }).click();
  await address(page, /q=function/);
  expect(await sum()).toBe(leaked);
  await page.locator("[data-table=tree] tbody th").first().click();
  await page.getByRole("button", { name: "only stacks with it" }).click();
  await page.locator('[data-table=tree] tbody th[data-value="leak"]').first().click();
  await page.getByRole("button", { name: "stacks without it" }).click();
  await page.waitForFunction(
    () => document.querySelector("section .note")?.textContent?.includes("match the filter") === true,
  );
  expect(await sum()).toBe(all - leaked);
  expect(trouble).toEqual([]);
});

heapTest("a tree is used by keys alone", async () => {
  const { page, trouble } = await open(at("modes.html"), "#tree?hopen=2");
  const grid = page.locator("[data-table=tree] [role=treegrid]");
  await grid.focus();
  await page.keyboard.press("ArrowRight");
  expect(await active(page, "tree")).toBe((await column(page, "tree", "Function"))[0]);
  const closed = (await rows(page, "tree")).length;
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(
    (before) => document.querySelectorAll("[data-table=tree] tbody tr").length > before,
    closed,
  );
  await page.keyboard.press("ArrowDown");
  expect(await active(page, "tree")).toBe((await column(page, "tree", "Function"))[1]);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(
    (before) => document.querySelectorAll("[data-table=tree] tbody tr").length === before,
    closed,
  );
  await page.keyboard.press("/");
  await page.keyboard.type("function:leak");
  await page.waitForFunction(
    () => document.querySelector("section .note")?.textContent?.includes("match the filter") === true,
  );
  await page.locator("[data-table=tree] thead button", { hasText: "Blocks" }).click();
  await address(page, /hsort=-blocks/);
  expect(trouble).toEqual([]);
});

heapTest("a flame graph comes closer, tells names and finds them", async () => {
  const { page, trouble } = await open(at("modes.html"), "#flame?mode=made");
  const before = await picture(page, "flame");
  const canvas = page.locator("[data-plot=flame] canvas");
  const box = (await canvas.boundingBox())!;
  await canvas.hover({ position: { x: 40, y: 10 } });
  expect(await page.locator("[data-plot=flame] .tip").textContent()).toContain("bytes");
  // Some box that is not as wide as everything.
  const closer = async () => (await page.locator(".crumbs button").count()) > 1;
  for (let y = 9; y < box.height && !(await closer()); y += 18) {
    for (let x = 20; x < box.width && !(await closer()); x += box.width / 6) {
      await canvas.click({ position: { x, y } });
      // Two clicks are a double click, which shows all again.
      await canvas.hover({ position: { x: 1, y: 1 } });
    }
  }
  expect(await closer()).toBe(true);
  await address(page, /fz=/);
  expect(await picture(page, "flame")).not.toBe(before);
  expect(await page.locator(".crumbs button").count()).toBeGreaterThan(1);
  await page.locator(".crumbs button", { hasText: "all" }).first().click();
  expect(await picture(page, "flame")).toBe(before);
  await page.locator("#filter").fill("function:churn");
  await page.waitForFunction(() =>
    /The filter matches \d.*B, \d/.test(document.querySelector("section .note")?.textContent ?? ""),
  );
  expect(await picture(page, "flame")).not.toBe(before);
  await page.evaluate(() => (location.hash = "#flame?side=flame&hshape=up"));
  await picture(page, "flame");
  expect(trouble).toEqual([]);
});

heapTest("slop and growth are the reports'", async () => {
  const slop = JSON.parse(thaw("heap", "slop", "clownshoes.heap", "--json", "--top", "200", "--frames", "8"))
    .processes[0];
  const one = await open(at("clownshoes.html"), "#slop");
  expect(await value(one.page, "slop", "asked for")).toBe(slop.requested_bytes);
  expect(await column(one.page, "clownshoes", "Ask instead")).toEqual(
    slop.clownshoes.slice(0, 20).map((it: { shoes: { ask: number }[] }) => String(it.shoes[0].ask)),
  );
  expect(await column(one.page, "whatif", "Wasted, all blocks")).toEqual(
    [...(slop.recorded === null ? [] : [slop.recorded]), ...slop.what_if].map((it: { slop_bytes: number }) =>
      String(it.slop_bytes),
    ),
  );
  expect(one.trouble).toEqual([]);
  const growth = JSON.parse(thaw("heap", "growth", "growth.heap", "--json", "--top", "200", "--frames", "8"))
    .processes[0];
  const two = await open(at("growth.html"), "#growth");
  expect(growth.findings.length).toBeGreaterThan(0);
  expect(await column(two.page, "growth", "Avoidable")).toEqual(
    growth.findings.slice(0, 30).map((it: { avoidable_bytes: number }) => String(it.avoidable_bytes)),
  );
  expect(await two.page.locator("svg.curve").count()).toBe(Math.min(30, growth.findings.length));
  expect(two.trouble).toEqual([]);
});

heapTest("the difference of two recordings adds up", async () => {
  const diff = JSON.parse(thaw("heap", "diff", "modes.heap", "growth.heap", "--json")).difference;
  const { page, trouble } = await open(at("change.html"), "#change?mode=made&hopen=2");
  await page.waitForSelector("[data-part=change]");
  expect(await figure(page, "change", "change")).toBe(diff.after.bytes - diff.before.bytes);
  const sum = (await column(page, "change", "Change")).reduce((all, it) => all + Number(it), 0);
  expect(sum).toBe(diff.after.bytes - diff.before.bytes);
  expect(trouble).toEqual([]);
});

inBrowser("memory reports: trees, tiny nodes, filter, difference", async () => {
  const { processes } = JSON.parse(thaw("memory", "show", FIREFOX[0], "--json"));
  const { page, trouble } = await open(at("report.html"), "#memory");
  await page.waitForSelector("details.process");
  expect(await page.locator("details.process").count()).toBe(processes.length);
  const tree = page.locator("details.process").first().locator("[data-table=memory-explicit]");
  const amounts = await tree
    .locator("tbody tr td:nth-child(2)")
    .evaluateAll((cells) => cells.map((cell) => cell.getAttribute("data-value")));
  expect(amounts[0]).toBe(String(processes[0].trees[0].amount));
  expect(await tree.textContent()).toMatch(/\(\d+ tiny\)/);
  await page.locator(".choice[aria-label=nodes] button", { hasText: "all" }).click();
  await page.waitForFunction(
    () => !/\(\d+ tiny\)/.test(document.querySelector("[data-table=memory-explicit]")?.textContent ?? ""),
  );
  await page.locator("#filter").fill("sqlite process:main");
  await page.waitForFunction(() => document.querySelectorAll("details.process").length === 1);
  expect(await page.locator("main").textContent()).toMatch(/sqlite/i);
  await page.locator(".choice[aria-label='filter is'] button", { hasText: "regular" }).click();
  await page.waitForFunction(() => document.querySelectorAll("details.process").length === 0);
  const pattern = "^explicit/(network|storage/sqlite)/";
  await page.locator("#filter").fill(pattern);
  const fitting = JSON.parse(thaw("memory", "show", FIREFOX[0], "--regex", pattern, "--json")).processes;
  await page.waitForFunction((count) => document.querySelectorAll("details.process").length === count, fitting.length);
  const sum = await tree.locator("tbody tr td:nth-child(2)").first().getAttribute("data-value");
  expect(sum).toBe(String(fitting[0].trees[0].amount));
  await page.locator("#filter").fill("(");
  await page.waitForSelector("p[role=alert]");
  expect(await page.locator("details.process").count()).toBe(0);
  await address(page, /regex=1/);
  expect(trouble).toEqual([]);
  const two = await open(at("reports.html"), "#memory");
  await two.page.waitForSelector("details.process");
  expect(await two.page.locator("[data-table=memory-explicit]").first().textContent()).toMatch(/[+−]\d/);
  expect((await head(two.page, "memory-explicit")).slice(0, 3)).toEqual(["Name", "Change", "Share"]);
  expect(two.trouble).toEqual([]);
});

inBrowser("memory reports: what cannot be right has the marks of the terminal", async () => {
  thaw("memory", "show", WRONG, "--html", "wrong.html");
  for (const pattern of ["", "^explicit/|^n", "huge|fine"]) {
    const text = thaw(
      "memory",
      "show",
      WRONG,
      "--process",
      "wrong",
      "--color=never",
      ...(pattern === "" ? [] : ["--regex", pattern]),
    );
    // The line on resident memory is no row of a tree.
    const rows = text.replace(/^Total .*$/gm, "");
    const marked = [...rows.matchAll(/(?:──|--|\+\+) (.*?)( \[\?!\])?$/gm)]
      .map(([, name, mark]) => name + (mark ?? ""))
      .sort();
    const { page, trouble } = await open(
      at("wrong.html"),
      `#memory?mproc=${encodeURIComponent("wrong (pid 9)")}&regex=1&q=${encodeURIComponent(pattern)}`,
    );
    await page.waitForSelector("details.process[open]");
    const names = await page.locator("details.process .treename").allTextContents();
    expect(names.map((name) => name.trim()).sort(), pattern).toEqual(marked);
    expect(trouble).toEqual([]);
  }
});

inBrowser("a watch: lines, marks, processes; and two of them", async () => {
  const said = JSON.parse(thaw("memory", "show", "w.memory", "--json"));
  const { page, trouble } = await open(at("watch.html"));
  expect(await column(page, "checkpoints", "PSS")).toEqual(
    said.checkpoints.map((it: { total: { pss: number } }) => String(it.total.pss)),
  );
  expect(await column(page, "checkpoints", "Mark")).toContain("a <b>mark</b>");
  expect(await page.locator("[data-chart=watch] canvas").count()).toBe(1);
  expect(await page.locator("main b").count()).toBe(0);
  await page.locator("[data-table=watchprocesses] tbody tr").first().click();
  await address(page, /wproc=\d/);
  expect(trouble).toEqual([]);
  const two = await open(at("watches.html"), "#time?size=rss");
  expect(await column(two.page, "pairs", "Change")).toEqual(said.checkpoints.map(() => "0"));
  expect(two.trouble).toEqual([]);
});

inBrowser("no page is wider than a small window, whatever it shows", async () => {
  const pages: [string, string[]][] = [
    ["report.html", ["memory"]],
    ["reports.html", ["memory"]],
    ["watch.html", ["time"]],
    ["watches.html", ["time"]],
  ];
  if (inject("noHeap") === "")
    pages.push(
      ["modes.html", ["answer", "heap", "tree", "flame", "slop", "growth"]],
      ["clownshoes.html", ["slop"]],
      ["growth.html", ["growth"]],
      ["change.html", ["change"]],
    );
  for (const [name, views] of pages) {
    for (const width of [600, 800, 1280]) {
      for (const view of views) {
        const { page, trouble } = await open(at(name), `#${view}`, { viewport: { width, height: 800 } });
        await settled(page, view);
        expect(
          await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
          `${name} ${view} ${width}`,
        ).toBeLessThanOrEqual(0);
        expect(await page.locator(".failed").count()).toBe(0);
        expect(trouble).toEqual([]);
        await page.close();
      }
    }
  }
});

inBrowser("trees print as far as they are made, and nothing lies on what follows them", async () => {
  const { page } = await open(at("report.html"), "#memory");
  await settled(page, "memory");
  await page.emulateMedia({ media: "print" });
  const boxes = await page.$$eval("main .rows", (list) => list.map((it) => it.scrollHeight - it.clientHeight));
  expect(boxes.length).toBeGreaterThan(2);
  for (const hidden of boxes) expect(hidden).toBeLessThanOrEqual(1);
});
