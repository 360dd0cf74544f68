// The page of events in Firefox: the same page, another engine.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, inject } from "vitest";
import { ESCAPE, Firefox, inFirefox, noFirefox } from "./firefox.ts";

let firefox: Firefox | undefined;
beforeAll(async () => {
  if (noFirefox === "") firefox = await Firefox.start();
});
afterAll(async () => firefox?.stop());

const url = (name: string, hash: string) => pathToFileURL(join(inject("pages"), `${name}.html`)).href + hash;
const drawn = (plot: string) => `(window.wrappedJSObject ?? window).thawDrawings.some((it) => it.plot === "${plot}")`;
/** Whether the canvas of the tapes has more than one colour. */
const FILLED = `(() => {
  const canvas = document.querySelector("[data-plot=tapes] canvas");
  const { data } = canvas.getContext("2d").getImageData(260, 0, canvas.width - 280, 40);
  return new Set(new Uint32Array(data.slice().buffer)).size > 2;
})()`;
const totals = `document.querySelector("[data-part=totals]").textContent`;
const fact = (name: string) => `document.querySelector('[data-part=details] [data-fact="${name}"]').textContent`;

inFirefox("a tape is clicked, times are relative, filters hold, keys move", async () => {
  const page = firefox!;
  await page.open(url("path", "#timeline"));
  await page.until(drawn("tapes"));
  expect(await page.value(totals)).toBe("10 of 10 objects");
  const canvas = `document.querySelector("[data-plot=tapes] canvas").getBoundingClientRect()`;
  const box = (await page.value(`(({ x, y, width }) => ({ x, y, width }))(${canvas})`)) as {
    x: number;
    y: number;
    width: number;
  };
  await page.click(box.x + 250 + ((box.width - 262) * 21) / 102, box.y + 13);
  await page.until(`location.hash.includes("sel=i0")`);
  expect(await page.value(fact("wait"))).toBe("0 – +10.000 ms (10.00 ms)");
  expect(await page.value(fact("worked on by"))).toBe("socket 43");
  await page.open(url("path", "#timeline?sel=i1"));
  await page.until(`${fact("execution")}.startsWith("+5.000 ms")`);
  await page.press("z");
  await page.until(`location.hash.includes("zero=5000000")`);
  expect(await page.value(fact("execution"))).toBe("0 – +85.000 ms (85.00 ms)");
  await page.press("w", "d");
  await page.until(`location.hash.includes("x=")`);
  await page.press("f");
  await page.until(`${totals} === "1 of 10 objects"`);
  await page.press("/", ..."script");
  await page.until(`document.querySelectorAll("#suggestions option").length === 6`);
  await page.press(ESCAPE, ESCAPE);
  await page.until(`document.querySelector("#filter").value === ""`);
  // Something stands on the tapes again.
  await page.until(FILLED);
  if (process.env.THAW_PICTURES !== undefined)
    writeFileSync(join(process.env.THAW_PICTURES, "firefox-timeline.png"), await page.screenshot());
});

inFirefox("an object, its gantt and the path are shown", async () => {
  const page = firefox!;
  await page.open(url("path", "#object?obj=0"));
  await page.until(drawn("object"));
  expect(await page.value(`document.querySelectorAll("[data-table=children] tbody tr").length`)).toBe(7);
  await page.press("4");
  await page.until(drawn("gantt"));
  expect(await page.value(totals)).toBe("8 objects");
  await page.press("2");
  await page.until(drawn("path"));
  expect(await page.value(`document.querySelectorAll("[data-table=path] tbody tr").length`)).toBe(6);
  if (process.env.THAW_PICTURES !== undefined)
    writeFileSync(join(process.env.THAW_PICTURES, "firefox-path.png"), await page.screenshot());
});

inFirefox("names that mean harm and 5,000 tapes are drawn", async () => {
  const page = firefox!;
  await page.open(url("hostile-events", "#timeline"));
  await page.until(drawn("tapes"));
  expect(await page.value(totals)).toBe("5,001 of 5,001 objects");
  expect(await page.value(`document.querySelectorAll("main script, main b, .failed").length`)).toBe(0);
});
