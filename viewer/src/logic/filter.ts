// The filter box that all views share. Pure.
//
// Words are joined by "and"; a word with a leading "-" excludes; `file:`, `process:`, `cause:`, `owner:` and
// `function:` look at one field, a bare word at all of them. Upper and lower case are the same.

import { CAUSES, type Requests, type Touches } from "./events.ts";

/** The fields that a word can look at. */
export type Field = "file" | "process" | "cause" | "owner" | "function";

/** One word of the filter box. */
export interface Term {
  readonly field: Field | null;
  readonly text: string;
  readonly exclude: boolean;
}

export const FIELDS: readonly Field[] = ["file", "process", "cause", "owner", "function"];

/** One bit of an integer for each word; more words than that are left out. */
export const MOST_TERMS = 30;

/** Reads what was typed. Quotes keep blanks together: `file:"my file"`. */
export function parseFilter(typed: string): Term[] {
  const terms: Term[] = [];
  for (const match of typed.matchAll(/(-)?(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi)) {
    const name = match[2]?.toLowerCase();
    const field = FIELDS.find((candidate) => candidate === name) ?? null;
    const body = match[3] ?? match[4] ?? "";
    // An unknown `name:` is part of the text: paths may hold colons.
    const text = field === null && match[2] !== undefined ? `${match[2]}:${body}` : body;
    if (text !== "") terms.push({ field, text: text.toLowerCase(), exclude: match[1] === "-" });
  }
  return terms.slice(0, MOST_TERMS);
}

/** The words that say something where things have these fields; a word about another field says nothing there. */
export function termsAbout(terms: readonly Term[], fields: readonly Field[]): Term[] {
  return terms.filter((term) => term.field === null || fields.includes(term.field));
}

/** A word as it is typed: quoted where it must be. */
export function written(field: Field, text: string, exclude = false): string {
  const plain = text.replaceAll('"', " ").trim();
  const quoted = /\s/.test(plain) ? `"${plain}"` : plain;
  return `${exclude ? "-" : ""}${field}:${quoted}`;
}

/** What a thing to be filtered says about itself; fields that it lacks are left out. */
export type Subject = Partial<Record<Field, string>>;

/** Whether a subject passes all terms. A term about a field that the subject lacks does not match. */
export function passes(terms: readonly Term[], subject: Subject): boolean {
  return terms.every((term) => matches(term, subject) !== term.exclude);
}

function matches(term: Term, subject: Subject): boolean {
  const fields = term.field === null ? FIELDS : [term.field];
  return fields.some((field) => subject[field]?.toLowerCase().includes(term.text) ?? false);
}

/** What can be asked about the parts of an event; made once per trace. */
export interface Names {
  /** By line of the report's files. */
  readonly files: readonly { readonly path: string; readonly owner: string }[];
  /** By line of the report's processes plus 1; 0 is other programs; one behind the last is unknown. */
  readonly processes: readonly string[];
}

/**
 * A filter made ready for a million events: which words each file, process and cause matches, one bit a word.
 * An event passes if every word that includes has its bit in one of its parts and no word that excludes has.
 */
export interface Sieve {
  readonly files: Uint32Array;
  readonly noFile: number;
  readonly processes: Uint32Array;
  readonly causes: Uint32Array;
  readonly all: number;
  readonly exclude: number;
}

export function sieveOf(terms: readonly Term[], names: Names): Sieve {
  const bits = (subject: Subject) => terms.reduce((sum, term, i) => (matches(term, subject) ? sum | (1 << i) : sum), 0);
  return {
    files: Uint32Array.from(names.files, (file) => bits({ file: file.path, owner: file.owner })),
    noFile: 0,
    processes: Uint32Array.from(names.processes, (process) => bits({ process })),
    causes: Uint32Array.from(CAUSES, (cause) => bits({ cause })),
    all: terms.reduce((sum, _, i) => sum | (1 << i), 0),
    exclude: terms.reduce((sum, term, i) => (term.exclude ? sum | (1 << i) : sum), 0),
  };
}

/** One byte per request: 1 passes. */
export function sieveRequests(sieve: Sieve, requests: Requests): Uint8Array {
  const { processes, causes, all, exclude } = sieve;
  // Requests count their files from 1.
  const files = new Uint32Array(sieve.files.length + 1);
  files.set(sieve.files, 1);
  files[0] = sieve.noFile;
  const { file, process, cause, count } = requests;
  const shown = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const bits = files[file[i]] | processes[process[i]] | causes[cause[i]];
    shown[i] = ((bits ^ exclude) & all) === all ? 1 : 0;
  }
  return shown;
}

/** One byte per fill or ask: 1 passes. `kinds` maps `how` to a cause. */
export function sieveTouches(sieve: Sieve, touches: Touches, kinds: readonly number[]): Uint8Array {
  const { files, processes, all, exclude } = sieve;
  const causes = Uint32Array.from(kinds, (cause) => sieve.causes[cause]);
  const { file, process, how, count } = touches;
  const shown = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const bits = files[file[i]] | processes[process[i]] | causes[how[i]];
    shown[i] = ((bits ^ exclude) & all) === all ? 1 : 0;
  }
  return shown;
}

/** Fills carry causes; reads count as the cause `read`, faults as `fault`. */
export const FILL_CAUSES = [0, 1, 2, 3, 4, 5] as const;
export const ASK_CAUSES = [0, 1, 1] as const;
