// The view of the needed bytes: its figures are those of the touch report, and it stays small however much was touched.

import type { Page } from "playwright-core";
import { expect } from "vitest";
import { address, browserOfTests, column, figure, inBrowser, picture, rows, touchReportOf } from "./browser.ts";

const { open } = browserOfTests();
const LIBRARY = "/usr/lib/firefox-esr/libxul.so";
const LIBRARY_VIEW = `#touch?file=${LIBRARY}`;

const libraryOf = () => touchReportOf("laptop").files.find((file) => file.path === LIBRARY)!;

/** How many rows the list of functions says it has, and how many of them are in the page. */
async function list(page: Page): Promise<{ all: number; made: number; first: (string | null)[] }> {
  const table = page.locator("[data-table=functions] table");
  await table.waitFor();
  return {
    all: Number(await table.getAttribute("aria-rowcount")) - 1,
    made: await table.locator("tbody tr:not(.space)").count(),
    first: await column(page, "functions", "Function"),
  };
}

inBrowser("figures, sections and files are the report's", async () => {
  const file = libraryOf();
  const { page, trouble } = await open("laptop", LIBRARY_VIEW);
  await picture(page, "touch");
  for (const [name, value] of [
    ["size", file.size],
    ["read", file.read],
    ["needed", file.needed],
    ["functions called", file.functions!.called],
    ["their bytes", file.functions!.called_bytes],
    ["on pages", file.functions!.pages],
    ["packed", file.functions!.packed_pages],
    ["with one function alone", file.functions!.lonely_pages],
  ] as const) {
    expect(await figure(page, "touch", name), name).toBe(value);
  }
  const bySize = [...file.sections].sort((a, b) => b.size - a.size);
  expect((await column(page, "touchsections", "Section")).filter((name) => name!.startsWith("."))).toEqual(
    bySize.map((it) => it.name),
  );
  expect((await column(page, "touchsections", "Needed")).reduce((sum, it) => sum + Number(it), 0)).toBe(file.needed);
  expect((await column(page, "touchsections", "Functions")).reduce((sum, it) => sum + Number(it), 0)).toBe(
    file.functions!.called,
  );
  const needed = touchReportOf("laptop")
    .files.filter((it) => (it.needed ?? 0) > 0)
    .map((it) => String(it.needed));
  expect(await column(page, "touchfiles", "Needed")).toEqual(needed.slice(0, 20));
  const packed = await page.locator("[data-part=packed] p").first().textContent();
  const text = (value: number) => value.toLocaleString("en");
  expect(packed).toContain(`Touched functions: ${text(file.functions!.called)}`);
  expect(packed).toContain(`would take ${text(file.functions!.packed_pages)} pages`);
  expect(trouble).toEqual([]);
});

inBrowser("the list of functions is whole, and only what is in sight is made", async () => {
  const { page, trouble } = await open("laptop", LIBRARY_VIEW);
  const { all, made } = await list(page);
  expect(all).toBe(libraryOf().functions!.called);
  expect(made).toBeLessThan(100);
  const box = page.locator("[data-table=functions] .rows");
  await box.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await page.waitForFunction(
    (last) =>
      document
        .querySelector("[data-table=functions] tbody tr:not(.space):last-child")
        ?.getAttribute("aria-rowindex") === last,
    String(all + 1),
  );
  expect((await list(page)).made).toBeLessThan(100);
  // Keys scroll the list rather than move the map.
  await box.focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(
    () => document.querySelector("[data-table=functions] tbody tr")?.getAttribute("aria-rowindex") === "2",
  );
  await page.locator("[data-table=functions] thead button", { hasText: "Size" }).first().click();
  await address(page, /tfsort=-size/);
  const sizes = (await column(page, "functions", "Size")).map(Number);
  expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
  await page.getByRole("button", { name: /alone on a page/ }).click();
  await address(page, /tlist=lonely/);
  const alone = await column(page, "functions", "Alone on");
  expect(alone.length).toBeGreaterThan(0);
  for (const pages of alone) expect(Number(pages)).toBeGreaterThan(0);
  expect(trouble).toEqual([]);
});

inBrowser("pointing at a page tells about it, a click lists its functions, the address brings that back", async () => {
  const { page, trouble } = await open("laptop", `${LIBRARY_VIEW}&by=function`);
  await picture(page, "touch");
  const canvas = page.locator("[data-plot=touch] canvas");
  const at = await canvas.evaluate((element: HTMLCanvasElement) => {
    const data = element.getContext("2d")!.getImageData(0, 0, element.width, element.height).data;
    for (let y = 20; y < element.height - 40; y++) {
      for (let x = 80; x < element.width - 110; x++) {
        const i = (y * element.width + x) * 4;
        if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60)
          return { x: x + 1, y: y + 1 };
      }
    }
    return null;
  });
  expect(at).not.toBeNull();
  await canvas.hover({ position: at! });
  const tip = (await page.locator("[data-plot=touch] .tip").textContent())!;
  expect(tip).toMatch(/^touched/);
  expect(tip).toMatch(/section.*\.text/);
  expect(tip).toMatch(/first touch\d+\.?\d* (ms|s)/);
  expect(tip).toMatch(/functions(_ZN7mozilla|\(no name\))/);
  const number = Number(tip.match(/page([\d,]+), at/)![1].replaceAll(",", ""));
  const before = (await list(page)).all;
  await canvas.click({ position: at! });
  const hash = await address(page, new RegExp(`page=${number}&.*tlist=page`));
  const { all } = await list(page);
  expect(all).toBeGreaterThan(0);
  expect(all).toBeLessThan(before);
  for (const offset of await column(page, "functions", "Offset"))
    expect(Math.abs(Math.floor(Number(offset) / 4096) - number)).toBeLessThanOrEqual(2);
  const again = await open("laptop", hash);
  expect((await list(again.page)).all).toBe(all);
  await page.mouse.move(1, 1);
  expect(await picture(again.page, "touch")).toBe(await picture(page, "touch"));
  await page.getByRole("button", { name: /unmark/ }).click();
  expect((await list(page)).all).toBe(before);
  expect(trouble).toEqual([]);
});

inBrowser("a function's name leads to its page by keyboard; a file is chosen from the table", async () => {
  const { page, trouble } = await open("laptop", LIBRARY_VIEW);
  const whole = await picture(page, "touch");
  await page.locator("[data-table=functions] tbody button").first().focus();
  await page.keyboard.press("Enter");
  await address(page, /page=\d+/);
  expect(await picture(page, "touch")).not.toBe(whole);
  const [first, second] = await column(page, "touchfiles", "File");
  await page
    .locator("[data-table=touchfiles] tbody button")
    .nth(first === LIBRARY ? 1 : 0)
    .click();
  await address(page, new RegExp(`file=${(first === LIBRARY ? second! : first!).replace(/.*\//, "/?.*")}`));
  expect(await page.evaluate(() => location.hash)).not.toMatch(/page=/);
  expect(trouble).toEqual([]);
});

inBrowser("the filter finds functions and files; what does not pass is faded in the map", async () => {
  const { page, trouble } = await open("laptop", `${LIBRARY_VIEW}&by=function`);
  const all = await picture(page, "touch");
  await page.fill("#filter", "function:Part12");
  await page.waitForFunction(
    () => Number(document.querySelector("[data-table=functions] table")?.getAttribute("aria-rowcount")) < 5000,
  );
  for (const name of await column(page, "functions", "Function")) expect(name).toContain("Part12");
  expect(await picture(page, "touch")).not.toBe(all);
  expect(await column(page, "touchfiles", "File")).toEqual([LIBRARY]);
  // Words about requests say nothing here, and words about functions say nothing there.
  await page.fill("#filter", "cause:readahead");
  await page.waitForFunction(
    (rows) => document.querySelector("[data-table=functions] table")?.getAttribute("aria-rowcount") === rows,
    String(libraryOf().functions!.called + 1),
  );
  const files = async (hash: string) => (await rows((await open("laptop", hash)).page, "files")).length;
  expect(await files("#files?shape=table&q=function:Part12")).toBe(await files("#files?shape=table"));
  expect(trouble).toEqual([]);
});

inBrowser("time and order shade differently, engines show different pages, light and dark too", async () => {
  const { page, trouble } = await open("laptop", LIBRARY_VIEW);
  const seen = new Set([await picture(page, "touch")]);
  await page.locator(".choice[aria-label='shade by'] button", { hasText: "order" }).click();
  await address(page, /tcolour=order/);
  seen.add(await picture(page, "touch"));
  await page.locator(".choice[aria-label=colour] button", { hasText: "functions called" }).click();
  await address(page, /by=function/);
  seen.add(await picture(page, "touch"));
  await page.keyboard.press("t");
  seen.add(await picture(page, "touch"));
  expect(seen.size).toBe(4);
  expect(trouble).toEqual([]);
});

inBrowser("names of functions are shown and never executed", async () => {
  const file = touchReportOf("hostile").files.find((it) => (it.functions?.called ?? 0) > 0)!;
  const { page, trouble } = await open("hostile", `#touch?file=${encodeURIComponent(file.path)}`);
  const names = (await list(page)).first;
  expect(names.slice(0, 5)).toEqual([
    "</script><script>window.hurt=1</script>",
    '<img src=x onerror="window.hurt=1">',
    "a\u{fffd}b\nc",
    "",
    "=1+1",
  ]);
  expect(await page.locator("[data-table=functions]").textContent()).toContain("a\u{fffd}b⟨\\n⟩c");
  expect(await page.evaluate(() => "hurt" in window)).toBe(false);
  expect(trouble).toEqual([]);
});
