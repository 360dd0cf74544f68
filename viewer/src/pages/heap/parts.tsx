// What all views of a heap recording have: which process, which blocks, at which moment.

import type { JSX } from "preact";
import { bytes, count, harmless, plural, seconds } from "../../logic/format.ts";
import { type HeapProcess, type Line, MODES } from "../../logic/heap.ts";
import { Choice } from "../../parts/bits.tsx";
import type { RecordingHead } from "../../types/heap.ts";
import {
  atUs,
  heapAt,
  heapDamaged,
  heapMode,
  heapPage,
  heapProcess,
  heapRecording,
  mode,
  modeName,
  processLine,
  processName,
  recording,
} from "./state.ts";

/** What stands instead of a view while there is nothing to show; `null`: there is. */
export function waiting(): JSX.Element | null {
  if (heapDamaged.value !== null)
    return (
      <p class="failed" role="alert">
        This recording cannot be shown: {heapDamaged.value}.
      </p>
    );
  if (heapPage.value === null) return <p class="none">Unpacking the recording …</p>;
  if ((recording.value?.processes.length ?? 0) === 0)
    return <p class="none">{recording.value?.head.nothing ?? "The recording has no process."}</p>;
  return null;
}

/** Recording and process: what all views of a heap begin with. */
export function ProcessChoice({ all = true }: { all?: boolean }): JSX.Element {
  const recordings = heapPage.value?.recordings ?? [];
  const processes = recording.value?.processes ?? [];
  const order = processes
    .map((_, line) => line)
    .sort((a, b) => processes[b].head.figures.made.bytes - processes[a].head.figures.made.bytes);
  return (
    <>
      {recordings.length > 1 && (
        <Choice
          label="recording"
          values={recordings.map(
            ({ head }, number) =>
              [String(number), harmless(number === 0 ? `after: ${head.name}` : `before: ${head.name}`)] as const,
          )}
          value={heapRecording.value}
          onChange={(value) => (heapRecording.value = value)}
        />
      )}
      {processes.length > 1 && (
        <label class="choice processchoice">
          <span class="what">process</span>
          <select
            value={processLine.value === null ? "all" : String(processLine.value)}
            onChange={(event) => (heapProcess.value = event.currentTarget.value)}
            aria-label="process"
          >
            {all && <option value="all">all {count(processes.length)} processes</option>}
            {order.map((line) => (
              <option key={line} value={String(line)}>
                {harmless(processName(processes[line]))} · {bytes(processes[line].head.figures.made.bytes)}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

/** Which blocks are counted: all that were made, those live at a moment, temporary ones. */
export function ModeChoice({ moment = true }: { moment?: boolean }): JSX.Element {
  const modes = MODES.filter((it) => moment || it !== "at");
  return (
    <>
      <Choice
        label="blocks"
        values={modes.map((it) => [it, modeName(it)] as const)}
        value={!moment && mode.value === "at" ? "end" : mode.value}
        onChange={(value) => (heapMode.value = value)}
      />
      {moment && mode.value === "at" && (
        <MomentField name="T" us={atUs.value} onChange={(us) => (heapAt.value = String(Math.max(0, Math.round(us))))} />
      )}
    </>
  );
}

/** A moment to be typed, in seconds since the recording began. */
export function MomentField({
  name,
  us,
  onChange,
}: {
  name: string;
  us: number;
  onChange: (us: number) => void;
}): JSX.Element {
  return (
    <label class="choice">
      <span class="what">{name}</span>
      <input
        type="number"
        class="moment"
        step="any"
        min="0"
        value={Number((us / 1e6).toPrecision(6))}
        onChange={(event) =>
          Number.isFinite(event.currentTarget.valueAsNumber) && onChange(event.currentTarget.valueAsNumber * 1e6)
        }
      />
      <span class="what unit">s</span>
    </label>
  );
}

/** What was folded or filtered away, where that is so; in full once, where the recording is shown as a whole. */
export function Missing({ head, brief = true }: { head: RecordingHead; brief?: boolean }): JSX.Element | null {
  const { pruned, part } = head;
  if (pruned.share === 0 && part === "all") return null;
  return (
    <p class="note">
      {part === "filtered" &&
        "This page was made of a part of the recording only (filter, window of time, or threads). "}
      {pruned.share > 0 &&
        brief &&
        `Branches below ${(pruned.share * 100).toPrecision(2)} % of their process are put together as “(smaller)”.`}
      {pruned.share > 0 &&
        !brief &&
        `This page holds ${count(pruned.kept)} nodes for the ${count(pruned.nodes)} of the recording: branches below ` +
          `${(pruned.share * 100).toPrecision(2)} % of their process, in every mode, by bytes and by blocks, are put ` +
          "together as “(smaller)”, and told apart only by the function that wanted the memory. No byte is left out."}
    </p>
  );
}

export function sum(processes: readonly HeapProcess[], of: (process: HeapProcess) => number): number {
  return processes.reduce((all, process) => all + of(process), 0);
}

/** How exact a moment is. */
export function quantum(processes: readonly HeapProcess[]): string {
  const longest = Math.max(0, ...processes.map(({ head }) => head.moment_ns)) / 1e9;
  return `what each stack held is known at steps of ${seconds(longest)}`;
}

export function hoverText(line: Line, at: number | null, nothing: string): JSX.Element {
  if (at === null || at >= line.seconds.length) return <span class="soft">{nothing}</span>;
  return (
    <>
      {seconds(line.seconds[at])}: {bytes(line.bytes[at])} in {plural(line.blocks[at], "block", "blocks")}, at most{" "}
      {bytes(line.most[at])}
    </>
  );
}
