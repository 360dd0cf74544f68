//! The summary of a recording: what each process allocated, what it did not give back, and what is missing from the recording.

use crate::aggregate::Sums;
use crate::ledger::Ledger;
use crate::stack::Address;
use crate::stream::{self, Maker, Module, Origin, Process, Reader, StackId, Stopped, What};
use model::{Bytes, Nanos, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::HashMap;

/// A recording in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each process image, in the order of their beginnings.
    pub processes: Vec<ProcessReport>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// A process image in figures.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// Its number.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// Its words.
    pub cmdline: Vec<String>,
    /// `exec`, `fork` or `attach`.
    pub origin: &'static str,
    /// Number of the process that it was forked from.
    pub forked_from: Option<u32>,
    /// Mean bytes between the blocks that were recorded: then all sums are estimates. 0: all were.
    pub sample_bytes: Bytes,
    /// Standard error of `allocated_bytes`, where it is an estimate.
    pub allocated_error_bytes: Option<Bytes>,
    /// Standard error of `leaked_bytes`, where it is an estimate.
    pub leaked_error_bytes: Option<Bytes>,
    /// How the allocator was hooked.
    pub tiers: Vec<&'static str>,
    /// Functions of allocators that the program brings under other names, where they were hooked.
    pub inside: Vec<String>,
    /// The object that holds the allocator.
    pub allocator: String,
    /// When it began.
    pub start_ns: Nanos,
    /// When its last event was, since its beginning.
    pub last_event_ns: Nanos,
    /// Threads that allocated.
    pub threads: u64,
    /// Blocks made.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Calls of `realloc` among them.
    pub reallocs: u64,
    /// Bytes asked for.
    pub allocated_bytes: Bytes,
    /// Most bytes live at a time.
    pub peak_bytes: Bytes,
    /// When, since its beginning.
    pub peak_at_ns: Nanos,
    /// Blocks live at the end.
    pub leaked_blocks: u64,
    /// Bytes live at the end.
    pub leaked_bytes: Bytes,
    /// Mappings that are no heap.
    pub maps: u64,
    /// Their bytes.
    pub mapped_bytes: Bytes,
    /// Blocks of the parent that it gave back.
    pub inherited_frees: u64,
    /// Different stacks and parts of stacks.
    pub stack_nodes: u64,
    /// Allocations whose stack is cut.
    pub cut_stacks: u64,
    /// Events that cannot be: a block made where one is live, one freed that nobody made.
    pub inconsistencies: u64,
    /// Events that are not in the recording.
    pub lost: u64,
    /// Where what was not given back was made: most bytes first.
    pub leaks: Vec<Leak>,
}

/// Blocks of one stack that were never given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Where they were made, innermost first.
    pub stack: Vec<Frame>,
}

/// A frame, not yet named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The object; `None`: code made at run time.
    pub module: Option<String>,
    /// Return address, as an address of the object's file.
    pub address: u64,
}

/// Reads a whole recording.
///
/// # Errors
/// A file that cannot be read.
pub fn report(reader: &Reader) -> Result<Report> {
    let mut warnings = reader.warnings().to_vec();
    warnings.extend(reader.sampled());
    let mut processes = Vec::new();
    for process in reader.processes() {
        processes.push(of_process(reader, process, &mut warnings)?);
    }
    if processes.is_empty() {
        let text = reader.recording().nothing.clone().unwrap_or_else(|| "no process was recorded".into());
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    Ok(Report { processes, warnings })
}

fn of_process(reader: &Reader, process: &Process, warnings: &mut Vec<Warning>) -> Result<ProcessReport> {
    let mut events = reader.places(process.id)?;
    let sums = process.is_summed().then(|| Sums::read(&process.file)).transpose()?;
    let mut ledger = Ledger::new(process.origin);
    let mut threads = std::collections::HashSet::new();
    let (mut last, mut cut) = (Nanos(0), 0);
    let mut ends = HashMap::new();
    let mut variance = 0.0;
    let variance_of =
        |size, maker| if maker == Maker::Pool { 0.0 } else { stream::variance(size, process.sample_bytes) };
    while let Some(event) = events.next()? {
        last = event.at;
        if let What::Alloc { size, maker, count, .. } = event.what {
            variance += variance_of(size, maker);
            threads.insert(event.thread);
            if let Some(stack) = event.stack {
                let whole =
                    *ends.entry(stack).or_insert_with(|| events.stacks().ended(stack) == crate::stream::End::Root);
                cut += if whole { 0 } else { count };
            }
        }
        ledger.enter(&event);
    }
    warnings.extend(events.warnings().iter().cloned());
    let mut totals = *ledger.totals();
    let mut threads = threads.len() as u64;
    let mut sites: HashMap<Option<StackId>, (u64, u64)> = HashMap::new();
    for (_, block) in ledger.live() {
        let site = sites.entry(block.stack).or_default();
        *site = (site.0.saturating_add(block.count), site.1.saturating_add(block.bytes()));
    }
    if let Some(sums) = sums {
        (totals, threads, last, cut) = (sums.totals, sums.threads, sums.last, sums.cut_stacks);
        for site in sums.sites.iter().filter(|site| site.figures.end.blocks > 0) {
            let sum = sites.entry(site.stack).or_default();
            *sum = (sum.0.saturating_add(site.figures.end.blocks), sum.1.saturating_add(site.figures.end.bytes));
        }
        warnings.extend(sums.warnings);
    }
    warnings.extend(doubts(process, &totals));
    let (stacks, modules) = events.into_parts();
    let frames = |stack: Option<StackId>| {
        stack.map_or_else(Vec::new, |stack| stacks.frames(stack).map(|address| frame(address, &modules)).collect())
    };
    let mut leaks: Vec<Leak> = sites
        .into_iter()
        .map(|(stack, (blocks, bytes))| Leak { blocks, bytes: Bytes(bytes), stack: frames(stack) })
        .collect();
    leaks.sort_by_key(|leak| std::cmp::Reverse((leak.bytes, leak.blocks, frame_key(leak))));
    let error = |variance: f64| (process.sample_bytes > 0).then(|| Bytes(variance.sqrt() as u64));
    let leaked_variance: f64 = ledger.live().map(|(_, block)| variance_of(block.size, block.maker)).sum();
    let parent = process.parent.and_then(|parent| reader.processes().get(parent.0));
    Ok(ProcessReport {
        pid: process.pid,
        exe: shown(&process.exe),
        cmdline: process.cmdline.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        origin: match process.origin {
            Origin::Exec => "exec",
            Origin::Fork => "fork",
            Origin::Attach => "attach",
        },
        forked_from: parent.map(|parent| parent.pid),
        sample_bytes: Bytes(process.sample_bytes),
        allocated_error_bytes: error(variance),
        leaked_error_bytes: error(leaked_variance),
        tiers: process.tiers.clone(),
        inside: process.inside.clone(),
        allocator: shown(&process.allocator),
        start_ns: process.start,
        last_event_ns: last,
        threads,
        allocations: totals.allocations,
        frees: totals.frees,
        reallocs: totals.reallocs,
        allocated_bytes: totals.allocated,
        peak_bytes: totals.peak,
        peak_at_ns: totals.peak_at,
        leaked_blocks: totals.live_blocks,
        leaked_bytes: totals.live,
        maps: totals.maps,
        mapped_bytes: totals.mapped,
        inherited_frees: totals.inherited_frees,
        stack_nodes: stacks.len() as u64,
        cut_stacks: cut,
        inconsistencies: totals.inconsistencies(),
        lost: process.lost,
        leaks,
    })
}

fn frame_key(leak: &Leak) -> Option<u64> {
    leak.stack.first().map(|frame| frame.address)
}

fn frame(address: Address, modules: &[Module]) -> Frame {
    let module = address.module.and_then(|module| modules.get(module.0 as usize));
    Frame {
        module: module.map(|module| shown(&module.path)),
        address: address.pc.wrapping_sub(module.map_or(0, |module| module.bias)),
    }
}

/// Why the figures of a process may not be all.
fn doubts(process: &Process, totals: &crate::ledger::Totals) -> Vec<Warning> {
    let who = format!("process {} ({})", process.pid, shown(&process.exe));
    let mut warnings = Vec::new();
    let mut say = |kind, text: String, hint: Option<&str>| {
        let warning = Warning::new(kind, text);
        warnings.push(match hint {
            Some(hint) => warning.hint(hint),
            None => warning,
        });
    };
    if let Some(stopped) = process.stopped {
        let (why, hint) = match stopped {
            Stopped::Space(errno) => (
                format!("its stream could not grow: {}", std::io::Error::from_raw_os_error(errno as i32)),
                Some("record to a disk with more room: -o"),
            ),
            Stopped::SizeLimit => {
                ("its stream reached the file size limit (RLIMIT_FSIZE)".into(), Some("raise it: ulimit -f"))
            }
            Stopped::Map(errno) => {
                (format!("its stream could not be mapped: {}", std::io::Error::from_raw_os_error(errno as i32)), None)
            }
            Stopped::Left => ("the thaw that had attached itself was killed".into(), None),
            Stopped::Closed => ("it closed its stream and cannot open it again".into(), None),
        };
        say(WarningKind::LostRecords, format!("{who} is not recorded to its end: {why}"), hint);
    }
    if process.lost > 0 {
        say(WarningKind::LostRecords, format!("{who} lost {} events", process.lost), None);
    }
    if !process.doubt.is_empty() {
        say(WarningKind::Note, format!("{who}: {}", process.doubt), None);
    }
    if totals.allocations == 0
        && process.doubt.is_empty()
        && process.stopped.is_none()
        && process.origin == Origin::Exec
    {
        say(WarningKind::Note, format!("{who} allocated nothing through the functions that are hooked"), None);
    }
    if totals.inconsistencies() > 0 {
        let text = format!(
            "{who}: {} blocks were made where one was live, {} were freed that nobody made",
            totals.allocs_over_live, totals.frees_of_unknown
        );
        say(
            WarningKind::LostRecords,
            text,
            Some("an allocator of its own that shares memory with malloc is not hooked"),
        );
    }
    warnings
}
