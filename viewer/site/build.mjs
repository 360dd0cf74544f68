// The documents as a site that needs no server and no network: node build.mjs OUT THAW
//
// docs/README.md is the index: its parts are the parts of the navigation, its links their pages, in that order. The
// pages of the verbs are made from what the program THAW says by `--help`. The same sources make the same bytes.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import MiniSearch from "minisearch";
import { escaped, html, pictureOf, read, sections } from "./pages.mjs";
import { SEARCHED } from "./searched.js";
import { verbs } from "./verbs.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../..");
const INDEX = "docs/README.md";
const [OUT, THAW] = process.argv.slice(2);
if (THAW === undefined) throw new Error("usage: node build.mjs OUT THAW");

/** Everything below docs/ that is Markdown. */
const documents = readdirSync(join(ROOT, "docs"), { recursive: true })
  .filter((name) => name.endsWith(".md"))
  .map((name) => join("docs", name))
  .sort();
/** Where a source lies in the site. */
const placeOf = (source) => {
  if (source === INDEX) return "index.html";
  if (source.startsWith("docs/")) return source.replace(/^docs\//, "").replace(/\.md$/, ".html");
  return join("project", `${source.replace(/\/?README\.md$/, "").replace(/\.md$/, "") || "readme"}.html`).toLowerCase();
};

function refuse(reasons) {
  console.error(`The site is not made: these documents are not right.\n${reasons.join("\n")}`);
  process.exit(1);
}

/** Each part of the index with the sources that it links to, in its order. */
function partsOf(index) {
  const parts = [];
  const walk = (token) => {
    if (token.type === "heading" && token.depth === 2) parts.push({ name: token.text, sources: [] });
    if (token.type === "link" && parts.length > 0 && token.href.endsWith(".md"))
      parts.at(-1).sources.push(normalize(join("docs", token.href)));
    const below = [token.tokens, token.items, token.header, ...(token.rows ?? [])];
    for (const inner of below.flatMap((tokens) => tokens ?? [])) walk(inner);
  };
  for (const token of index.tokens) walk(token);
  return parts
    .map(({ name, sources }) => ({ name, sources: [...new Set(sources)] }))
    .filter((it) => it.sources.length > 0);
}

const index = read(INDEX, readFileSync(join(ROOT, INDEX), "utf8"));
const parts = partsOf(index);
const named = new Set(parts.flatMap(({ sources }) => sources));
const broken = documents.filter((it) => it !== INDEX && !named.has(it)).map((it) => `${it}: is in no part of ${INDEX}`);
const missing = [...named].filter((it) => !existsSync(join(ROOT, it)));
if (missing.length > 0) refuse(missing.map((it) => `${INDEX}: there is no ${it}`));
const pages = new Map([[INDEX, index]]);
for (const source of named) pages.set(source, read(source, readFileSync(join(ROOT, source), "utf8")));
const options = verbs(THAW);
const overview = "docs/verbs/README.md";
pages.set(overview, read(overview, options.overview));
const below = options.pages.map(({ name, markdown }) => read(`docs/verbs/${name}.md`, markdown));
for (const page of below) pages.set(page.source, page);
parts.push({ name: "Verbs and options", sources: [overview, ...below.map(({ source }) => source)] });
const places = new Map([...pages.keys()].map((source) => [source, placeOf(source)]));
places.set(overview, "verbs/index.html");

const order = [INDEX, ...parts.flatMap(({ sources }) => sources)];
const link = (from, to, words, more = "") =>
  `<a href="${relative(dirname(places.get(from)), places.get(to))}"${more}>${escaped(words)}</a>`;

function navigation(source) {
  const of = ({ name, sources }) => {
    const items = sources.map((it) => {
      const here = it === source ? ' aria-current="page"' : "";
      return `<li>${link(source, it, pages.get(it).title, here)}</li>`;
    });
    const open = sources.includes(source) || source === INDEX ? " open" : "";
    return `<details${open}><summary>${escaped(name)}</summary><ul>${items.join("\n")}</ul></details>`;
  };
  return `<nav id="menu" aria-label="All pages">\n${parts.map(of).join("\n")}\n</nav>`;
}

function whole(source, body) {
  const page = pages.get(source);
  const at = order.indexOf(source);
  const [before, after] = [order[at - 1], order[at + 1]];
  const root = relative(dirname(places.get(source)), ".") || ".";
  const beside = [
    before === undefined ? "<span></span>" : link(source, before, `← ${pages.get(before).title}`, ' rel="prev"'),
    after === undefined ? "" : link(source, after, `${pages.get(after).title} →`, ' rel="next"'),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(page.title)}${source === INDEX ? "" : " · thaw"}</title>
<link rel="stylesheet" href="${root}/site.css">
<script src="${root}/site.js" data-root="${root}" defer></script>
</head>
<body>
<a class="skip" href="#text">To the text</a>
<header>
${link(source, INDEX, "thaw", ' class="home"')}<div id="search" role="search"></div>
<a class="menu" href="#menu">Menu</a>
</header>
<main id="text">
${body}<footer>${beside.join("\n")}</footer>
</main>
${navigation(source)}
</body>
</html>
`;
}

const copied = new Set();
const written = new Map();
for (const source of order)
  written.set(
    places.get(source),
    whole(source, html(pages.get(source), { root: ROOT, places, pages, copied, broken })),
  );
if (broken.length > 0) refuse(broken);
const search = new MiniSearch(SEARCHED);
search.addAll(
  order.flatMap((source) =>
    sections(pages.get(source)).map(({ anchor, heading, text }) => ({
      id: `${places.get(source)}#${anchor}`,
      title: pages.get(source).title,
      heading,
      text,
    })),
  ),
);
written.set("index.js", `thawSearch(${JSON.stringify(JSON.stringify(search))});\n`);
written.set("site.css", readFileSync(join(HERE, "site.css")));
const { outputFiles } = await build({
  absWorkingDir: HERE,
  entryPoints: ["search.js"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  write: false,
});
written.set("site.js", outputFiles[0].contents);
for (const target of copied) written.set(pictureOf(target), readFileSync(join(ROOT, target)));

// Only what such a run wrote is taken away.
rmSync(OUT, { recursive: true, force: true });
for (const [name, content] of written) {
  mkdirSync(dirname(join(OUT, name)), { recursive: true });
  writeFileSync(join(OUT, name), content);
}
console.log(`${join(OUT, "index.html")}: ${order.length} pages, ${copied.size} pictures`);
