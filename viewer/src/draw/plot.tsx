// of what is drawn.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tick } from "../logic/ticks.ts";
import { length, type Range, type Step, step, type Viewport } from "../logic/view.ts";
import { timed } from "./drawings.ts";
import { css, ground, pixel, type Theme } from "./palette.ts";
import { registerPlot } from "./plots.ts";
import { type Pixels, Raster } from "./raster.ts";

/** Where the picture lies inside the canvas, in CSS pixels. */
export interface Margins {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export interface PlotProps {
  /** For tests and keys. */
  readonly name: string;
  /** What a screen reader says instead of the picture. */
  readonly label: string;
  readonly theme: Theme;
  readonly whole: Viewport;
  readonly smallest: { readonly x: number; readonly y: number };
  readonly viewport: Viewport;
  readonly onView: (viewport: Viewport) => void;
  readonly margins: Margins;
  /** Below the picture, and left of it; `null`: no axis. */
  readonly xTicks: ((viewport: Viewport, pixels: number) => readonly Tick[]) | null;
  readonly yTicks: ((viewport: Viewport, pixels: number) => readonly Tick[]) | null;
  readonly yTitle?: string;
  /** Whether the pointer moves both axes or only the horizontal one; `map`: both, and they are zoomed together. */
  readonly axes: "x" | "xy" | "map";
  /**
   * All that the picture depends on beside the theme, the viewport and the margins: it is painted again when one is
   * another.
   */
  readonly scene: readonly unknown[];
  readonly paint: (to: Pixels, viewport: Viewport, perPixel: number) => void;
  /** Text on top; coordinates are CSS pixels inside the picture. */
  readonly write?: (context: CanvasRenderingContext2D, viewport: Viewport, size: Size) => void;
  /** Number of what lies there, or -1. */
  readonly find?: (viewport: Viewport, size: Size, x: number, y: number) => number;
  readonly describe?: (found: number) => ComponentChildren;
  readonly onPick?: (found: number) => void;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

interface Pointed {
  readonly found: number;
  readonly x: number;
  readonly y: number;
}

/** Redraws at the next frame, however often it is asked. */
class Painter {
  private raster: Raster | null = null;
  private frame = 0;
  props!: PlotProps;

  constructor(private readonly canvas: () => HTMLCanvasElement | null) {}

  ask(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** Size of the picture without its margins, in CSS pixels. */
  size(): Size {
    const canvas = this.canvas();
    const { left, right, top, bottom } = this.props.margins;
    const width = (canvas?.clientWidth ?? 0) - left - right;
    const height = (canvas?.clientHeight ?? 0) - top - bottom;
    return { width: Math.max(1, width), height: Math.max(1, height) };
  }

  private draw(): void {
    this.frame = 0;
    const canvas = this.canvas();
    const context = canvas?.getContext("2d") ?? null;
    if (canvas === null || context === null || canvas.clientWidth === 0) return;
    const started = performance.now();
    const perPixel = devicePixelRatio || 1;
    const { theme, viewport, margins, paint } = this.props;
    const size = this.size();
    const [wide, high] = [Math.round(canvas.clientWidth * perPixel), Math.round(canvas.clientHeight * perPixel)];
    if (canvas.width !== wide) canvas.width = wide;
    if (canvas.height !== high) canvas.height = high;
    const [width, height] = [
      Math.max(1, Math.round(size.width * perPixel)),
      Math.max(1, Math.round(size.height * perPixel)),
    ];
    if (this.raster?.width !== width || this.raster.height !== height) this.raster = new Raster(width, height);
    const colours = ground(theme);
    this.raster.pixels.fill(pixel(colours.paper));
    paint(this.raster, viewport, perPixel);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, high);
    context.putImageData(this.raster.image, Math.round(margins.left * perPixel), Math.round(margins.top * perPixel));
    context.setTransform(perPixel, 0, 0, perPixel, 0, 0);
    this.axes(context, size);
    if (this.props.write !== undefined) {
      context.save();
      context.translate(margins.left, margins.top);
      this.props.write(context, viewport, size);
      context.restore();
    }
    timed(this.props.name, started);
  }

  private axes(context: CanvasRenderingContext2D, size: Size): void {
    const { margins, viewport, theme, xTicks, yTicks, yTitle } = this.props;
    const colours = ground(theme);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = css(colours.faint);
    context.strokeStyle = css(colours.grid);
    context.lineWidth = 1;
    context.strokeRect(margins.left - 0.5, margins.top - 0.5, size.width + 1, size.height + 1);
    const dash = css(colours.faint);
    if (xTicks !== null) {
      context.textBaseline = "top";
      for (const { value, label } of xTicks(viewport, size.width)) {
        const x = margins.left + ((value - viewport.x.from) / length(viewport.x)) * size.width;
        const half = context.measureText(label).width / 2;
        const at = Math.min(Math.max(x, margins.left + half - 6), margins.left + size.width - half + margins.right);
        context.textAlign = "center";
        context.fillText(label, at, margins.top + size.height + 7);
        tickMark(context, dash, x, margins.top + size.height, 0, 4);
      }
    }
    if (yTicks !== null) {
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (const { value, label } of yTicks(viewport, size.height)) {
        const y = margins.top + size.height - ((value - viewport.y.from) / length(viewport.y)) * size.height;
        context.fillText(label, margins.left - 8, y);
        tickMark(context, dash, margins.left - 4, y, 4, 0);
      }
    }
    if (yTitle !== undefined) {
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(yTitle, 0, 0);
    }
  }
}

function tickMark(
  context: CanvasRenderingContext2D,
  colour: string,
  x: number,
  y: number,
  wide: number,
  high: number,
): void {
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(Math.round(x) + (high > 0 ? 0.5 : 0), Math.round(y) + (wide > 0 ? 0.5 : 0));
  context.lineTo(Math.round(x) + wide + (high > 0 ? 0.5 : 0), Math.round(y) + high + (wide > 0 ? 0.5 : 0));
  context.stroke();
}

export function Plot(props: PlotProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter>(null);
  painter.current ??= new Painter(() => canvas.current);
  painter.current.props = props;
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [box, setBox] = useState<{ x0: number; y0: number; x1: number; y1: number } | null>(null);

  const { theme, viewport, margins } = props;
  useLayoutEffect(
    () => painter.current?.ask(),
    [
      ...props.scene,
      theme,
      viewport.x.from,
      viewport.x.to,
      viewport.y.from,
      viewport.y.to,
      margins.left,
      margins.right,
    ],
  );
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    const resized = new ResizeObserver(() => painter.current?.ask());
    resized.observe(element);
    const plot = { name: props.name, take: (by: Step) => take(painter.current!.props, by) };
    const unregister = registerPlot(plot);
    const stop = follow(element, painter.current!, setPointed, setBox, () => unregister.activate());
    return () => {
      resized.disconnect();
      unregister();
      stop();
      painter.current?.stop();
    };
  }, []);

  const words = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => keepInside(words.current));

  const { describe } = props;
  const tip = pointed !== null && pointed.found >= 0 && describe !== undefined ? describe(pointed.found) : null;
  const size = canvas.current === null ? { width: 0, height: 0 } : painter.current.size();
  return (
    <div class="plot" data-plot={props.name}>
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={props.label} />
      {box !== null && (
        <div
          class="zoombox"
          style={inPixels({
            left: Math.min(box.x0, box.x1),
            top: Math.min(box.y0, box.y1),
            width: Math.abs(box.x1 - box.x0),
            height: Math.abs(box.y1 - box.y0),
          })}
        />
      )}
      {tip !== null && pointed !== null && (
        <div class="tip" role="status" ref={words} style={tipPlace(pointed, margins, size)}>
          {tip}
        </div>
      )}
    </div>
  );
}

function tipPlace(at: Pointed, margins: Margins, size: Size): Record<string, string> {
  const [x, y] = [at.x + margins.left, at.y + margins.top];
  const left = at.x < size.width / 2 ? { left: x + 14 } : { right: size.width + margins.left + margins.right - x + 14 };
  const top =
    at.y < size.height / 2 ? { top: y + 10 } : { bottom: size.height + margins.top + margins.bottom - y + 10 };
  return inPixels({ ...left, ...top });
}

/** Moves what would leave the window back into it. */
function keepInside(tip: HTMLElement | null): void {
  if (tip === null) return;
  tip.style.translate = "";
  const { left, right, top, bottom } = tip.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const by = (from: number, to: number, room: number) => Math.max(4 - from, Math.min(0, room - 4 - to));
  const [x, y] = [by(left, right, clientWidth), by(top, bottom, clientHeight)];
  if (x !== 0 || y !== 0) tip.style.translate = `${x}px ${y}px`;
}

function inPixels(lengths: Readonly<Record<string, number>>): Record<string, string> {
  return Object.fromEntries(Object.entries(lengths).map(([name, value]) => [name, `${value}px`]));
}

/** Whether that showed another part. */
function take(props: PlotProps, by: Step): boolean {
  const only = props.axes === "x";
  let allowed = by;
  if (by.kind === "zoom") allowed = { ...by, axis: only ? "x" : props.axes === "map" ? "both" : by.axis };
  else if (by.kind === "pan" && only) allowed = { ...by, y: 0 };
  const { viewport } = props;
  const next = step(viewport, props.whole, props.smallest, allowed);
  if (same(next.x, viewport.x) && same(next.y, viewport.y)) return false;
  props.onView(next);
  return true;
}

const same = (a: Range, b: Range) => a.from === b.from && a.to === b.to;

/** Wheel, drag, pinch, double click, and what the pointer is over. Returns how to stop. */
function follow(
  element: HTMLCanvasElement,
  painter: Painter,
  setPointed: (pointed: Pointed | null) => void,
  setBox: (box: { x0: number; y0: number; x1: number; y1: number } | null) => void,
  activate: () => void,
): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let boxFrom: { x: number; y: number } | null = null;
  let moved = 0;
  const place = (event: { clientX: number; clientY: number }) => {
    const rect = element.getBoundingClientRect();
    const { left, top } = painter.props.margins;
    return { x: event.clientX - rect.left - left, y: event.clientY - rect.top - top };
  };
  const share = (at: { x: number; y: number }) => {
    const { width, height } = painter.size();
    return { x: at.x / width, y: 1 - at.y / height };
  };
  const look = (event: PointerEvent) => {
    const { find, viewport } = painter.props;
    if (find === undefined) return;
    const at = place(event);
    const size = painter.size();
    const inside = at.x >= 0 && at.y >= 0 && at.x <= size.width && at.y <= size.height;
    const found = inside ? find(viewport, size, at.x, at.y) : -1;
    setPointed(found < 0 ? null : { found, ...at });
  };
  const wheel = (event: WheelEvent) => {
    // Without Ctrl the wheel is the page's, which scrolls.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    activate();
    const delta = event.deltaY !== 0 ? event.deltaY : event.deltaX;
    take(painter.props, {
      kind: "zoom",
      axis: event.shiftKey ? "y" : "x",
      factor: Math.exp(Math.max(-120, Math.min(120, delta)) / 300),
      at: share(place(event)),
    });
  };
  const press = (event: PointerEvent) => {
    // The other buttons are the browser's.
    if (event.button !== 0) return;
    activate();
    down.set(event.pointerId, place(event));
    moved = 0;
    if (event.shiftKey) boxFrom = place(event);
    element.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const before = down.get(event.pointerId);
    if (before === undefined) return look(event);
    const at = place(event);
    moved += Math.abs(at.x - before.x) + Math.abs(at.y - before.y);
    const { left, top } = painter.props.margins;
    if (boxFrom !== null) return setBox({ x0: boxFrom.x + left, y0: boxFrom.y + top, x1: at.x + left, y1: at.y + top });
    const size = painter.size();
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      // Two fingers: the distance between them is the scale.
      const [was, is] = [
        Math.hypot(before.x - other.x, before.y - other.y),
        Math.hypot(at.x - other.x, at.y - other.y),
      ];
      if (is > 10) take(painter.props, { kind: "zoom", axis: "both", factor: was / is, at: share(other) });
    } else if (moved > 3) {
      setPointed(null);
      take(painter.props, { kind: "pan", x: (before.x - at.x) / size.width, y: (at.y - before.y) / size.height });
    }
    down.set(event.pointerId, at);
  };
  const release = (event: PointerEvent) => {
    if (!down.delete(event.pointerId)) return;
    const { viewport, onView, find, onPick, axes } = painter.props;
    if (boxFrom !== null) {
      const [a, b] = [share(boxFrom), share(place(event))];
      const part = (axis: "x" | "y") => {
        const range = viewport[axis];
        const [low, high] = [Math.min(a[axis], b[axis]), Math.max(a[axis], b[axis])].map((it) =>
          Math.min(1, Math.max(0, it)),
        );
        return { from: range.from + low * length(range), to: range.from + high * length(range) };
      };
      if (moved > 8) onView({ x: part("x"), y: axes === "x" ? viewport.y : part("y") });
      boxFrom = null;
      setBox(null);
    } else if (moved <= 3 && find !== undefined) {
      const at = place(event);
      const found = find(viewport, painter.size(), at.x, at.y);
      if (found >= 0) {
        setPointed({ found, ...at });
        onPick?.(found);
      }
    }
  };
  const leave = () => setPointed(null);
  const reset = () => take(painter.props, { kind: "reset" });
  element.addEventListener("wheel", wheel, { passive: false });
  element.addEventListener("pointerdown", press);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("pointerleave", leave);
  element.addEventListener("dblclick", reset);
  element.addEventListener("focus", activate);
  // The element goes with its listeners.
  return () => down.clear();
}
