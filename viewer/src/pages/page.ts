// What a page is: its views with their titles, and what of the frame around them differs.

import type { JSX } from "preact";
import type { ViewName } from "../logic/address.ts";

/** A view, as its tab names it. */
export interface View {
  readonly title: string;
  readonly Content: () => JSX.Element | null;
}

export interface Page {
  /** Its views, the first one first. */
  readonly views: ReadonlyMap<ViewName, View>;
  /** What was measured, for the head of the page. */
  readonly program: string;
  /** What the empty filter box says. */
  readonly placeholder: string;
  /** Fields that words of the filter may name, for who cannot see the help. */
  readonly fields: string;
  /** The filter explained, for the help. */
  readonly filterHelp: JSX.Element;
  /** Unpacks what is behind the first look. */
  readonly follow: () => void;
  /** Whether the filter lets nothing pass; `false` while that is not known. */
  readonly matchesNothing: () => boolean;
  /** What may be meant by what is typed into the filter. */
  readonly suggestions?: () => readonly string[];
  /** Keys of this page alone, for the help. */
  readonly keys?: readonly (readonly [string, string])[];
  /** Whether the page did something at a key that nobody else took. */
  readonly onKey?: (key: string) => boolean;
}

/** Views in the order of their names. */
export function viewsOf<Name extends ViewName>(
  names: readonly Name[],
  views: Readonly<Record<Name, View>>,
): ReadonlyMap<ViewName, View> {
  return new Map(names.map((name) => [name, views[name]]));
}

/** The text of what the page embeds under this id; `null`: it has none. */
export const embedded = (id: string): string | null => document.getElementById(id)?.textContent ?? null;
