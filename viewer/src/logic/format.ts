// Figures as people read them; the same texts as the terminal's (app/cli/src/text/units.rs). Pure.

import type { Estimate, Interval } from "../types/document.ts";

/** A minus sign and a thin space cost no width where figures stand under each other. */
const NONE = "–";

function scaleOf(seconds: number): [number, string] {
  const size = Math.abs(seconds);
  if (size >= 0.9995 || size === 0) return [1, "s"];
  return size >= 0.9995e-3 ? [1e3, "ms"] : [1e6, "µs"];
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.9995 ? 3 : size < 99.995 ? 2 : 1);
}

/** `1.234 s`, `56.70 ms`, `890.0 µs`: four digits at most. */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const [scale, unit] = scaleOf(value);
  return `${digits(value * scale)} ${unit}`;
}

export const nanos = (value: number | null | undefined) => seconds(value == null ? null : value / 1e9);
export const micros = (value: number | null | undefined) => seconds(value == null ? null : value / 1e6);

/** `[1.210, 1.261]` in the unit that `seconds` gives `value`. */
export function intervalS(value: number | null, interval: Interval | null): string {
  if (interval === null || value === null) return "";
  const [scale] = scaleOf(value);
  return `[${digits(interval.low * scale)}, ${digits(interval.high * scale)}]`;
}

export function estimateS(estimate: Estimate): string {
  return `${seconds(estimate.value)} ${intervalS(estimate.value, estimate.interval)}`.trim();
}

function two(value: number): string {
  return value.toFixed(Math.abs(value) < 0.1 ? 3 : 2);
}

/** `2.71 [2.64, 2.80]` */
export function ratio(estimate: Estimate): string {
  if (estimate.value === null) return NONE;
  const { interval } = estimate;
  return interval === null
    ? two(estimate.value)
    : `${two(estimate.value)} [${two(interval.low)}, ${two(interval.high)}]`;
}

/** `+0.123 s [+0.100, +0.150]` */
export function differenceS(estimate: Estimate): string {
  if (estimate.value === null) return NONE;
  const { interval } = estimate;
  const widest =
    interval === null ? Math.abs(estimate.value) : Math.max(Math.abs(interval.low), Math.abs(interval.high));
  const [scale, unit] = scaleOf(widest);
  const signed = (value: number) => `${value < 0 ? "-" : "+"}${digits(Math.abs(value) * scale)}`;
  const tail = interval === null ? "" : ` [${signed(interval.low)}, ${signed(interval.high)}]`;
  return `${signed(estimate.value)} ${unit}${tail}`;
}

/** `+3.4 %` for 1.034. */
export function change(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return NONE;
  const percents = (value - 1) * 100;
  return `${percents < 0 ? "-" : "+"}${Math.abs(percents).toFixed(1)} %`;
}

/** `37 %`; `0.4 %` below one. */
export function percent(share: number | null): string {
  if (share === null || !Number.isFinite(share)) return NONE;
  const value = share * 100;
  const text = value !== 0 && Math.abs(value) < 1 ? value.toFixed(1) : value.toFixed(0);
  return `${text.replace(/^-(?=[0.]+$)/, "").replace("-", "−")} %`;
}

/** `6.2 times`, `23 times` */
export const times = (ratio: number): string => `${ratio < 9.95 ? ratio.toFixed(1) : count(ratio)} times`;

/** `1,894` */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `135.2 MB` */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size < 1e3) return `${Math.round(value)} B`;
  if (size < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  if (size < 1e9) return `${(value / 1e6).toFixed(1)} MB`;
  return size < 1e12 ? `${(value / 1e9).toFixed(2)} GB` : `${(value / 1e12).toFixed(2)} TB`;
}

/** `79.20 MiB`, as memory reports and about:memory have it. */
export function mebibytes(value: number): string {
  const [whole, rest] = Math.abs(value / 2 ** 20)
    .toFixed(2)
    .split(".");
  return `${value < 0 ? "-" : ""}${count(Number(whole))}.${rest} MiB`;
}

export function plural(value: number, one: string, many: string): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function pValue(p: number): string {
  return p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`;
}

/** `21 Nov 2026, 22:19 UTC` */
export function date(unixNs: number): string {
  const when = new Date(unixNs / 1e6);
  if (!Number.isFinite(when.getTime()) || unixNs <= 0) return NONE;
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][
    when.getUTCMonth()
  ];
  const two = (value: number) => value.toString().padStart(2, "0");
  const time = `${two(when.getUTCHours())}:${two(when.getUTCMinutes())} UTC`;
  return `${when.getUTCDate()} ${month} ${when.getUTCFullYear()}, ${time}`;
}

/**
 * A name that cannot disturb the text around it: control characters and those that turn the direction of text become
 * visible (`⟨\n⟩`, `⟨U+202E⟩`).
 */
export function harmless(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (letter) => {
    const code = letter.charCodeAt(0);
    const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
    if (short !== undefined) return `⟨${short}⟩`;
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A path's folder (with its slash) and its last part. */
export function splitPath(path: string): [string, string] {
  const slash = path.lastIndexOf("/", path.length - 2);
  return slash < 0 ? ["", path] : [path.slice(0, slash + 1), path.slice(slash + 1)];
}

/** How a command line is typed, near enough to be read. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** One cell of a table for the clipboard: no tab or line break, and nothing that a spreadsheet takes for a formula. */
export function tsvCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const flat = value.replace(/[\t\r\n]+/g, " ");
  return /^[=+\-@]/.test(flat) ? `'${flat}` : flat;
}

/** Rows as tab-separated text with a head. */
export function tsv(head: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  return [head, ...rows].map((row) => `${row.map(tsvCell).join("\t")}\n`).join("");
}

/** A change with its sign, `text` of its size. */
export const signed = (value: number, text: (value: number) => string): string =>
  `${value < 0 ? "−" : value > 0 ? "+" : ""}${text(Math.abs(value))}`;
