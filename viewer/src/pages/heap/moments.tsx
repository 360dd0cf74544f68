// The line over time, to choose two moments from.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import { Chart } from "../../draw/chart.tsx";
import { drawMoments } from "../../draw/moments.ts";
import { css, ground, rankColour } from "../../draw/palette.ts";
import { lineOf } from "../../logic/heap.ts";
import { bytesLabel, sinceLabel } from "../../logic/ticks.ts";
import { Section } from "../../parts/bits.tsx";
import { theme } from "../../state.ts";
import { hoverText, MomentField, quantum } from "./parts.tsx";
import { compareMoments, fromUs, processesInSight, toUs } from "./state.ts";

/** The line over time, to choose two moments from. */
export function Moments(): JSX.Element {
  const processes = processesInSight.value;
  const line = useMemo(() => lineOf(processes), [processes]);
  const [at, setAt] = useState<number | null>(null);
  const shade = theme.value;
  const live = rankColour(0, shade);
  const data = useMemo(() => [line.seconds, line.bytes] as unknown as uPlot.AlignedData, [line]);
  const [from, to] = [fromUs.value / 1e6, toUs.value / 1e6];
  const text = css(ground(shade).text);
  const over = (chart: uPlot) => {
    const [left, right] = [from, to].map((s) =>
      Math.max(chart.bbox.left, Math.min(chart.bbox.left + chart.bbox.width, chart.valToPos(s, "x", true))),
    );
    chart.ctx.fillStyle = `${css(rankColour(1, shade))}22`;
    chart.ctx.fillRect(left, chart.bbox.top, right - left, chart.bbox.height);
    drawMoments(chart, [
      { s: from, text: "from", colour: text },
      { s: to, text: "to", colour: text },
    ]);
  };
  if (line.seconds.length < 2) return <p class="none">Nothing was allocated.</p>;
  return (
    <Section title="Two moments" note={<>Dragging over the line chooses a stretch of time; {quantum(processes)}.</>}>
      <div class="tools">
        <MomentField name="from" us={fromUs.value} onChange={(us) => compareMoments(us, toUs.value)} />
        <MomentField name="to" us={toUs.value} onChange={(us) => compareMoments(fromUs.value, us)} />
      </div>
      <p class="hoverline" aria-live="off">
        {hoverText(line, at, "live bytes")}
      </p>
      <Chart
        name="moments"
        label="Live bytes over time"
        theme={shade}
        height={130}
        data={data}
        series={[{ stroke: css(live), width: 1.5, fill: `${css(live)}22` }]}
        xLabel=""
        xFormat={sinceLabel}
        yFormat={bytesLabel}
        yFromZero
        over={over}
        scene={[from, to, processes]}
        onRange={(a, b) => compareMoments(a * 1e6, b * 1e6)}
        onHover={setAt}
      />
    </Section>
  );
}
