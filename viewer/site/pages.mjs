// Markdown to pages: headings with the anchors that forges give them, links that lead somewhere, text to search.

import { existsSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { Marked } from "marked";

export const escaped = (text) =>
  text.replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);

/** So many letters of code fit into a line of a phone. */
const UNBROKEN = 24;

/** Text without marks. */
const bare = (tokens) =>
  tokens.map((token) => (token.tokens === undefined ? (token.text ?? "") : bare(token.tokens))).join("");

/** The anchor of a heading, as forges make it. */
const slug = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const marked = new Marked();

/** A page that was read: its title, its headings with their anchors, its tokens. */
export function read(source, text) {
  const tokens = marked.lexer(text);
  const seen = new Map();
  const anchors = new Map();
  for (const token of tokens.filter(({ type }) => type === "heading")) {
    const name = slug(bare(token.tokens));
    const times = seen.get(name) ?? 0;
    seen.set(name, times + 1);
    anchors.set(token, times === 0 ? name : `${name}-${times}`);
  }
  const [title] = [...anchors.keys()].filter(({ depth }) => depth === 1);
  if (title === undefined) throw new Error(`${source}: has no heading of the first level`);
  const places = [...text.matchAll(/<a id="([\w-]+)"><\/a>/g)].map(([, name]) => name);
  return { source, tokens, anchors, ids: new Set([...anchors.values(), ...places]), title: bare(title.tokens) };
}

/** The sections of a page, for the search: what stands below each heading. */
export function sections(page) {
  const found = [];
  for (const token of page.tokens) {
    const anchor = page.anchors.get(token);
    if (anchor !== undefined) found.push({ anchor, heading: bare(token.tokens), text: "" });
    else if (found.length > 0) found.at(-1).text += ` ${said(token)}`;
  }
  return found.map((section) => ({ ...section, text: section.text.replace(/\s+/g, " ").trim() }));
}

/** All words of a token, those of tables and lists too. */
function said(token) {
  if (token.type === "table")
    return [token.header, ...token.rows]
      .flat()
      .map((cell) => bare(cell.tokens))
      .join(" ");
  if (token.type === "list") return token.items.flatMap((item) => item.tokens.map(said)).join(" ");
  return token.tokens === undefined ? (token.text ?? "") : token.tokens.map(said).join(" ");
}

/**
 * The page as HTML. `places` tells where each source lies in the site; `pages` are all that were read, for anchors;
 * `copied` gets the pictures that are shown; `broken` gets each link that leads nowhere.
 */
export function html(page, { root, places, pages, copied, broken }) {
  const here = places.get(page.source);
  /** Where a link leads: an address, or null for a file that only the source has. */
  const resolve = (href) => {
    if (/^(https?|mailto):/.test(href)) return href;
    const [path, anchor] = href.split("#");
    const target = path === "" ? page.source : normalize(join(dirname(page.source), path)).replace(/\/$/, "");
    const place = places.get(target);
    if (place === undefined) {
      if (!existsSync(join(root, target))) broken.push(`${page.source}: ${href}: there is no ${target}`);
      return null;
    }
    if (anchor !== undefined && !pages.get(target).ids.has(anchor))
      broken.push(`${page.source}: ${href}: ${target} has no heading #${anchor}`);
    const to = target === page.source && anchor !== undefined ? "" : relative(dirname(here), place);
    return anchor === undefined ? to : `${to}#${anchor}`;
  };
  const shown = new Marked({
    renderer: {
      heading(token) {
        const anchor = page.anchors.get(token);
        const words = this.parser.parseInline(token.tokens);
        const link = token.depth === 1 ? "" : ` <a class="anchor" href="#${anchor}" aria-label="This section">#</a>`;
        return `<h${token.depth} id="${anchor}">${words}${link}</h${token.depth}>\n`;
      },
      link({ href, tokens }) {
        const words = this.parser.parseInline(tokens);
        const to = resolve(href);
        return to === null
          ? `<span class="source" title="In the source: ${escaped(href)}">${words}</span>`
          : `<a href="${escaped(to)}">${words}</a>`;
      },
      image({ href, text }) {
        const target = normalize(join(dirname(page.source), href));
        if (existsSync(join(root, target))) copied.add(target);
        else broken.push(`${page.source}: ${href}: there is no ${target}`);
        const place = relative(dirname(here), pictureOf(target));
        return `<a href="${place}"><img src="${place}" alt="${escaped(text)}" loading="lazy"></a>`;
      },
      table(token) {
        const cells = (row, name) =>
          row.map((it) => `<${name}>${this.parser.parseInline(it.tokens)}</${name}>`).join("");
        const head = cells(token.header, "th");
        const body = token.rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("\n");
        return `<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>\n`;
      },
      code({ text, lang }) {
        return `<pre tabindex="0"${lang ? ` class="${escaped(lang)}"` : ""}><code>${escaped(text)}\n</code></pre>\n`;
      },
      // A word or an option is not broken at its hyphens.
      codespan({ text }) {
        return `<code${text.length <= UNBROKEN ? ' class="whole"' : ""}>${escaped(text)}</code>`;
      },
      // Places that are no headings; everything else is text.
      html: ({ text }) => (/^(<a id="[\w-]+">|<\/a>)$/.test(text) ? text : escaped(text)),
    },
  });
  return shown.parser(page.tokens);
}

/** Where a picture of the documents lies in the site. */
export const pictureOf = (target) => join("pictures", target.replace(/^docs\//, "").replaceAll("/", "-"));
