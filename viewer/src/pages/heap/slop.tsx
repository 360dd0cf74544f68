// What the allocator rounds up, and who could ask for less.

import type { JSX } from "preact";
import { bytes, count, harmless, percent, plural } from "../../logic/format.ts";
import { Section } from "../../parts/bits.tsx";
import { Table } from "../../parts/table.tsx";
import type { Clownshoes, ProcessSlop, SiteSlop } from "../../types/document.ts";
import { ProcessChoice, waiting } from "./parts.tsx";
import { SiteName, sitePasses } from "./site.tsx";
import { processLine, recording } from "./state.ts";

export const CAUSES: Record<Clownshoes["cause"], string> = {
  terminator: "the end of a string, added after rounding",
  "stored-word": "a word stored beside the block, as its size",
  header: "a header before the payload, as of an arena's chunk",
  unclear: "unclear",
};

export function SlopView(): JSX.Element {
  const wait = waiting();
  if (wait !== null) return wait;
  const head = recording.value!.processes[processLine.value ?? -1]?.head;
  const all = recording.value!.slop.processes;
  const shown =
    processLine.value === null ? all : all.filter((process) => process.pid === head?.pid && process.exe === head.exe);
  return (
    <>
      <div class="tools">
        <ProcessChoice />
      </div>
      {shown.length === 0 && <p class="none">The process allocated nothing.</p>}
      {shown.length > 1 ? (
        <Several processes={shown} />
      ) : (
        shown.map((process, index) => <One key={index} process={process} />)
      )}
    </>
  );
}

const given = (slop: number, asked: number) => (slop + asked === 0 ? 0 : slop / (slop + asked));
const slopOf = (process: ProcessSlop) => process.classes.reduce((sum, it) => sum + it.slop_bytes, 0);

/** What was recorded first, if it was, then all models. */
function allocators(
  process: ProcessSlop,
): { readonly name: string; readonly slop_bytes: number; readonly peak_slop_bytes: number }[] {
  const recorded = process.recorded === null ? [] : [{ ...process.recorded, name: "in use, recorded" }];
  return [
    ...recorded,
    ...process.what_if.map((it) => ({
      ...it,
      name: it.model === process.allocator_model ? `${it.model} (model of the one in use)` : it.model,
    })),
  ];
}

function Several({ processes }: { processes: readonly ProcessSlop[] }): JSX.Element {
  return (
    <Section title="All processes" note="Choose one to see its size classes and places.">
      <Table
        name="slopprocesses"
        caption="Slop of each process"
        hideCaption
        rows={processes}
        rowKey={(_, index) => index}
        sort="-slop"
        columns={[
          { key: "exe", label: "Program", value: (it) => it.exe, show: (it) => harmless(it.exe) },
          { key: "pid", label: "Process", number: true, value: (it) => it.pid },
          { key: "model", label: "Sizes", value: (it) => (it.given === "recorded" ? "recorded" : it.model) },
          {
            key: "asked",
            label: "Asked for",
            number: true,
            value: (it) => it.requested_bytes,
            show: (it) => bytes(it.requested_bytes),
          },
          { key: "slop", label: "Wasted", number: true, value: slopOf, show: (it) => bytes(slopOf(it)) },
          {
            key: "share",
            label: "Share",
            number: true,
            value: (it) => given(slopOf(it), it.requested_bytes),
            show: (it) => percent(given(slopOf(it), it.requested_bytes)),
          },
          {
            key: "shoes",
            label: "A little over a power of two",
            number: true,
            value: (it) => it.clownshoes.length,
            show: (it) => plural(it.clownshoes.length, "place", "places"),
          },
        ]}
      />
    </Section>
  );
}

function One({ process }: { process: ProcessSlop }): JSX.Element {
  const most = Math.max(1, ...allocators(process).map((it) => it.slop_bytes));
  const mostClass = Math.max(1, ...process.classes.map((it) => it.slop_bytes));
  const shoes = process.clownshoes.filter((it) => sitePasses(it.site));
  const sites = process.sites.filter((it) => it.slop_bytes > 0 && sitePasses(it.site));
  return (
    <>
      <dl class="figures" data-part="slop">
        <div>
          <dt>asked for</dt>
          <dd data-value={process.requested_bytes}>
            {bytes(process.requested_bytes)} <small class="soft">{plural(process.blocks, "block", "blocks")}</small>
          </dd>
        </div>
        <div>
          <dt>{process.given === "recorded" ? "wasted, as the allocator said" : `wasted with ${process.model}`}</dt>
          <dd data-value={slopOf(process)}>
            {bytes(slopOf(process))}{" "}
            <small class="soft">{percent(given(slopOf(process), process.requested_bytes))} of what was given</small>
          </dd>
        </div>
        <div>
          <dt>most at a time</dt>
          <dd data-value={process.peak_requested_bytes}>{bytes(process.peak_requested_bytes)}</dd>
        </div>
      </dl>
      {process.allocator_model === null && process.given === "modelled" && (
        <p class="note">
          There is no model of this program's allocator: the tables are what {process.model} would give.
        </p>
      )}
      <Section
        title={`A little more than a power of two (${count(shoes.length)})`}
        note={
          "Such a request gets a block of nearly twice the size, or a page more. Ask for the power itself; " +
          "the payload is what is left of it."
        }
      >
        <Shoes list={shoes} />
      </Section>
      <div class="columns">
        <Section title="The same requests with other allocators">
          <Table
            name="whatif"
            caption="What each allocator would waste"
            hideCaption
            rows={allocators(process)}
            rowKey={(it) => it.name}
            columns={[
              { key: "model", label: "Allocator", value: (it) => it.name, show: (it) => harmless(it.name) },
              {
                key: "slop",
                label: "Wasted, all blocks",
                number: true,
                value: (it) => it.slop_bytes,
                show: (it) => bytes(it.slop_bytes),
                bar: (it) => it.slop_bytes / most,
              },
              {
                key: "share",
                label: "Share",
                number: true,
                value: (it) => given(it.slop_bytes, process.requested_bytes),
                show: (it) => percent(given(it.slop_bytes, process.requested_bytes)),
              },
              {
                key: "peak",
                label: "At the peak",
                number: true,
                value: (it) => it.peak_slop_bytes,
                show: (it) => bytes(it.peak_slop_bytes),
              },
            ]}
          />
        </Section>
        <Section title={process.given === "recorded" ? "Sizes of blocks" : `Size classes of ${process.model}`}>
          <Table
            name="classes"
            caption="Blocks by size class"
            hideCaption
            rows={process.classes}
            rowKey={(it) => `${it.category}${it.usable}`}
            most={12}
            sort="-slop"
            columns={[
              { key: "usable", label: "Class", number: true, value: (it) => it.usable, show: (it) => count(it.usable) },
              {
                key: "kind",
                label: "Kind",
                value: (it) => it.category,
                show: (it) => <span class="soft">{it.category}</span>,
              },
              {
                key: "blocks",
                label: "Blocks",
                number: true,
                value: (it) => it.blocks,
                show: (it) => count(it.blocks),
              },
              {
                key: "asked",
                label: "Asked for",
                number: true,
                wide: true,
                value: (it) => it.requested_bytes,
                show: (it) => bytes(it.requested_bytes),
              },
              {
                key: "slop",
                label: "Wasted",
                number: true,
                value: (it) => it.slop_bytes,
                show: (it) => bytes(it.slop_bytes),
                bar: (it) => it.slop_bytes / mostClass,
              },
            ]}
          />
        </Section>
      </div>
      <Section title="Places">
        <Sites list={sites} />
      </Section>
    </>
  );
}

function Shoes({ list }: { list: readonly Clownshoes[] }): JSX.Element {
  const worst = (it: Clownshoes) => Math.max(0, ...it.waste.map((waste) => waste.bytes));
  return (
    <Table
      name="clownshoes"
      caption="Places that ask for a little more than a power of two"
      hideCaption
      none="No place asks for a little more than a power of two."
      rows={list}
      rowKey={(_, index) => index}
      most={20}
      columns={[
        {
          key: "place",
          label: "Place",
          value: (it) => it.site.map((frame) => frame.function ?? "").join(" < "),
          show: (it) => <SiteName site={it.site} />,
        },
        {
          key: "request",
          label: "Asks for",
          number: true,
          value: (it) => it.shoes[0]?.request ?? null,
          show: (it) => <Sizes shoes={it} />,
        },
        {
          key: "ask",
          label: "Ask instead",
          number: true,
          value: (it) => it.shoes[0]?.ask ?? null,
          show: (it) => (
            <>
              <strong>{count(it.shoes[0]?.ask)}</strong>
              <br />
              <span class="soft">payload {count(it.shoes[0]?.payload)}</span>
            </>
          ),
        },
        {
          key: "cause",
          label: "Probable cause",
          wide: true,
          value: (it) => it.cause,
          show: (it) => (
            <>
              {CAUSES[it.cause]}
              <br />
              <span class="soft">
                {it.certainty === "strong"
                  ? "the same excess at several sizes"
                  : it.shoes.length > 1
                    ? "another excess at each size"
                    : "one size only"}
              </span>
            </>
          ),
        },
        {
          key: "waste",
          label: "Wasted at most",
          number: true,
          value: worst,
          show: (it) => (
            <span title={it.waste.map((waste) => `${waste.model} ${bytes(waste.bytes)}`).join(", ")}>
              {bytes(worst(it))}
              <br />
              <span class="soft">{it.waste.find((waste) => waste.bytes === worst(it))?.model}</span>
            </span>
          ),
        },
      ]}
    />
  );
}

function Sizes({ shoes }: { shoes: Clownshoes }): JSX.Element {
  return (
    <>
      {shoes.shoes.slice(0, 3).map((shoe) => (
        <span key={shoe.request} class="line">
          {count(shoe.request)}{" "}
          <span class="soft">
            × {count(shoe.blocks)}, {count(shoe.over)} over
          </span>
        </span>
      ))}
      {shoes.shoes.length > 3 && <span class="soft line">and {count(shoes.shoes.length - 3)} more sizes</span>}
    </>
  );
}

function Sites({ list }: { list: readonly SiteSlop[] }): JSX.Element {
  const most = Math.max(1, ...list.map((it) => it.slop_bytes));
  return (
    <Table
      name="slopsites"
      caption="Places by what they waste"
      hideCaption
      none="Nothing is wasted."
      rows={list}
      rowKey={(_, index) => index}
      most={20}
      sort="-slop"
      columns={[
        {
          key: "place",
          label: "Place",
          value: (it) => it.site.map((frame) => frame.function ?? "").join(" < "),
          show: (it) => <SiteName site={it.site} rows={2} />,
        },
        {
          key: "slop",
          label: "Wasted",
          number: true,
          value: (it) => it.slop_bytes,
          show: (it) => bytes(it.slop_bytes),
          bar: (it) => it.slop_bytes / most,
        },
        {
          key: "share",
          label: "Share",
          number: true,
          value: (it) => given(it.slop_bytes, it.requested_bytes),
          show: (it) => percent(given(it.slop_bytes, it.requested_bytes)),
        },
        { key: "blocks", label: "Blocks", number: true, value: (it) => it.blocks, show: (it) => count(it.blocks) },
        {
          key: "sizes",
          label: "Sizes",
          number: true,
          wide: true,
          value: (it) => it.sizes,
          show: (it) => count(it.sizes),
        },
      ]}
    />
  );
}
