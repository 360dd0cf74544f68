// Line and point charts with uPlot: in the page's colours, as wide as there is room, made again when either changes.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { length, pan, type Range, zoom } from "../logic/view.ts";
import { css, ground, type Theme } from "./palette.ts";

export interface ChartProps {
  readonly name: string;
  /** What a screen reader says instead. */
  readonly label: string;
  readonly theme: Theme;
  readonly height: number;
  readonly data: uPlot.AlignedData;
  readonly series: readonly uPlot.Series[];
  readonly xLabel: string;
  readonly xFormat: (value: number, step: number) => string;
  readonly yFormat: (value: number, step: number) => string;
  readonly yFromZero?: boolean;
  /** Drawn over the series: rings, lines. */
  readonly over?: (chart: uPlot) => void;
  /** What `over` depends on beside the theme and the data. */
  readonly scene?: readonly unknown[];
  /** A click, at this place of the horizontal axis. */
  readonly onPick?: (x: number) => void;
  /** A drag chooses a stretch of the horizontal axis instead of coming closer. */
  readonly onRange?: (from: number, to: number) => void;
  /** What is below the pointer, in a line above the chart. */
  readonly onHover?: (index: number | null) => void;
}

export function Chart(props: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const chart = new uPlot(options(props, element.clientWidth), props.data, element);
    const resized = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: props.height }));
    resized.observe(element);
    const stop = followClicks(chart, props);
    const stopZoom = followZoom(chart, props);
    return () => {
      stop();
      stopZoom();
      resized.disconnect();
      chart.destroy();
    };
  }, [props.theme, props.data, ...(props.scene ?? [])]);
  return (
    <div
      class="chart"
      data-chart={props.name}
      role="img"
      aria-label={props.label}
      ref={box}
      style={{ minHeight: `${props.height}px` }}
    />
  );
}

/** Clicks that are no drags. */
function followClicks(chart: uPlot, { onPick }: ChartProps): () => void {
  if (onPick === undefined) return () => {};
  let from = 0;
  const press = (event: MouseEvent) => {
    from = event.clientX;
  };
  const release = (event: MouseEvent) => {
    if (Math.abs(event.clientX - from) < 4)
      onPick(chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x"));
  };
  chart.over.addEventListener("mousedown", press);
  chart.over.addEventListener("mouseup", release);
  return () => {
    chart.over.removeEventListener("mousedown", press);
    chart.over.removeEventListener("mouseup", release);
  };
}

/**
 * The gestures of plots: Ctrl and the wheel come closer, dragging moves; Shift and a drag are uPlot's own, as is a
 * double click.
 */
function followZoom(chart: uPlot, { data, onRange }: ChartProps): () => void {
  const [first, last] = [data[0][0], data[0][data[0].length - 1]];
  const whole: Range = { from: first ?? 0, to: last ?? 0 };
  const seen = (): Range => ({ from: chart.scales.x.min ?? whole.from, to: chart.scales.x.max ?? whole.to });
  const showPart = ({ from, to }: Range) => chart.setScale("x", { min: from, max: to });
  const wheel = (event: WheelEvent) => {
    if ((!event.ctrlKey && !event.metaKey) || length(whole) <= 0) return;
    event.preventDefault();
    const delta = event.deltaY !== 0 ? event.deltaY : event.deltaX;
    const at = chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x");
    showPart(zoom(seen(), Math.exp(Math.max(-120, Math.min(120, delta)) / 300), at, whole, length(whole) / 1e4));
  };
  let from: number | null = null;
  const press = (event: MouseEvent) => {
    from = event.button === 0 && !event.shiftKey && onRange === undefined ? event.clientX : null;
  };
  const move = (event: MouseEvent) => {
    if (from === null || event.buttons === 0) return;
    const range = seen();
    if (length(range) >= length(whole)) return;
    showPart(pan(range, (from - event.clientX) / chart.over.clientWidth, whole));
    from = event.clientX;
  };
  chart.over.addEventListener("wheel", wheel, { passive: false });
  chart.over.addEventListener("mousedown", press);
  chart.over.addEventListener("mousemove", move);
  return () => {
    chart.over.removeEventListener("wheel", wheel);
    chart.over.removeEventListener("mousedown", press);
    chart.over.removeEventListener("mousemove", move);
  };
}

function dragged(chart: uPlot, { onRange }: ChartProps): void {
  const { left, width } = chart.select;
  if (width < 4) return;
  const [from, to] = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
  chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onRange?.(from, to);
}

const FONT = "11px system-ui, sans-serif";
/**
 * Room for an axis at the left: for its longest label, and the same for charts below each other as long as these fit.
 */
function widthOf(chart: uPlot, labels: readonly string[] | null): number {
  chart.ctx.font = FONT;
  const widest = Math.max(0, ...(labels ?? []).map((label) => chart.ctx.measureText(label).width));
  return Math.max(66, Math.ceil(widest) + 14);
}

function options(props: ChartProps, width: number): uPlot.Options {
  const tones = ground(props.theme);
  const axis = (label: string, format: (value: number, step: number) => string, size: uPlot.Axis.Size): uPlot.Axis => ({
    ...(label === "" ? {} : { label, labelSize: 18, labelFont: FONT }),
    font: FONT,
    stroke: css(tones.faint),
    size,
    grid: { stroke: css(tones.grid), width: 1 },
    ticks: { stroke: css(tones.grid), width: 1, size: 4 },
    values: (_, values) => values.map((value) => format(value, values.length > 1 ? values[1] - values[0] : 1)),
  });
  const most = (values: uPlot.AlignedData) => {
    let high = 0;
    for (const series of values.slice(1))
      for (const value of series as (number | null)[]) if (value !== null && value > high) high = value;
    return high;
  };
  return {
    width,
    height: props.height,
    cursor: {
      points: { size: 8 },
      drag: { x: true, y: false, setScale: props.onRange === undefined },
      // A drag moves, as in plots, and chooses with Shift; where a chart is there to choose from, it chooses.
      bind: {
        mousedown: (_, __, begin) => (event) => (props.onRange !== undefined || event.shiftKey ? begin(event) : null),
      },
    },
    legend: { show: false },
    scales: {
      x: { time: false },
      y: { range: (_, low, high) => (props.yFromZero === true ? [0, (most(props.data) || 1) * 1.06] : [low, high]) },
    },
    axes: [axis(props.xLabel, props.xFormat, 34), axis("", props.yFormat, widthOf)],
    series: [{}, ...props.series],
    hooks: {
      ...(props.over === undefined ? {} : { draw: [props.over] }),
      ...(props.onRange === undefined ? {} : { setSelect: [(chart: uPlot) => dragged(chart, props)] }),
      ...(props.onHover === undefined
        ? {}
        : { setCursor: [(chart: uPlot) => props.onHover?.(chart.cursor.idx ?? null)] }),
    },
  };
}
