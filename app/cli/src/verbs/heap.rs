//! `thaw heap`: what a program allocates.

mod attach;
mod dark;
mod look;
mod page;

pub use dark::DarkDocument;
pub use look::{DiffDocument, ReportDocument};
pub use page::whole as whole_page;

use crate::args::heap::{FinishArgs, GrowthArgs, HeapArgs, HeapVerb, RunArgs, SlopArgs};
use crate::progress::Progress;
use crate::{output, text};
use heap::conclude::{self, Streams};
use heap::event::Process;
use heap::growth;
use heap::reader::Reader;
use heap::record::Recording;
use heap::record::{self, Existing, FreeStacks, Keep, Made, Output, Phase, Plan, Sample};
use heap::report::Report;
use heap::slop::{self, Model};
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
    /// What it says.
    pub report: Report,
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

/// Does what was asked.
///
/// # Errors
/// What recording and reading say.
pub fn run(args: &HeapArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        HeapVerb::Run(typed) => record(typed, quiet),
        HeapVerb::Attach(typed) => attach::attach(typed, quiet),
        HeapVerb::Finish(typed) => finish(typed, quiet),
        HeapVerb::Report(typed) => look::report(typed, quiet),
        HeapVerb::Dark(typed) => dark::dark(typed, quiet),
        HeapVerb::Diff(typed) => look::diff(typed, quiet),
        HeapVerb::Export(typed) => look::export(typed, quiet),
        HeapVerb::Slop(typed) => slop(typed),
        HeapVerb::Growth(typed) => growth(typed),
    }
}

fn record(args: &RunArgs, quiet: bool) -> Result<Exit> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let thaw = std::env::current_exe()
        .map_err(|cause| Error::new(Exit::Machine, "cannot find thaw's own file", "/proc/self/exe").because(cause))?;
    let plan = Plan {
        command: args.command.clone(),
        output: args.output.clone(),
        existing: if args.force { Existing::Replace } else { Existing::Keep },
        depth: args.depth,
        frees: if args.free_stacks { FreeStacks::With } else { FreeStacks::Without },
        sample: args.sample.map(|bytes| Sample { bytes: bytes.0, seed: None }),
        keep: if args.aggregate { Keep::Sums { ahead: Keep::AHEAD } } else { Keep::Events },
        stdout: if args.json { Output::Stderr } else { Output::Stdout },
        agent: record::find_agent(&thaw)?,
        user: args.run_as.choice().account()?,
    };
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let recording = record::run(&plan, env!("CARGO_PKG_VERSION"), &mut |phase| {
        // While the program runs, the terminal is its own.
        let what = match phase {
            Phase::Running(_) => return,
            Phase::Waiting(left) => text::heap::waiting(left as u64),
            Phase::Finishing => "reading the recording".into(),
        };
        progress.note(&what, began.elapsed());
    })?;
    let form = if args.json { Form::Json } else { Form::Text };
    let streams = if args.raw || args.aggregate { Streams::Stay } else { Streams::Finish };
    conclude(&plan.output, &mut progress, began, args.leaks, form, streams)?;
    hand_over(&plan.output)?;
    Ok(verdict(&recording))
}

/// What root recorded for the caller of sudo becomes the caller's: the files first, while nobody else can enter the directory.
fn hand_over(directory: &Path) -> Result<()> {
    let Some(caller) = os::user::caller()? else { return Ok(()) };
    let made = Made::open(directory)?;
    let cannot = |cause| Error::on(Exit::Machine, "cannot list", directory).because(cause);
    for entry in std::fs::read_dir(made.path()).map_err(cannot)? {
        caller.take_over(&entry.map_err(cannot)?.path())?;
    }
    caller.take_over(directory)
}

/// How the summary is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// Names the functions of a fresh recording, finishes it, and prints its summary.
fn conclude(
    directory: &Path,
    progress: &mut Progress,
    began: Instant,
    leaks: usize,
    form: Form,
    streams: Streams,
) -> Result<()> {
    let made = Made::open(directory)?;
    let reader = Reader::open(made.path()).map_err(|error| made.named(error))?;
    let done = conclude::conclude(&reader, streams, &mut |phase| match phase {
        conclude::Phase::Reading => progress.note("reading the recording", began.elapsed()),
        conclude::Phase::Naming => progress.note("naming functions", began.elapsed()),
    });
    let mut done = done.map_err(|error| made.named(error))?;
    done.failed = done.failed.map(|error| made.named(error));
    // The program ran, and what it did is there: as large as it was.
    if let Some(error) = &done.failed {
        output::complain(&text::errors::error(error));
    }
    let all = done.finished.is_some() && done.failed.is_none();
    let document = RunDocument {
        schema: "thaw.heap-run/1",
        file: directory.to_owned(),
        recording: reader.recording().clone(),
        time_resolution_ns: if all { heap::finish::QUANTUM } else { Nanos(0) },
        summed: reader.processes().iter().any(Process::is_summed),
        report: done.report,
    };
    progress.done();
    match form {
        Form::Json => output::json(&document),
        Form::Text => output::page(&text::heap::page(&document, leaks, text::width::of_terminal())),
    }
}

fn finish(args: &FinishArgs, quiet: bool) -> Result<Exit> {
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let done = heap::finish::finish(&args.recording, &mut |events| {
        progress.note(&text::heap::finishing(events), began.elapsed());
    })?;
    progress.done();
    let document = FinishDocument {
        schema: "thaw.heap-finish/1",
        file: args.recording.clone(),
        streams: done.streams,
        events: done.events,
        before_bytes: Bytes(done.before),
        after_bytes: Bytes(done.after),
        sums: done.sums,
        cut: done.cut,
        left_out_bytes: Bytes(done.left_out),
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::heap::finished(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
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

fn slop(args: &SlopArgs) -> Result<Exit> {
    let reader = Reader::open(&args.recording)?;
    if args.lines {
        return lines(args, &reader);
    }
    let options = slop::Options { model: args.model, frames: args.frames.into(), top: args.top };
    let report = slop::report(&reader, &options)?;
    answer("thaw.heap-slop/1", &args.recording, args.json, report, |report, width| {
        text::heap_slop::page(report, args.top, width)
    })
}

/// One line for each allocation.
fn lines(args: &SlopArgs, reader: &Reader) -> Result<Exit> {
    for warning in reader.warnings().iter().cloned().chain(reader.sampled()) {
        output::complain(&text::errors::warning_line(&warning.text, warning.hint.as_deref()));
    }
    let mut failed = None;
    output::stream(|out| {
        let each = |process: &Process, size: u64, usable: Option<Bytes>| -> std::io::Result<()> {
            let model = args.model.or_else(|| Model::of(&process.allocator, &process.exe)).unwrap_or(slop::ELSE);
            let usable = usable.filter(|_| args.model.is_none());
            writeln!(out, "{}", model.line(size, usable.map(|usable| usable.0)))
        };
        slop::requests(reader, each).unwrap_or_else(|error| {
            failed = Some(error);
            Ok(())
        })
    })?;
    failed.map_or(Ok(Exit::Done), Err)
}

fn growth(args: &GrowthArgs) -> Result<Exit> {
    let reader = Reader::open(&args.recording)?;
    let report = growth::report(&reader, &growth::Options { frames: args.frames.into(), top: args.top })?;
    answer("thaw.heap-growth/1", &args.recording, args.json, report, text::heap_growth::page)
}

/// Prints an answer: the document, or the page of it.
fn answer<R: Serialize>(
    schema: &'static str,
    recording: &Path,
    json: bool,
    report: R,
    page: impl Fn(&R, usize) -> text::Page,
) -> Result<Exit> {
    if json {
        output::json(&AnswerDocument { schema, file: recording.to_owned(), report })?;
    } else {
        output::page(&page(&report, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// The program's failure is said by the exit code; its recording is there all the same.
fn verdict(recording: &Recording) -> Exit {
    match recording.code {
        Some(0) => Exit::Done,
        _ => Exit::Target,
    }
}
