// Every run as it was taken, how runs spread, and what differs: states, variants, recordings.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { Chart } from "../../draw/chart.tsx";
import { css, ground, mixed, stateColour, type Theme } from "../../draw/palette.ts";
import {
  bytes,
  change,
  count,
  differenceS,
  estimateS,
  harmless,
  percent,
  plural,
  pValue,
  ratio,
  seconds,
} from "../../logic/format.ts";
import {
  beeswarm,
  byRun,
  cumulative,
  knownMetrics,
  METRICS,
  type MetricName,
  type MetricUnit,
  metricOf,
  quantile,
} from "../../logic/runs.ts";
import { bytesLabel, secondsLabel } from "../../logic/ticks.ts";
import { AsTable, Dot, Section, State } from "../../parts/bits.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import type {
  Cell,
  Comparison,
  Contrast,
  Estimate,
  Sample,
  StateComparison,
  Statistics,
} from "../../types/document.ts";
import { page } from "../shared/document.ts";
import { metric } from "./state.ts";

export function RunsView(): JSX.Element | null {
  const made = page.value;
  if (made === null) return null;
  const { statistics, variants } = made.document;
  const several = variants.length > 1;
  return (
    <>
      {statistics.cells.length === 0 ? (
        <p class="none">No timed run was finished, so there is nothing to draw.</p>
      ) : (
        <Runs statistics={statistics} several={several} />
      )}
      <Contrasts statistics={statistics} />
      {made.comparison !== null && <Compared comparison={made.comparison} />}
      <Rejected statistics={statistics} />
      <Noise statistics={statistics} />
    </>
  );
}

const FORMATS: Record<MetricUnit, (value: number) => string> = {
  seconds: (value) => seconds(value),
  bytes: (value) => bytes(value),
  count: (value) => count(value),
  share: (value) => percent(value),
};

/** Along an axis the step says how many digits tell neighbours apart. */
const AXES: Record<MetricUnit, (value: number, step: number) => string> = {
  seconds: secondsLabel,
  bytes: bytesLabel,
  count: (value) => count(value),
  share: (value) => percent(value),
};

/** The same colour for a state; further variants are lighter. */
function cellColour(cell: Cell, shade: Theme): string {
  const colour = stateColour(cell.state, shade);
  return css(cell.variant === 0 ? colour : mixed(colour, ground(shade).text, Math.max(0.35, 1 - 0.3 * cell.variant)));
}

const cellName = (cell: Cell, several: boolean) => (several ? `${cell.variant_name}, ${cell.state}` : cell.state);

function Runs({ statistics, several }: { statistics: Statistics; several: boolean }): JSX.Element {
  const { cells } = statistics;
  const known = knownMetrics(cells);
  const [name, label, unit] = known.find(([it]) => it === metric.value) ?? METRICS[0];
  return (
    <>
      <div class="tools">
        <label class="choice">
          <span class="what">figure</span>
          <select value={name} onChange={(event) => (metric.value = event.currentTarget.value)}>
            {known.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <ul class="legend" aria-label="States">
          {cells.map((cell) => (
            <li key={cellName(cell, true)}>
              <span class="item">
                <Dot colour={cellColour(cell, theme.value)} />
                {harmless(cellName(cell, several))}
              </span>
            </li>
          ))}
        </ul>
      </div>
      <div class="columns">
        <InOrder cells={cells} name={name} label={label} unit={unit} />
        <Spread cells={cells} name={name} label={label} unit={unit} several={several} />
      </div>
      <Strips cells={cells} name={name} unit={unit} several={several} />
      <AllRuns cells={cells} several={several} />
    </>
  );
}

interface SeriesProps {
  readonly cells: readonly Cell[];
  readonly name: MetricName;
  readonly label: string;
  readonly unit: MetricUnit;
}

function InOrder({ cells, name, label, unit }: SeriesProps): JSX.Element {
  const shade = theme.value;
  const { runs, values } = useMemo(() => byRun(cells, name), [cells, name]);
  const data = useMemo(() => [runs, ...values] as uPlot.AlignedData, [runs, values]);
  const series = cells.map((cell): uPlot.Series => {
    const colour = cellColour(cell, shade);
    return {
      label: cell.state,
      stroke: colour,
      width: 1,
      paths: () => null,
      points: { show: true, size: 7, fill: colour, stroke: colour },
    };
  });
  const odd = cells.flatMap((cell) => [
    ...cell.outliers.map((run) => [run, "outlier"] as const),
    ...cell.busy.map((run) => [run, "busy"] as const),
  ]);
  const over = (chart: uPlot) => {
    const context = chart.ctx;
    const per = devicePixelRatio || 1;
    context.save();
    cells.forEach((cell, index) => {
      const middle = quantile(
        cell.samples.map((sample) => metricOf(sample, name)).filter((value) => value !== null),
        0.5,
      );
      if (middle === null) return;
      context.strokeStyle = cellColour(cell, shade);
      context.globalAlpha = 0.45;
      context.setLineDash([4 * per, 4 * per]);
      const y = chart.valToPos(middle, "y", true);
      context.beginPath();
      context.moveTo(chart.bbox.left, y);
      context.lineTo(chart.bbox.left + chart.bbox.width, y);
      context.stroke();
      context.globalAlpha = 1;
      context.setLineDash([]);
      for (const [run, why] of odd) {
        const value = values[index][runs.indexOf(run)];
        if (value === null || value === undefined) continue;
        context.strokeStyle = css(ground(shade).text);
        context.lineWidth = (why === "outlier" ? 1.5 : 1) * per;
        context.setLineDash(why === "outlier" ? [] : [2 * per, 2 * per]);
        context.beginPath();
        context.arc(chart.valToPos(run, "x", true), chart.valToPos(value, "y", true), 7 * per, 0, 2 * Math.PI);
        context.stroke();
      }
    });
    context.restore();
  };
  return (
    <figure>
      <figcaption>{label} in the order taken · dashed: median · ring: outlier · dotted ring: busy machine</figcaption>
      <Chart
        name="runs"
        label={`${label} by run number. The table of all runs holds the same.`}
        theme={shade}
        height={300}
        data={data}
        series={series}
        xLabel="run"
        xFormat={(value) => (Number.isInteger(value) ? String(value) : "")}
        yFormat={AXES[unit]}
        yFromZero
        over={over}
      />
    </figure>
  );
}

function Spread({ cells, name, label, unit }: SeriesProps & { several: boolean }): JSX.Element {
  const shade = theme.value;
  const { x, shares } = useMemo(() => cumulative(cells, name), [cells, name]);
  const data = useMemo(() => [x, ...shares] as uPlot.AlignedData, [x, shares]);
  const series = cells.map((cell): uPlot.Series => {
    const colour = cellColour(cell, shade);
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return {
      label: cell.state,
      stroke: colour,
      width: 2,
      points: { show: false },
      spanGaps: false,
      ...(stepped === undefined ? {} : { paths: stepped }),
    };
  });
  return (
    <figure>
      <figcaption>share of runs that were at or below: {label}</figcaption>
      <Chart
        name="spread"
        label={`Cumulative distribution of ${label}. The strips below show every run.`}
        theme={shade}
        height={300}
        data={data}
        series={series}
        xLabel={label}
        xFormat={AXES[unit]}
        yFormat={(value) => percent(value)}
        yFromZero
      />
    </figure>
  );
}

/** One strip per cell: every run a dot, the quartiles a box, the median a line. */
function Strips({ cells, name, unit, several }: Omit<SeriesProps, "label"> & { several: boolean }): JSX.Element {
  const shade = theme.value;
  return (
    <figure class="strips">
      <figcaption>
        each state by itself: every run a dot, the middle half a box, the median a line; each strip has its own scale
      </figcaption>
      {cells.map((cell) => {
        const samples = cell.samples.filter((sample) => metricOf(sample, name) !== null);
        const values = samples.map((sample) => metricOf(sample, name) ?? 0);
        if (values.length === 0) return null;
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const share = (value: number) => `${high > low ? 2 + ((value - low) / (high - low)) * 96 : 50}%`;
        const [q1, q2, q3] = [0.25, 0.5, 0.75].map((p) => quantile(values, p) ?? 0);
        const dots = beeswarm(values, 600, 9, low, high);
        const rows = Math.max(...dots.map((dot) => Math.abs(dot.row)));
        const height = 26 + rows * 14;
        return (
          <div class="strip" key={cellName(cell, true)}>
            <span class="who">
              <State state={cell.state} /> {several && harmless(cell.variant_name)}
            </span>
            <div class="swarm" style={{ height: `${height}px` }}>
              {/* The box and its line are the quartiles of the runs, not an interval of confidence. */}
              <span class="box" style={{ left: share(q1), width: `calc(${share(q3)} - ${share(q1)})` }} />
              <span class="median" style={{ left: share(q2) }} />
              {dots.map((dot) => (
                <span
                  key={dot.index}
                  class="dot"
                  title={`run ${samples[dot.index].run}: ${FORMATS[unit](values[dot.index])}`}
                  style={{
                    left: share(values[dot.index]),
                    top: `${height / 2 + dot.row * 7}px`,
                    background: cellColour(cell, shade),
                  }}
                />
              ))}
            </div>
            <span class="ends">
              {FORMATS[unit](low)} … {FORMATS[unit](high)}
            </span>
          </div>
        );
      })}
      <Trends cells={cells} several={several} />
    </figure>
  );
}

function Trends({ cells, several }: { cells: readonly Cell[]; several: boolean }): JSX.Element {
  const columns: Column<Cell>[] = [
    {
      key: "state",
      label: "State",
      value: (cell) => cellName(cell, several),
      show: (cell) =>
        several ? (
          <>
            {harmless(cell.variant_name)} <State state={cell.state} />
          </>
        ) : (
          <State state={cell.state} />
        ),
    },
    {
      key: "median",
      label: "Median, 95 % interval",
      number: true,
      value: (cell) => cell.median_s.value,
      show: (cell) => estimateS(cell.median_s),
    },
    {
      key: "stddev",
      label: "Standard deviation",
      number: true,
      value: (cell) => cell.stddev_s,
      show: (cell) => seconds(cell.stddev_s),
    },
    {
      key: "drift",
      label: "Trend a run",
      title: "Theil-Sen slope as a share of the median, with the p of Mann and Kendall",
      number: true,
      value: (cell) => cell.drift?.share_per_run ?? null,
      show: (cell) => (cell.drift === null ? "–" : `${change(1 + cell.drift.share_per_run)} (${pValue(cell.drift.p)})`),
    },
    {
      key: "lag1",
      label: "Autocorrelation",
      title: "Lag 1: whether a run is like the run before it; 0: independent",
      number: true,
      value: (cell) => cell.lag1,
      show: (cell) => (cell.lag1 === null ? "–" : cell.lag1.toFixed(2)),
    },
    {
      key: "outliers",
      label: "Far from the others",
      number: true,
      value: (cell) => cell.outliers.length,
      show: (cell) => (cell.outliers.length === 0 ? "–" : `run ${cell.outliers.join(", ")}`),
    },
    {
      key: "busy",
      label: "Busy machine",
      number: true,
      value: (cell) => cell.busy.length,
      show: (cell) => (cell.busy.length === 0 ? "–" : `run ${cell.busy.join(", ")}`),
    },
  ];
  return (
    <Table
      name="trends"
      caption="Time until ready: spread and order"
      hideCaption
      copy={false}
      columns={columns}
      rows={cells}
      rowKey={(cell) => cellName(cell, true)}
    />
  );
}

function AllRuns({ cells, several }: { cells: readonly Cell[]; several: boolean }): JSX.Element {
  type Row = { readonly cell: Cell; readonly sample: Sample };
  const rows = cells
    .flatMap((cell) => cell.samples.map((sample): Row => ({ cell, sample })))
    .sort((a, b) => a.sample.run - b.sample.run);
  const columns: Column<Row>[] = [
    { key: "run", label: "Run", number: true, value: (row) => row.sample.run },
    {
      key: "state",
      label: "State",
      value: (row) => cellName(row.cell, several),
      show: (row) => (several ? harmless(cellName(row.cell, true)) : <State state={row.cell.state} />),
    },
    { key: "block", label: "Block", number: true, value: (row) => row.sample.block },
    {
      key: "wall_s",
      label: "Until ready",
      number: true,
      value: (row) => row.sample.wall_s,
      show: (row) => seconds(row.sample.wall_s),
    },
    {
      key: "user_s",
      label: "CPU, program",
      number: true,
      value: (row) => row.sample.user_s,
      show: (row) => seconds(row.sample.user_s),
    },
    {
      key: "system_s",
      label: "CPU, kernel",
      number: true,
      value: (row) => row.sample.system_s,
      show: (row) => seconds(row.sample.system_s),
    },
    {
      key: "read_bytes",
      label: "Read",
      number: true,
      value: (row) => row.sample.read_bytes,
      show: (row) => bytes(row.sample.read_bytes),
    },
    {
      key: "read_requests",
      label: "Requests",
      number: true,
      value: (row) => row.sample.read_requests,
      show: (row) => count(row.sample.read_requests),
    },
    {
      key: "major_faults",
      label: "Major faults",
      number: true,
      value: (row) => row.sample.major_faults,
      show: (row) => count(row.sample.major_faults),
    },
    {
      key: "max_rss_bytes",
      label: "Memory",
      number: true,
      value: (row) => row.sample.max_rss_bytes,
      show: (row) => bytes(row.sample.max_rss_bytes),
    },
    {
      key: "others_cpu_share",
      label: "Others’ CPU",
      number: true,
      value: (row) => row.sample.others_cpu_share,
      show: (row) => percent(row.sample.others_cpu_share),
    },
  ];
  return (
    <AsTable summary={`All ${plural(rows.length, "run", "runs")} as a table`}>
      {() => (
        <Table
          name="allruns"
          caption="All runs that count"
          hideCaption
          columns={columns}
          rows={rows}
          rowKey={(row) => row.sample.run}
        />
      )}
    </AsTable>
  );
}

/** Ratios on a common axis: the interval a line, 1 in the middle of what differs. */
function RatioLine({ estimate, range }: { estimate: Estimate; range: readonly [number, number] }): JSX.Element {
  const [low, high] = range.map(Math.log);
  const share = (value: number) => `${Math.max(0, Math.min(1, (Math.log(value) - low) / (high - low || 1))) * 100}%`;
  const { value, interval } = estimate;
  return (
    <span class="dotline ratio" aria-hidden="true">
      <span class="one" style={{ left: share(1) }} />
      {interval !== null && interval.low > 0 && (
        <span
          class="whisker"
          style={{ left: share(interval.low), width: `calc(${share(interval.high)} - ${share(interval.low)})` }}
        />
      )}
      {value !== null && value > 0 && <span class="point" style={{ left: share(value) }} />}
    </span>
  );
}

function ratioRange(estimates: readonly Estimate[]): [number, number] {
  const ends = estimates
    .flatMap(({ value, interval }) => [value, interval?.low ?? null, interval?.high ?? null])
    .filter((end) => end !== null && end > 0);
  const [low, high] = [Math.min(1, ...(ends as number[])), Math.max(1, ...(ends as number[]))];
  return [low * 0.97, high * 1.03];
}

const ONE = (estimate: Estimate) =>
  estimate.interval !== null && estimate.interval.low <= 1 && estimate.interval.high >= 1;

function Contrasts({ statistics }: { statistics: Statistics }): JSX.Element | null {
  const { contrasts, differences } = statistics;
  if (contrasts.length === 0) return null;
  const range = ratioRange(contrasts.map((contrast) => contrast.ratio));
  const columns: Column<Contrast>[] = [
    { key: "what", label: "Ratio of times", value: (it) => it.what, show: (it) => harmless(it.what) },
    {
      key: "picture",
      label: "95 % interval",
      value: () => null,
      wide: true,
      show: (it) => <RatioLine estimate={it.ratio} range={range} />,
    },
    { key: "ratio", label: "Ratio", number: true, value: (it) => it.ratio.value, show: (it) => ratio(it.ratio) },
    { key: "p", label: "p", number: true, value: (it) => it.p, show: (it) => pValue(it.p) },
    { key: "says", label: "Says", value: (it) => (ONE(it.ratio) ? "no difference shown" : "differs"), wide: true },
    { key: "pairs", label: "Pairs", number: true, value: (it) => it.pairs },
    { key: "method", label: "Method", value: (it) => it.method, wide: true },
  ];
  return (
    <Section title="What the cache changes">
      <Table
        name="contrasts"
        caption="Ratios inside this recording"
        hideCaption
        columns={columns}
        rows={contrasts}
        rowKey={(_, index) => index}
      />
      <Differences differences={differences} />
    </Section>
  );
}

function Differences({ differences }: { differences: Statistics["differences"] }): JSX.Element | null {
  if (differences.length === 0) return null;
  return (
    <Table
      name="differences"
      caption="Difference of differences: by how much the cost of a cold cache changed"
      columns={[
        { key: "what", label: "Difference", value: (it) => it.what, show: (it) => harmless(it.what) },
        {
          key: "seconds",
          label: "Seconds, 95 % interval",
          number: true,
          value: (it) => it.difference_s.value,
          show: (it) => differenceS(it.difference_s),
        },
      ]}
      rows={differences}
      rowKey={(_, index) => index}
    />
  );
}

function Compared({ comparison }: { comparison: Comparison }): JSX.Element {
  const range = ratioRange(comparison.states.map((state) => state.ratio));
  const columns: Column<StateComparison>[] = [
    {
      key: "state",
      label: "State",
      value: (it) => it.state,
      show: (it) => (
        <>
          <State state={it.state} />{" "}
          {it.before_name === it.after_name ? "" : harmless(`${it.before_name} → ${it.after_name}`)}
        </>
      ),
    },
    {
      key: "before",
      label: "Before",
      number: true,
      value: (it) => it.before_s.value,
      show: (it) => estimateS(it.before_s),
    },
    {
      key: "after",
      label: "After",
      number: true,
      value: (it) => it.after_s.value,
      show: (it) => estimateS(it.after_s),
    },
    {
      key: "picture",
      label: "After / before",
      value: () => null,
      wide: true,
      show: (it) => <RatioLine estimate={it.ratio} range={range} />,
    },
    { key: "ratio", label: "Ratio", number: true, value: (it) => it.ratio.value, show: (it) => ratio(it.ratio) },
    {
      key: "change",
      label: "Change",
      number: true,
      value: (it) => it.ratio.value,
      show: (it) => change(it.ratio.value),
    },
    { key: "p", label: "p", number: true, value: (it) => it.p, show: (it) => pValue(it.p) },
    {
      key: "runs",
      label: "Runs",
      number: true,
      value: (it) => it.before_runs,
      show: (it) => `${it.before_runs}, ${it.after_runs}`,
    },
  ];
  const metrics = comparison.states.flatMap((state) => state.metrics.map((it) => ({ state: state.state, ...it })));
  return (
    <Section
      title="Against the other recording"
      note="Before is the other recording, after is this one; a ratio above 1 means slower."
    >
      <Table
        name="comparison"
        caption="Before and after"
        hideCaption
        columns={columns}
        rows={comparison.states}
        rowKey={(_, index) => index}
        none="The recordings have no state in common."
      />
      <Differences differences={comparison.differences} />
      {comparison.changed.length > 0 && (
        <Table
          name="changed"
          caption="What else differs between the recordings"
          columns={[
            { key: "name", label: "Fact", value: (it) => it.name, show: (it) => harmless(it.name) },
            { key: "before", label: "Before", value: (it) => it.before, show: (it) => harmless(it.before ?? "–") },
            { key: "after", label: "After", value: (it) => it.after, show: (it) => harmless(it.after ?? "–") },
          ]}
          rows={comparison.changed}
          rowKey={(_, index) => index}
        />
      )}
      {comparison.warnings.length > 0 && (
        <ul class="warnings">
          {comparison.warnings.map((warning, index) => (
            <li key={index}>
              <span class="kind">{warning.kind}</span> {harmless(warning.text)}{" "}
              {warning.hint !== undefined && <span class="hint">{harmless(warning.hint)}</span>}
            </li>
          ))}
        </ul>
      )}
      {metrics.length > 0 && (
        <AsTable summary="Other figures before and after">
          {() => (
            <Table
              name="metrics"
              caption="Medians before and after"
              hideCaption
              columns={[
                { key: "state", label: "State", value: (it) => it.state },
                { key: "metric", label: "Figure", value: (it) => it.metric },
                {
                  key: "before",
                  label: "Before",
                  number: true,
                  value: (it) => it.before,
                  show: (it) => figure(it.metric, it.before),
                },
                {
                  key: "after",
                  label: "After",
                  number: true,
                  value: (it) => it.after,
                  show: (it) => figure(it.metric, it.after),
                },
                {
                  key: "ratio",
                  label: "Change",
                  number: true,
                  value: (it) => it.ratio,
                  show: (it) => change(it.ratio),
                },
              ]}
              rows={metrics}
              rowKey={(_, index) => index}
            />
          )}
        </AsTable>
      )}
    </Section>
  );
}

function figure(name: string, value: number): string {
  if (name.endsWith("_s")) return seconds(value);
  return name.endsWith("_bytes") ? bytes(value) : count(value);
}

function Rejected({ statistics }: { statistics: Statistics }): JSX.Element | null {
  const { rejected } = statistics;
  if (rejected.length === 0) return null;
  return (
    <Section title="Runs that do not count">
      <Table
        name="rejected"
        caption="Runs that do not count"
        hideCaption
        columns={[
          { key: "run", label: "Run", number: true, value: (it) => it.run },
          { key: "state", label: "State", value: (it) => it.state, show: (it) => <State state={it.state} /> },
          { key: "kind", label: "Kind", value: (it) => it.kind },
          { key: "attempt", label: "Try", number: true, value: (it) => it.attempt },
          { key: "because", label: "Because", value: (it) => it.because, show: (it) => harmless(it.because) },
        ]}
        rows={rejected}
        rowKey={(it) => it.run}
      />
    </Section>
  );
}

/** What tracing cost, and what this machine can tell apart. */
function Noise({ statistics }: { statistics: Statistics }): JSX.Element | null {
  const { overhead, noise_floor: floor } = statistics;
  if (overhead.length === 0 && floor === null) return null;
  return (
    <Section title="How far to trust this">
      {overhead.length > 0 && (
        <Table
          name="overhead"
          caption="What tracing cost: traced over timed runs"
          columns={[
            {
              key: "state",
              label: "State",
              value: (it) => `${it.variant_name} ${it.state}`,
              show: (it) => harmless(`${it.variant_name}, ${it.state}`),
            },
            {
              key: "cpu",
              label: "CPU time",
              number: true,
              value: (it) => it.cpu_ratio?.value ?? null,
              show: (it) => (it.cpu_ratio === null ? "–" : ratio(it.cpu_ratio)),
            },
            {
              key: "wall",
              label: "Time until ready",
              number: true,
              value: (it) => it.wall_ratio?.value ?? null,
              show: (it) => (it.wall_ratio === null ? "–" : ratio(it.wall_ratio)),
            },
            {
              key: "runs",
              label: "Traced, timed",
              number: true,
              value: (it) => it.traced_runs,
              show: (it) => `${it.traced_runs}, ${it.timed_runs}`,
            },
          ]}
          rows={overhead}
          rowKey={(_, index) => index}
        />
      )}
      {floor !== null && (
        <Table
          name="noise"
          caption="The program against itself: what this machine can tell apart"
          columns={[
            { key: "state", label: "State", value: (it) => it.state, show: (it) => <State state={it.state} /> },
            {
              key: "ratio",
              label: "Ratio (should hold 1)",
              number: true,
              value: (it) => it.ratio.value,
              show: (it) => ratio(it.ratio),
            },
            { key: "p", label: "p", number: true, value: (it) => it.p, show: (it) => pValue(it.p) },
            {
              key: "smallest",
              label: "Smallest change it shows",
              number: true,
              value: (it) => it.smallest_change,
              show: (it) => percent(it.smallest_change),
            },
            { key: "pairs", label: "Pairs", number: true, value: (it) => it.pairs },
          ]}
          rows={floor.states}
          rowKey={(_, index) => index}
        />
      )}
    </Section>
  );
}
