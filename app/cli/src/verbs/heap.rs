//! `thaw heap`: what a program allocates.

mod attach;
mod look;

use crate::args::heap::{CheckArgs, FinishArgs, GrowthArgs, HeapArgs, HeapVerb, ResidentArgs, RunArgs, SlopArgs};
use crate::progress::Progress;
use crate::{output, text};
use heap::growth;
use heap::slop;
use heapfile::reader::Reader;
use heaprec::record::{self, Existing, FreeStacks, Functions, Keep, LeakCheck, Output, Phase, Plan, Recording, Sample};
use model::{Exit, Result};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use work::heaps::conclude::{Early, Streams};
use work::heaps::{self, AnswerDocument};
use work::progress::Tell;

/// Does what was asked.
///
/// # Errors
/// What recording and reading say.
pub fn run(args: &HeapArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        HeapVerb::Run(typed) => record(typed, quiet),
        HeapVerb::Attach(typed) => attach::attach(typed, quiet),
        HeapVerb::Check(typed) => check(typed, quiet),
        HeapVerb::Resident(typed) => resident(typed),
        HeapVerb::Finish(typed) => finish(typed, quiet),
        HeapVerb::Report(typed) => look::report(typed, quiet),
        HeapVerb::Dark(typed) => look::dark(typed, quiet),
        HeapVerb::Diff(typed) => look::diff(typed, quiet),
        HeapVerb::Export(typed) => look::export(typed, quiet),
        HeapVerb::Slop(typed) => slop(typed),
        HeapVerb::Growth(typed) => growth(typed),
    }
}

fn record(args: &RunArgs, quiet: bool) -> Result<Exit> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let thaw = work::own::file()?;
    let plan = Plan {
        command: args.command.clone(),
        output: args.output.clone(),
        existing: if args.force { Existing::Replace } else { Existing::Keep },
        depth: args.depth,
        frees: if args.free_stacks { FreeStacks::With } else { FreeStacks::Without },
        functions: if args.native_stacks { Functions::Native } else { Functions::Interpreted },
        sample: args.sample.map(|bytes| Sample { bytes: bytes.0, seed: None }),
        keep: if args.aggregate { Keep::Sums { ahead: Keep::AHEAD } } else { Keep::Events },
        states: args.states.states(),
        leaks: if args.leak_check { LeakCheck::AtExit } else { LeakCheck::Without },
        stdout: if args.json { Output::Stderr } else { Output::Stdout },
        agent: heaprec::guest::find(&thaw)?,
        user: args.run_as.choice().account()?,
    };
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let mut early = if args.raw || args.aggregate { None } else { Some(Early::new()) };
    let ahead = early.as_mut().map(|early| &mut early.ahead);
    let recording = record::run_ahead(&plan, env!("CARGO_PKG_VERSION"), ahead, &mut |phase| {
        // While the program runs, the terminal is its own.
        let what = match phase {
            Phase::Running(_) => return,
            Phase::Waiting(left) => text::heap::waiting(left as u64),
            Phase::Finishing => "reading the recording".into(),
        };
        progress.note(&what, began.elapsed());
    })?;
    let form = if args.json { Form::Json } else { Form::Text };
    let streams = early.map_or(Streams::Stay, Streams::Finish);
    conclude(&plan.output, &mut progress, began, args.leaks, form, streams)?;
    heaps::hand_over(&plan.output)?;
    Ok(verdict(&recording))
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
    let heaps::Concluded { document, failed } = heaps::conclude(directory, streams, progress, began)?;
    // The program ran, and what it did is there: as large as it was.
    if let Some(error) = &failed {
        output::complain(&text::errors::error(error));
    }
    progress.done();
    match form {
        Form::Json => output::json(&document),
        Form::Text => output::page(&text::heap::page(&document, leaks, text::width::of_terminal())),
    }
}

fn check(args: &CheckArgs, quiet: bool) -> Result<Exit> {
    let mut progress = Progress::new(quiet);
    let document = heaps::check(&args.recording, &args.process, &mut progress, Instant::now())?;
    progress.done();
    output::answer(args.json, &document, || text::heap::check(&document, args.leaks, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn finish(args: &FinishArgs, quiet: bool) -> Result<Exit> {
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let document = heaps::finish(&args.recording, &mut |events| {
        progress.note(&text::heap::finishing(events), began.elapsed());
    })?;
    progress.done();
    output::answer(args.json, &document, || text::heap::finished(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
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
        slop::lines(reader, args.model, out).unwrap_or_else(|error| {
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

fn resident(args: &ResidentArgs) -> Result<Exit> {
    let report = heaps::resident(&args.recording, &args.process, args.frames.into())?;
    answer("thaw.heap-resident/1", &args.recording, args.json, report, |report, width| {
        text::heap::resident::page(report, args.top, width)
    })
}

/// Prints an answer: the document, or the page of it.
fn answer<R: Serialize>(
    schema: &'static str,
    recording: &Path,
    json: bool,
    report: R,
    page: impl Fn(&R, usize) -> text::Page,
) -> Result<Exit> {
    let document = AnswerDocument { schema, file: recording.to_owned(), report };
    output::answer(json, &document, || page(&document.report, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// The program's failure is said by the exit code; its recording is there all the same.
fn verdict(recording: &Recording) -> Exit {
    match recording.code {
        Some(0) => Exit::Done,
        _ => Exit::Target,
    }
}
