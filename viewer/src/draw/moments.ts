// Moments as named lines over a chart.

import type uPlot from "uplot";

/** Named vertical lines; a name that would cover the one before stands lower. */
export function drawMoments(
  chart: uPlot,
  list: readonly { readonly s: number; readonly text: string; readonly colour: string }[],
): void {
  const { ctx, bbox } = chart;
  const scale = devicePixelRatio || 1;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  const ends: number[] = [];
  for (const { s, text, colour } of [...list].sort((a, b) => a.s - b.s)) {
    const x = Math.round(chart.valToPos(s, "x", true)) + 0.5;
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.lineWidth = scale;
    ctx.setLineDash([4 * scale, 3 * scale]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(text).width;
    const left = x + 4 * scale + width > bbox.left + bbox.width ? x - 4 * scale - width : x + 4 * scale;
    let row = 0;
    while (row < ends.length && ends[row] > left) row++;
    ends[row] = left + width + 6 * scale;
    ctx.fillText(text, left, bbox.top + (2 + row * 14) * scale);
  }
  ctx.restore();
}
