// The page of events, in a browser: what is drawn and said of a page that loads, whose times are all round.

import type { Page } from "playwright-core";
import { expect } from "vitest";
import { browserOfTests, column, inBrowser, picture, rows, settled } from "./browser.ts";

const { open } = browserOfTests();

const address = (page: Page, like: RegExp) =>
  page.waitForFunction(([source]) => new RegExp(source).test(location.hash), [like.source]);
const totals = (page: Page) => page.locator("[data-part=totals]").textContent();
const fact = (page: Page, name: string) => page.locator(`[data-part=details] [data-fact="${name}"]`).textContent();

/** Clicks a tape of `load` at a row and a time; the picture begins at 250 px and shows -1 .. 101 ms. */
async function clickTape(page: Page, plot: string, row: number, ms: number): Promise<void> {
  const canvas = page.locator(`[data-plot=${plot}] canvas`);
  const box = (await canvas.boundingBox())!;
  const rowsHigh = box.height - 30;
  const shown = Math.floor((box.height - 34) / 18);
  const [wide, at] = [box.width - 262, (ms + 1) / 102];
  await canvas.click({ position: { x: 250 + wide * at, y: 4 + ((row + 0.5) / shown) * (rowsHigh - 4) } });
}

inBrowser("a click on a tape says what waited and worked, where, and for how long", async () => {
  const { page, trouble } = await open("load");
  await settled(page, "timeline");
  expect(await totals(page)).toBe("10 of 10 objects");
  await clickTape(page, "tapes", 0, 20);
  await address(page, /sel=i0/);
  expect(await fact(page, "resource")).toBe("https://example.org/index.html");
  expect(await fact(page, "type")).toBe("net::http::transaction");
  expect(await fact(page, "wait")).toBe("0 – +10.000 ms (10.00 ms)");
  expect(await fact(page, "execution")).toBe("+10.000 ms – +30.000 ms (20.00 ms)");
  expect(await fact(page, "posted from")).toBe("main 42");
  expect(await fact(page, "worked on by")).toBe("socket 43");
  expect(await fact(page, "source")).toBe("net/http/transaction.cc:120");
  // A mark lies on top of the tape below it.
  await clickTape(page, "tapes", 1, 60);
  await address(page, /sel=m/);
  expect(await fact(page, "at")).toBe("+60.000 ms");
  // What never ended says so.
  await clickTape(page, "tapes", 9, 98);
  expect(await fact(page, "execution")).toBe("never worked on, never done: until the end of the trace");
  expect(trouble).toEqual([]);
});

inBrowser("times are relative to the zero time, which the keyboard sets too", async () => {
  const { page, trouble } = await open("load", "#timeline?sel=i1");
  await settled(page, "timeline");
  const before = await picture(page, "tapes");
  await page.keyboard.press("z");
  await address(page, /zero=5000000/);
  await settled(page, "timeline");
  expect(await fact(page, "execution")).toBe("0 – +85.000 ms (85.00 ms)");
  expect(await picture(page, "tapes")).not.toBe(before);
  await page.evaluate(() => (location.hash = "#objects?zero=5000000"));
  await settled(page, "objects");
  expect(await page.locator("[data-table=objects] tbody").textContent()).toContain("−5.000 ms");
  await page.keyboard.press("1");
  await page.keyboard.press("Shift+Z");
  await page.waitForFunction(() => !location.hash.includes("zero"));
  expect(trouble).toEqual([]);
});

inBrowser("boxes of the tree of types show and hide, and the address remembers it", async () => {
  const { page, trouble } = await open("load");
  await settled(page, "timeline");
  expect(await rows(page, "types")).toEqual([
    ["", "12", "1"],
    ["net", "11", String(11 / 12)],
    ["disk", "1", String(1 / 12)],
  ]);
  await page.getByLabel("show net", { exact: true }).click();
  await address(page, /types=-net/);
  expect(await totals(page)).toBe("1 of 10 objects");
  await page.locator("[data-table=types] button[aria-label=open]").first().click();
  await page.getByLabel("show net::http", { exact: true }).click();
  expect(await totals(page)).toBe("10 of 10 objects");
  expect(
    await page.getByLabel("show net", { exact: true }).evaluate((it) => (it as HTMLInputElement).indeterminate),
  ).toBe(true);
  await page.getByLabel("show disk", { exact: true }).click();
  expect(await totals(page)).toBe("9 of 10 objects");
  await address(page, /types=.*-disk/);
  const again = await open("load", await page.evaluate(() => location.hash));
  await settled(again.page, "timeline");
  expect(await totals(again.page)).toBe("9 of 10 objects");
  await page.getByLabel("show all types", { exact: true }).click();
  await page.getByLabel("show all types", { exact: true }).click();
  await page.waitForSelector("[data-part=nothingchecked]");
  await page.getByRole("button", { name: "show all types" }).click();
  expect(await totals(page)).toBe("10 of 10 objects");
  expect([...trouble, ...again.trouble]).toEqual([]);
});

inBrowser("an event and its sisters are shown alone", async () => {
  const { page, trouble } = await open("load", "#timeline?sel=i1");
  await settled(page, "timeline");
  await page.getByRole("button", { name: "only it and its sisters" }).click();
  expect(await totals(page)).toBe("1 of 10 objects");
  await address(page, /types=-,%2Bnet::http::connection|types=-,\+net::http::connection/);
  await page.evaluate(() => (location.hash = "#timeline?sel=i0"));
  await settled(page, "timeline");
  await page.keyboard.press("f");
  expect(await totals(page)).toBe("8 of 10 objects");
  expect(trouble).toEqual([]);
});

inBrowser("the filter by resource looks both ways, and suggests names", async () => {
  const { page, trouble } = await open("load");
  await settled(page, "timeline");
  const filter = page.locator("#filter");
  await filter.fill("script");
  expect(await totals(page)).toBe("6 of 10 objects");
  expect(await page.locator("#suggestions option").count()).toBe(6);
  // A longer address that holds a whole name.
  await filter.fill("https://example.org/script-1.js?query");
  expect(await totals(page)).toBe("1 of 10 objects");
  await filter.fill("nothing of this name");
  await page.waitForSelector("[data-part=nomatch]");
  await filter.press("Escape");
  await page.keyboard.press("Escape");
  expect(await totals(page)).toBe("10 of 10 objects");
  expect(trouble).toEqual([]);
});

inBrowser("keys and the mouse move and zoom the picture", async () => {
  const { page, trouble } = await open("busy");
  await settled(page, "timeline");
  let last = await picture(page, "tapes");
  const changes = async (what: string) => {
    const now = await picture(page, "tapes");
    expect(now === last, `${what} changed nothing`).toBe(false);
    last = now;
  };
  for (const key of ["w", "d", "a", "s", "w", "ArrowRight", "ArrowDown", "ArrowUp", "Shift+W", "Home"]) {
    await page.keyboard.press(key);
    if (key !== "ArrowUp") await changes(key);
  }
  const box = (await page.locator("[data-plot=tapes] canvas").boundingBox())!;
  await page.mouse.move(box.x + 600, box.y + 200);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await changes("the wheel");
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 100, { steps: 4 });
  await page.mouse.up();
  await changes("dragging");
  // The address follows the picture a moment later: what is opened again is what it was then.
  await address(page, /x=.*y=/);
  const shown = await page.evaluate(() => location.hash);
  const again = await open("busy", shown);
  await settled(again.page, "timeline");
  expect(await again.page.evaluate(() => location.hash)).toBe(shown);
  expect([...trouble, ...again.trouble]).toEqual([]);
});

inBrowser("the page of an object has all its events, what caused it and what it caused", async () => {
  const { page, trouble } = await open("load", "#timeline?sel=i0");
  await settled(page, "timeline");
  await page.keyboard.press("o");
  await settled(page, "object");
  expect(await page.locator("[data-part=objectname]").textContent()).toBe("https://example.org/index.html");
  expect(await column(page, "children", "Object")).toEqual([
    "/home/user/cache/entry-1",
    ...[0, 1, 2, 3, 4, 5].map((n) => `https://example.org/script-${n}.js`),
  ]);
  expect((await rows(page, "args")).map((row) => row.slice(0, 2))).toEqual([["priority", "high"]]);
  expect(await column(page, "objectevents", "What")).toEqual([
    "wait",
    "name",
    "arg",
    "exec",
    "done",
    ..."link ".repeat(7).trim().split(" "),
    "mark",
  ]);
  await page.locator("[data-table=children]").getByText("script-0.js").click();
  await page.waitForFunction(
    () => document.querySelector("[data-part=objectname]")?.textContent === "https://example.org/script-0.js",
  );
  expect((await column(page, "parents", "Object")).sort()).toEqual([
    "https://example.org/index.html",
    "https://example.org/script-5.js",
  ]);
  expect(trouble).toEqual([]);
});

inBrowser("a gantt follows the links, also where they go in a circle", async () => {
  const { page, trouble } = await open("load", "#gantt?obj=0");
  await settled(page, "gantt");
  expect(await totals(page)).toBe("8 objects");
  await page.getByText("the objects as a table").click();
  expect(await column(page, "gantt", "Depth")).toEqual(["0", "1", "1", "1", "1", "1", "1", "1"]);
  expect((await column(page, "gantt", "Took"))[1]).toBe("8000000");
  // From a script: the others, one after the other, each once.
  await page.evaluate(() => (location.hash = "#gantt?obj=5"));
  await page.waitForFunction(() => document.querySelector("h2")?.textContent?.endsWith("script-2.js"));
  expect(await totals(page)).toBe("6 objects");
  await page.getByRole("button", { name: "where its links begin" }).click();
  await page.waitForFunction(() => document.querySelector("h2")?.textContent?.endsWith("index.html"));
  expect(await totals(page)).toBe("8 objects");
  expect(trouble).toEqual([]);
});

inBrowser("a path has its steps, its classes and its colours; a page without one has no such view", async () => {
  const { page, trouble } = await open("path", "#path");
  await settled(page, "path");
  expect(await column(page, "path", "Known by")).toEqual([
    "queue",
    "work",
    "linked",
    "resource",
    "heuristic",
    "unexplained",
  ]);
  expect((await column(page, "path", "Owner"))[5]).toBe("");
  expect(await page.locator("[data-part=classes]").textContent()).toContain("resource 40.00 ms, 40 %");
  const none = await open("load", "#path");
  await settled(none.page, "timeline");
  expect(await none.page.locator("[role=tab]").allTextContents()).toEqual(["Timeline", "Object", "Gantt", "Objects"]);
  // It is drawn over the tapes too.
  await page.evaluate(() => (location.hash = "#timeline"));
  await settled(page, "timeline");
  expect(await picture(page, "tapes")).not.toBe(await picture(none.page, "tapes"));
  expect([...trouble, ...none.trouble]).toEqual([]);
});

inBrowser("a place in the source leads where the reader's pattern says, and never into a script", async () => {
  const { page, trouble } = await open("load", "#timeline?sel=i0");
  await settled(page, "timeline");
  const pattern = page.getByLabel("Address of a place in the source");
  await pattern.fill("https://code.example/{file}?l={line}");
  const link = page.locator("[data-part=details] [data-fact=source] a");
  expect(await link.getAttribute("href")).toBe("https://code.example/net/http/transaction.cc?l=120");
  await pattern.fill("javascript:alert(1)//{file}");
  expect(await link.count()).toBe(0);
  expect(trouble).toEqual([]);
});

inBrowser("rows can be types, namespaces and threads", async () => {
  const { page, trouble } = await open("load");
  await settled(page, "timeline");
  for (const [name, all] of [
    ["types", "3 of 5 types"],
    ["namespaces", "2 of 3 namespaces"],
    ["threads", "3 of 4 threads"],
  ]) {
    await page.getByRole("button", { name, exact: true }).click();
    await settled(page, "timeline");
    expect(await totals(page)).toBe(all);
  }
  await page.locator("#filter").fill("script-1");
  await address(page, /q=script-1/);
  expect(await totals(page)).toBe("1 of 4 threads");
  expect(trouble).toEqual([]);
});

inBrowser("names that mean harm, 70,000 types and 5,000 tapes do none", async () => {
  const { page, trouble } = await open("hostile-events");
  await settled(page, "timeline");
  expect(await totals(page)).toBe("5,001 of 5,001 objects");
  expect(await page.locator("[data-part=missing]").textContent()).toContain("12 events had no room");
  expect(await page.locator("[data-table=types] tbody tr").count()).toBeLessThan(120);
  for (const hash of ["#object?obj=0", "#object?obj=4", "#gantt?obj=0", "#objects", "#timeline?rows=types"]) {
    await page.evaluate((to) => (location.hash = to), hash);
    await settled(page, hash.slice(1).split("?")[0]);
    expect(await page.locator("main script, main b, main i").count(), hash).toBe(0);
    expect(await page.locator(".failed").count(), hash).toBe(0);
    const longest = await page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll("main *")].map((it) =>
          it.children.length === 0 ? (it.textContent?.length ?? 0) : 0,
        ),
      ),
    );
    expect(longest, hash).toBeLessThan(3000);
  }
  expect(trouble).toEqual([]);
});

inBrowser("no event at all is said in every view", async () => {
  const { page, trouble } = await open("no-events");
  for (const view of ["timeline", "object", "gantt", "objects"]) {
    await page.evaluate((to) => (location.hash = `#${to}`), view);
    await settled(page, view);
    expect(await page.locator("main .none").first().textContent()).toContain("The file holds no event");
  }
  expect(trouble).toEqual([]);
});
