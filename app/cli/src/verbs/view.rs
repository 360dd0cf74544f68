//! `thaw view`, and the HTML file of `thaw report`: the page that people look at.

use crate::args::view::ViewArgs;
use crate::output;
use crate::verbs::{compare, heap, memory};
use model::{Error, Exit, Result, RunId, TraceRows};
use os::kind::{self, Kind};
use os::replace::Existing;
use recording::Reader;
use std::path::Path;
use view::{Open, TouchOf, TraceOf};
use work::recorded::{self, Loaded};
use work::report::ReportDocument;
use work::watch::document as touched;

/// Serves the page until Ctrl-C.
///
/// # Errors
/// A file that is no recording, or a port that is taken.
pub fn run(args: &ViewArgs) -> Result<Exit> {
    let since = args.since.as_deref();
    let page = match kind::of(&args.recording) {
        Some(Kind::Heap) => heap::whole_page(&args.recording, since)?,
        Some(Kind::MemoryReport | Kind::MemoryWatch) => memory::whole_page(&args.recording, since)?,
        _ => page(&args.recording, &recorded::report(&args.recording)?, since)?,
    };
    let open = if args.no_browser { Open::Nothing } else { Open::Browser };
    view::serve(page, args.port, open, &mut |url| output::complain(&format!("{url} shows it; Ctrl-C ends it\n")))?;
    Ok(Exit::Done)
}

/// Writes the page beside its target and renames it, so that no half page is ever there.
///
/// # Errors
/// As [`run`], or the file cannot be written.
pub fn write(
    recording: &Path,
    document: &ReportDocument,
    since: Option<&Path>,
    target: &Path,
    existing: Existing,
) -> Result<()> {
    output::file(target, page(recording, document, since)?.as_bytes(), existing)
}

fn page(recording: &Path, document: &ReportDocument, since: Option<&Path>) -> Result<String> {
    let json = |error: serde_json::Error| Error::bug("cannot make JSON of the report").because(error);
    let value = serde_json::to_value(document).map_err(json)?;
    let reader = Reader::open(recording)?;
    let rows = document
        .traces
        .iter()
        .map(|trace| Ok((trace.run, reader.trace(trace.run)?)))
        .collect::<Result<Vec<(RunId, TraceRows)>>>()?;
    let traces: Vec<TraceOf<'_>> = rows.iter().map(|(run, rows)| TraceOf { run: *run, rows }).collect();
    let comparison =
        since.map(|before| serde_json::to_value(compare::between(before, recording)?).map_err(json)).transpose()?;
    let watched = touched::watched(&reader, &Loaded::of(recording, &reader)?)?;
    let reports: Vec<touch::Report> = watched.iter().map(|program| touch::report(&program.input())).collect();
    let touched: Vec<TouchOf<'_>> = watched
        .iter()
        .zip(&reports)
        .map(|(program, report)| TouchOf {
            variant: &program.variant,
            report,
            details: touch::details(&program.input()),
        })
        .collect();
    view::page(&value, &traces, &touched, comparison.as_ref())
}
