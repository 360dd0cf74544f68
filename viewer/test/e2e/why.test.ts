// The page of where the time went, in a browser: of a start whose times are all round (app/view/examples/made/why.rs).

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { afterAll, expect, inject } from "vitest";
import { WHY_VIEWS } from "../../src/logic/address.ts";
import { address, browserOfTests, column, go, inBrowser, picture, rows, settled } from "./browser.ts";
import { withStrangeNames } from "./names.ts";

const { open } = browserOfTests();
const folder = mkdtempSync(join(tmpdir(), "thaw-why-"));
afterAll(() => rmSync(folder, { recursive: true }));

const MS = 1e6;

/** As it is read: with room between the parts of a sentence. */
// biome-ignore lint/performance/useDomNodeTextContent: elements that stand apart would become one word.
const read = async (of: Locator): Promise<string> => (await of.innerText()).replaceAll(/\s+/g, " ");

/** The middle of a row of the waterfall at a time; the picture begins at 210 px and shows -0.5 .. 100.5 ms. */
async function place(page: Page, row: number, ms: number): Promise<{ x: number; y: number }> {
  const box = (await page.locator("[data-plot=waterfall] canvas").boundingBox())!;
  return { x: 210 + (box.width - 222) * ((ms + 0.5) / 101), y: 18 + (row + 0.5) * 18 };
}

async function pointAt(page: Page, row: number, ms: number): Promise<string> {
  await page.locator("[data-plot=waterfall] canvas").hover({ position: await place(page, row, ms) });
  return await read(page.locator(".tip"));
}

inBrowser("the path has its owners, and the table says the same as the sentence", async () => {
  const { page, trouble } = await open("why");
  await settled(page, "why");
  expect(await read(page.locator("[data-part=summary]"))).toContain("app (hot) is ready after 100.0 ms");
  const times = (await column(page, "owners", "Time")).map(Number);
  expect(times.reduce((sum, ns) => sum + ns, 0)).toBe(100 * MS);
  const what = await column(page, "owners", "What it does");
  expect(what.join("\n")).toContain("runs 30.0 ms in decode of libimage.so.6");
  expect(what.join("\n")).toContain("waits 20.0 ms for the disk in read, called by load");
  expect(what.join("\n")).toContain("waits for a CPU 5.0 ms, which make took");
  expect(await read(page.locator("[data-part=classes]"))).toContain("waits for the disk 20.00 ms, 20 %");
  expect(await read(page.locator("[data-table=links]"))).toContain(
    "thread 'app' waits 30.0 ms for a lock that thread 'worker' holds",
  );
  expect(trouble).toEqual([]);
});

inBrowser("pointing at a lane tells what, how long, where, and whose", async () => {
  const { page, trouble } = await open("why");
  await settled(page, "why");
  // Rows: the path, the head of the process, its two threads, the helper.
  const disk = await pointAt(page, 2, 20);
  expect(disk).toContain("app 100 waits for the disk, 20.00 ms from 10.00 ms · on the path owner: waits 20.0 ms");
  expect(disk).toContain("filemap_read");
  expect(await pointAt(page, 2, 55)).toContain("waits for a lock, 30.00 ms from 40.00 ms · beside the path schedule");
  expect(await pointAt(page, 3, 69)).toContain("then app 100 goes on, which waited for a lock");
  expect(await pointAt(page, 3, 37)).toContain("is ready and has no CPU, 5.000 ms");
  expect(await pointAt(page, 4, 45)).toContain("helper 200 runs the program, ");
  expect(await pointAt(page, 0, 55)).toContain("worker 101 runs the program, ");
  expect(await pointAt(page, 1, 55)).toContain("2 threads");
  expect(trouble).toEqual([]);
});

inBrowser("a click on an owner shows what it owns, and on a piece whose it is", async () => {
  const { page, trouble } = await open("why");
  await settled(page, "why");
  const before = await picture(page, "waterfall");
  await page.locator("[data-table=owners] tbody tr").first().click();
  await address(page, /owner=0/);
  const first = await picture(page, "waterfall");
  expect(first === before).toBe(false);
  await page.getByText(/The chosen one owns 30.00 ms of the run that is drawn, in 1 piece\./).waitFor();
  await page.locator("[data-plot=waterfall] canvas").click({ position: await place(page, 2, 20) });
  await page.getByText(/The chosen one owns 20.00 ms/).waitFor();
  expect(await read(page.locator("[data-table=owners] tr[aria-selected=true]"))).toContain("for the disk");
  await page.keyboard.press("n");
  await page.waitForFunction(() => !location.hash.includes("owner="));
  expect((await picture(page, "waterfall")) === before || (await page.locator(".tip").count()) > 0).toBe(true);
  expect(trouble).toEqual([]);
});

inBrowser("keys and the wheel come closer and move, and lanes of the path alone are shown", async () => {
  const { page, trouble } = await open("why");
  await settled(page, "why");
  let last = await picture(page, "waterfall");
  const changes = async (what: string) => {
    const now = await picture(page, "waterfall");
    expect(now === last, `${what} changed nothing`).toBe(false);
    last = now;
  };
  for (const key of ["w", "d", "a", "s", "w", "Home"]) {
    await page.keyboard.press(key);
    await changes(key);
  }
  const at = await place(page, 2, 50);
  await page.locator("[data-plot=waterfall] canvas").hover({ position: at });
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await changes("the wheel");
  await address(page, /wfx=/);
  await page.getByRole("button", { name: "of the path" }).click();
  expect(await read(page.locator("[data-part=totals]"))).toContain("2 threads");
  await page.locator("#filter").fill("process:worker");
  await page.waitForFunction(() => document.querySelector("[data-part=totals]")?.textContent?.startsWith("1 thread;"));
  expect((await rows(page, "owners")).length).toBeGreaterThan(0);
  expect(trouble).toEqual([]);
});

inBrowser("flame graphs have the times of the path, of all threads, and of waits; a click comes closer", async () => {
  const { page, trouble } = await open("why", "#stacks");
  await settled(page, "stacks");
  const title = () => read(page.locator("section h2"));
  expect(await title()).toBe("The path runs 70.00 ms");
  await page.getByRole("button", { name: "ran in all threads" }).click();
  expect(await title()).toBe("All threads of the program run 102.0 ms");
  await page.getByRole("button", { name: "path waited" }).click();
  expect(await title()).toBe("The path waits, by where the wait began, 20.00 ms");
  await page.getByRole("button", { name: "ran on the path" }).click();
  const up = await picture(page, "stacks");
  await page.getByRole("button", { name: "down from functions" }).click();
  expect((await picture(page, "stacks")) === up).toBe(false);
  const canvas = page.locator("[data-plot=stacks] canvas");
  await canvas.hover({ position: { x: 30, y: 8 } });
  expect(await read(page.locator(".tip"))).toContain("time");
  await canvas.click({ position: { x: 30, y: 8 } });
  await address(page, /stx=/);
  await page.locator(".crumbs button").first().click();
  await page.locator("#filter").fill("function:decode");
  await page.getByText("The filter matches 30.00 ms, 43 % of the time.").waitFor();
  expect(trouble).toEqual([]);
});

inBrowser("what ran beside the path, and what is not known, is said", async () => {
  const { page, trouble } = await open("why", "#beside");
  await settled(page, "beside");
  const beside = (await rows(page, "beside")).map((row) => row.slice(0, 2));
  expect(beside[0]).toEqual(["helper 200", String(27 * MS)]);
  const none = await open("no-why");
  for (const view of WHY_VIEWS) {
    await go(none.page, `#${view}`);
    expect(await none.page.locator(".failed").count(), view).toBe(0);
  }
  const said = await read(none.page.locator("[data-part=cannot]"));
  expect(said).toContain("not known: who ran when");
  expect(said).toContain("3 records were lost");
  expect([...trouble, ...none.trouble]).toEqual([]);
});

inBrowser("names that mean harm do none", async () => {
  const strange = join(folder, "strange.html");
  writeFileSync(strange, withStrangeNames(join(inject("pages"), "why.html")));
  const { page, trouble } = await open(strange);
  for (const view of [...WHY_VIEWS, "stacks?sshape=up&times=waited"]) {
    await go(page, `#${view}`);
    for (const canvas of await page.locator("[data-plot] canvas").all())
      for (const x of [0.3, 0.6]) {
        const box = (await canvas.boundingBox())!;
        await canvas.hover({ position: { x: box.width * x, y: Math.min(box.height, 120) * 0.5 } });
      }
    const found = await page.evaluate(() => ({
      hurt: "hurt" in window,
      made: document.querySelectorAll("main script, main img, main .tip b").length,
      failed: document.querySelectorAll(".failed").length,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    }));
    expect(found, view).toEqual({ hurt: false, made: 0, failed: 0, wide: 0 });
  }
  expect(trouble).toEqual([]);
});
