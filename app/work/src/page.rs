//! The page of a recording of starts: its report, its traces, what was touched, and what changed since another one.

use crate::compare;
use crate::recorded::Loaded;
use crate::report::ReportDocument;
use crate::watch::document as touched;
use model::{Error, Result, RunId, TraceRows};
use recording::Reader;
use std::path::Path;
use view::{TouchOf, TraceOf};

/// The page, as HTML.
///
/// # Errors
/// A file that is no recording, or one that has nothing in common with the one before.
pub fn of_recording(recording: &Path, document: &ReportDocument, since: Option<&Path>) -> Result<String> {
    let _span = tracing::info_span!("page").entered();
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
