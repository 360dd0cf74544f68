// The path between two events: who owns each piece of the time, and how that is known.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { css } from "../../draw/palette.ts";
import { nanos } from "../../logic/format.ts";
import { objectName, type PathStep, type Timeline } from "../../logic/timeline.ts";
import { Dot, Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import { theme } from "../../state.ts";
import { ObjectLink, PathLegend, relative, shownName, timelineWaiting } from "./parts.tsx";
import { CLASSES, pathColour } from "./pathcolours.ts";
import { pathPart, showObject, tapesOf, timeline } from "./state.ts";
import { TapePlot } from "./tapes.tsx";

export function PathView(): JSX.Element {
  const wait = timelineWaiting();
  if (wait !== null) return wait;
  const of = timeline.value!;
  if (of.path === null || of.path.length === 0) return <p class="none">This page has no path.</p>;
  return <OnePath of={of} path={of.path} />;
}

const took = (step: PathStep) => step.to - step.from;

function OnePath({ of, path }: { of: Timeline; path: readonly PathStep[] }): JSX.Element {
  const tapes = useMemo(
    () => tapesOf(Uint32Array.from(new Set(path.flatMap((step) => (step.object === null ? [] : [step.object]))))),
    [of, path],
  );
  return (
    <div class="pathview">
      <PathLegend path={path} />
      {tapes !== null && tapes.rows.length > 0 && (
        <figure>
          <figcaption>the objects of the path; the line below a tape says how its piece is known</figcaption>
          <TapePlot
            name="path"
            label="The objects of the path over time. The table below holds its steps."
            tapes={tapes}
            part={pathPart}
            height={Math.max(120, Math.min(innerHeight - 280, 40 + tapes.rows.length * 22))}
            path={path}
            onLane={(lane) => showObject(lane)}
          />
        </figure>
      )}
      <Section title="Steps">
        <Table
          name="path"
          caption="Steps of the path by time"
          hideCaption
          rows={path}
          rowKey={(_, index) => index}
          columns={[
            {
              key: "from",
              label: "From",
              number: true,
              value: (step) => step.from,
              show: (step) => relative(step.from),
            },
            { key: "took", label: "Took", number: true, value: took, show: (step) => nanos(took(step)) },
            {
              key: "class",
              label: "Known by",
              value: (step) => step.class,
              show: (step) => (
                <span class="state" title={CLASSES[step.class][1]}>
                  <Dot colour={css(pathColour(step.class, theme.value))} />
                  {step.class}
                </span>
              ),
            },
            {
              key: "object",
              label: "Owner",
              value: (step) => (step.object === null ? "" : objectName(of, step.object)),
              show: (step) => (step.object === null ? "nobody" : <ObjectLink of={of} object={step.object} />),
            },
            { key: "why", label: "Why", value: (step) => step.why, show: (step) => shownName(step.why, 400) },
          ]}
        />
      </Section>
    </div>
  );
}
