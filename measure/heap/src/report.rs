//! The summary of a recording: what each process allocated, what it did not give back, and what is missing from the
//! recording.

use crate::reached;
use crate::symbols::{self, Memory};
use heapfile::check::Check;
use heapfile::event::{self, Origin, Process, ProcessId, Stopped};
use heapfile::figures::{Held, Reached, Totals};
use heapfile::module::{Function, Module};
use heapfile::reader::{Events, Reader};
use heapfile::stack::{Address, GAP, StackId};
use heapfile::summary::Summary;
use model::{Bytes, Nanos, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

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
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// The words that it was started with.
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
    /// When it began, since the recording began.
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
    /// Bytes that the program asked for, all blocks.
    pub allocated_bytes: Bytes,
    /// Most bytes live at a time.
    pub peak_bytes: Bytes,
    /// When most bytes were live, since the process began.
    pub peak_at_ns: Nanos,
    /// Blocks live at the end.
    pub leaked_blocks: u64,
    /// Bytes live at the end.
    pub leaked_bytes: Bytes,
    /// Mappings that are no heap.
    pub maps: u64,
    /// Bytes of these mappings.
    pub mapped_bytes: Bytes,
    /// Blocks of the parent that it gave back.
    pub inherited_frees: u64,
    /// Different stacks and parts of stacks.
    pub stack_nodes: u64,
    /// Allocations whose stack is cut.
    pub cut_stacks: u64,
    /// Those of them that are deeper than was asked for.
    pub deep_stacks: u64,
    /// Allocations with frames missing between others of their stack.
    pub skipped_stacks: u64,
    /// Events that cannot be: a block made where one is live, one freed that nobody made.
    pub inconsistencies: u64,
    /// Events that are not in the recording.
    pub lost: u64,
    /// What a leak check found; `None`: nobody asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leak_check: Option<LeakCheck>,
    /// Where what was not given back was made: most bytes first; after a leak check, most that cannot be reached.
    pub leaks: Vec<Leak>,
}

/// Which leaks a process could still reach when it exited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeakCheck {
    /// Why that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Sums of all leaks.
    pub reached: Reached,
    /// How long the process stood still for it.
    pub stopped_ns: Nanos,
    /// Memory outside of blocks that was searched for pointers.
    pub searched_bytes: Bytes,
    /// What may make lost blocks look reachable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Blocks of one stack that were never given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of these blocks, as the program asked for them.
    pub bytes: Bytes,
    /// What a leak check knew of them.
    #[serde(skip_serializing_if = "Reached::is_empty")]
    pub reached: Reached,
    /// Where they were made, innermost first.
    pub stack: Vec<Frame>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Functions, inlined ones before that which they are in; none: nobody has looked them up, or nothing names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The object, or the source of a function of an interpreter; `None`: code made at run time.
    pub module: Option<String>,
    /// Return address, as an address of the object's file; of a function of an interpreter its line, 0: not known.
    pub address: u64,
}

impl Report {
    /// Names the frames of leaks by what was looked up.
    pub fn name(&mut self, memory: &Memory) {
        let mut objects: HashMap<String, Vec<_>> = HashMap::new();
        for ((path, _), found) in memory {
            objects.entry(shown(path)).or_default().push(found);
        }
        for (id, process) in self.processes.iter_mut().enumerate() {
            let made = shown(&symbols::made_by(ProcessId(id)));
            for frame in process.leaks.iter_mut().flat_map(|leak| &mut leak.stack) {
                // A gap has its name. Which of several builds it was is not known any more: none of them then.
                let builds = objects.get(frame.module.as_ref().unwrap_or(&made));
                let builds = builds.filter(|_| frame.functions.is_empty());
                let Some([found]) = builds.map(Vec::as_slice) else { continue };
                // The call is before the return address.
                let found = found.get(&frame.address.wrapping_sub(1)).into_iter().flatten();
                frame.functions = found.filter_map(|one| one.function.clone()).collect();
            }
        }
    }
}

/// Reads a whole recording.
///
/// # Errors
/// A file that cannot be read.
pub fn report(reader: &Reader) -> Result<Report> {
    let mut processes = Vec::new();
    for process in reader.processes() {
        let (summary, events) = Summary::read(reader, process)?;
        processes.push(end(summary, process, &events)?);
    }
    Ok(of_processes(reader, processes))
}

/// The report of a recording from those of its processes, each with its doubts, in the reader's order.
pub fn of_processes(reader: &Reader, processes: Vec<(ProcessReport, Vec<Warning>)>) -> Report {
    let mut warnings = reader.warnings().to_vec();
    warnings.extend(reader.sampled());
    let (mut processes, doubts): (Vec<_>, Vec<_>) = processes.into_iter().unzip();
    for (report, process) in processes.iter_mut().zip(reader.processes()) {
        // Only who has the whole recording knows.
        let parent = process.parent.and_then(|parent| reader.processes().get(parent.0));
        report.forked_from = parent.map(|parent| parent.pid);
        report.start_ns = process.start;
        let why = if report.leak_check.is_none() { reached::why_not(reader.recording()) } else { None };
        if let Some(why) = why {
            report.leak_check = Some(LeakCheck { unknown: Some(why), ..LeakCheck::default() });
        }
    }
    warnings.extend(doubts.into_iter().flatten());
    warnings.extend(missing(reader, &processes));
    Report { processes, warnings }
}

/// The figures, and the doubts about them, after the last event; [`of_processes`] enters what others say of it.
///
/// # Errors
/// The file of a leak check is damaged.
pub fn end(mut summary: Summary, process: &Process, events: &Events) -> Result<(ProcessReport, Vec<Warning>)> {
    summary.totals.peak_at = summary.peak_at.map_or(Nanos(0), |ticks| events.at(ticks));
    let mut warnings = events.warnings().to_vec();
    // Sums have them too.
    warnings.extend(events.remarks(process).filter(|_| summary.sums.is_none()));
    warnings.extend(summary.sums.iter().flat_map(|sums| sums.warnings.iter().cloned()));
    warnings.extend(doubts(process, summary.totals()));
    let checked = Check::read(&process.file)?;
    Ok((figures(summary, process, events, checked), warnings))
}

fn figures(summary: Summary, process: &Process, events: &Events, check: Option<Check>) -> ProcessReport {
    let known = check.as_ref().and_then(|check| Some((check.serial, check.blocks()?)));
    // In the order of their stacks, so that what is equal otherwise has an order too.
    let mut sites: BTreeMap<Option<StackId>, (Held, Reached)> = BTreeMap::new();
    let mut leaked_variance = 0.0;
    for (ptr, held) in summary.live().held_at() {
        let class = summary.live().class_of(held);
        let site = sites.entry(class.stack()).or_default();
        let taken = Held { bytes: class.bytes(), blocks: class.count };
        site.0.add(taken);
        if let Some((_, known)) = known.as_ref().filter(|(serial, _)| held.serial() <= *serial) {
            site.1.enter(known.reach(ptr), taken);
        }
        leaked_variance += event::variance(class.size, process.sample_bytes);
    }
    let held = summary.sums.iter().flat_map(|sums| &sums.sites).filter(|site| site.figures.end.blocks > 0);
    let mut allocated_variance = summary.variance;
    for site in summary.sums.iter().flat_map(|sums| &sums.sites) {
        let of = |blocks| event::variance_of(site.part, process.sample_bytes, blocks);
        allocated_variance += of(site.figures.made.blocks);
        leaked_variance += of(site.figures.end.blocks);
    }
    for (stack, end) in held.map(|site| (site.stack, site.figures.end)) {
        sites.entry(stack).or_default().0.add(end);
    }
    let (last, threads, missing) = match &summary.sums {
        Some(sums) => (sums.last, sums.threads, sums.missing()),
        None => (
            summary.last.map_or(Nanos(0), |ticks| events.at(ticks)),
            summary.live().threads().iter().filter(|thread| thread.allocated).count() as u64,
            summary.missing,
        ),
    };
    let (stacks, modules) = (events.stacks(), events.modules());
    let frames = |stack: Option<StackId>| {
        stack.map_or_else(Vec::new, |stack| stacks.frames(stack).map(|address| frame(address, modules)).collect())
    };
    let mut leaks: Vec<Leak> = sites
        .into_iter()
        .map(|(stack, (held, reached))| Leak {
            blocks: held.blocks,
            bytes: Bytes(held.bytes),
            reached,
            stack: frames(stack),
        })
        .collect();
    leaks.sort_by_key(|leak| {
        let unreached = leak.reached.unreached();
        std::cmp::Reverse((unreached, leak.bytes, leak.blocks, frame_key(leak)))
    });
    let mut reached = Reached::default();
    leaks.iter().for_each(|leak| reached.add(&leak.reached));
    let leak_check = check.map(|check| match check.unknown {
        Some(why) => LeakCheck { unknown: Some(why), ..LeakCheck::default() },
        None => LeakCheck {
            unknown: None,
            reached,
            stopped_ns: check.stopped_ns,
            searched_bytes: check.roots,
            doubts: check.doubts,
        },
    });
    let totals = summary.totals();
    let error = |variance: f64| (process.sample_bytes > 0).then(|| Bytes(variance.sqrt() as u64));
    ProcessReport {
        pid: process.pid,
        exe: shown(&process.exe),
        cmdline: process.cmdline.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        origin: match process.origin {
            Origin::Exec => "exec",
            Origin::Fork => "fork",
            Origin::Attach => "attach",
        },
        forked_from: None,
        sample_bytes: Bytes(process.sample_bytes),
        allocated_error_bytes: error(allocated_variance),
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
        cut_stacks: missing.cut,
        deep_stacks: missing.deep,
        skipped_stacks: missing.skipped,
        inconsistencies: totals.inconsistencies(),
        lost: process.lost,
        leak_check,
        leaks,
    }
}

fn frame_key(leak: &Leak) -> Option<u64> {
    leak.stack.first().map(|frame| frame.address)
}

fn frame(address: Address, modules: &[Module]) -> Frame {
    let module = address.module.and_then(|module| modules.get(module.0 as usize));
    if let Some((module, function)) = module.and_then(|module| Some((module, module.function()?))) {
        let line = Function::line(address.pc.wrapping_sub(module.start).wrapping_sub(1));
        return Frame {
            functions: vec![function.name.to_string_lossy().into_owned()],
            module: Some(shown(function.file)),
            address: line.unwrap_or(0).into(),
        };
    }
    Frame {
        functions: if address.is_gap() { vec![GAP.into()] } else { Vec::new() },
        module: module.map(|module| shown(&module.path)),
        address: address.pc.wrapping_sub(module.map_or(0, |module| module.bias)),
    }
}

/// Not all frames of some allocations are known; what helps is another thing for each reason.
fn missing(reader: &Reader, processes: &[ProcessReport]) -> Vec<Warning> {
    let sum = |of: fn(&ProcessReport) -> u64| processes.iter().map(of).fold(0, u64::saturating_add);
    let all = sum(|process| process.allocations);
    let deep = sum(|process| process.deep_stacks);
    let other = sum(|process| process.cut_stacks.saturating_sub(process.deep_stacks));
    let skipped = sum(|process| process.skipped_stacks);
    let note = |text: String| Warning::new(WarningKind::Note, text);
    let mut warnings = Vec::new();
    if deep > 0 {
        let depth = reader.processes().iter().map(|process| process.depth).max().unwrap_or(0);
        let text = format!(
            "the stacks of {deep} of {all} allocations lack their outer frames: they are deeper than {depth} frames"
        );
        warnings.push(note(text).hint("deeper stacks: --depth, 127 at most"));
    }
    if other > 0 {
        let text = format!(
            "the stacks of {other} of {all} allocations end at code without unwind information (made at run time, \
            assembly, coroutines)"
        );
        let cut = |process: &&ProcessReport| process.cut_stacks > process.deep_stacks;
        let go = processes.iter().filter(cut).any(|process| is_go(Path::new(&process.exe)));
        let warning = note(text);
        warnings.push(if go { warning.hint(GO) } else { warning });
    }
    if skipped > 0 {
        warnings.push(note(format!(
            "the stacks of {skipped} of {all} allocations lack frames in between, where they say {GAP}: code without \
            unwind information \
             and without a frame pointer calls there"
        )));
    }
    warnings
}

/// What is said of C code that Go calls.
const GO: &str = "Go calls C on another stack (runtime.asmcgocall), and its own frames are not read; which Go code \
calls is in Go's own profile: pprof";

/// Whether the Go linker made a program.
fn is_go(path: &Path) -> bool {
    let Some(bytes) = std::fs::File::open(path).ok().and_then(|file| os::mapped::Mapped::of(&file)) else {
        return false;
    };
    elf::sections(&bytes).is_ok_and(|sections| sections.iter().any(|section| section.name == ".go.buildinfo"))
}

/// Why the figures of a process may not be all.
fn doubts(process: &Process, totals: &Totals) -> Vec<Warning> {
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
            Stopped::Left => ("its thaw was killed or had ended".into(), None),
            Stopped::Behind => {
                ("thaw stood still for 10 s (a signal, the machine), and the stream may not grow further".into(), None)
            }
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
        // What the allocator aborts the program for is no event that was missed.
        let hint = match totals.allocs_over_live {
            _ if process.lost > 0 || process.stopped.is_some() => "what is missing from the recording looks like that",
            0 => {
                "the program frees blocks twice, or such as are none; or an allocator that shares memory with malloc \
                is not hooked"
            }
            _ => "an allocator of its own that shares memory with malloc is not hooked",
        };
        say(WarningKind::LostRecords, text, Some(hint));
    }
    warnings
}
