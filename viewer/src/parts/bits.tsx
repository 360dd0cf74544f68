// Small parts that all views use.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { css, stateColour } from "../draw/palette.ts";
import { toggleWord } from "../filter.ts";
import { type Field, written } from "../logic/filter.ts";
import { harmless, splitPath } from "../logic/format.ts";
import { theme } from "../state.ts";
import type { CacheState } from "../types/document.ts";

/** Names and what they are. */
export function FactList({ rows }: { rows: readonly (readonly [string, string])[] }): JSX.Element {
  return (
    <dl class="facts">
      {rows.map(([name, text]) => (
        <>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </>
      ))}
    </dl>
  );
}

/** A path whose last part stays readable when there is no room. */
export function PathName({ path }: { path: string }): JSX.Element {
  const [folder, name] = splitPath(harmless(path));
  return (
    <span class="path" title={harmless(path)}>
      <span class="folder">{folder}</span>
      <span class="base">{name}</span>
    </span>
  );
}

export function Dot({ colour }: { colour: string }): JSX.Element {
  return <span class="dot" aria-hidden="true" style={{ background: colour }} />;
}

export function State({ state }: { state: CacheState }): JSX.Element {
  return (
    <span class="state">
      <Dot colour={css(stateColour(state, theme.value))} />
      {state}
    </span>
  );
}

/** A group of buttons of which one is pressed. */
export function Choice<Value extends string>(props: {
  label: string;
  values: readonly (readonly [Value, string])[];
  value: string;
  onChange: (value: Value) => void;
}): JSX.Element {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be one of the words in a line of tools.
    <span class="choice" role="group" aria-label={props.label || undefined}>
      <span class="what">{props.label}</span>
      {props.values.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </span>
  );
}

/** Buttons that are pressed or not, each by itself. */
export function Switches<Value extends string>(props: {
  label: string;
  values: readonly (readonly [Value, string])[];
  value: ReadonlySet<string>;
  onChange: (value: ReadonlySet<string>) => void;
}): JSX.Element {
  const flip = (value: string) => {
    const next = new Set(props.value);
    if (!next.delete(value)) next.add(value);
    props.onChange(next);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be one of the words in a line of tools.
    <span class="choice" role="group" aria-label={props.label || undefined}>
      <span class="what">{props.label}</span>
      {props.values.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={props.value.has(value)} onClick={() => flip(value)}>
          {text}
        </button>
      ))}
    </span>
  );
}

export interface LegendItem {
  readonly colour: string;
  readonly name: string;
  readonly figure: string;
  /** The word that a click puts into the filter. */
  readonly word: { readonly field: Field; readonly text: string } | null;
}

/** What the colours mean; a click filters. */
export function Legend({ items, label }: { items: readonly LegendItem[]; label: string }): JSX.Element {
  return (
    <ul class="legend" aria-label={label}>
      {items.map((item) => {
        const name = item.name.includes("/") ? <PathName path={item.name} /> : harmless(item.name);
        const inner = (
          <>
            <Dot colour={item.colour} />
            <span class="name">{name}</span> <span class="figure">{item.figure}</span>
          </>
        );
        const { word } = item;
        return (
          <li key={item.name}>
            {word === null ? (
              <span class="item">{inner}</span>
            ) : (
              <button
                type="button"
                class="item"
                title={`filter: ${harmless(item.word?.text ?? "")}`}
                onClick={() => toggleWord(written(word.field, word.text))}
              >
                {inner}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** A box with a heading. */
export function Section(props: {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}): JSX.Element {
  return (
    <section class={props.class}>
      <h2>{props.title}</h2>
      {props.note !== undefined && <p class="note">{props.note}</p>}
      {props.children}
    </section>
  );
}

/** Size, read and useful bytes of a part, one on the other; `most` is as wide as the column. */
export function ThreeBars({
  size,
  read,
  useful,
  most,
}: {
  size: number;
  read: number;
  useful: number;
  most: number;
}): JSX.Element {
  const width = (value: number) => ({ width: `${(value / most) * 100}%` });
  return (
    <span class="three" aria-hidden="true">
      <span class="size" style={width(size)} />
      {read > 0 && <span class="read" style={width(read)} />}
      {useful > 0 && <span class="needed" style={width(Math.min(useful, size))} />}
    </span>
  );
}

/** The same data as a table, closed and not made until it is wanted. */
export function AsTable({ summary, children }: { summary: string; children: () => ComponentChildren }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="astable" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {open && children()}
    </details>
  );
}

/**
 * What takes too long to be made before a picture is drawn: it is made once that is seen. Until then there is what was
 * made before (`null` at first), and `fresh` says so. `of` is what it depends on.
 */
export function useLater<Made>(
  make: () => Made,
  of: readonly unknown[],
): { readonly made: Made | null; readonly fresh: boolean } {
  const [last, setLast] = useState<{ made: Made; of: readonly unknown[] } | null>(null);
  // Effects run behind the frame.
  useEffect(() => setLast({ made: make(), of }), of);
  return { made: last?.made ?? null, fresh: last?.of.every((it, i) => it === of[i]) ?? false };
}
