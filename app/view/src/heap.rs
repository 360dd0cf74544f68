//! The page of a heap recording: the stacks of all processes with what they made and held, what was live over time,
//! slop and growth. What the document holds is in `docs/view-format.md`; `viewer/src/logic/heap.ts` reads it.
//!
//! Sums come from `measure/heap`; this folds small stacks together, so that a page of a browser stays a page, and
//! counts what it folded.

mod moments;
mod stacks;

use crate::columns::{Column, Texts};
use crate::events::{Table, micros};
use crate::html;
use ::heap::modes::{Figures, Heap, Measure, Timeline, Window};
use ::heap::whole::Whole;
use heapfile::event::{Process, Stopped};
use heapfile::reader::Reader;
use model::{Error, Result, Warning, shown};
use moments::Moments;
use serde::Serialize;
use stacks::{Folded, Frames, Trie};
use std::collections::BTreeMap;

/// Version of what a page holds of a heap recording.
pub const HEAP_SCHEMA: &str = "thaw.heap-view/1";

/// Nodes that a page holds at most, all processes together.
const MOST_NODES: usize = 150_000;
/// Changes over time that a page holds at most, all processes together; each has its share by the number of its sites.
const MOST_CHANGES: usize = 800_000;

/// A recording that was read, with its judgements.
#[derive(Clone, Copy, Debug)]
pub struct HeapOf<'a> {
    /// Its file name, or what the user called it.
    pub name: &'a str,
    /// The open recording: its command line, its processes, its version.
    pub reader: &'a Reader,
    /// Its sites, those that are wanted, named; what they held over time; slop and growth.
    pub whole: &'a Whole,
    /// The window that they were read with.
    pub window: Window,
    /// Whether a part of the stacks was filtered out.
    pub part: Part,
}

/// How much of a recording is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Every stack.
    All,
    /// Only what passed a filter.
    Filtered,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// The mode that the page opens with.
    measure: Measure,
    frames: PackedFrames,
    /// The recording; a second one is what it is compared with.
    recordings: Vec<RecordingOf<'a>>,
}

#[derive(Debug, Serialize)]
struct RecordingOf<'a> {
    name: &'a str,
    command: &'a [String],
    thaw_version: &'a str,
    created_unix_ns: u64,
    finished: bool,
    code: Option<i32>,
    signal: Option<i32>,
    nothing: Option<&'a str>,
    window: Window,
    part: Part,
    processes: Vec<ProcessOf>,
    pruned: Pruned,
    /// JSON of the judgements: places repeat themselves for megabytes.
    slop: Texts,
    growth: Texts,
    warnings: &'a [Warning],
}

/// What is not told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Pruned {
    /// Nodes of the stacks of the recording.
    nodes: usize,
    /// Those that the page has.
    kept: usize,
    /// Nodes below this share of their process, by bytes and blocks in all modes, were put together; 0: none.
    share: f64,
}

#[derive(Debug, Serialize)]
struct PackedFrames {
    /// Functions, or objects with addresses.
    names: Texts,
    objects: Texts,
    sources: Texts,
    table: Table,
}

#[derive(Debug, Serialize)]
struct ProcessOf {
    pid: u32,
    ppid: u32,
    exe: String,
    command: Vec<String>,
    /// How the allocator was hooked.
    tiers: Vec<&'static str>,
    /// Events that are not in its stream.
    lost: u64,
    /// Why its figures may be wrong; empty: nothing is known against them.
    doubt: String,
    start_us: u64,
    /// Of its last event, since the recording began.
    end_us: u64,
    peak_us: u64,
    peak_bytes: u64,
    peak_blocks: u64,
    figures: Figures,
    /// Nanoseconds between two points of `timeline`.
    step_ns: u64,
    timeline: Table,
    stacks: Table,
    /// Nanoseconds of a step of `changes`.
    moment_ns: u64,
    /// Steps of `changes`.
    moments: u64,
    changes: Table,
}

/// The page of a recording, or of one and of what it is compared with (which comes second). `measure` is shown first.
///
/// # Errors
/// It cannot be written as JSON.
pub fn heap_page(recordings: &[HeapOf<'_>], measure: Measure) -> Result<String> {
    let mut frames = Frames::default();
    let parts = recordings.len().max(1);
    let recordings = recordings.iter().map(|of| recording(of, parts, &mut frames)).collect::<Result<Vec<_>>>()?;
    let shown = recordings.first().map_or("", |first| first.command.first().map_or(first.name, String::as_str));
    let title = format!("What {shown} allocates · thaw");
    let document = Document { schema: HEAP_SCHEMA, measure, frames: packed_frames(&frames), recordings };
    html::single(&title, "thaw heap report", "thaw-heap", &document)
}

/// One of so many `parts` of a page.
fn recording<'a>(of: &HeapOf<'a>, parts: usize, frames: &mut Frames) -> Result<RecordingOf<'a>> {
    // The numbers of frames are those of one recording.
    frames.next_recording();
    let named = &of.whole.named;
    let tries: Vec<Trie> = named.heaps.iter().map(|heap| Trie::of(heap, &named.names, frames)).collect();
    let share = stacks::share(&tries, MOST_NODES / parts);
    let mut pruned = Pruned { share, ..Pruned::default() };
    let sites = tries.iter().map(Trie::sites).sum::<usize>().max(1);
    let mut processes = Vec::new();
    let heaps = named.heaps.iter().zip(&named.processes).zip(&of.whole.moments);
    for (((heap, process), known), trie) in heaps.zip(&tries) {
        let folded = trie.fold(share, MOST_NODES / parts / 3 * trie.sites() / sites, frames);
        pruned.nodes += trie.len();
        pruned.kept += folded.len();
        let most = MOST_CHANGES / parts * trie.sites() / sites;
        let moments = moments::of(known, heap, &folded.node_of_site, most);
        processes.push(packed(process, heap, &folded, &moments));
    }
    let recording = of.reader.recording();
    Ok(RecordingOf {
        name: of.name,
        command: &recording.command,
        thaw_version: &recording.thaw_version,
        created_unix_ns: recording.created_unix_ns,
        finished: recording.finished,
        code: recording.code,
        signal: recording.signal,
        nothing: recording.nothing.as_deref(),
        window: of.window,
        part: of.part,
        processes,
        pruned,
        slop: packed_json(&of.whole.slop)?,
        growth: packed_json(&of.whole.growth)?,
        warnings: &named.warnings,
    })
}

fn packed_json(report: &impl Serialize) -> Result<Texts> {
    let text = serde_json::to_string(report)
        .map_err(|error| Error::bug("cannot write a judgement of the heap into the page").because(error))?;
    Ok(Texts::pack(std::iter::once(text.as_str())))
}

fn packed_frames(frames: &Frames) -> PackedFrames {
    let column = |each: &dyn Fn(&stacks::FrameLine) -> u64| frames.lines.iter().map(each).collect::<Vec<u64>>();
    PackedFrames {
        names: Texts::pack(frames.lines.iter().map(|line| line.name.as_str())),
        objects: frames.objects.packed(),
        sources: frames.sources.packed(),
        table: Table {
            count: frames.lines.len(),
            columns: BTreeMap::from([
                ("object", Column::plain(&column(&|line| line.object.into()))),
                ("source", Column::plain(&column(&|line| line.source.map_or(0, |source| u64::from(source) + 1)))),
                ("wrapper", Column::plain(&column(&|line| line.hands_on as u64))),
                ("same", Column::plain(&column(&|line| line.same.into()))),
            ]),
        },
    }
}

fn packed(process: &Process, heap: &Heap, folded: &Folded, moments: &Moments) -> ProcessOf {
    let mut figures = Figures::default();
    heap.sites.iter().for_each(|site| figures.add(&site.figures));
    let why = match process.stopped {
        None => "",
        Some(Stopped::Space(_)) => "its file could not grow",
        Some(Stopped::SizeLimit) => "its file reached the limit of file sizes",
        Some(Stopped::Map(_)) => "its file could not be mapped",
        Some(Stopped::Closed) => "the program closed its file",
        Some(Stopped::Left) => "its thaw was killed or had ended",
        Some(Stopped::Behind) => "thaw stood still, and its file may not grow further",
    };
    let doubts = [process.doubt.as_str(), why];
    ProcessOf {
        pid: process.pid,
        ppid: process.ppid,
        exe: shown(&process.exe),
        command: process.cmdline.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        tiers: process.tiers.clone(),
        lost: process.lost,
        doubt: doubts.iter().copied().filter(|doubt| !doubt.is_empty()).collect::<Vec<_>>().join("; "),
        start_us: micros(process.start),
        end_us: micros(process.start + heap.last),
        peak_us: micros(process.start + heap.peak_at),
        peak_bytes: heap.peak.bytes,
        peak_blocks: heap.peak.blocks,
        figures,
        step_ns: heap.timeline.step_ns.0,
        timeline: packed_timeline(&heap.timeline),
        stacks: folded.table(),
        moment_ns: moments.step_ns,
        moments: moments.steps,
        changes: moments.table(),
    }
}

fn packed_timeline(timeline: &Timeline) -> Table {
    let points = &timeline.points;
    Table {
        count: points.len(),
        columns: BTreeMap::from([
            ("bytes", Column::delta(&points.iter().map(|point| point.live.bytes).collect::<Vec<_>>())),
            ("blocks", Column::delta(&points.iter().map(|point| point.live.blocks).collect::<Vec<_>>())),
            ("most", Column::delta(&points.iter().map(|point| point.max_bytes).collect::<Vec<_>>())),
            ("allocated", Column::delta(&points.iter().map(|point| point.allocated_bytes).collect::<Vec<_>>())),
        ]),
    }
}
