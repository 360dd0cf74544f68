// The form of the sources: no circles of modules, walls between the folders, no line that nobody can read.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { circles, type Graph, graphOf } from "./graph.ts";

const VIEWER = join(import.meta.dirname, "../..");
const SRC = join(VIEWER, "src");
const COLUMNS = 120;

/** What each part of the page may import besides itself; the longest matching name counts. */
const WALLS: Readonly<Record<string, readonly string[]>> = {
  "logic/": [],
  "draw/": ["logic/"],
  "worker.ts": ["logic/"],
  "unpacker.ts": ["logic/"],
  "state.ts": ["logic/"],
  "filter.ts": ["logic/", "state.ts"],
  "keys.ts": ["logic/", "draw/", "state.ts", "filter.ts"],
  "parts/": ["logic/", "draw/", "state.ts", "filter.ts"],
  "pages/": ["logic/", "draw/", "parts/", "state.ts", "filter.ts", "unpacker.ts"],
  "pages/page.ts": [],
  "pages/shared/": ["logic/", "draw/", "parts/", "state.ts", "filter.ts"],
  "pages/trace/": ["pages/", "pages/page.ts", "pages/shared/"],
  "pages/touch/": ["pages/", "pages/page.ts", "pages/shared/"],
  "pages/start/": ["pages/", "pages/page.ts", "pages/shared/", "pages/trace/", "pages/touch/"],
  "pages/heap/": ["pages/", "pages/page.ts"],
  "pages/memory/": ["pages/", "pages/page.ts"],
  "pages/timeline/": ["pages/", "pages/page.ts"],
  "pages/why/": ["pages/", "pages/page.ts"],
  "frame.tsx": ["logic/", "parts/", "state.ts", "filter.ts", "keys.ts", "pages/page.ts"],
  "main.tsx": ["frame.tsx", "keys.ts", "state.ts", "draw/", "pages/page.ts"].concat(
    ["start", "heap", "memory", "timeline", "why"].map((name) => `pages/${name}/`),
  ),
  "page.ts": ["main.tsx"],
  "types/": [],
};
const NAMES = Object.keys(WALLS).sort((a, b) => b.length - a.length);
const partOf = (path: string): string | undefined => NAMES.find((name) => path.startsWith(name));
/** `pages/` in a list stands for all that pages may import. */
const allowedFor = (part: string): string[] =>
  WALLS[part].flatMap((name) => (name === "pages/" ? WALLS[name] : [name]));

test("no modules import each other in a circle", async () => {
  const found = circles(await graphOf(SRC)).map((circle) => circle.join(", "));
  expect(
    found,
    "These modules need each other. Move what both need into a module below them (pure: logic/; of one page: its " +
      "state.ts or parts.tsx), or hand it over as a value.",
  ).toEqual([]);
});

test("a circle is found, and a chain is none", () => {
  const chain: Graph = new Map([
    ["a", ["b"]],
    ["b", ["c"]],
    ["c", []],
  ]);
  expect(circles(chain)).toEqual([]);
  expect(circles(new Map([...chain, ["c", ["a"]], ["d", ["d"]]]))).toEqual([["a", "b", "c"], ["d"]]);
});

test("no part of the page imports what stands above it", async () => {
  const graph = await graphOf(SRC);
  expect([...graph.keys()].filter((path) => partOf(path) === undefined)).toEqual([]);
  const over = [...graph].flatMap(([path, imports]) => {
    const part = partOf(path)!;
    return imports
      .filter((to) => partOf(to) !== part && !allowedFor(part).includes(partOf(to)!))
      .map((to) => `${path} imports ${to}`);
  });
  expect(
    over,
    "A page knows no other page, drawing knows no state, logic knows logic alone: hand over values, or move what " +
      "both need to where the WALLS of this test let both reach it.",
  ).toEqual([]);
});

test("no line is wider than a page", () => {
  const folders = ["src", "test", "site"].flatMap((folder) =>
    readdirSync(join(VIEWER, folder), { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)),
  );
  const files = [...folders, ...readdirSync(VIEWER)].filter((path) => /\.(tsx?|m?js)$/.test(path));
  const wide = files.flatMap((path) =>
    readFileSync(join(VIEWER, path), "utf8")
      .split("\n")
      .flatMap((line, index) => ([...line].length > COLUMNS ? [`${path}:${index + 1}`] : [])),
  );
  expect(wide, `Over ${COLUMNS} columns. The formatter breaks code; break comments and texts by hand.`).toEqual([]);
});

test("no two values have one name in the address: pages do not know each other, the bundle has them all", () => {
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path));
  const names = files.flatMap((path) =>
    [...readFileSync(join(SRC, path), "utf8").matchAll(/\bkept(?:Range)?\(\s*"([^"]*)"/g)].map((found) => found[1]),
  );
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});
