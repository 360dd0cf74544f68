// The page of a memory course: its chart by version, the trees behind each point, and what changed between two.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { unpackMemory } from "../../src/logic/memory.ts";
import { treesDiff } from "../../src/logic/memorydiff.ts";
import type { CourseCheckpoint, MemoryNode, MemoryProcess } from "../../src/types/document.ts";
import type { PackedMemoryPage } from "../../src/types/memory.ts";
import { address, browserOfTests, column, inBrowser, settled } from "./browser.ts";

const { open } = browserOfTests();
const folder = inject("heap");
const at = (name: string) => join(folder, name);
const thaw = (...words: string[]) =>
  JSON.parse(
    execFileSync(join(import.meta.dirname, "../../../target/debug/thaw"), [...words, "--json"], {
      cwd: folder,
      encoding: "utf8",
      maxBuffer: 1 << 28,
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );

interface Course {
  readonly versions: readonly { readonly name: string; readonly files: readonly string[] }[];
  readonly checkpoints: readonly CourseCheckpoint[];
}
const course = (): Course => thaw("memory", "course", "course");
const point = (page: Page, start: string) => page.locator(`.versions [role=button][aria-label^="${start}"]`);
/** The file of the run whose trees stand for all. */
function middle({ versions, checkpoints }: Course, version: number, checkpoint: string): string {
  const { runs } = checkpoints.find((it) => it.name === checkpoint)!.versions[version].pss;
  const order = runs.map((_, run) => run).sort((a, b) => runs[a] - runs[b] || a - b);
  return versions[version].files[order[(order.length - 1) >> 1]];
}
const leaves = (node: MemoryNode, above = ""): [string, number][] => {
  const path = above === "" ? node.name : `${above}/${node.name}`;
  return node.kids === undefined ? [[path, node.amount]] : node.kids.flatMap((kid) => leaves(kid, path));
};
const ofPss = (processes: readonly MemoryProcess[]) =>
  processes.flatMap((it) => it.trees.filter((tree) => tree.name === "pss").flatMap((tree) => leaves(tree)));

inBrowser("a course: every median, interval and run of the document is in the chart", async () => {
  const { checkpoints } = course();
  const { page, trouble } = await open(at("course.html"));
  await page.waitForSelector(".versions");
  for (const [size, shown] of [
    ["pss", ["loaded", "after <b>it</b>"]],
    ["rss", ["loaded", "after <b>it</b>"]],
    ["uss", ["loaded", "after <b>it</b>", "peak"]],
  ] as const) {
    await page.locator(".tools").getByRole("button", { name: size.toUpperCase(), exact: true }).click();
    if (size === "uss") await page.locator(".legend").getByRole("button", { name: "peak" }).click();
    const figures = checkpoints
      .filter((it) => shown.includes(it.name as never))
      .flatMap((it) => it.versions.map((of) => of[size]));
    await expect.poll(() => page.locator(".versions .median").count()).toBe(figures.length);
    expect(await page.locator(".versions .run").count()).toBe(figures.reduce((sum, it) => sum + it.runs.length, 0));
    if (size === "pss") await page.locator(".astable summary").click();
    expect(await column(page, "versions", size.toUpperCase())).toEqual(figures.map((it) => String(it.median!.value)));
    expect(await column(page, "versions", "95 % interval")).toEqual(
      figures.map((it) => String(it.median!.interval?.low ?? null)),
    );
  }
  // What was measured stands at its place: of larger values higher.
  const height = async (start: string) => Number(await point(page, start).locator(".median").getAttribute("cy"));
  expect(await height("loaded, a later")).toBeLessThan(await height("loaded, 1.0"));
  expect(await page.locator("main b").count()).toBe(0);
  expect(trouble).toEqual([]);
});

inBrowser("a course: a point leads to its trees, by the mouse and by keys", async () => {
  const said = course();
  const { page, trouble } = await open(at("course.html"));
  await point(page, "loaded, 1.0").focus();
  expect(await page.locator(".hoverline").textContent()).toContain("loaded, 1.0: PSS");
  await page.keyboard.press("ArrowRight");
  expect(await page.locator(".hoverline").textContent()).toContain("loaded, a later");
  await page.keyboard.press("Enter");
  await address(page, /#memory\?trees=1/);
  const { processes } = thaw("memory", "diff", middle(said, 1, "loaded"), middle(said, 1, "loaded"), "--at", "loaded");
  expect(processes).toEqual([]);
  const sum = said.checkpoints[0].versions[1].pss.median!.value!;
  const tree = page.locator("[data-table=memory-pss]").first();
  const amount = Number(await tree.locator("tbody tr").first().locator("td").first().getAttribute("data-value"));
  // Each mapping is rounded to KiB, the sum of all is not.
  expect(Math.abs(amount - sum) / sum).toBeLessThan(0.2);
  await page.goBack();
  await point(page, "after <b>it</b>, 1.0").click();
  await address(page, /#memory\?trees=2/);
  expect(trouble).toEqual([]);
});

inBrowser("a course: two points are compared as `thaw memory diff` compares them", async () => {
  const said = course();
  const { page, trouble } = await open(at("course.html"));
  await point(page, "loaded, 1.0").click({ modifiers: ["Shift"] });
  await expect.poll(() => point(page, "loaded, 1.0").getAttribute("aria-pressed")).toBe("true");
  await point(page, "loaded, a later").click({ modifiers: ["Shift"] });
  await address(page, /before=0&trees=1/);
  const { processes } = thaw("memory", "diff", middle(said, 0, "loaded"), middle(said, 1, "loaded"), "--at", "loaded");
  const expected = ofPss(processes).sort(([, a], [, b]) => Math.abs(b) - Math.abs(a));
  expect(expected[0][1]).toBeGreaterThan(19 << 20);
  const more = page.locator("section", { hasText: "Largest changes" }).getByRole("button", { name: /more|all/ });
  while ((await more.count()) > 0) await more.first().click();
  const [paths, changes] = [await column(page, "changes", "Path"), await column(page, "changes", "Change")];
  expect(changes).toEqual(expected.map(([, amount]) => String(amount)));
  expect([...paths].sort()).toEqual(expected.map(([path]) => path).sort());
  // By keys, the other way round.
  await page.evaluate(() => (location.hash = "#versions"));
  await point(page, "loaded, a later").focus();
  await page.keyboard.press(" ");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press(" ");
  await address(page, /before=1/);
  expect((await column(page, "changes", "Change"))[0]).toBe(String(-expected[0][1]));
  // And with the lists above the trees.
  await page.locator("label", { hasText: "compared with" }).locator("select").selectOption("2");
  await address(page, /before=2/);
  expect(trouble).toEqual([]);
});

inBrowser("what the page works out of two reports of Firefox is the difference of the terminal", async () => {
  const html = readFileSync(at("reports.html"), "utf8");
  const text = html.match(/<script type="application\/json" id="thaw-memory">(.*?)<\/script>/s)![1];
  const { trees } = await unpackMemory(JSON.parse(text) as PackedMemoryPage);
  const [difference, first, second] = trees;
  expect(difference.processes.length).toBeGreaterThan(2);
  const strip = (processes: readonly MemoryProcess[]) =>
    processes.map(({ name, trees: of, others }) => ({ name, trees: of, others }));
  expect(strip(treesDiff(first, second).processes)).toEqual(strip(difference.processes));
});

inBrowser("a course fits a telephone, in light and in dark", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, trouble } = await open(at("course.html"), "#versions", {
      viewport: { width: 390, height: 800 },
      colorScheme,
    });
    await settled(page, "versions");
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(over).toBeLessThanOrEqual(0);
    expect(trouble).toEqual([]);
    await page.close();
  }
});
