//! Heap recordings: finished and summed up, looked at, beside what memory reporters know, and as pages.

pub mod conclude;
pub mod dark;
pub mod live;
pub mod look;
pub mod page;

use crate::progress::Tell;
use conclude::Streams;
use heap::named::{Cut, Wrappers};
use heap::report::Report;
use heap::resident::{self, Resident};
use heapfile::event::Process;
use heapfile::reader::Reader;
use heapfile::recording::Recording;
use heaprec::record::Made;
use model::{Bytes, Error, Exit, Nanos, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `thaw.heap-run/1`: the summary of a recording.
#[derive(Debug, Serialize)]
pub struct RunDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The directory.
    pub file: PathBuf,
    /// What was recorded.
    pub recording: Recording,
    /// Times of events are kept to this; 0: exactly.
    pub time_resolution_ns: Nanos,
    /// Whether it has sums in the place of events.
    pub summed: bool,
    /// What finishing did; `None`: the streams stay, or are added up.
    pub finishing: Option<Finishing>,
    /// What it says.
    pub report: Report,
}

/// What finishing a fresh recording did.
#[derive(Debug, Serialize)]
pub struct Finishing {
    /// Streams that were rewritten.
    pub streams: u64,
    /// Those of them that were followed while the program ran.
    pub ahead: u64,
    /// Those that were followed in vain: an event was written too late, or something failed.
    pub again: u64,
    /// Their events.
    pub events: u64,
    /// Their size.
    pub before_bytes: Bytes,
    /// Size of what was written in their place.
    pub after_bytes: Bytes,
}

/// `thaw.heap-finish/1`: what rewriting a recording did.
#[derive(Debug, Serialize)]
pub struct FinishDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The directory.
    pub file: PathBuf,
    /// Streams that were rewritten.
    pub streams: u64,
    /// Their events.
    pub events: u64,
    /// Their size.
    pub before_bytes: Bytes,
    /// Size of what was written in their place.
    pub after_bytes: Bytes,
    /// Processes that have sums in the place of events.
    pub sums: u64,
    /// Those of them whose sums do not have all events.
    pub cut: u64,
    /// Size of events that were not added up before thaw was killed, and cannot be any more: removed.
    pub left_out_bytes: Bytes,
}

/// `thaw.heap-slop/1` and `thaw.heap-growth/1`: what a recording says about one question.
#[derive(Debug, Serialize)]
pub struct AnswerDocument<R> {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The directory.
    pub file: PathBuf,
    /// The answer.
    #[serde(flatten)]
    pub report: R,
}

/// A fresh recording, finished.
pub struct Concluded {
    /// Its summary.
    pub document: RunDocument,
    /// Why its streams are as they were written.
    pub failed: Option<Error>,
}

/// Names the functions of a fresh recording and finishes it. `began`: when all of it did.
///
/// # Errors
/// It cannot be read.
pub fn conclude(directory: &Path, streams: Streams, progress: &mut dyn Tell, began: Instant) -> Result<Concluded> {
    let made = Made::open(directory)?;
    let reader = Reader::open(made.path()).map_err(|error| made.named(error))?;
    let done = conclude::conclude(&reader, streams, &mut |phase| match phase {
        conclude::Phase::Reading => progress.note("reading the recording", began.elapsed()),
        conclude::Phase::Naming => progress.note("naming functions", began.elapsed()),
    });
    let mut done = done.map_err(|error| made.named(error))?;
    done.failed = done.failed.map(|error| made.named(error));
    let all = done.finished.is_some() && done.failed.is_none();
    let document = RunDocument {
        schema: "thaw.heap-run/1",
        file: directory.to_owned(),
        recording: reader.recording().clone(),
        time_resolution_ns: if all { heaprec::finish::QUANTUM } else { Nanos(0) },
        summed: reader.processes().iter().any(Process::is_summed),
        finishing: done.finished.map(|done| Finishing {
            streams: done.streams,
            ahead: done.ahead,
            again: done.again,
            events: done.events,
            before_bytes: Bytes(done.before),
            after_bytes: Bytes(done.after),
        }),
        report: done.report,
    };
    Ok(Concluded { document, failed: done.failed })
}

/// `thaw.heap-check/1`: which blocks processes that run could still reach at a moment.
#[derive(Debug, Serialize)]
pub struct CheckDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The directory.
    pub file: PathBuf,
    /// What the processes that were looked at had live, as if they had ended.
    pub report: Report,
}

/// Lets processes of a recording that is being made be looked at; none given: all that run.
///
/// # Errors
/// Nobody records, none of them runs, the recording cannot be read.
pub fn check(directory: &Path, pids: &[u32], progress: &mut dyn Tell, began: Instant) -> Result<CheckDocument> {
    let reader = Reader::open(directory)?;
    progress.note("looking for leaks", began.elapsed());
    let mut looked = Vec::new();
    for process in reader.processes().iter().filter(|process| pids.is_empty() || pids.contains(&process.pid)) {
        if heaprec::leaks::now::look(directory, process)? {
            looked.push(process.pid);
        }
    }
    if let Some(pid) = pids.iter().find(|pid| !looked.contains(pid)) {
        return Err(Error::on(Exit::Usage, format!("no process {pid} runs that is recorded"), directory));
    }
    if looked.is_empty() {
        return Err(Error::on(Exit::Usage, "no recorded process runs any more", directory)
            .hint("thaw heap run --leak-check looks when processes exit"));
    }
    let done = conclude::conclude(&reader, Streams::Stay, &mut |_| progress.note("naming functions", began.elapsed()))?;
    let mut report = done.report;
    report.processes.retain(|process| looked.contains(&process.pid) && process.leak_check.is_some());
    Ok(CheckDocument { schema: "thaw.heap-check/1", file: directory.to_owned(), report })
}

/// What is asked by [`resident`].
#[derive(Debug, Serialize)]
pub struct ResidentReport {
    /// Those that run, in the order of their beginnings.
    pub processes: Vec<Resident>,
}

/// What the resident memory of processes consists of that are being recorded; none given: all that run.
///
/// # Errors
/// None of them runs or may be looked at, the recording cannot be read.
pub fn resident(directory: &Path, pids: &[u32], frames: usize) -> Result<ResidentReport> {
    let reader = Reader::open(directory)?;
    let cut = Cut { frames, wrappers: Wrappers::Skipped };
    let (mut found, mut failed) = (Vec::new(), None);
    for process in reader.processes().iter().filter(|process| pids.is_empty() || pids.contains(&process.pid)) {
        match resident::ask(&reader, process, cut) {
            Ok(process) => found.push(process),
            // What has ended has no memory: said only if it is all that there is.
            Err(error) if pids.is_empty() && error.exit == Exit::Usage => failed = failed.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        None if found.is_empty() => Err(Error::on(Exit::Usage, "no recorded process has this number", directory)
            .hint("thaw heap report lists them")),
        _ => Ok(ResidentReport { processes: found }),
    }
}

/// Rewrites a recording compactly; `told` hears how many events are done.
///
/// # Errors
/// It cannot be read or written.
pub fn finish(recording: &Path, told: &mut dyn FnMut(u64)) -> Result<FinishDocument> {
    let done = heaprec::finish::finish(recording, &mut |events| told(events))?;
    Ok(FinishDocument {
        schema: "thaw.heap-finish/1",
        file: recording.to_owned(),
        streams: done.streams,
        events: done.events,
        before_bytes: Bytes(done.before),
        after_bytes: Bytes(done.after),
        sums: done.sums,
        cut: done.cut,
        left_out_bytes: Bytes(done.left_out),
    })
}

/// What root recorded for the caller of sudo becomes the caller's: the files first, while nobody else can enter the
/// directory.
///
/// # Errors
/// The caller is no user; somebody else put something into its place.
pub fn hand_over(directory: &Path) -> Result<()> {
    let Some(caller) = os::user::caller()? else { return Ok(()) };
    let made = Made::open(directory)?;
    let cannot = |cause| Error::on(Exit::Machine, "cannot list", directory).because(cause);
    for entry in std::fs::read_dir(made.path()).map_err(cannot)? {
        caller.take_over(&entry.map_err(cannot)?.path())?;
    }
    caller.take_over(directory)
}
