// Pictures of every view, light and dark, for the documents and for looking at: node screens.mjs [--whole] PAGE.html
// FOLDER [WIDTH HEIGHT [SCALE]]

import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const words = process.argv.slice(2).filter((word) => word !== "--whole");
const whole = words.length < process.argv.length - 2;
const [path, folder, width = "1280", height = "800", scale = "1"] = words;
if (folder === undefined) throw new Error("usage: node screens.mjs [--whole] PAGE.html FOLDER [WIDTH HEIGHT [SCALE]]");
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
for (const colorScheme of ["light", "dark"]) {
  const context = await browser.newContext({
    viewport: { width: Number(width), height: Number(height) },
    deviceScaleFactor: Number(scale),
    colorScheme,
  });
  const first = await context.newPage();
  await first.goto(pathToFileURL(path).href);
  const views = await first.locator("[role=tab]").evaluateAll((tabs) => tabs.map((tab) => tab.id.replace("tab-", "")));
  await first.close();
  for (const view of views) {
    const page = await context.newPage();
    await page.goto(`${pathToFileURL(path).href}#${view}`);
    await page.waitForTimeout(1200);
    await page.screenshot({
      path: join(folder, `${basename(path, ".html")}-${view}-${colorScheme}.png`),
      fullPage: whole,
    });
    await page.close();
  }
}
await browser.close();
