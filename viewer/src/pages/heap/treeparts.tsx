// What the tree and the difference of two trees share.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { css, otherColour, rankColour } from "../../draw/palette.ts";
import { toggleWord } from "../../filter.ts";
import { type Labels, nameOf, objectName, objectOf, type Tree, type TreeLine } from "../../logic/calltree.ts";
import { written } from "../../logic/filter.ts";
import { harmless } from "../../logic/format.ts";
import { Dot } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import { matches, objectRanks } from "./state.ts";

export const SHAPE_NAMES = [
  ["down", "top down"],
  ["up", "bottom up"],
  ["module", "by object"],
] as const;

export const OPENINGS = [
  ["2", "nothing"],
  ["0.2", "20 %"],
  ["0.05", "5 %"],
  ["0.01", "1 %"],
] as const;

/** The colour of an object, the same in all views. */
export function objectColour(object: number): string {
  const rank = objectRanks.value.indexOf(object);
  return css(rank < 0 ? otherColour(theme.value) : rankColour(rank, theme.value));
}

/** Which nodes somebody opened or closed by hand, as long as `about` stays the same. */
export function useFlipped(about: string): [ReadonlySet<string>, (key: string) => void] {
  const [state, setState] = useState<{ about: string; flipped: ReadonlySet<string> }>({ about, flipped: new Set() });
  const flipped = state.about === about ? state.flipped : new Set<string>();
  const flip = (key: string) => {
    const next = new Set(flipped);
    if (!next.delete(key)) next.add(key);
    setState({ about, flipped: next });
  };
  return [flipped, flip];
}

export function titleOf(names: Labels, label: number): string {
  const object = objectOf(names, label);
  return harmless(
    object < 0 ? nameOf(names, label) : `${nameOf(names, label)} (${objectName(names.frames.objects[object])})`,
  );
}

export function Label({ line, tree: grown, names }: { line: TreeLine; tree: Tree; names: Labels }): JSX.Element {
  const id = grown.label[line.node];
  const object = objectOf(names, id);
  const isFrame = id < names.frames.count;
  const name = nameOf(names, id);
  const file = object >= 0 ? names.frames.objects[object] : "";
  return (
    <span class={`treename ${matches.value[id] === 1 ? "match" : ""}`}>
      {object >= 0 && <Dot colour={objectColour(object)} />} {harmless(name)}
      {grown.cut[line.node] === 1 && " …"}
      {isFrame && file !== "" && !name.startsWith(`${file}+0x`) && <span class="soft of"> {harmless(file)}</span>}
    </span>
  );
}

/** Chooses the stacks of a function, or leaves them out; the same once more takes that back. */
function Narrow({ name }: { name: string }): JSX.Element {
  const [only, without] = [written("function", name), written("function", name, true)];
  return (
    <dd class="below">
      <button type="button" onClick={() => toggleWord(only)}>
        only stacks with it
      </button>
      <button type="button" onClick={() => toggleWord(without)}>
        stacks without it
      </button>
    </dd>
  );
}

/** All of a function's name, which a row may cut. */
export function Detail({ label, names }: { label: number; names: Labels }): JSX.Element | null {
  if (label >= names.frames.count) return null;
  const { frames } = names;
  const source = frames.source[label];
  return (
    <dl class="facts detail">
      <dt>function</dt>
      <dd class="functionname">{harmless(frames.names[label])}</dd>
      <dt>object</dt>
      <dd>{harmless(objectName(frames.objects[frames.object[label]]))}</dd>
      {source > 0 && (
        <>
          <dt>source</dt>
          <dd>{harmless(frames.sources[source - 1])}</dd>
        </>
      )}
      <dt>filter</dt>
      <Narrow name={frames.names[label]} />
    </dl>
  );
}
