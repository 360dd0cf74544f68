// The documents as pages: anchors, links, and help texts that become Markdown.

import { join } from "node:path";
import { expect, test } from "vitest";
import { html, read, sections } from "../../site/pages.mjs";
import { entries, parsed } from "../../site/verbs.mjs";

const ROOT = join(import.meta.dirname, "../../..");
const OTHER = read(
  "docs/other.md",
  '# Other\n\n## Two words, `code`\n\n## Two words, code\n\nAt <a id="place"></a> it.\n',
);

function shown(text: string): { body: string; broken: string[]; copied: Set<string> } {
  const page = read("docs/how-to/page.md", text);
  const pages = new Map([page, OTHER].map((it) => [it.source, it]));
  const places = new Map(
    [...pages.keys()].map((source) => [source, source.replace("docs/", "").replace(".md", ".html")]),
  );
  const [broken, copied]: [string[], Set<string>] = [[], new Set()];
  return { body: html(page, { root: ROOT, places, pages, broken, copied }), broken, copied };
}

test("headings have the anchors of a forge, equal ones are counted", () => {
  expect([...OTHER.ids]).toEqual(["other", "two-words-code", "two-words-code-1", "place"]);
  expect(() => read("docs/none.md", "no heading")).toThrow("docs/none.md");
});

test("links lead to pages and headings; into the source they are words", () => {
  const { body, broken } = shown(
    "# P\n\n[a](../other.md#two-words-code) [b](#p) [c](../../Makefile) [d](https://a.example)",
  );
  expect(broken).toEqual([]);
  expect(body).toContain('<a href="../other.html#two-words-code">a</a>');
  expect(body).toContain('<a href="#p">b</a>');
  expect(body).toContain('<span class="source" title="In the source: ../../Makefile">c</span>');
  expect(body).toContain('<a href="https://a.example">d</a>');
});

test("what leads nowhere is named", () => {
  const { broken } = shown("# P\n\n[a](../none.md) [b](../other.md#none) [c](#none) ![d](none.svg)");
  expect(broken).toHaveLength(4);
  expect(broken[0]).toBe("docs/how-to/page.md: ../none.md: there is no docs/none.md");
  expect(broken[1]).toBe("docs/how-to/page.md: ../other.md#none: docs/other.md has no heading #none");
});

test("marks of HTML are text, but for places", () => {
  const { body } = shown(
    '# P\n\nA <b onclick="x()">bold</b> <a id="here"></a>word & `<FILE>`.\n\n<script>x()</script>\n',
  );
  expect(body).not.toMatch(/<b |<script/);
  expect(body).toContain('<a id="here"></a>word &amp; <code class="whole">&lt;FILE&gt;</code>');
});

test("sections have the words of paragraphs, lists, tables and code", () => {
  const page = read(
    "docs/p.md",
    "# P\n\none *two*\n\n## Q\n\n- three\n  - four\n\n| five |\n|---|\n| six |\n\n```sh\nseven\n```\n",
  );
  expect(sections(page).map(({ anchor, text }) => `${anchor}: ${text}`)).toEqual([
    "p: one two",
    "q: three four five six seven",
  ]);
});

const HELP = `What is it?

It is
one thing.

Usage: thaw a [OPTIONS] FILE
       thaw a --all

Arguments:
  <FILE>
          The file

Options:
  -o, --output <FILE>
          Where it goes,
          as a file

          Possible values:
          - one: The first
            of them
          - two: The second

  -h, --help
          Print help

Examples:
  thaw a b
`;

test("a help text has its parts", () => {
  const { about, usage, parts } = parsed(HELP);
  expect(about).toEqual(["What is it?", "It is one thing."]);
  expect(usage).toBe("thaw a [OPTIONS] FILE\nthaw a --all");
  expect(parts.map(({ heading }) => heading)).toEqual(["Arguments", "Options", "Examples"]);
  expect(entries(parts[1].lines)).toEqual([
    {
      name: "-o, --output <FILE>",
      about: ["Where it goes, as a file", "Possible values:", "- one: The first of them", "- two: The second"],
    },
    { name: "-h, --help", about: ["Print help"] },
  ]);
  expect(() => parsed("nothing")).toThrow("no usage");
});

test("entries of one line have their words beside them", () => {
  expect(entries(["  run     Runs it", "          and more", "  help    Helps"])).toEqual([
    { name: "run", about: ["Runs it and more"] },
    { name: "help", about: ["Helps"] },
  ]);
});
