// Memory by version: a line for each checkpoint of a course. A point leads to its trees, two of them to what changed.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { css, rankColour } from "../../draw/palette.ts";
import {
  COURSE_SIZES,
  type CoursePoint,
  type CourseSize,
  courseScale,
  isAlways,
  neighbour,
  pointsAt,
} from "../../logic/course.ts";
import { bytes, harmless, plural, ratio } from "../../logic/format.ts";
import { bytesLabel, ticks } from "../../logic/ticks.ts";
import { AsTable, Choice, Dot, Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { theme, view } from "../../state.ts";
import type { PackedCourse } from "../../types/memory.ts";
import { memoryWaiting } from "./parts.tsx";
import { courseFlipped, courseSize, courseZero, memoryPage, treesBase, treesBefore, treesNumber } from "./state.ts";

const MEANING: Record<CourseSize, string> = {
  pss: "shared pages divided by the processes that have them: what to compare",
  rss: "shared pages count in each process",
  uss: "pages that nobody else has",
};

export function CourseView(): JSX.Element {
  const wait = memoryWaiting();
  if (wait !== null) return wait;
  const { course } = memoryPage.value!;
  return course === null ? <p class="none">This page is of no course.</p> : <Course course={course} />;
}

function Course({ course }: { course: PackedCourse }): JSX.Element {
  const size = courseSize.value as CourseSize;
  const flipped = new Set(courseFlipped.value.split(",").filter((it) => it !== ""));
  const { checkpoints } = course;
  const shown = checkpoints.map((it, line) => isAlways(it.name) === flipped.has(String(line)));
  const points = useMemo(
    () => checkpoints.flatMap((_, line) => (shown[line] ? pointsAt(course, line, size) : [])),
    [course, size, courseFlipped.value],
  );
  const flip = (line: string) => {
    if (!flipped.delete(line)) flipped.add(line);
    courseFlipped.value = [...flipped].sort().join(",");
  };
  const [pointed, setPointed] = useState<CoursePoint | null>(null);
  return (
    <>
      <div class="tools">
        <Choice
          label="size"
          values={COURSE_SIZES.map((it) => [it, it.toUpperCase()] as const)}
          value={size}
          onChange={(value) => (courseSize.value = value)}
        />
        <Choice
          label="axis"
          values={
            [
              ["1", "from 0"],
              ["0", "fitted"],
            ] as const
          }
          value={courseZero.value}
          onChange={(value) => (courseZero.value = value)}
        />
        <ul class="legend" aria-label="Checkpoints; a click shows or hides one">
          {checkpoints.map((it, line) => (
            <li key={line}>
              <button type="button" class="item" aria-pressed={shown[line]} onClick={() => flip(String(line))}>
                <Dot colour={colourOf(line)} />
                <span class="name">{harmless(it.name)}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
      <Section title={`${size.toUpperCase()} by version`} note={`${size.toUpperCase()}: ${MEANING[size]}. ${MARKS}`}>
        <p class="hoverline" aria-live="polite">
          {pointed === null ? <span class="soft">{HOW}</span> : <Told point={pointed} size={size} />}
        </p>
        {points.length === 0 ? (
          <p class="none">All lines are hidden: a click on a name above shows one.</p>
        ) : (
          <Lines
            points={points}
            names={checkpoints.map((it) => it.name)}
            versions={versionsOf(checkpoints)}
            size={size}
            onPoint={setPointed}
          />
        )}
        <AsTable summary="as a table">
          {() => <Figures points={points} checkpoints={checkpoints.map((it) => it.name)} size={size} />}
        </AsTable>
      </Section>
    </>
  );
}

const MARKS = "A point is the median of the runs with its 95 % interval, the dots beside it are the runs.";
const HOW =
  "A click or Enter: its trees. Shift and a click, or Space, on two points: what changed from the first to the second.";

const colourOf = (line: number): string => css(rankColour(line, theme.value));
const versionsOf = (checkpoints: readonly { readonly versions: readonly { readonly version: string }[] }[]) =>
  checkpoints[0]?.versions.map((it) => it.version) ?? [];

/** `loaded, 140: PSS 120.1 MB [118.0, 122.3] MB, 5 runs` */
function words(point: CoursePoint, size: CourseSize): string {
  const { checkpoints } = memoryPage.value!.course!;
  const { name, versions } = checkpoints[point.checkpoint];
  const range = point.interval === null ? "" : ` [${bytes(point.interval.low)}, ${bytes(point.interval.high)}]`;
  const runs = plural(point.runs.length, "run", "runs");
  return harmless(
    `${name}, ${versions[point.version].version}: ${size.toUpperCase()} ${bytes(point.median)}${range}, ${runs}`,
  );
}

function Told({ point, size }: { point: CoursePoint; size: CourseSize }): JSX.Element {
  const base = treesBase.value;
  return (
    <>
      <Dot colour={colourOf(point.checkpoint)} /> {words(point, size)}
      {point.toFirst !== null && `; ${ratio(point.toFirst)} of the first`}
      {point.trees === null && <span class="soft">; no trees: only marks have some</span>}
      {base !== null && <span class="soft">; Shift and a click compares with {harmless(base.name)}</span>}
    </>
  );
}

/** Shows the trees of a point. */
function go(point: CoursePoint): void {
  if (point.trees === null) return;
  treesBefore.value = "";
  treesNumber.value = String(point.trees);
  view.value = "memory";
}

/** Takes a point as the first of two; with a second one, shows what changed. */
function choose(point: CoursePoint): void {
  if (point.trees === null) return;
  const chosen = String(point.trees);
  if (treesBefore.value === "") treesBefore.value = chosen;
  else if (treesBefore.value === chosen) treesBefore.value = "";
  else {
    treesNumber.value = chosen;
    view.value = "memory";
  }
}

const [HEIGHT, LEFT, RIGHT, TOP] = [340, 68, 14, 10];
/** Room that a version has at least, CSS pixels; what is wider than the page is scrolled. */
const LEAST = 24;
/** Width of a letter of an axis, about. */
const LETTER = 6.2;
/** Letters of a name below the axis. */
const LONGEST = 18;

function Lines(props: {
  points: readonly CoursePoint[];
  names: readonly string[];
  versions: readonly string[];
  size: CourseSize;
  onPoint: (point: CoursePoint | null) => void;
}): JSX.Element {
  const { points, versions } = props;
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    const element = box.current!;
    const resized = new ResizeObserver(() => setRoom(element.clientWidth));
    resized.observe(element);
    setRoom(element.clientWidth);
    return () => resized.disconnect();
  }, []);
  // The one that Tab leads to.
  const [stop, setStop] = useState(0);
  const elements = useRef<(SVGGElement | null)[]>([]);
  const at = Math.min(stop, points.length - 1);
  useEffect(() => props.onPoint(null), [points]);

  const width = Math.max(room, LEFT + RIGHT + LEAST * versions.length);
  const slot = (width - LEFT - RIGHT) / versions.length;
  const labels = versions.map((name) => {
    const text = harmless(name);
    return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
  });
  const longest = Math.max(...labels.map((it) => it.length)) * LETTER;
  const isSlanted = longest > slot - 6;
  const bottom = isSlanted ? 16 + longest * 0.6 : 26;
  const high = HEIGHT - TOP - bottom;
  const under = TOP + high + 18;
  const scale = courseScale(points, courseZero.value === "1");
  const x = (version: number) => LEFT + slot * (version + 0.5);
  // Beside each other, so that none lies on another of the same height.
  const lines = [...new Set(points.map((it) => it.checkpoint))];
  const apart = Math.min(7, (slot * 0.5) / lines.length);
  const pointX = ({ version, checkpoint }: CoursePoint) =>
    x(version) + (lines.indexOf(checkpoint) - (lines.length - 1) / 2) * apart;
  const y = (value: number) => TOP + high * (1 - (value - scale.from) / (scale.to - scale.from));
  const aside = (run: number, runs: number) => (run - (runs - 1) / 2) * Math.min(5, (slot * 0.6) / runs);

  const press = (event: KeyboardEvent, number: number) => {
    const point = points[number];
    if (event.key.startsWith("Arrow")) {
      const next = neighbour(points, point, event.key);
      if (next !== null) elements.current[points.indexOf(next)]?.focus();
    } else if (event.key === "Enter" && !event.shiftKey) go(point);
    else if (event.key === "Enter" || event.key === " ") choose(point);
    else return;
    event.preventDefault();
  };
  return (
    <div class="scroll" ref={box} data-chart="versions">
      {/* biome-ignore lint/a11y/useSemanticElements: a picture is no set of fields. */}
      <svg
        class="versions"
        width={width}
        height={HEIGHT}
        role="group"
        aria-label={`${props.size.toUpperCase()} by version`}
      >
        {ticks(scale, high, 44, bytesLabel).map(({ value, label }) => (
          <g key={label} class="axis">
            <line x1={LEFT} x2={width - RIGHT} y1={y(value)} y2={y(value)} />
            <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">
              {label}
            </text>
          </g>
        ))}
        {versions.map((name, version) => (
          <text
            key={name}
            class="axis"
            text-anchor={isSlanted ? "end" : "middle"}
            transform={
              isSlanted ? `translate(${x(version) + 4} ${under}) rotate(-35)` : `translate(${x(version)} ${under})`
            }
          >
            {labels[version]}
            <title>{harmless(name)}</title>
          </text>
        ))}
        {props.names.map((name, line) => {
          const own = points.filter((it) => it.checkpoint === line);
          const path = own.map((it) => `${pointX(it)},${y(it.median)}`).join(" ");
          return (
            own.length > 1 && (
              <polyline key={name} points={path} fill="none" stroke={colourOf(line)} stroke-width="1.6" />
            )
          );
        })}
        {points.map((point, number) => {
          const colour = colourOf(point.checkpoint);
          const [cx, cy] = [pointX(point), y(point.median)];
          const isBase = point.trees !== null && treesBefore.value === String(point.trees);
          const hasTrees = point.trees !== null;
          const show = () => props.onPoint(point);
          return (
            // biome-ignore lint/a11y/useSemanticElements: there is no button inside of a picture.
            <g
              key={`${point.checkpoint} ${point.version}`}
              ref={(element) => {
                elements.current[number] = element;
              }}
              class={`point${hasTrees ? " pick" : ""}${isBase ? " base" : ""}`}
              role="button"
              tabIndex={number === at ? 0 : -1}
              aria-label={words(point, props.size)}
              aria-pressed={isBase}
              aria-disabled={!hasTrees}
              onFocus={() => {
                setStop(number);
                show();
              }}
              onMouseEnter={show}
              onClick={(event) => (event.shiftKey ? choose(point) : go(point))}
              onKeyDown={(event) => press(event, number)}
            >
              <circle class="reach" cx={cx} cy={cy} r="11" />
              {point.runs.map((value, run) => (
                <circle
                  key={run}
                  class="run"
                  cx={cx + aside(run, point.runs.length)}
                  cy={y(value)}
                  r="2.2"
                  fill={colour}
                />
              ))}
              {point.interval !== null && (
                <line
                  x1={cx}
                  x2={cx}
                  y1={y(point.interval.low)}
                  y2={y(point.interval.high)}
                  stroke={colour}
                  stroke-width="2"
                />
              )}
              <circle class="median" cx={cx} cy={cy} r={isBase ? 6.5 : 4.5} fill={colour} />
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function Figures(props: {
  points: readonly CoursePoint[];
  checkpoints: readonly string[];
  size: CourseSize;
}): JSX.Element {
  const versions = versionsOf(memoryPage.value!.course!.checkpoints);
  return (
    <Table
      name="versions"
      caption="Medians by checkpoint and version; a click shows the trees"
      hideCaption
      rows={props.points}
      rowKey={(it) => `${it.checkpoint} ${it.version}`}
      onRow={go}
      columns={[
        {
          key: "checkpoint",
          label: "Checkpoint",
          value: (it) => props.checkpoints[it.checkpoint],
          show: (it) => harmless(props.checkpoints[it.checkpoint]),
        },
        {
          key: "version",
          label: "Version",
          value: (it) => versions[it.version],
          show: (it) => harmless(versions[it.version]),
        },
        {
          key: "median",
          label: props.size.toUpperCase(),
          number: true,
          value: (it) => it.median,
          show: (it) => bytes(it.median),
        },
        {
          key: "interval",
          label: "95 % interval",
          number: true,
          wide: true,
          value: (it) => it.interval?.low ?? null,
          show: (it) => (it.interval === null ? "" : `${bytes(it.interval.low)} … ${bytes(it.interval.high)}`),
        },
        {
          key: "first",
          label: "To the first",
          number: true,
          value: (it) => it.toFirst?.value ?? null,
          show: (it) => (it.toFirst === null ? "" : ratio(it.toFirst)),
        },
        { key: "runs", label: "Runs", number: true, wide: true, value: (it) => it.runs.length },
      ]}
    />
  );
}
