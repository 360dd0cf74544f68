// The page's figures are the document's.

import { expect } from "vitest";
import { kindMask } from "../../src/logic/disk.ts";
import { unpackRest, unpackTrace } from "../../src/logic/events.ts";
import { travelAsRead } from "../../src/logic/seeks.ts";
import { askedByFile, sums } from "../../src/logic/sums.ts";
import { fairShares } from "../../src/logic/waiting.ts";
import { allDisks, browserOfTests, column, documentOf, embedded, fileRow, inBrowser, rows } from "./browser.ts";

const { open } = browserOfTests();

inBrowser("the embedded document is the one beside the page", () => {
  for (const name of ["laptop", "hostile", "empty", "no-trace"])
    expect(embedded(name).document).toEqual(documentOf(name));
});

inBrowser("answer: sentences, medians, costs", async () => {
  const document = documentOf("laptop");
  const { page, trouble } = await open("laptop");
  expect(await page.locator(".sentences li").allTextContents()).toEqual(document.answer);
  const { cells } = document.statistics;
  expect(await column(page, "states", "Median")).toEqual(cells.map((cell) => String(cell.median_s.value)));
  expect(await column(page, "states", "Mean")).toEqual(cells.map((cell) => String(cell.mean_s.value)));
  const cold = cells.find((cell) => cell.state === "cold")!;
  const line = page.locator("[data-table=states] tbody tr", { hasText: "cold" });
  expect(await line.textContent()).toContain(`${cold.median_s.value!.toFixed(2)} s`);
  expect(await line.textContent()).toContain(
    `[${cold.median_s.interval!.low.toFixed(2)}, ${cold.median_s.interval!.high.toFixed(2)}]`,
  );
  expect(await column(page, "milestones", "exit")).toEqual(
    cells.map((cell) => String(cell.milestones.find((it) => it.name === "exit")!.median_s.value)),
  );
  const waited = [...document.traces[0].report.files].map((file) => file.waiting / 1e9).sort((a, b) => b - a);
  expect(await column(page, "costs", "Waited")).toEqual(waited.slice(0, 12).map(String));
  expect(await page.locator(".warnings li").count()).toBe(document.warnings.length);
  expect(trouble).toEqual([]);
});

inBrowser("runs: every run in the order taken", async () => {
  const { statistics } = documentOf("laptop");
  const { page, trouble } = await open("laptop", "#runs");
  await page.getByText(/All \d+ runs as a table/).click();
  const all = statistics.cells.flatMap((cell) => cell.samples).sort((a, b) => a.run - b.run);
  expect(await column(page, "allruns", "Run")).toEqual(all.map((sample) => String(sample.run)));
  expect(await column(page, "allruns", "Until ready")).toEqual(all.map((sample) => String(sample.wall_s)));
  expect(await column(page, "contrasts", "Ratio")).toEqual(statistics.contrasts.map((it) => String(it.ratio.value)));
  expect(await column(page, "rejected", "Run")).toEqual(statistics.rejected.map((it) => String(it.run)));
  expect(await page.locator(".swarm .dot").count()).toBe(all.length);
  expect(trouble).toEqual([]);
});

inBrowser("runs: the comparison and the difference of differences", async () => {
  const { comparison } = embedded("comparison");
  const { page, trouble } = await open("comparison", "#runs");
  expect(await column(page, "comparison", "Ratio")).toEqual(comparison!.states.map((it) => String(it.ratio.value)));
  expect(await column(page, "differences", "Seconds, 95 % interval")).toEqual(
    comparison!.differences.map((it) => String(it.difference_s.value)),
  );
  expect(await column(page, "changed", "After")).toEqual(comparison!.changed.map((it) => it.after));
  expect(trouble).toEqual([]);
});

inBrowser("disk: totals", async () => {
  const { totals } = documentOf("laptop").traces[0].report;
  const { page, trouble } = await open("laptop", "#disk");
  expect(await allDisks(page)).toEqual({
    requests: totals.requests,
    bytes: totals.read_from_disk,
    seeks: totals.seeks,
  });
  expect(trouble).toEqual([]);
});

inBrowser("files: every file's figures", async () => {
  const { files } = documentOf("laptop").traces[0].report;
  const { page, trouble } = await open("laptop", "#files?shape=table&sort=path");
  const list = await rows(page, "files");
  // Two files may have one path (a deleted one and its successor): rows are compared as they are.
  const wanted = new Set(files.map((file) => JSON.stringify(fileRow(file))));
  for (const row of list) expect(wanted).toContain(JSON.stringify(row.slice(0, 9)));
  expect(list.length).toBe(Math.min(200, files.length));
  expect(trouble).toEqual([]);
});

inBrowser("processes: what each brought in and waited for", async () => {
  const { processes } = documentOf("laptop").traces[0].report;
  const { page, trouble } = await open("laptop", "#processes");
  const numbers = await column(page, "processes", "Number");
  expect([...numbers].sort()).toEqual(processes.map((it) => String(it.pid)).sort());
  const byNumber = numbers.map((pid) => processes.find((it) => String(it.pid) === pid)!);
  expect(await column(page, "processes", "Waited")).toEqual(byNumber.map((it) => String(it.waiting / 1e9)));
  expect(await column(page, "processes", "Brought in")).toEqual(byNumber.map((it) => String(it.filled)));
  expect(trouble).toEqual([]);
});

// Not the page but what it is made of: the events add up to the document's own figures.
inBrowser.each(["laptop", "hostile"])("events of %s add up to the document", async (name) => {
  const { document, events: packed } = embedded(name);
  const { report } = document.traces[0];
  const events = await unpackTrace(packed.traces[0]);
  const touched = await unpackRest(packed.traces[0]);
  const ones = (count: number) => new Uint8Array(count).fill(1);
  const masks = {
    requests: ones(events.requests.count),
    fills: ones(touched.fills.count),
    asks: ones(touched.asks.count),
  };
  const shares = fairShares(events.requests);
  const byFile = sums(events.requests, touched, masks, shares, "file", report.files.length);
  expect(byFile.map((sum) => sum.requests)).toEqual(report.files.map((file) => file.requests));
  expect(byFile.map((sum) => sum.bytes)).toEqual(report.files.map((file) => file.bytes_from_disk));
  expect(byFile.map((sum) => sum.filled)).toEqual(report.files.map((file) => file.filled));
  // Times are kept in microseconds.
  for (const [line, sum] of byFile.entries()) {
    expect(Math.abs(sum.waiting - report.files[line].waiting / 1e3)).toBeLessThan(2 + 2 * sum.requests);
  }
  const byProcess = sums(events.requests, touched, masks, shares, "process", report.processes.length);
  expect(byProcess.map((sum) => sum.filled)).toEqual(report.processes.map((it) => it.filled));
  expect(byProcess.map((sum) => sum.requests)).toEqual(report.processes.map((it) => it.requests));
  const sizes = report.files.map((file) => (file.kind === "regular" ? file.size : null));
  expect([...askedByFile(touched.asks, masks.asks, sizes)]).toEqual(report.files.map((file) => file.asked));
  const travels = events.devices.map((_, device) =>
    travelAsRead(events.requests, device, kindMask(events.requests, device, new Set(["reads"]))),
  );
  const sum = (key: "requests" | "seeks" | "distance") => travels.reduce((total, it) => total + it[key], 0);
  expect([sum("requests"), sum("seeks"), sum("distance")]).toEqual([
    report.totals.requests,
    report.totals.seeks,
    report.totals.seek_distance,
  ]);
});
