// Buffers that grow too slowly, and what doubling would avoid.

import type { JSX } from "preact";
import { bytes, count, harmless, plural } from "../../logic/format.ts";
import { Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import type { Finding, ProcessGrowth, Swing } from "../../types/document.ts";
import { ProcessChoice, waiting } from "./parts.tsx";
import { SiteName, sitePasses } from "./site.tsx";
import { processLine, recording } from "./state.ts";

interface Found {
  readonly process: ProcessGrowth;
  readonly finding: Finding;
}

export function GrowthView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  const head = recording.value!.processes[processLine.value ?? -1]?.head;
  const shown = recording.value!.growth.processes.filter(
    (process) => processLine.value === null || (process.pid === head?.pid && process.exe === head.exe),
  );
  // Where there are sums in the place of events, nobody saw sizes grow.
  const made = recording.value!.processes.filter((_, line) => line === (processLine.value ?? line));
  if (shown.length === 0 && made.some((process) => process.head.figures.made.blocks > 0)) {
    return (
      <>
        <div class="tools">
          <ProcessChoice />
        </div>
        <p class="none" data-part="growth">
          Unknown: growth is seen in the order of events, and this recording has sums in their place (--aggregate).
        </p>
      </>
    );
  }
  const found: Found[] = shown.flatMap((process) =>
    process.findings.filter((finding) => sitePasses(finding.site)).map((finding) => ({ process, finding })),
  );
  const swings = shown.flatMap((process) => process.swings.filter((swing) => sitePasses(swing.site)));
  const sum = (of: (finding: Finding) => number) => found.reduce((all, it) => all + of(it.finding), 0);
  const grown = shown.reduce((all, process) => all + process.grown_buffers, 0);
  return (
    <>
      <div class="tools">
        <ProcessChoice />
      </div>
      <dl class="figures" data-part="growth">
        <div>
          <dt>buffers that grew in several steps</dt>
          <dd data-value={grown}>{count(grown)}</dd>
        </div>
        <div>
          <dt>avoidable by doubling</dt>
          <dd data-value={sum((it) => it.avoidable_bytes)}>
            {bytes(sum((it) => it.avoidable_bytes))}{" "}
            <small class="soft">
              {plural(
                sum((it) => it.avoidable_calls),
                "call",
                "calls",
              )}
            </small>
          </dd>
        </div>
        <div>
          <dt>copied</dt>
          <dd data-value={sum((it) => it.copied_bytes)}>{bytes(sum((it) => it.copied_bytes))}</dd>
        </div>
      </dl>
      <Section
        title={`Places that grow buffers too slowly (${count(found.length)})`}
        note={
          "Linear: each step adds about the same number of bytes, so that the sum grows with the square of the last " +
          "size. Exponential: by a factor that is too small."
        }
      >
        <Table
          name="growth"
          caption="Places that grow buffers too slowly, the costliest first"
          hideCaption
          none={shown.length === 0 ? "The process allocated nothing." : "No place grows its buffers too slowly."}
          rows={found}
          rowKey={(_, index) => index}
          most={30}
          columns={[
            {
              key: "place",
              label: "Place",
              value: (it) => it.finding.site.map((frame) => frame.function ?? "").join(" < "),
              show: (it) => (
                <>
                  <SiteName site={it.finding.site} />
                  {processLine.value === null && (
                    <span class="soft line">
                      {harmless(it.process.exe)} {it.process.pid}
                    </span>
                  )}
                </>
              ),
            },
            {
              key: "shape",
              label: "Rule",
              value: (it) => it.finding.shape,
              show: (it) => <Rule finding={it.finding} />,
            },
            {
              key: "curve",
              label: "First steps",
              wide: true,
              value: (it) => it.finding.example.join(" "),
              show: (it) => <Curve sizes={it.finding.example} />,
            },
            {
              key: "avoidable",
              label: "Avoidable",
              number: true,
              value: (it) => it.finding.avoidable_bytes,
              show: (it) => (
                <>
                  {bytes(it.finding.avoidable_bytes)}
                  <br />
                  <span class="soft">of {bytes(it.finding.allocated_bytes)}</span>
                </>
              ),
            },
            {
              key: "last",
              label: "Buffers",
              number: true,
              value: (it) => it.finding.buffers,
              show: (it) => (
                <>
                  {count(it.finding.buffers)}
                  <br />
                  <span class="soft">to {bytes(it.finding.most_last_bytes)}</span>
                </>
              ),
            },
            {
              key: "steps",
              label: "Steps",
              number: true,
              wide: true,
              value: (it) => it.finding.steps,
              show: (it) => count(it.finding.steps),
            },
            {
              key: "copied",
              label: "Copied",
              number: true,
              wide: true,
              value: (it) => it.finding.copied_bytes,
              show: (it) => bytes(it.finding.copied_bytes),
            },
          ]}
        />
      </Section>
      {swings.length > 0 && <Swings list={swings} />}
    </>
  );
}

function Swings({ list }: { list: readonly Swing[] }): JSX.Element {
  return (
    <Section
      title={`Places that make buffers smaller and larger by turns (${count(list.length)})`}
      note="Keeping the largest size, or shrinking later, would save these calls."
    >
      <Table
        name="swings"
        caption="Places that make buffers smaller and larger by turns"
        hideCaption
        rows={list}
        rowKey={(_, index) => index}
        most={20}
        columns={[
          {
            key: "place",
            label: "Place",
            value: (it) => it.site.map((frame) => frame.function ?? "").join(" < "),
            show: (it) => <SiteName site={it.site} rows={2} />,
          },
          {
            key: "allocated",
            label: "Asked for",
            number: true,
            value: (it) => it.allocated_bytes,
            show: (it) => bytes(it.allocated_bytes),
          },
          {
            key: "copied",
            label: "Copied",
            number: true,
            value: (it) => it.copied_bytes,
            show: (it) => bytes(it.copied_bytes),
          },
          { key: "turns", label: "Turns", number: true, value: (it) => it.turns, show: (it) => count(it.turns) },
          {
            key: "calls",
            label: "Calls",
            number: true,
            wide: true,
            value: (it) => it.calls,
            show: (it) => count(it.calls),
          },
          {
            key: "sizes",
            label: "Sizes",
            number: true,
            value: (it) => it.most_bytes,
            show: (it) => (
              <span class="line">
                {bytes(it.least_bytes)} … {bytes(it.most_bytes)}
              </span>
            ),
          },
        ]}
      />
    </Section>
  );
}

function Rule({ finding }: { finding: Finding }): JSX.Element {
  const rule =
    finding.shape === "linear" ? `linear, + ${bytes(finding.typical_step)}` : `× ${finding.typical_step.toFixed(3)}`;
  return (
    <>
      <span class="line">{rule}</span>
      <span class="soft line">{finding.how === "realloc" ? "realloc" : "probable: copied and freed"}</span>
      {finding.predictable && <span class="line">reserve {bytes(finding.most_last_bytes)} at once</span>}
    </>
  );
}

/** Sizes as steps; wide enough to see whether they bend. */
function Curve({ sizes }: { sizes: readonly number[] }): JSX.Element {
  const [wide, high] = [120, 34];
  const most = Math.max(1, ...sizes);
  const each = wide / Math.max(1, sizes.length);
  const step = (size: number, index: number) => {
    const [x, y] = [index * each, high - (size / most) * (high - 2)];
    return `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)} h${each.toFixed(1)}`;
  };
  const points = sizes.map(step).join(" ");
  return (
    <svg class="curve" width={wide} height={high} role="img" aria-label={`sizes: ${sizes.join(", ")}`}>
      <title>{sizes.map((size) => count(size)).join(", ")}</title>
      <path class="area" d={`${points} V${high} H0 Z`} />
      <path d={points} />
    </svg>
  );
}
