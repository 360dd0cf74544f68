//! The page of a recording of starts: its report, its traces, what was touched, and what changed since another one.

use crate::compare;
use crate::recorded::{self, Loaded};
use crate::report::ReportDocument;
use crate::watch::document as touched;
use model::{Error, Result};
use recording::Reader;
use std::path::Path;
use std::time::Duration;
use view::{PackedTouch, TouchOf};

/// The page, as HTML, and the report that it shows, if reading for the report takes no longer than this.
///
/// # Errors
/// A file that is no recording, or one that has nothing in common with the one before; the time is over.
pub fn of_recording(
    recording: &Path,
    time: Option<Duration>,
    since: Option<&Path>,
) -> Result<(String, ReportDocument)> {
    let _span = tracing::info_span!("page").entered();
    let json = |error: serde_json::Error| Error::bug("cannot make JSON of the report").because(error);
    let (reader, loaded) = recorded::opened(recording, time)?;
    let mut traces = Vec::new();
    let touched = pack_touched(&reader, &loaded)?;
    let document = recorded::report_of(&reader, loaded, Some(&mut traces))?;
    let comparison =
        since.map(|before| serde_json::to_value(compare::between(before, recording)?).map_err(json)).transpose()?;
    let value = serde_json::to_value(&document).map_err(json)?;
    let page = view::packed_page(&value, &traces, &touched, comparison.as_ref())?;
    Ok((page, document))
}

/// One program after the other: there is no room for the rows of all.
fn pack_touched(reader: &Reader, loaded: &Loaded) -> Result<Vec<PackedTouch>> {
    let mut packed = Vec::new();
    for variant in 0..loaded.names.len() as u32 {
        let Some(program) = touched::watched_of(reader, loaded, variant)? else { continue };
        let (report, details) = touch::report_with_details(&program.input());
        packed.push(view::pack_touched(&TouchOf { variant: &program.variant, report: &report, details }));
    }
    Ok(packed)
}
