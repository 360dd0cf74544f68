// What a reader does: look around, zoom, filter, find a file, use keys, print, copy.

import { expect } from "vitest";
import { VIEWS } from "../../src/logic/address.ts";
import { usefulOf } from "../../src/logic/tree.ts";
import {
  address,
  browserOfTests,
  column,
  documentOf,
  figure,
  go,
  inBrowser,
  picture,
  rows,
  settled,
} from "./browser.ts";

const { open } = browserOfTests();
const LIBRARY = "/usr/lib/firefox-esr/libxul.so";

inBrowser("zooming changes the address and the picture; the address brings the picture back", async () => {
  const { page, trouble } = await open("laptop", "#disk");
  const whole = await picture(page, "disk");
  const box = (await page.locator("[data-plot=disk] canvas").boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  // The wheel alone is the page's.
  await page.mouse.wheel(0, 40);
  await page.waitForTimeout(300);
  expect(await picture(page, "disk")).toBe(whole);
  await page.mouse.wheel(0, -400);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -400);
  await page.keyboard.up("Control");
  const hash = await address(page, /x=/);
  const closer = await picture(page, "disk");
  expect(closer).not.toBe(whole);
  await page.mouse.move(box.x + 5, box.y - 20);
  const again = await open("laptop", hash);
  expect(await picture(again.page, "disk")).toBe(await picture(page, "disk"));
  await page.keyboard.press("Home");
  await page.waitForFunction(() => !location.hash.includes("x="));
  expect(await picture(page, "disk")).toBe(whole);
  // Back undoes what Home did, and then the zoom.
  await page.goBack();
  await page.waitForFunction(() => location.hash.includes("x="));
  expect(await picture(page, "disk")).toBe(closer);
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes("x="));
  expect(await picture(page, "disk")).toBe(whole);
  expect(trouble).toEqual([]);
});

inBrowser("a filter that matches nothing says so, in every view of the trace", async () => {
  for (const view of ["disk", "file", "files", "processes"]) {
    const { page, trouble } = await open("laptop", `#${view}?q=nothing-is-called-so`);
    await page.waitForSelector("[data-part=nomatch]");
    await page.locator("[data-part=nomatch] button").click();
    await page.waitForFunction(() => document.querySelector("[data-part=nomatch]") === null);
    expect(trouble).toEqual([]);
  }
});

inBrowser("keys zoom, pan, and change views in every view that has a picture", async () => {
  for (const [view, key] of [
    ["disk", "x="],
    ["file", "fx="],
    ["processes", "px="],
    ["touch", "tx="],
  ] as const) {
    const { page, trouble } = await open("laptop", `#${view}`);
    const first = await picture(page, view);
    await page.keyboard.press("w");
    await page.keyboard.press("w");
    const near = await address(page, new RegExp(key));
    await page.keyboard.press("d");
    await page.waitForFunction((before) => location.hash !== before, near);
    const moved = await page.evaluate(() => location.hash);
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction((before) => location.hash !== before, moved);
    expect(await picture(page, view)).not.toBe(first);
    await page.keyboard.press("Home");
    await page.waitForFunction((name) => !new RegExp(`[?&]${name}`).test(location.hash), key);
    expect(await picture(page, view)).toBe(first);
    expect(trouble, view).toEqual([]);
  }
});

inBrowser("figures choose a view, ? explains, / leads to the filter, t changes colours", async () => {
  const { page, trouble } = await open("laptop", "#processes");
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await page.waitForSelector(`[data-view=${view}]`);
    await address(page, new RegExp(`^#${view}`));
  }
  await page.goBack();
  await page.waitForSelector("[data-view=processes]");
  await page.keyboard.press("?");
  expect(await page.locator("dialog[open]").textContent()).toContain("Home");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await page.keyboard.press("/");
  await page.keyboard.type("1libxul");
  expect(await page.locator("#filter").inputValue()).toBe("1libxul");
  await page.waitForSelector("[data-view=processes]");
  await page.keyboard.press("Escape");
  const before = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.keyboard.press("t");
  await page.waitForFunction((theme) => document.documentElement.dataset.theme !== theme, before);
  expect(trouble).toEqual([]);
});

inBrowser("the filter finds a known file in every view", async () => {
  const { files, processes } = documentOf("laptop").traces[0].report;
  const library = files.find((file) => file.path === LIBRARY)!;
  const { page, trouble } = await open("laptop", "#files?shape=table");
  await page.fill("#filter", `file:${LIBRARY}`);
  await page.waitForFunction(() => document.querySelectorAll("[data-table=files] tbody tr").length === 1);
  expect((await rows(page, "files"))[0].slice(0, 4)).toEqual(
    [LIBRARY, library.waiting / 1e9, library.filled, usefulOf(library)].map(String),
  );
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  await page.waitForFunction(
    (wanted) => document.querySelector("[data-part=head] dd")?.getAttribute("data-value") === wanted,
    String(library.requests),
  );
  expect(await figure(page, "head", "bytes")).toBe(library.bytes_from_disk);
  await page.keyboard.press("6");
  const requests = await column(page, "processes", "Requests");
  expect(requests.reduce((sum, it) => sum + Number(it), 0)).toBe(library.requests);
  expect(requests.length).toBe(processes.length);
  await page.keyboard.press("1");
  expect(await column(page, "costs", "File")).toEqual([LIBRARY]);
  await address(page, /q=file:.*libxul/);
  expect(trouble).toEqual([]);
});

inBrowser("a link to a file leads to it in another tab too", async () => {
  const addressOf = async (hash: string, link: string) => {
    const { page } = await open("laptop", hash);
    const found = page.locator(link).filter({ hasText: "libxul.so" }).first();
    await found.waitFor();
    return (await found.getAttribute("href"))!;
  };
  for (const [hash, link] of [
    ["#answer", "[data-table=costs] a.filelink"],
    ["#files", "[data-table=tree] .treename a"],
  ]) {
    const { page, trouble } = await open("laptop", await addressOf(hash, link));
    await settled(page, "file");
    expect(await page.locator("main .path").first().getAttribute("title"), hash).toBe(LIBRARY);
    expect(trouble).toEqual([]);
  }
});

inBrowser("a cause splits a file: what passes and what does not add up", async () => {
  const { files } = documentOf("laptop").traces[0].report;
  const library = files.find((file) => file.path === LIBRARY)!;
  const filled = async (filter: string) => {
    const { page } = await open("laptop", `#files?shape=table&q=${encodeURIComponent(filter)}`);
    const sum = async () => (await column(page, "files", "Came in")).reduce((sum, it) => sum + Number(it), 0);
    // Until the events are unpacked, all of a file passes; later never, because it has both.
    await expect.poll(sum, { timeout: 600_000 }).not.toBe(library.filled);
    return sum();
  };
  const [ahead, rest] = [
    await filled(`file:${LIBRARY} cause:readahead`),
    await filled(`file:${LIBRARY} -cause:readahead`),
  ];
  expect(ahead).toBeGreaterThan(0);
  expect(rest).toBeGreaterThan(0);
  expect(ahead + rest).toBe(library.filled);
});

inBrowser("pointing at a request tells about it, a click opens its file", async () => {
  const { page, trouble } = await open("laptop", "#disk?ways=0&q=file:libxul");
  await picture(page, "disk");
  // The first pixel that has the colour of a mark.
  const at = await page.locator("[data-plot=disk] canvas").evaluate((canvas: HTMLCanvasElement) => {
    const data = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height).data;
    for (let y = 20; y < canvas.height - 40; y++) {
      for (let x = 80; x < canvas.width - 20; x++) {
        const i = (y * canvas.width + x) * 4;
        if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60)
          return { x: x + 1, y: y + 1 };
      }
    }
    return null;
  });
  expect(at).not.toBeNull();
  await page.locator("[data-plot=disk] canvas").hover({ position: at! });
  const tip = await page.locator("[data-plot=disk] .tip").textContent();
  expect(tip).toContain("libxul.so");
  expect(tip).toMatch(/took\d/);
  const [plot, box] = [
    (await page.locator("[data-plot=disk]").boundingBox())!,
    (await page.locator("[data-plot=disk] .tip").boundingBox())!,
  ];
  const near = { x: plot.x + at!.x, y: plot.y + at!.y };
  expect(Math.min(Math.abs(box.x - near.x), Math.abs(box.x + box.width - near.x))).toBeLessThan(30);
  expect(Math.min(Math.abs(box.y - near.y), Math.abs(box.y + box.height - near.y))).toBeLessThan(30);
  await page.locator("[data-plot=disk] canvas").click({ position: at! });
  await page.waitForSelector("[data-view=file]");
  expect(await page.locator("h2.filename").textContent()).toBe(LIBRARY);
  expect(trouble).toEqual([]);
});

inBrowser("the file's bars are the sums of its sections", async () => {
  const file = documentOf("laptop").traces[0].report.files.find((it) => it.path === LIBRARY)!;
  const { page, trouble } = await open("laptop", `#file?file=${LIBRARY}`);
  const sum = async (name: string) =>
    (await column(page, "sections", name)).reduce((total, it) => total + Number(it), 0);
  // The last page of a file reaches beyond its end.
  expect(Math.abs((await sum("Read")) - file.filled)).toBeLessThan(4096);
  expect(Math.abs((await sum("Asked for")) - file.asked)).toBeLessThan(4096);
  expect(file.needed).toBeGreaterThan(0);
  expect(await sum("Needed")).toBe(file.needed);
  expect(await figure(page, "file", "came in")).toBe(file.filled);
  expect(await figure(page, "file", "needed")).toBe(file.needed);
  expect(await figure(page, "file", "not needed")).toBe(file.filled - file.needed!);
  expect(await page.getByText(/exact by page/).count()).toBe(1);
  expect(trouble).toEqual([]);
});

inBrowser("the table can be taken away", async () => {
  const { page } = await open("laptop", "#files?shape=table");
  await page.waitForSelector("[data-table=files] tbody tr");
  await page.evaluate(() => {
    Object.defineProperty(navigator, "clipboard", {
      value: {
        writeText: async (text: string) => {
          (window as unknown as { taken: string }).taken = text;
        },
      },
    });
  });
  await page.locator("[data-table=files]").getByText("copy as TSV").click();
  await page.waitForFunction(() => "taken" in window);
  const lines = (await page.evaluate(() => (window as unknown as { taken: string }).taken)).trimEnd().split("\n");
  expect(lines.length - 1).toBe(documentOf("laptop").traces[0].report.files.length);
  expect(lines.find((line) => line.startsWith(`${LIBRARY}\t`))?.split("\t").length).toBe(lines[0].split("\t").length);
});

inBrowser("every picture has words and a table", async () => {
  for (const view of ["disk", "file", "processes", "runs", "touch"]) {
    const { page } = await open("laptop", `#${view}`);
    await page.waitForSelector("[data-plot] canvas, [data-chart]");
    for (const label of await page.$$eval("[data-plot] canvas, [data-chart]", (list) =>
      list.map((it) => it.getAttribute("aria-label")),
    ))
      expect(label, view).toMatch(/\w{4,}.*\./);
    for (const summary of await page.locator("details.astable > summary").all()) await summary.click();
    await page.waitForSelector("table caption", { state: "attached" });
    // Some tables have their caption only for those who do not see the picture.
    expect(await page.locator("table caption").first().textContent(), view).toMatch(/\w{4,}/);
  }
});

inBrowser("nothing runs off a small screen, or off a page that is drawn twice as large", async () => {
  const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
  const window = { viewport: { width: 600, height: 800 } };
  const twice = { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 };
  for (const screen of [phone, window, twice]) {
    const { page, trouble } = await open("comparison", "", screen);
    for (const view of VIEWS) {
      await go(page, `#${view}`);
      expect(
        await page.evaluate(() => document.documentElement.scrollWidth),
        `${view} ${screen.viewport.width}`,
      ).toBeLessThanOrEqual(screen.viewport.width);
    }
    // Where a window is low, the bar does not take half of it.
    if (screen === twice)
      expect(await page.evaluate(() => getComputedStyle(document.querySelector("header")!).position)).toBe("static");
    expect(trouble).toEqual([]);
    await page.close();
  }
});

inBrowser("a path never covers the figures beside it, in a small window either", async () => {
  const { page } = await open("laptop", "", { viewport: { width: 600, height: 800 } });
  for (const view of ["answer", "file", "files?shape=table", "processes", `touch?file=${LIBRARY}`]) {
    await go(page, `#${view}`);
    const over = await page.$$eval("main td, main th", (cells) =>
      cells.flatMap((cell) => {
        const right = cell.getBoundingClientRect().right;
        return [...cell.querySelectorAll(".base, .treename, .functionname, .figure")]
          .filter((part) => part.getBoundingClientRect().right > right + 1)
          .map((part) => part.textContent);
      }),
    );
    expect(over, view).toEqual([]);
  }
  // Columns that a small window leaves out are left out of the list's head as well.
  const columns = await page.$$eval("[data-table=functions] thead th", (heads) =>
    heads.map((it) => it.getBoundingClientRect()).filter((it) => it.width > 0),
  );
  const box = await page.$eval("[data-table=functions] .rows", (it) => it.getBoundingClientRect());
  expect(columns.at(-1)!.right).toBeGreaterThan(box.right - 30);
});

inBrowser("words at the pointer stay in the window", async () => {
  const { page, trouble } = await open("laptop", "", { viewport: { width: 640, height: 420 } });
  for (const view of ["disk", "file", "processes", "touch"]) {
    await go(page, `#${view}`);
    const canvas = page.locator(`[data-plot=${view}] canvas`);
    await picture(page, view);
    await canvas.evaluate((it) => it.scrollIntoView({ block: "center" }));
    const box = (await canvas.boundingBox())!;
    let seen = 0;
    for (let i = 0; i < 8; i++) {
      for (let j = 0; j < 8; j++) {
        const [x, y] = [box.x + ((i + 0.5) / 8) * box.width, box.y + ((j + 0.5) / 8) * box.height];
        if (y < 0 || y > 420) continue;
        await page.mouse.move(x, y);
        const tip = await page.evaluate(
          () => document.querySelector(".tip")?.getBoundingClientRect().toJSON() as DOMRect | undefined,
        );
        if (tip === undefined) continue;
        seen++;
        expect(
          Math.min(tip.left, tip.top, 640 - tip.right, 420 - tip.bottom),
          `${view} ${i} ${j}`,
        ).toBeGreaterThanOrEqual(0);
      }
    }
    expect(seen, view).toBeGreaterThan(3);
  }
  expect(trouble).toEqual([]);
});

inBrowser("back leads to where one came from, as it was", async () => {
  const { page, trouble } = await open("laptop", "#disk?ways=0&q=file:libxul");
  await picture(page, "disk");
  await page.keyboard.press("w");
  const hash = await address(page, /[?&]x=/);
  const near = await picture(page, "disk");
  await page.keyboard.press("5");
  await settled(page, "files");
  await page.locator("[data-table=tree] .treename.leaf a").first().click();
  await settled(page, "file");
  await page.goBack();
  await settled(page, "files");
  await page.goBack();
  await settled(page, "disk");
  expect(await page.evaluate(() => location.hash)).toBe(hash);
  expect(await page.locator("#filter").inputValue()).toBe("file:libxul");
  expect(await picture(page, "disk")).toBe(near);
  expect(trouble).toEqual([]);
});

inBrowser("an address that is given while the page is about to write its own is not lost", async () => {
  const { page, trouble } = await open("laptop", "#disk");
  await picture(page, "disk");
  // What the page puts off is done when the test says so.
  await page.evaluate(() => {
    const put: (() => void)[] = [];
    Object.assign(window, { put, setTimeout: (what: () => void) => put.push(what) });
  });
  await page.keyboard.press("w");
  await page.evaluate(() => new Promise((frame) => requestAnimationFrame(() => requestAnimationFrame(frame))));
  const written = await page.evaluate(() => {
    const { put } = window as unknown as { put: (() => void)[] };
    location.hash = "#files";
    // In the same task: "hashchange" has not come yet.
    for (const what of put) what();
    return put.length;
  });
  expect(written).toBeGreaterThan(0);
  await settled(page, "files");
  expect(await page.evaluate(() => location.hash)).toBe("#files");
  expect(trouble).toEqual([]);
});

inBrowser("it prints on white paper", async () => {
  const { page, trouble } = await open("laptop", "#disk", { colorScheme: "dark" });
  await picture(page, "disk");
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print" });
  await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
  expect(await page.locator(".views").isVisible()).toBe(false);
  for (const view of VIEWS) {
    await go(page, `#${view}`);
    expect(
      await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
      view,
    ).toBeLessThanOrEqual(0);
    expect(
      await page.locator("header .views, .filter input, .below button").filter({ visible: true }).count(),
      view,
    ).toBe(0);
  }
  expect((await page.pdf()).length).toBeGreaterThan(10_000);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  expect(trouble).toEqual([]);
});

inBrowser("events are unpacked by a worker; without one the page does it itself", async () => {
  const { page, trouble } = await open("laptop", "#disk");
  const picturesOf = async () => ({ picture: await picture(page, "disk"), workers: page.workers().length });
  const { picture: withWorker, workers } = await picturesOf();
  expect(workers).toBe(1);
  for (const forbid of [
    "delete window.Worker",
    "window.Worker = class { postMessage() {} " +
      "constructor() { setTimeout(() => this.onerror?.(new Event('error'))); } }",
  ]) {
    const context = await page
      .context()
      .browser()!
      .newContext({ viewport: { width: 1280, height: 800 } });
    await context.addInitScript(forbid);
    const other = await context.newPage();
    await other.goto(page.url());
    expect(await picture(other, "disk"), forbid).toBe(withWorker);
    expect(other.workers().length).toBe(0);
    await context.close();
  }
  expect(trouble).toEqual([]);
});

inBrowser("the page can be read before its events are there", async () => {
  const { page } = await open("laptop");
  // Without them nothing but the pictures is missing.
  const context = await page.context().browser()!.newContext();
  await context.addInitScript(() => {
    window.Worker = class {
      postMessage() {}
    } as unknown as typeof Worker;
  });
  const other = await context.newPage();
  await other.goto(page.url().replace(/#.*|$/, "#disk"));
  await other.waitForSelector("[data-view=disk]");
  expect(await other.locator("main").textContent()).toContain("Unpacking");
  await other.keyboard.press("1");
  expect(await column(other, "costs", "Waited")).toEqual(await column(page, "costs", "Waited"));
  await context.close();
});
