// Pages whose names try to get out: of an element, of an attribute, of their place in the line, of the table's cell.

import { readFileSync } from "node:fs";
import { deflateRawSync, inflateRawSync } from "node:zlib";

/** What names are made to be; the old name stays at the end, so that different names stay different. */
export const NAMES: readonly string[] = [
  "</script><script>window.hurt=1</script>",
  '<img src=x onerror="window.hurt=1">',
  "\"'`><b onmouseover=window.hurt=1 style=position:fixed;inset:0>",
  "\u202egnp.evil\u2066\u200f\u2028",
  "x".repeat(10_000),
  "bad \u{fffd}\u{fffd} utf-8 \n\t\u0007\u001b[31m",
  "javascript:window.hurt=1//",
  "=1+1",
];

/** Fields of the documents that hold what a stranger may have chosen; all others are thaw's own words. */
const STRANGE = new Set([
  "path",
  "comm",
  "exe",
  "name",
  "names",
  "variant_name",
  "before_name",
  "after_name",
  "argv",
  "command",
  "command_line",
  "cwd",
  "file",
  "module",
  "function",
  "description",
  "text",
  "hint",
  "because",
  "answer",
  "what",
  "title",
  "disk",
  "doubt",
  "before",
  "after",
  "build_id",
  "engine_note",
  "variant",
  "thread",
  "threads",
  "caller",
  "object",
]);
/** Words of thaw's in such fields. */
const OWN = new Set(["peak", "last"]);

function strange(old: string): string {
  if (OWN.has(old)) return old;
  let sum = 0;
  for (const letter of old) sum = (sum * 31 + letter.codePointAt(0)!) >>> 0;
  return `${NAMES[sum % NAMES.length]} ${old}`;
}

interface Texts {
  readonly count: number;
  readonly data: string;
}
const isTexts = (value: object): value is Texts => "count" in value && "data" in value && !("coding" in value);
const unpacked = ({ data }: Texts): string => inflateRawSync(Buffer.from(data, "base64")).toString();
const packed = (count: number, text: string): Texts => ({
  count,
  data: deflateRawSync(Buffer.from(text)).toString("base64"),
});

/** The same value with strange names; `key` is the field that it is in. */
function disguised(value: unknown, key: string): unknown {
  if (typeof value === "string") return STRANGE.has(key) ? strange(value) : value;
  if (Array.isArray(value)) return value.map((it) => disguised(it, key));
  if (typeof value !== "object" || value === null) return value;
  if (isTexts(value)) {
    const text = unpacked(value);
    // One JSON, or names with NUL between them.
    if (/^[[{]/.test(text) && value.count === 1) return packed(1, JSON.stringify(disguised(JSON.parse(text), "")));
    return packed(value.count, text.split("\0").map(strange).join("\0"));
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      key === "facts" ? disguisedFacts(inner) : disguised(inner, name),
    ]),
  );
}

const disguisedFacts = (facts: unknown): unknown =>
  typeof facts === "object" && facts !== null
    ? Object.fromEntries(Object.entries(facts).map(([name, text]) => [name, strange(String(text))]))
    : facts;

/** A page as thaw writes it, with strange names in all that it embeds. */
export function withStrangeNames(path: string): string {
  const html = readFileSync(path, "utf8");
  return html.replace(
    /(<script type="application\/json" id="thaw-[a-z]+">)(.*?)(<\/script>)/gs,
    (_, open: string, json: string, close: string) => {
      const text = JSON.stringify(disguised(JSON.parse(json), ""))
        .replaceAll("<", "\\u003c")
        .replaceAll("\u2028", "\\u2028")
        .replaceAll("\u2029", "\\u2029");
      return `${open}${text}${close}`;
    },
  );
}
