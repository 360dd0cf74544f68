// The map of a file's pages: what was read, what was touched, and when first.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import {
  mapColours,
  pageAt,
  paintBorder,
  paintBox,
  paintPages,
  rampColour,
  readColour,
  untimedColour,
} from "../../draw/pagemap.ts";
import { css, ground, mixed, pixel, type Theme } from "../../draw/palette.ts";
import { type Margins, Plot, type Size } from "../../draw/plot.tsx";
import type { Pixels } from "../../draw/raster.ts";
import { PAGE } from "../../logic/asked.ts";
import { bytes, count, harmless, micros, percent, plural } from "../../logic/format.ts";
import { bytesLabel, ticks } from "../../logic/ticks.ts";
import {
  type FunctionIndex,
  functionsOn,
  indexOf,
  type PageMap,
  pageMap,
  pagesOf,
  READ,
  type ShadeBy,
  sectionsOn,
  seenBy,
  shades,
  stateCounts,
  TOUCHED,
  type TouchedFile,
  type TouchedProgram,
} from "../../logic/touched.ts";
import { length, type Viewport } from "../../logic/view.ts";
import { Choice, Dot } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import type { TouchEngine, TouchSectionReport } from "../../types/document.ts";
import { chosenEngine, functionList, touchColour, touchPage, touchPart } from "./state.ts";

const MARGINS: Margins = { left: 62, right: 96, top: 8, bottom: 26 };
/** Functions, and sections, that a tip names. */
const MOST_NAMES = 6;
/** Sections that would take less room at this zoom, in square CSS pixels, have neither border nor name. */
const LEAST_AREA = 400;

interface MapProps {
  readonly program: TouchedProgram;
  readonly file: TouchedFile;
  /** One byte per function, 1 passes the filter; `null`: all do. */
  readonly shown: Uint8Array | null;
}

export function MapPart({ program, file, shown }: MapProps): JSX.Element {
  const { report } = file;
  if (report.kind !== "regular")
    return (
      <p class="note">
        A block device is as large as its disk: a map of it would be blank. The File view shows the place of its pages.
      </p>
    );
  const engine = chosenEngine(file);
  return <MapOf key={engine} program={program} file={file} shown={shown} engine={engine} />;
}

/** What a page is that the engine saw: what was read ahead is in memory too. */
const seenWord = (engine: TouchEngine | null): string => (engine === "probe" ? "in memory after the start" : "touched");

/** One byte per page: 1 holds a function that passes the filter; `null`: there is nothing to tell apart. */
function shownPages(file: TouchedFile, map: PageMap, shown: Uint8Array | null): Uint8Array | null {
  if (shown === null) return null;
  const pages = new Uint8Array(map.pages);
  shown.forEach((passes, i) => {
    if (passes === 1) pages.fill(1, ...pagesOf(file.functions, i));
  });
  return pages;
}

function MapOf({ program, file, shown, engine }: MapProps & { engine: TouchEngine | null }): JSX.Element {
  const shade = theme.value;
  const by = touchColour.value as ShadeBy;
  const map = useMemo(
    () => pageMap(file.report.size, file.read, engine === null ? null : seenBy(file, engine)),
    [file, engine],
  );
  const coloured = useMemo(() => shades(map, by), [map, by]);
  const inSight = useMemo(() => shownPages(file, map, shown), [file, map, shown]);
  const index = useMemo(() => indexOf(file.functions), [file]);
  const colours = useMemo(() => mapColours(shade), [shade]);
  const whole: Viewport = { x: { from: 0, to: map.columns }, y: { from: -map.rows, to: 0 } };
  const viewport = touchPart.of(whole);
  const { sections } = file.report;
  const marked = touchPage.value === "" ? -1 : Number(touchPage.value);
  const rowBytes = map.columns * PAGE;
  const paint = (to: Pixels, part: Viewport, perPixel: number) => {
    paintPages(to, map, coloured.shade, inSight, part, colours);
    const line = pixel(mixed(ground(shade).text, ground(shade).paper, 0.6));
    for (const section of bordered(sections, map, part, { width: to.width / perPixel, height: to.height / perPixel })) {
      paintBorder(to, map, Math.floor(section.offset / PAGE), part, Math.max(1, Math.round(perPixel)), line);
    }
    if (marked >= 0 && marked < map.pages)
      paintBox(to, map, marked, part, Math.round(2 * perPixel), pixel(shade === "dark" ? 0xff6b5e : 0xd4261a));
  };
  const pick = (found: number) => {
    touchPage.value = String(found);
    if (functionsOn(file.functions, index, found).length > 0) functionList.value = "page";
  };
  const unmark = () => {
    touchPage.value = "";
    functionList.value = "all";
  };
  const states = stateCounts(map);
  return (
    <>
      <figure>
        <figcaption>
          {map.pages * PAGE < file.report.size ? `the first ${count(map.pages)} pages` : "pages"} of the file,{" "}
          {count(map.columns)} a row ({bytes(rowBytes)})
          {coloured.to === 0 ? "" : `; coloured by the ${by} of the first ${engine === "function" ? "call" : "touch"}`}
          {sections.length > 1 ? "; lines are borders of ELF sections" : ""}
        </figcaption>
        <Plot
          name="touch"
          label={
            `Map of ${harmless(file.report.path)}: ${plural(map.pages, "page", "pages")}, ${count(states[TOUCHED])} ` +
            `${seenWord(engine)}, ${count(states[READ])} read and not that. ` +
            "The tables below hold its sections and functions."
          }
          theme={shade}
          whole={whole}
          smallest={{ x: Math.min(8, map.columns), y: Math.min(4, map.rows) }}
          viewport={viewport}
          onView={(part) => touchPart.show(part, whole)}
          margins={sections.length > 0 ? MARGINS : { ...MARGINS, right: 10 }}
          xTicks={(part, pixels) =>
            scaled(ticks({ from: part.x.from * PAGE, to: part.x.to * PAGE }, pixels, 90, plusLabel), 1 / PAGE)
          }
          yTicks={(part, pixels) =>
            scaled(
              ticks({ from: -part.y.to * rowBytes, to: -part.y.from * rowBytes }, pixels, 44, bytesLabel),
              -1 / rowBytes,
            )
          }
          axes="map"
          scene={[map, coloured, inSight, marked]}
          paint={paint}
          write={(context, part, size) => writeSections(context, part, size, sections, map, shade)}
          find={(part, size, x, y) => pageAt(map, part, size, x, y)}
          describe={(found) => (
            <PageTip program={program} file={file} map={map} index={index} found={found} word={seenWord(engine)} />
          )}
          onPick={pick}
        />
      </figure>
      <div class="legends tools">
        <MapLegend
          map={map}
          states={states}
          from={coloured.from}
          to={coloured.to}
          shade={shade}
          known={file.report.read !== null}
          word={seenWord(engine)}
        />
        {coloured.to > 0 && (
          <Choice
            label="shade by"
            value={by}
            values={[
              ["time", "time"],
              ["order", "order"],
            ]}
            onChange={(value) => (touchColour.value = value)}
          />
        )}
        {marked >= 0 && (
          <button type="button" onClick={unmark}>
            page at {bytes(marked * PAGE)}: unmark
          </button>
        )}
      </div>
    </>
  );
}

const plusLabel = (value: number, step: number) => (value === 0 ? "0" : `+${bytesLabel(value, step)}`);

const scaled = (list: ReturnType<typeof ticks>, by: number) =>
  list.map(({ value, label }) => ({ value: value * by, label }));

/** Sections that take room enough in sight to be told apart. */
function bordered(
  sections: readonly TouchSectionReport[],
  map: PageMap,
  part: Viewport,
  size: Size,
): TouchSectionReport[] {
  const cell = (size.width / length(part.x)) * (size.height / length(part.y));
  return sections.filter((section) => (section.size / PAGE) * cell >= LEAST_AREA && section.offset / PAGE < map.pages);
}

/** Names of sections at the right edge, the largest first, as many as fit. */
function writeSections(
  context: CanvasRenderingContext2D,
  part: Viewport,
  size: Size,
  sections: readonly TouchSectionReport[],
  map: PageMap,
  shade: Theme,
): void {
  context.font = "10px ui-monospace, monospace";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = css(ground(shade).faint);
  const toY = (offset: number) => ((part.y.to + offset / PAGE / map.columns) / length(part.y)) * size.height;
  const taken: number[] = [];
  for (const section of bordered(sections, map, part, size).sort((a, b) => b.size - a.size)) {
    const top = Math.max(0, toY(section.offset));
    const bottom = Math.min(size.height, toY(section.offset + section.size));
    const middle = (top + bottom) / 2;
    if (bottom <= 0 || top >= size.height || taken.some((y) => Math.abs(y - middle) < 11)) continue;
    taken.push(middle);
    context.fillText(harmless(section.name).slice(0, 14), size.width + 6, middle);
  }
}

function MapLegend({
  map,
  states,
  from,
  to,
  shade,
  known,
  word,
}: {
  map: PageMap;
  states: readonly [number, number, number];
  from: number;
  to: number;
  shade: Theme;
  known: boolean;
  word: string;
}): JSX.Element {
  const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(rampColour(share, shade))).join(", ");
  const ramp = { background: `linear-gradient(to right, ${stops})` };
  const [first, last] =
    touchColour.value === "time" ? [micros(from), micros(to)] : ["first", `last of ${plural(to, "page", "pages")}`];
  const figure = (pages: number) => `${bytes(pages * PAGE)} (${percent(pages / map.pages)})`;
  return (
    <ul class="legend" aria-label="What the colours mean">
      <li>
        <span class="item">
          {to > 0 ? (
            <>
              touched: {first} <span class="ramp" aria-hidden="true" style={ramp} /> {last}
            </>
          ) : (
            <>
              <Dot colour={css(untimedColour(shade))} /> {word}
            </>
          )}
          <span class="figure">{figure(states[TOUCHED])}</span>
        </span>
      </li>
      {known && (
        <li>
          <span class="item">
            <Dot colour={css(readColour(shade))} />
            read, not {word} <span class="figure">{figure(states[READ])}</span>
          </span>
        </li>
      )}
      <li>
        <span class="item">
          {known ? "blank: never read" : `blank: not ${word}`} <span class="figure">{figure(states[0])}</span>
        </span>
      </li>
    </ul>
  );
}

function PageTip({
  program,
  file,
  map,
  index,
  found,
  word,
}: {
  program: TouchedProgram;
  file: TouchedFile;
  map: PageMap;
  index: FunctionIndex;
  found: number;
  word: string;
}): JSX.Element {
  const at = found * PAGE;
  const state = map.state[found];
  const sections = sectionsOn(file.report, found);
  const { functions } = file;
  const on = functionsOn(functions, index, found).sort((a, b) => functions.order[a] - functions.order[b]);
  const name = (i: number) =>
    functions.name[i] > 0
      ? harmless(program.names[functions.name[i] - 1])
      : `(no name) at 0x${functions.offset[i].toString(16)}`;
  return (
    <>
      <strong>
        {state === TOUCHED
          ? word
          : state === READ
            ? `read, not ${word}`
            : file.report.read === null
              ? `not ${word}`
              : "never read"}
      </strong>
      <dl>
        <dt>page</dt>
        <dd>
          {count(found)}, at {bytes(at)} (0x{at.toString(16)})
        </dd>
        {sections.length > 0 && (
          <>
            <dt>section</dt>
            <dd>
              <code>{sections.slice(0, MOST_NAMES).map(harmless).join(", ")}</code>
              {sections.length > MOST_NAMES && ` and ${count(sections.length - MOST_NAMES)} more`}
            </dd>
          </>
        )}
        {map.at[found] >= 0 && (
          <>
            <dt>first touch</dt>
            <dd>
              {micros(map.at[found])}
              {map.order[found] >= 0 && `, number ${count(map.order[found] + 1)} of all`}
            </dd>
          </>
        )}
        {on.length > 0 && (
          <>
            <dt>functions</dt>
            <dd>
              {on.slice(0, MOST_NAMES).map((i) => (
                <div key={i} class="functionname">
                  {name(i)}
                </div>
              ))}
              {on.length > MOST_NAMES && `and ${count(on.length - MOST_NAMES)} more`}
            </dd>
          </>
        )}
      </dl>
    </>
  );
}
