// Pages of real recordings, opened from disk: what they show is what `thaw report --json` says of the same recording.

import { appendFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, inject } from "vitest";
import { unpackRest } from "../../src/logic/events.ts";
import type { ReportDocument } from "../../src/types/document.ts";
import {
  address,
  allDisks,
  browserOfTests,
  column,
  embedded,
  figure,
  fileRow,
  inBrowser,
  picture,
  rows,
} from "./browser.ts";

const folder = inject("reports");
const names =
  folder === ""
    ? []
    : readdirSync(folder).filter(
        (name) => name.endsWith(".html") && existsSync(join(folder, name.replace(/html$/, "json"))),
      );
const { open } = browserOfTests();

/** A file that every start of these programs reads: the end of its path. */
const KNOWN: Readonly<Record<string, string>> = { "firefox-esr": "/libxul.so", chromium: "/chromium/chromium" };

for (const reason of inject("missing")) {
  if (process.env.THAW_SKIP_LOG !== undefined)
    appendFileSync(process.env.THAW_SKIP_LOG, `viewer, pages of real recordings: ${reason}\n`);
  inBrowser.skip(reason, () => {});
}
if (names.length === 0) inBrowser.skip("no page of a real recording", () => {});

describe.each(names)("%s", (name) => {
  const html = join(folder, name);
  const report: ReportDocument = JSON.parse(readFileSync(join(folder, name.replace(/html$/, "json")), "utf8"));
  const trace = report.traces[0]?.report;
  const known = KNOWN[basename(name, ".html")];

  inBrowser("answers what `thaw report --json` answers", async () => {
    const { page, trouble } = await open(html);
    expect(await page.locator(".sentences li").allTextContents()).toEqual(report.answer);
    const { cells } = report.statistics;
    expect(cells.length).toBeGreaterThan(0);
    expect(await column(page, "states", "Median")).toEqual(cells.map((cell) => String(cell.median_s.value)));
    expect(await page.locator(".warnings li").count()).toBe(report.warnings.length);
    expect(trouble).toEqual([]);
  });

  const traced = trace === undefined ? inBrowser.skip : inBrowser;
  if (trace === undefined) {
    if (process.env.THAW_SKIP_LOG !== undefined)
      appendFileSync(process.env.THAW_SKIP_LOG, `viewer, pages of real recordings: ${name} has no trace\n`);
  }

  traced("draws what the trace read, and zooms", async () => {
    const { totals } = trace;
    const { page, trouble } = await open(html, "#disk");
    expect(await allDisks(page)).toEqual({
      requests: totals.requests,
      bytes: totals.read_from_disk,
      seeks: totals.seeks,
    });
    const whole = await picture(page, "disk");
    const box = (await page.locator("[data-plot=disk] canvas").boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -300);
    await page.keyboard.up("Control");
    const near = await address(page, /x=/);
    expect(await picture(page, "disk")).not.toBe(whole);
    await page.keyboard.press("d");
    await page.waitForFunction((before) => location.hash !== before, near);
    // The pointer may stand on a request: its words are no part of the picture.
    await page.keyboard.press("Home");
    await page.waitForFunction(() => !/[?&]x=/.test(location.hash));
    expect(await picture(page, "disk")).toBe(whole);
    expect(trouble).toEqual([]);
  });

  traced("shows the models of other disks as the report has them", async () => {
    const disks = report.traces[0].disks?.disks ?? [];
    const { page, trouble } = await open(html, "#disk");
    if (disks.length === 0) return expect(await page.locator("[data-table=otherdisks]").count()).toBe(0);
    expect(await column(page, "otherdisks", "As they came")).toEqual(disks.map((it) => String(it.as_is_ns / 1e9)));
    expect(await column(page, "otherdisks", "Sorted")).toEqual(disks.map((it) => String(it.sorted_ns / 1e9)));
    expect(trouble).toEqual([]);
  });

  traced("every file's figures are the report's", async () => {
    const { page, trouble } = await open(html, "#files?shape=table");
    const wanted = new Set(trace.files.map((file) => JSON.stringify(fileRow(file))));
    const list = await rows(page, "files");
    expect(list.length).toBe(Math.min(200, trace.files.length));
    for (const row of list) expect(wanted).toContain(JSON.stringify(row.slice(0, 9)));
    expect(trouble).toEqual([]);
  });

  traced("a known file is found by the filter, in every view", async () => {
    const file =
      known === undefined
        ? [...trace.files].sort((a, b) => b.waiting - a.waiting)[0]
        : trace.files.find((it) => it.path.endsWith(known))!;
    const { page, trouble } = await open(html, "#disk");
    await page.waitForSelector("[data-part=head]");
    await page.fill("#filter", `file:"${file.path}"`);
    await page.waitForFunction(
      (wanted) => document.querySelector("[data-part=head] dd")?.getAttribute("data-value") === wanted,
      String(file.requests),
    );
    expect(await figure(page, "head", "bytes")).toBe(file.bytes_from_disk);
    await page.evaluate(
      (word) => (location.hash = `#files?shape=table&q=${encodeURIComponent(word)}`),
      `file:"${file.path}"`,
    );
    await page.waitForFunction(
      (path) => document.querySelector("[data-table=files] tbody th")?.getAttribute("data-value") === path,
      file.path,
    );
    const found = (await rows(page, "files")).filter((row) => row[0] === file.path);
    expect(found.map((row) => JSON.stringify(row.slice(0, 9)))).toContain(JSON.stringify(fileRow(file)));
    await page.locator("[data-table=files] tbody a").first().click();
    await page.waitForSelector("h2.filename");
    expect(await page.locator("h2.filename").textContent()).toBe(file.path);
    expect(await figure(page, "file", "came in")).toBe(file.filled);
    if (file.needed !== null) {
      expect(await figure(page, "file", "needed")).toBe(file.needed);
      expect((await column(page, "sections", "Needed")).reduce((sum, it) => sum + Number(it), 0)).toBe(file.needed);
    }
    expect(trouble).toEqual([]);
  });

  traced("the needed bytes of a known file are drawn, and are those of the trace", async () => {
    const file = known === undefined ? undefined : trace.files.find((it) => it.path.endsWith(known));
    const { page, trouble } = await open(html, `#touch?file=${encodeURIComponent(file?.path ?? "")}`);
    if (file === undefined || file.needed === null)
      return expect(await page.locator("main").textContent()).toMatch(/thaw touch|needed/);
    await picture(page, "touch");
    expect(await page.locator("h2.filename").textContent()).toBe(file.path);
    expect(await figure(page, "touch", "needed")).toBe(file.needed);
    // Different bytes here; the file's figure has a page that was evicted and came again as often as it came.
    const { fills } = await unpackRest(embedded(html).events.traces[0]);
    const line = trace.files.indexOf(file);
    const parts = [...fills.offset.keys()]
      .filter((i) => fills.file[i] === line)
      .map((i) => [fills.offset[i], fills.offset[i] + fills.len[i]])
      .sort(([a], [b]) => a - b);
    let came = 0;
    let covered = 0;
    for (const [from, to] of parts) {
      came += Math.max(0, to - Math.max(from, covered));
      covered = Math.max(covered, to);
    }
    expect(await figure(page, "touch", "read")).toBe(came);
    expect(came).toBeGreaterThan(0);
    expect(trouble).toEqual([]);
  });
});
