//! `thaw memory`: what programs say of their memory, and what the kernel says over time.

use crate::args::heap::Moment as Typed;
use crate::args::memory::{CourseArgs, DiffArgs, LookArgs, MarkArgs, MemoryArgs, MemoryVerb, ShowArgs, WatchArgs};
use crate::progress::Progress;
use crate::{output, text};
use ::heap::dark::explicit::Moment;
use ::memory::MemoryFile;
use ::memory::ask::{self, Detail, First};
use ::memory::file::{self, Packed};
use ::memory::scenario::Scenario;
use ::memory::tree::{self, Meaning};
use model::{Error, Exit, Nanos, Result, shown};
use os::replace::Existing;
use serde::Serialize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;
use work::footprint::course::{self, Course};
use work::footprint::watching::{self, Output, Told, Watch};
use work::footprint::{self, Content, NamedWatch, Part, by_rules, page, read};
use work::progress::Tell;

/// Does what was asked.
///
/// # Errors
/// Files that are no memory reports; programs that do not answer.
pub fn run(args: &MemoryArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        MemoryVerb::Show(typed) => show(typed, quiet),
        MemoryVerb::Diff(typed) => diff(typed),
        MemoryVerb::Watch(typed) => watch(typed, quiet),
        MemoryVerb::Mark(typed) => mark(typed),
        MemoryVerb::Course(typed) => course(typed, quiet),
    }
}

fn show(args: &ShowArgs, quiet: bool) -> Result<Exit> {
    let pid = args.pid();
    let content = match (pid, &args.file, &args.from_heap) {
        (None, Some(path), _) => read(path)?,
        (Some(pid), ..) => {
            let first = if args.minimize { First::Minimize } else { First::Nothing };
            Content::Report(ask::ask(pid, first, if args.blocks { Detail::Blocks } else { Detail::Figures })?)
        }
        (None, None, Some(recording)) => {
            let moment = match args.at {
                None | Some(Typed::Peak) => Moment::Peak,
                Some(Typed::End) => Moment::End,
                Some(Typed::At(seconds)) => Moment::At(Nanos((seconds * 1e9).round() as u64)),
            };
            Content::Report(by_rules::report(recording, &args.rules, moment, &Progress::telling(quiet))?)
        }
        (None, None, None) => return Err(Error::bug("neither a file nor a process was given")),
    };
    match content {
        Content::Report(report) => {
            if let Some(path) = &args.output {
                output::file(path, &file::write(&report, Packed::by_name(path))?, args.look.force.existing())?;
            }
            let source = args.file.as_deref().or(args.from_heap.as_deref());
            let name = match (pid, source) {
                (None, Some(source)) => shown(source),
                _ => format!("process {}", pid.unwrap_or(0)),
            };
            with_part(&args.look, |part| match &args.look.html {
                Some(target) => write_page(target, page::of_report(&name, &report, part)?, &args.look),
                None => trees(&report, Meaning::State, &args.look, part),
            })
        }
        Content::Watches(_) => Err(Error::new(Exit::Usage, "one watch can be shown; several are for diff", "")),
        Content::Watch(_) if args.output.is_some() => {
            Err(Error::new(Exit::Usage, "a watch is no memory report; --output is not for it", ""))
        }
        Content::Watch(watched) => with_part(&args.look, |part| {
            let name = args.file.as_deref().map(shown).unwrap_or_default();
            if let Some(target) = &args.look.html {
                return write_page(target, page::of_watch(&name, &watched, part)?, &args.look);
            }
            part.refuse()?;
            answer(&footprint::checkpoints(name, &watched), args.look.json, text::memory::checkpoints)
        }),
    }
}

fn diff(args: &DiffArgs) -> Result<Exit> {
    with_part(&args.look, |part| match (read(&args.first)?, read(&args.second)?) {
        (Content::Report(first), Content::Report(second)) => {
            if args.at.is_some() {
                return Err(Error::new(Exit::Usage, "memory reports have no checkpoints; --at is for watches", ""));
            }
            match &args.look.html {
                Some(target) => {
                    let files = [(shown(&args.first), &first), (shown(&args.second), &second)];
                    write_page(target, page::of_reports(&files, part)?, &args.look)
                }
                None => trees(&::memory::diff::diff(&first, &second), Meaning::Difference, &args.look, part),
            }
        }
        (Content::Watch(first), Content::Watch(second)) => {
            if let Some(target) = &args.look.html {
                let files = [(shown(&args.first), &*first), (shown(&args.second), &*second)];
                return write_page(target, page::of_watches(&files, part)?, &args.look);
            }
            let Some(name) = &args.at else {
                part.refuse()?;
                let document = footprint::compare((&args.first, &first), (&args.second, &second));
                return answer(&document, args.look.json, text::memory::compare);
            };
            let (before, after) =
                (footprint::at(&first, name, &args.first)?, footprint::at(&second, name, &args.second)?);
            trees(&::memory::diff::diff(&before, &after), Meaning::Difference, &args.look, part)
        }
        (first, second) => match (first.runs(&args.first), second.runs(&args.second)) {
            (Some(first), Some(second)) => compare_runs(first, second, args, part),
            _ => Err(Error::new(Exit::Usage, "a memory report and a watch cannot be compared", "")),
        },
    })
}

fn compare_runs(first: Vec<NamedWatch>, second: Vec<NamedWatch>, args: &DiffArgs, part: &Part<'_>) -> Result<Exit> {
    if args.at.is_some() || args.look.html.is_some() {
        return Err(Error::new(Exit::Usage, "--at and --html are for two watches, not for directories of them", ""));
    }
    part.refuse()?;
    answer(&footprint::compare_runs(first, second), args.look.json, text::memory::compare_runs)
}

/// The part that was typed.
fn with_part<T>(look: &LookArgs, then: impl FnOnce(&Part<'_>) -> T) -> T {
    let fits = look.regex.as_ref().map(|pattern| |path: &str| pattern.is_match(path));
    let fits = fits.as_ref().map(|fits| fits as &dyn Fn(&str) -> bool);
    then(&Part { process: look.process.as_deref(), filter: look.filter.as_deref(), fits })
}

fn write_page(target: &Path, page: String, look: &LookArgs) -> Result<Exit> {
    output::file(target, page.as_bytes(), look.force.existing())?;
    Ok(Exit::Done)
}

fn trees(report: &MemoryFile, meaning: Meaning, look: &LookArgs, part: &Part<'_>) -> Result<Exit> {
    let detail = if look.verbose || look.json { tree::Detail::All } else { tree::Detail::Significant };
    let amounts = if look.verbose { text::memory::Amounts::Exact } else { text::memory::Amounts::Rounded };
    let document = footprint::trees(report, meaning, detail, part)?;
    answer(&document, look.json, |document, width| text::memory::trees(document, amounts, width))
}

/// Prints a document, or the page of it.
fn answer<D: Serialize>(document: &D, json: bool, page: impl Fn(&D, usize) -> text::Page) -> Result<Exit> {
    output::answer(json, document, || page(document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn watch(args: &WatchArgs, quiet: bool) -> Result<Exit> {
    let pid = args.pid();
    let wanted = Watch {
        pid,
        command: args.command.clone(),
        user: if pid.is_none() { args.run_as.choice().account()? } else { None },
        output: if args.json { Output::To(stderr()?) } else { Output::Usual },
        file: args.output.clone(),
        existing: Existing::forced(args.force),
        interval: args.interval,
        end: args.end,
    };
    let mut progress = Progress::new(quiet);
    let mut now = |total: &_, since| progress.note(&text::memory::now(total), since);
    let watched = watching::watch(&wanted, &mut Told { now: &mut now, doubt: &doubt })?;
    progress.done();
    answer(&watched.document, args.json, text::memory::checkpoints)?;
    watched.exit
}

fn stderr() -> Result<OwnedFd> {
    let shared = std::io::stderr().as_fd().try_clone_to_owned();
    shared.map_err(|cause| Error::new(Exit::Machine, "cannot share stderr", "").because(cause))
}

fn mark(args: &MarkArgs) -> Result<Exit> {
    watching::mark(&args.file, &args.name, &doubt)?;
    Ok(Exit::Done)
}

fn course(args: &CourseArgs, quiet: bool) -> Result<Exit> {
    let directory = if args.scenario.is_dir() { &args.scenario } else { &args.output };
    if !args.scenario.is_dir() {
        let (scenario, text) = ::memory::scenario::read(&args.scenario)?;
        let iterations = args.iterations.unwrap_or(scenario.iterations);
        let scenario = Scenario { iterations, ..scenario };
        let mut progress = Progress::new(quiet);
        let began = Instant::now();
        let mut told = |version: &str, iteration: u32, what: &str| {
            progress.note(&format!("{version}, {iteration} of {iterations}: {what}"), began.elapsed());
        };
        let seed = args.seed.unwrap_or_else(crate::plan::seed_of_clock);
        course::run(&(scenario, text), directory, seed, &mut told)?;
        progress.done();
    }
    let course = Course::read(directory)?;
    if let Some(page) = &args.html {
        output::file(page, course.page()?.as_bytes(), args.force.existing())?;
    }
    answer(&course.document(), args.json, text::memory::course)
}

fn doubt(error: &Error) {
    output::complain(&text::errors::error(error));
}
