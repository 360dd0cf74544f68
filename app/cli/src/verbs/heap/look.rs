//! `thaw heap report`, `diff`, `dark` and `export`: looking at recordings.

use crate::args::heap::{self as typed, DarkArgs, DiffArgs, ExportArgs, LookArgs, ReportArgs, TreeShape};
use crate::progress::Progress;
use crate::{output, text};
use ::heap::export::{self, Format};
use ::heap::named::{Cut, Filter, Wrappers};
use ::heap::suppressions::Suppressions;
use ::heap::tree::Shape;
use model::{Error, Exit, Result, shown};
use std::path::PathBuf;
use work::heaps::dark;
use work::heaps::look::{self, Listing, Look, Target};
use work::heaps::page::page;

/// What was typed, as it is meant; all blocks ever made if nothing was.
fn look(args: &LookArgs) -> Result<Look> {
    let (measure, window) = args.meant()?;
    let filter = Filter {
        modules: args.module.clone(),
        functions: args.function.clone(),
        threads: args.thread.clone(),
        processes: args.process.clone(),
        min_bytes: args.min_bytes.0,
        suppressions: Suppressions::read(args.suppressions.iter().map(PathBuf::as_path))?,
    };
    Ok(Look { measure, window, filter })
}

fn cut(frames: u16, alloc_functions: bool) -> Cut {
    Cut { frames: frames.into(), wrappers: if alloc_functions { Wrappers::Kept } else { Wrappers::Skipped } }
}

/// `thaw heap report`.
///
/// # Errors
/// The recording cannot be read, a file cannot be written.
pub fn report(args: &ReportArgs, quiet: bool) -> Result<Exit> {
    let (look, told) = (look(&args.look)?, Progress::telling(quiet));
    if let Some(target) = &args.html {
        output::file(target, page(&args.recording, None, &look, &told)?.as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    let shape = |shape| match shape {
        TreeShape::Down => Shape::Down,
        TreeShape::Up => Shape::Up,
        TreeShape::Module => Shape::Module,
    };
    let cut = cut(args.frames, args.alloc_functions);
    let listing = Listing { cut, top: args.top, threshold: args.threshold, tree: args.tree.map(shape) };
    let (document, named) = look::report(&args.recording, &look, &listing, &told)?;
    if let Some(path) = &args.folded {
        export::folded(&named, look.measure, path, args.force.existing())?;
    }
    output::answer(args.json, &document, || text::heap::look::report(&document, text::width::of_terminal()))?;
    Ok(if args.fail_if_any && document.sites > 0 { Exit::No } else { Exit::Done })
}

/// `thaw heap diff`.
///
/// # Errors
/// A recording cannot be read.
pub fn diff(args: &DiffArgs, quiet: bool) -> Result<Exit> {
    let (look, told) = (look(&args.look)?, Progress::telling(quiet));
    if !look.filter.processes.is_empty() {
        return Err(Error::new(Exit::Usage, "processes have other numbers in another recording", "--process"));
    }
    if let Some(target) = &args.html {
        let page = page(&args.after, Some(&args.before), &look, &told)?;
        output::file(target, page.as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    let cut = cut(args.frames, args.alloc_functions);
    let document = look::diff(&args.before, &args.after, &look, cut, &told)?;
    output::answer(args.json, &document, || text::heap::look::diff(&document, args.top, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// `thaw heap dark`.
///
/// # Errors
/// The recording or the report cannot be read, or they are not of the same process.
pub fn dark(args: &DarkArgs, quiet: bool) -> Result<Exit> {
    let options = ::heap::dark::Options { cut: cut(args.frames, args.alloc_functions), top: args.top };
    let document = dark::dark(&args.recording, &args.reported, &options, &Progress::telling(quiet))?;
    output::answer(args.json, &document, || text::heap::dark::page(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// `thaw heap export`.
///
/// # Errors
/// The recording cannot be read, the file cannot be written; a log of events cannot be filtered by site.
pub fn export(args: &ExportArgs, quiet: bool) -> Result<Exit> {
    let look = look(&args.look)?;
    let format = match args.format {
        typed::Format::Dmd => Format::Dmd,
        typed::Format::Dhat => Format::Dhat,
        typed::Format::Pprof => Format::Pprof,
        typed::Format::Firefox => Format::Firefox,
        typed::Format::Heaptrack => Format::Heaptrack,
        typed::Format::Massif => Format::Massif,
        typed::Format::Folded => Format::Folded,
        typed::Format::Speedscope => Format::Speedscope,
        typed::Format::Logalloc => Format::LogAlloc,
        typed::Format::Openmetrics => Format::OpenMetrics,
    };
    let target = Target { format, output: &args.output, existing: args.force.existing() };
    let told = Progress::telling(quiet);
    let warnings = look::export(&args.recording, args.reported.as_deref(), &look, target, &told)?;
    let mut page = text::Page::new(text::width::of_terminal());
    text::heap::look::warnings(&mut page, &warnings);
    page.line(&format!("written to {}", text::harmless(&shown(&args.output))));
    output::page(&page)?;
    Ok(Exit::Done)
}
