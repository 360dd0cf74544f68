// Opens pages in headless Chromium from disk and measures what a reader waits for: the open, frames while real mouse
// events zoom and pan, the filter from the key that was pressed. Prints raw samples as JSON lines, then a table.
// usage: measure.mjs PAGE.html...

import { chromium } from "../../viewer/node_modules/playwright-core/index.mjs";
import { readFileSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";

const OPENS = 9;
/** Mouse events of one movement, and how far apart they are: a mouse that reports 125 times a second. */
const [EVENTS, EVERY_MS] = [150, 8];
const ROUNDS = 5;
/** The modifier of the wheel that zooms. */
const CTRL = 2;
/** What is measured of a page of starts and of one of events: the view, the plot that is moved, how many pictures it has. */
const STARTS = {
  hash: "#disk",
  plot: "disk",
  pictures: 2,
  filters: ["file:libxul", "-cause:readahead", "process:content", "owner:app cause:fault", ""],
  count: (text) => {
    const { traces } = JSON.parse(text.match(/id="thaw-events">(.*?)<\/script>/s)[1]);
    const sum = (names) => traces.reduce((total, trace) => total + names.reduce((all, name) => all + trace[name].count, 0), 0);
    return { events: sum(["requests", "fills", "asks"]), requests: sum(["requests"]) };
  },
};
const OF_EVENTS = {
  hash: "#timeline",
  plot: "tapes",
  pictures: 1,
  filters: ["asset/7", "asset/88.js", "9.js", ""],
  count: (text) => ({ events: JSON.parse(text.match(/id="thaw-timeline">(.*?)<\/script>/s)[1]).events }),
};

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A page with both pictures drawn; how long after its opening the first text stood there, and the pictures. */
async function opened(browser, url, { pictures }) {
  const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction((pictures) => (window.thawDrawings?.length ?? 0) >= pictures, pictures);
  const times = await page.evaluate(
    (pictures) => ({
      text_ms: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
      drawn_ms: window.thawDrawings[pictures - 1].done,
    }),
    pictures,
  );
  return { page, times };
}

/** Sends mouse events at the mouse's pace, whatever becomes of them, and records every frame meanwhile. */
async function moved(page, session, plot, send) {
  await page.evaluate(() => {
    const frames = (window.frames_ = []);
    window.drawingsBefore = window.thawDrawings.length;
    const frame = (at) => {
      frames.push(at);
      window.frame_ = requestAnimationFrame(frame);
    };
    window.frame_ = requestAnimationFrame(frame);
  });
  await pause(100);
  const sent = [];
  const began = performance.now();
  for (let i = 0; i < EVENTS; i++) {
    sent.push(session.send("Input.dispatchMouseEvent", send(i)));
    await pause(Math.max(0, began + (i + 1) * EVERY_MS - performance.now()));
  }
  await Promise.all(sent);
  return page.evaluate((plot) => {
    cancelAnimationFrame(window.frame_);
    const at = window.frames_;
    const drawings = window.thawDrawings.slice(window.drawingsBefore);
    const drawn = drawings.filter((it) => it.plot === plot).map((it) => it.took);
    return { frames: at.slice(1).map((it, i) => it - at[i]), drawn };
  }, plot);
}

async function motion(page, { plot }) {
  const session = await page.context().newCDPSession(page);
  const box = await page.locator(`[data-plot=${plot}] canvas`).boundingBox();
  const at = (x, y = 0.5) => ({ x: box.x + box.width * x, y: box.y + box.height * y });
  const wheel = (deltaY, x) => () => ({ type: "mouseWheel", ...at(x), deltaX: 0, deltaY, modifiers: CTRL });
  const result = {};
  const drag = async (name) => {
    // There and back, twice.
    const place = (i) => 0.5 + 0.25 * Math.sin((i / EVENTS) * 4 * Math.PI);
    await session.send("Input.dispatchMouseEvent", { type: "mousePressed", ...at(place(0)), button: "left", buttons: 1, clickCount: 1 });
    result[name] = await moved(page, session, plot, (i) => ({ type: "mouseMoved", ...at(place(i)), button: "left", buttons: 1 }));
    await session.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...at(place(EVENTS)), button: "left", buttons: 0, clickCount: 1 });
  };
  await page.locator(`[data-plot=${plot}] canvas`).hover();
  result["zoom in from the whole"] = await moved(page, session, plot, wheel(-5, 0.42));
  await drag("pan at x12");
  result["zoom in to the closest"] = await moved(page, session, plot, wheel(-60, 0.42));
  await drag("pan at the closest");
  result["zoom out to the whole"] = await moved(page, session, plot, wheel(60, 0.6));
  await session.send("Input.dispatchMouseEvent", { type: "mouseWheel", ...at(0.5), deltaX: 0, deltaY: -80, modifiers: CTRL });
  await pause(200);
  await drag("pan at x1.3");
  await page.keyboard.press("Home");
  await pause(200);
  return result;
}

/** Types a filter; the last key is measured: until both pictures are drawn, until the browser showed them, and how long the main thread worked. */
async function filter(page, session, { pictures }, word) {
  await page.locator("#filter").focus();
  await page.locator("#filter").selectText();
  if (word !== "") await page.keyboard.insertText(word.slice(0, -1));
  await pause(400);
  const busy = async () => (await session.send("Performance.getMetrics")).metrics.find((it) => it.name === "TaskDuration").value * 1000;
  await page.evaluate(() => {
    window.keys = [];
    window.drawingsBefore = window.thawDrawings.length;
    window.shown = [];
    window.observer ??= new PerformanceObserver((list) => window.shown.push(...list.getEntries().map((it) => ({ name: it.name, ms: it.duration }))));
    window.observer.observe({ type: "event", durationThreshold: 16 });
    document.querySelector("#filter").addEventListener("keydown", (event) => window.keys.push(event.timeStamp), { once: true });
  });
  const before = await busy();
  if (word === "") await page.keyboard.press("Backspace");
  else await page.keyboard.press(word.at(-1) === ":" ? "Shift+Semicolon" : word.at(-1));
  await page.waitForFunction((pictures) => window.thawDrawings.length >= window.drawingsBefore + pictures, pictures);
  const drawn = await page.evaluate((pictures) => {
    const drawings = window.thawDrawings.slice(window.drawingsBefore, window.drawingsBefore + pictures);
    return {
      drawn_ms: Math.max(...drawings.map((it) => it.done)) - window.keys[0],
      drawing_ms: drawings.reduce((sum, it) => sum + it.took, 0),
    };
  }, pictures);
  await pause(300);
  // What took less than 16 ms until it was seen is not reported.
  const seen = await page.evaluate(() => Math.max(16, ...window.shown.filter((it) => it.name === "keydown" || it.name === "input").map((it) => it.ms)));
  return { word, ...drawn, seen_ms: seen, busy_ms: (await busy()) - before };
}

function quantile(values, p) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))];
}
/** Goals for a page of three million events, ms: all pictures after the open; the key of a filter until they are drawn. */
const GOALS = { open: 1000, filter: 30 };
/** The median with its 95 % interval (bootstrap), beside a goal. */
function beside(values, goal) {
  const median = (of) => quantile(of, 0.5);
  const again = Array.from({ length: 2000 }, () => median(values.map(() => values[Math.floor(Math.random() * values.length)])));
  const [low, high] = [quantile(again, 0.025), quantile(again, 0.975)].map((it) => it.toFixed(1));
  return `median ${median(values).toFixed(1)} [${low}, ${high}], goal ${goal}: ${median(values) <= goal ? "within" : "MISSED"}`;
}
const summary = (values) => `median ${quantile(values, 0.5).toFixed(1)}, p95 ${quantile(values, 0.95).toFixed(1)}, most ${Math.max(...values).toFixed(1)}`;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
for (const path of process.argv.slice(2)) {
  const text = readFileSync(path, "utf8");
  const kind = text.includes('id="thaw-timeline"') ? OF_EVENTS : STARTS;
  const url = `${pathToFileURL(path).href}${kind.hash}`;
  const opens = [];
  let page;
  for (let i = 0; i < OPENS; i++) {
    await page?.close();
    const one = await opened(browser, url, kind);
    page = one.page;
    opens.push(one.times);
  }
  const { events, requests } = kind.count(text);
  const { size } = statSync(path);
  await pause(1000);
  const motions = await motion(page, kind);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const filtering = [];
  for (let round = 0; round < ROUNDS; round++) for (const word of kind.filters) filtering.push(await filter(page, session, kind, word));
  console.log(JSON.stringify({ path, size, events, requests, opens, motions, filtering }));
  console.error(`${path.split("/").pop()}: ${events} events${requests === undefined ? "" : ` (${requests} of them requests)`}, ${(size / 1e6).toFixed(2)} MB, ${(size / events).toFixed(2)} bytes an event, viewer and document included`);
  console.error(`  open, ms: first text ${summary(opens.map((it) => it.text_ms ?? NaN))}; all pictures ${summary(opens.map((it) => it.drawn_ms))}`);
  console.error(`  open until all pictures, ms: ${beside(opens.map((it) => it.drawn_ms), GOALS.open)}`);
  console.error(`  filter from the key until drawn, ms: ${beside(filtering.map((it) => it.drawn_ms), GOALS.filter)}`);
  for (const [name, { frames, drawn }] of Object.entries(motions)) {
    console.error(`  ${name}: ${frames.length} frames, ms ${summary(frames)}; ${drawn.length} pictures, drawing ms ${drawn.length > 0 ? summary(drawn) : "-"}`);
  }
  const frames = Object.values(motions).flatMap((it) => it.frames);
  console.error(`  all movements: frame ms ${summary(frames)}; later than 16.7 ms: ${((100 * frames.filter((it) => it > 17.5).length) / frames.length).toFixed(1)} %`);
  for (const word of kind.filters) {
    const own = filtering.filter((it) => it.word === word);
    const median = (key) => quantile(own.map((it) => it[key]), 0.5).toFixed(1);
    console.error(`  filter "${word}", ms median: key until drawn ${median("drawn_ms")} (${median("drawing_ms")} of it drawing), until seen ${median("seen_ms")} (in steps of 8); main thread busy ${median("busy_ms")}, figures included`);
  }
  console.error(`  all filters: key until drawn ms ${summary(filtering.map((it) => it.drawn_ms))}`);
  await page.close();
}
await browser.close();
