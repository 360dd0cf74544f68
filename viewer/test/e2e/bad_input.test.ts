// Names that try to get out, and recordings that lack what a view wants.

import { expect } from "vitest";
import { VIEWS } from "../../src/logic/address.ts";
import { browserOfTests, documentOf, go, inBrowser, settled } from "./browser.ts";

const { open } = browserOfTests();

inBrowser("names are shown and never executed", async () => {
  const { page, trouble } = await open("hostile");
  for (const view of [
    ...VIEWS,
    "files?shape=table",
    "files?q=script",
    "touch?tfsort=name&q=function:script",
    `touch?by=function&file=${encodeURIComponent(documentOf("hostile").traces[0].report.files[1].path)}`,
  ]) {
    await go(page, `#${view}`);
    expect(await page.evaluate(() => "hurt" in window), view).toBe(false);
    expect(await page.locator("main script, main img, main b, main i").count(), view).toBe(0);
  }
  expect(await page.title()).toBe("How </script><script>alert(1)</script> starts · thaw");
  expect(trouble).toEqual([]);
});

inBrowser("every odd name is there, with what cannot be seen made visible", async () => {
  const { page, trouble } = await open("hostile", "#files?shape=table");
  const paths = documentOf("hostile")
    .traces[0].report.files.slice(0, 8)
    .map((file) => file.path);
  expect(paths.some((path) => path.includes("\n")) && paths.some((path) => path.includes("\u{fffd}"))).toBe(true);
  const raw = await page.$$eval("[data-table=files] tbody th", (list) =>
    list.map((it) => it.getAttribute("data-value")),
  );
  for (const path of paths) expect(raw).toContain(path);
  const text = (await page.locator("[data-table=files]").textContent()) ?? "";
  for (const seen of [
    "</script><script>window.hurt=1;alert(1)</script>",
    "new⟨\\n⟩line⟨\\t⟩and tab",
    "bad \u{fffd}\u{fffd} utf-8",
    "⟨U+202E⟩gnp.evil ⟨U+2028⟩⟨U+2029⟩",
    "\"quotes' and `ticks`",
  ])
    expect(text).toContain(seen);
  expect(trouble).toEqual([]);
});

inBrowser("an odd name can be filtered for, chosen and kept in the address", async () => {
  const path = documentOf("hostile").traces[0].report.files.find((file) => file.path.includes("\n"))!.path;
  const { page, trouble } = await open("hostile", `#file?file=${encodeURIComponent(path)}`);
  await page.waitForSelector("h2.filename");
  expect(await page.locator("h2.filename").textContent()).toContain("new⟨\\n⟩line");
  await page.evaluate(() => (location.hash = "#files?shape=table&q=%22%27%5C%3Cscript%3E"));
  await page.waitForSelector("[data-view=files]");
  expect(trouble).toEqual([]);
});

inBrowser.each([["empty"], ["no-trace"]])("%s: every view says what is missing", async (name) => {
  for (const view of VIEWS) {
    const { page, trouble } = await open(name, `#${view}`);
    await settled(page, view);
    const text = (await page.locator("main").textContent()) ?? "";
    expect(text.length, view).toBeGreaterThan(20);
    expect(await page.locator(".failed").count(), view).toBe(0);
    if (["disk", "file", "files", "processes"].includes(view)) expect(text, view).toMatch(/no trace/);
    if (view === "touch") expect(text).toMatch(/thaw touch -o ff\.thaw --app firefox-esr/);
    if (name === "empty" && view === "runs") expect(text).toMatch(/nothing to draw/);
    expect(trouble, view).toEqual([]);
  }
});

inBrowser("an address that makes no sense shows a view all the same", async () => {
  for (const hash of [
    "#%%%",
    "#disk?x=1e999~2&y=~&colour=none&device=9:9&show=",
    "#files?sort=nothing&open=%00",
    "#file?file=/does/not/exist&fx=5~1",
    "#processes?process=-1&pcolour=x&trace=99",
    "#runs?metric=none",
    "#touch?by=x&page=-7&tlist=page&tfsort=nothing&tsort=&tx=5~6&ty=1~2&program=9&file=%00",
    "#touch?page=1e99&tlist=lonely&by=function&file=/usr/lib/firefox-esr/libxul.so",
  ]) {
    const { page, trouble } = await open("laptop", hash);
    await settled(page, /^#([a-z]+)/.exec(hash)?.[1] ?? "answer");
    expect(await page.locator(".failed").count(), hash).toBe(0);
    expect(trouble, hash).toEqual([]);
  }
});

inBrowser("the page may not speak to anybody", async () => {
  const { page } = await open("laptop");
  const refused = await page.evaluate(async () => {
    const violations: string[] = [];
    document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
    await fetch("https://127.0.0.1:9/").catch(() => {});
    const image = new Image();
    image.src = "http://127.0.0.1:9/x.png";
    const script = document.createElement("script");
    script.textContent = "window.hurt = 1";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<p onclick='window.hurt = 1' id='trap'>x</p>");
    document.getElementById("trap")!.click();
    await new Promise((done) => setTimeout(done, 300));
    return { violations, hurt: "hurt" in window };
  });
  expect(refused.hurt).toBe(false);
  for (const directive of ["connect-src", "img-src", "script-src-elem", "script-src-attr"])
    expect(refused.violations).toContain(directive);
});
