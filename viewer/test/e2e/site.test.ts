// The documents as a site: every link, every width, the search, without a server.

import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inBrowser } from "./browser.ts";

const ROOT = join(import.meta.dirname, "../../..");
const THAW = process.env.THAW ?? join(ROOT, "target/debug/thaw");
const isBuilt = existsSync(THAW);
const ofSite = isBuilt ? test : test.skip;
const inSite = isBuilt ? inBrowser : test.skip;
if (!isBuilt && process.env.THAW_SKIP_LOG !== undefined)
  appendFileSync(process.env.THAW_SKIP_LOG, `the documents' site: ${THAW} is not built\n`);
const folder = mkdtempSync(join(tmpdir(), "thaw-site-"));
const SITE = join(folder, "site");
let browser: Browser | undefined;

function made(out: string): void {
  execFileSync(join(ROOT, "dev/site"), [out], {
    env: { ...process.env, THAW },
    stdio: ["ignore", "ignore", "inherit"],
  });
}

/** Names of all files of a site that end so. */
const named = (site: string, ending: string): string[] =>
  readdirSync(site, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .sort();

beforeAll(async () => {
  if (!isBuilt) return;
  made(SITE);
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  if (existsSync(executablePath))
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
});
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** A page of the site, and all that went wrong or went to the network. */
async function opened(name: string, options: BrowserContextOptions = {}): Promise<{ page: Page; trouble: string[] }> {
  const context = await browser!.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(0);
  const page = await context.newPage();
  const trouble: string[] = [];
  page.on("console", (message) => trouble.push(message.text()));
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(pathToFileURL(SITE).href)) trouble.push(request.url());
  });
  await page.goto(pathToFileURL(join(SITE, name)).href);
  return { page, trouble };
}

ofSite("every link, picture, script and anchor of the site is there", () => {
  const pages = new Map(named(SITE, ".html").map((name) => [name, readFileSync(join(SITE, name), "utf8")]));
  expect(pages.size).toBeGreaterThan(90);
  const ids = new Map(
    [...pages].map(([name, text]) => [name, new Set([...text.matchAll(/ id="([^"]+)"/g)].map((it) => it[1]))]),
  );
  const wrong: string[] = [];
  let seen = 0;
  for (const [name, text] of pages) {
    for (const [, what, address] of text.matchAll(/ (href|src)="([^"]*)"/g)) {
      seen += 1;
      if (/^https?:/.test(address)) {
        if (what === "src") wrong.push(`${name}: loads ${address}`);
        continue;
      }
      const [path, anchor] = address.split("#");
      const target = path === "" ? name : join(dirname(name), path);
      if (!existsSync(join(SITE, target))) wrong.push(`${name}: ${address}: no such file`);
      else if (anchor !== undefined && ids.get(target)?.has(anchor) !== true)
        wrong.push(`${name}: ${address}: no such place`);
    }
  }
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(5000);
});

ofSite("the same documents make the same bytes", () => {
  const again = join(folder, "again");
  made(again);
  const names = named(SITE, "");
  expect(named(again, "")).toEqual(names);
  for (const name of names.filter((it) => /\.\w+$/.test(it)))
    expect(readFileSync(join(again, name)).equals(readFileSync(join(SITE, name))), name).toBe(true);
});

ofSite("a directory that holds something else is left alone", () => {
  expect(() => made(join(ROOT, "docs"))).toThrow();
  expect(existsSync(join(ROOT, "docs/README.md"))).toBe(true);
});

inSite("a word that is typed finds its page, by keys alone", async () => {
  const { page, trouble } = await opened("explain/cold.html");
  await page.keyboard.press("/");
  await page.keyboard.type("cachestat boot");
  await page.locator("#search li a").first().waitFor();
  expect(await page.locator("#search li a").first().getAttribute("href")).toContain("cache-states.html");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/cache-states\.html#/);
  expect(await page.locator("h1").textContent()).toContain("The four cache states");
  // An option is found on the page of its verb.
  await page.keyboard.press("/");
  await page.keyboard.type("until-decided");
  await page.locator("#search li a[href*='verbs/gate.html']").first().waitFor();
  await page.keyboard.press("Escape");
  expect(await page.locator("#search ol").isHidden()).toBe(true);
  await page.keyboard.type("qqqqqqq");
  await page.locator("#search li", { hasText: "Nothing is found." }).waitFor();
  expect(trouble).toEqual([]);
});

ofSite("next leads through all pages, previous back", () => {
  const beside = (name: string, which: string): string | undefined => {
    const to = readFileSync(join(SITE, name), "utf8").match(new RegExp(`<a href="([^"]+)" rel="${which}"`))?.[1];
    return to === undefined ? undefined : join(dirname(name), to);
  };
  const way = ["index.html"];
  for (let to = beside(way[0], "next"); to !== undefined; to = beside(to, "next")) {
    expect(beside(to, "prev")).toBe(way.at(-1));
    way.push(to);
  }
  expect(way.sort()).toEqual(named(SITE, ".html"));
});

inSite("each page fits a phone, and shows its pictures", async () => {
  const { page, trouble } = await opened("index.html", { viewport: { width: 360, height: 700 } });
  for (const name of named(SITE, ".html")) {
    await page.goto(pathToFileURL(join(SITE, name)).href);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), name).toBeLessThanOrEqual(360);
    expect(await page.locator("nav [aria-current=page]").count(), name).toBe(name === "index.html" ? 0 : 1);
    const bad = await page.$$eval("main img", async (list) => {
      for (const image of list as HTMLImageElement[]) {
        image.loading = "eager";
        await image.decode();
      }
      return (list as HTMLImageElement[]).filter((it) => it.naturalWidth === 0 || it.alt === "").map((it) => it.src);
    });
    expect(bad, name).toEqual([]);
  }
  expect(trouble).toEqual([]);
});

inSite("the menu, the text and the colours follow the reader", async () => {
  const back = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const [light, dark] = [
    await opened("gates.html", { colorScheme: "light" }),
    await opened("gates.html", { colorScheme: "dark" }),
  ];
  expect(await back(light.page)).not.toBe(await back(dark.page));
  // Beside the text where there is room; else a link leads to it.
  const left = await light.page.locator("nav").boundingBox();
  expect(left!.x + left!.width).toBeLessThanOrEqual((await light.page.locator("main").boundingBox())!.x + 1);
  const phone = await opened("gates.html", { viewport: { width: 360, height: 700 } });
  await phone.page.locator("header .menu").click();
  await phone.page.waitForURL(/#menu$/);
  // Without scripts everything but the search is there.
  const { page } = await opened("index.html", { javaScriptEnabled: false });
  expect(await page.locator("#search input").count()).toBe(0);
  await page.locator("main a[href='how-to/ci-gate.html']").first().click();
  await page.waitForURL(/ci-gate\.html$/);
});

inSite("a checker of access finds nothing wrong, light and dark", async () => {
  const ace = readFileSync(createRequire(import.meta.url).resolve("accessibility-checker-engine/ace.js"), "utf8");
  for (const colorScheme of ["light", "dark"] as const) {
    for (const name of ["index.html", "verbs/gate.html", "explain/cold.html"]) {
      const { page } = await opened(name, { colorScheme });
      await page.evaluate(`${ace}; globalThis.ace = ace;`);
      const wrong = await page.evaluate(
        `new ace.Checker().check(document.documentElement, "WCAG_2_2").then(({ results }) => results
          .filter(({ value }) => value[0] === "VIOLATION" && value[1] === "FAIL")
          .map(({ ruleId, snippet }) => ruleId + ": " + snippet.slice(0, 160)))`,
      );
      expect(wrong, `${name}, ${colorScheme}`).toEqual([]);
    }
  }
});
