// What `thaw VERB --help` says, as Markdown: the pages of the options have the words of the help texts and no others.

import { execFileSync } from "node:child_process";

/** The parts of a help text: what it answers, how it is called, and each list under its heading. */
export function parsed(help) {
  const lines = help.split("\n");
  const usage = lines.findIndex((line) => line.startsWith("Usage:"));
  if (usage < 0) throw new Error(`no usage in this help text:\n${help}`);
  const end = lines.findIndex((line, at) => at > usage && line === "");
  const calls = lines.slice(usage, end < 0 ? undefined : end);
  const parts = [];
  for (const line of end < 0 ? [] : lines.slice(end)) {
    const heading = /^(\S.*):$/.exec(line)?.[1];
    if (heading !== undefined) parts.push({ heading, lines: [] });
    else if (parts.length > 0) parts.at(-1).lines.push(line);
    else if (line !== "") throw new Error(`before any heading of a help text: ${line}`);
  }
  return {
    about: paragraphs(lines.slice(0, usage)),
    usage: calls.map((line) => line.slice("Usage: ".length)).join("\n"),
    parts,
  };
}

/** Lines between empty ones, and items of lists, each as one. */
function paragraphs(lines) {
  const found = [""];
  for (const line of lines.map((it) => it.trim())) {
    if (line === "" || line.startsWith("- ")) found.push(line);
    else found.push(`${found.pop()} ${line}`.trim());
  }
  return found.filter((text) => text !== "");
}

/** What a list names, and what it says of each: `-o, --output <FILE>`, and its paragraphs. */
export function entries(lines) {
  const found = [];
  for (const line of lines) {
    // Words about an entry stand further right than its name.
    const name = /^ {2,6}(\S.*?)(?: {2,}(\S.*))?$/.exec(line);
    if (name !== null) found.push({ name: name[1], lines: [name[2] ?? ""] });
    else found.at(-1)?.lines.push(line);
  }
  return found.map(({ name, lines: about }) => ({ name, about: paragraphs(about) }));
}

/** Help's words in Markdown: what it would take for a mark is kept as it is, but for code in back quotes. */
const plain = (text) =>
  text
    .split(/(`[^`]*`)/)
    .map((piece, at) => (at % 2 === 1 ? piece : piece.replace(/[\\*_[\]<>#|~]/g, "\\$&")))
    .join("")
    .replace(/\bdocs\/([\w-]+)\.md\b/g, "[$1](../$1.md)");

const code = (text) => `\`${text}\``;
const block = (lines) => {
  const margin = Math.min(...lines.filter((line) => line.trim() !== "").map((line) => line.search(/\S/)));
  return `\`\`\`sh\n${lines
    .map((line) => line.slice(margin))
    .join("\n")
    .trim()}\n\`\`\``;
};

/** The headings whose lists name something; what stands below others is shown as it is. */
const AS_TYPED = new Set(["Examples", "Exit codes"]);

/** A paragraph, or an item of a list, within the item of an option. */
const within = (text) => (text.startsWith("- ") ? `\n  - ${plain(text.slice(2))}` : `\n\n  ${plain(text)}`);

function listed({ heading, lines }) {
  if (AS_TYPED.has(heading)) return `**${heading}**\n\n${block(lines)}`;
  const items = entries(lines)
    // Each verb has it.
    .filter(({ name }) => name !== "-h, --help")
    .map(({ name, about }) =>
      [`- ${code(name)}`, about.map(within).join("").trim()].filter((it) => it !== "").join("\\\n  "),
    );
  return items.length === 0 ? "" : `**${plain(heading)}**\n\n${items.join("\n")}`;
}

/** The options that all verbs have are told once. */
const OF_ALL = "For every verb";

/** A verb and all below it, as Markdown. */
function chapter(help, words, depth) {
  const { about, usage, parts } = parsed(help(words));
  const below = parts.filter(({ heading }) => heading === "Commands").flatMap(({ lines }) => questions(lines));
  const list = below.map(({ name, question }) => {
    const whole = [...words, name];
    return `- [thaw ${whole.join(" ")}](#thaw-${whole.join("-")}): ${plain(question)}`;
  });
  return [
    `${"#".repeat(depth)} thaw ${words.join(" ")}`,
    ...about.map(plain),
    block(usage.split("\n")),
    ...(list.length > 0 ? [list.join("\n")] : []),
    ...parts
      .filter(({ heading }) => heading !== "Commands" && heading !== OF_ALL)
      .map(listed)
      .filter((text) => text !== ""),
    ...below.map(({ name }) => chapter(help, [...words, name], depth + 1)),
  ].join("\n\n");
}

/** The verbs of a list, with what each answers; `help` is none that needs words. */
const questions = (lines) =>
  entries(lines)
    .filter(({ name }) => name !== "help")
    .map(({ name, about }) => ({ name, question: about.join(" ") }));

/** All verbs of this program, as Markdown: a page for each, and one that lists them with the options that all have. */
export function verbs(program) {
  const help = (words) => execFileSync(program, [...words, "--help"], { encoding: "utf8" });
  const { parts } = parsed(help([]));
  const part = (name) => parts.find(({ heading }) => heading === name);
  const all = questions(part("Commands").lines);
  const rows = all.map(({ name, question }) => `| [thaw ${name}](${name}.md) | ${plain(question)} |`);
  const overview = [
    "# All verbs and their options",
    "The words of `--help`, from the program itself.",
    `| verb | question |\n|---|---|\n${rows.join("\n")}`,
    ...[OF_ALL, "Exit codes"].map(part).map(listed),
  ];
  const pages = all.map(({ name }) => ({ name, markdown: `${chapter(help, [name], 1)}\n` }));
  return { overview: `${overview.join("\n\n")}\n`, pages };
}
