// What the views of events share.

import type { JSX } from "preact";
import { css, otherColour, RANK_COUNT, rankColour } from "../../draw/palette.ts";
import { count, harmless, nanos, percent, plural } from "../../logic/format.ts";
import { moment } from "../../logic/moments.ts";
import { objectName, type PathStep, shortened, sourceOf, type Timeline, typeName } from "../../logic/timeline.ts";
import { Dot } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import type { PathClass } from "../../types/timeline.ts";
import { CLASSES, pathColour } from "./pathcolours.ts";
import { showObject, sourcePattern, timeline, timelineDamaged, typesBySize, zero } from "./state.ts";

/** What stands instead of a view while there is nothing to show; `null`: there is. */
export function timelineWaiting(): JSX.Element | null {
  if (timelineDamaged.value !== null)
    return (
      <p class="failed" role="alert">
        This page cannot be shown: {timelineDamaged.value}.
      </p>
    );
  const of = timeline.value;
  if (of === null) return <p class="none">Unpacking the events …</p>;
  if (of.intervals.count === 0 && of.moments.count === 0)
    return <p class="none">The file holds no event: its program wrote none, or events were switched off.</p>;
  return null;
}

/** A name as it is shown: short, and harmless. */
export const shownName = (name: string, most = 120): string => harmless(shortened(name, most));

/** A point of time, relative to the zero time. */
export const relative = (at: number): string => moment(at - zero.value);

/** An object that leads to its own view. */
export function ObjectLink({ of, object }: { of: Timeline; object: number }): JSX.Element {
  const name = objectName(of, object);
  return (
    <button type="button" class="plain objectlink" title={shownName(name, 1000)} onClick={() => showObject(object)}>
      {shownName(name)}
    </button>
  );
}

/** A place in the source; a link, where a pattern says how to get there. */
export function Source({ of, place }: { of: Timeline; place: number }): JSX.Element {
  const source = sourceOf(of, place);
  if (source === null) return <span class="soft">not known</span>;
  const text = `${shownName(source.file, 300)}:${source.line}`;
  const address = sourceAddress(sourcePattern.value, source.file, source.line);
  return address === null ? (
    <span class="functionname">{text}</span>
  ) : (
    <a class="functionname" href={address} target="_blank" rel="noreferrer noopener">
      {text}
    </a>
  );
}

/** Where links may lead: pages and editors, never into a script. */
const SCHEMES = /^(https?|vscode|vscodium|idea|cursor|zed):/i;

/** The address of a place; `null`: no pattern, or one that leads nowhere. */
export function sourceAddress(pattern: string, file: string, line: number): string | null {
  if (!SCHEMES.test(pattern)) return null;
  const path = file.split("/").map(encodeURIComponent).join("/");
  return pattern.replaceAll("{file}", path).replaceAll("{line}", String(line));
}

/** The colours of the most frequent types. */
export function TypeLegend({ of }: { of: Timeline }): JSX.Element {
  const all = typesBySize.value;
  const shade = theme.value;
  return (
    <ul class="legend" aria-label="Colours">
      {all.slice(0, RANK_COUNT).map((type, rank) => (
        <li key={type}>
          <span class="item" title={shownName(typeName(of, type), 400)}>
            <Dot colour={css(rankColour(rank, shade))} />
            <span class="name">{shownName(typeName(of, type), 60)}</span>
          </span>
        </li>
      ))}
      {all.length > RANK_COUNT && (
        <li>
          <span class="item">
            <Dot colour={css(otherColour(shade))} />
            <span class="name">{plural(all.length - RANK_COUNT, "other type", "other types")}</span>
          </span>
        </li>
      )}
      <li>
        <span class="item soft">
          <span class="tapekey" aria-hidden="true" style={{ color: css(rankColour(0, shade)) }} />
          pale: waits, deep: is worked on, arrow: mark
        </span>
      </li>
    </ul>
  );
}

/** What of the events is missing, and whose they are. */
export function TimelineFacts({ of }: { of: Timeline }): JSX.Element {
  const { lost, damage, processes, is_calibrated, step_ns } = of.head;
  const missing = [
    [lost.events, "events had no room"],
    [lost.overwritten, "events were overwritten by later ones"],
    [lost.types, "types had no room"],
    [lost.texts_cut, "texts were cut"],
  ] as const;
  const names = processes.slice(0, 6).map((it) => `${shownName(it.program, 80)} (process ${it.pid})`);
  if (processes.length > 6) names.push(plural(processes.length - 6, "other process", "other processes"));
  const whose = names.length === 0 ? "process not known" : names.join(", ");
  const said = missing.filter(([number]) => number > 0);
  return (
    <>
      <p class="note">
        {whose}: {plural(of.head.events, "event", "events")}, {plural(of.objects.count, "object", "objects")},{" "}
        {plural(of.names.length, "type", "types")}, over {moment(of.end).replace(/^\+/, "")}.
      </p>
      {(said.length > 0 || damage.length > 0 || !is_calibrated || step_ns > 1) && (
        <ul class="warnings" data-part="missing">
          {said.map(([number, what]) => (
            <li key={what}>
              {count(number)} {what}
            </li>
          ))}
          {!is_calibrated && <li>The rate of the clock is not known: times are ticks, shown as if each were 1 ns.</li>}
          {step_ns > 1 && <li>Times are exact to {count(step_ns)} ns: the trace is too long for more.</li>}
          {damage.slice(0, 8).map((what, index) => (
            <li key={index}>{shownName(what, 400)}</li>
          ))}
          {damage.length > 8 && <li>and {count(damage.length - 8)} more: thaw timeline report prints them</li>}
        </ul>
      )}
    </>
  );
}

/** The colours of a path, with what each class of owners has of it. */
export function PathLegend({ path }: { path: readonly PathStep[] }): JSX.Element {
  const took = (step: PathStep) => step.to - step.from;
  const whole = path.reduce((sum, step) => sum + took(step), 0);
  return (
    <ul class="legend" aria-label="How the owner of each piece of the path is known" data-part="classes">
      {(Object.keys(CLASSES) as PathClass[]).map((name) => {
        const own = path.reduce((sum, step) => (step.class === name ? sum + took(step) : sum), 0);
        return (
          <li key={name}>
            <span class="item" title={CLASSES[name][1]}>
              <Dot colour={css(pathColour(name, theme.value))} />
              <span class="name">{name}</span>{" "}
              <span class="figure">
                {nanos(own)}, {percent(whole === 0 ? null : own / whole)}
              </span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}
