//! The page of where the time went: for `thaw why --html` and `thaw view`.

use super::{MOST_PIECES, WhyDocument};
use cpu::{Picture, picture};
use model::{Milestone, Result};
use recording::Reader;
use std::path::Path;
use view::{WhyOf, WhyStartOf};

/// The page of what a recording says of where the time went; `document` is what [`super::read`] made of it.
///
/// # Errors
/// What [`Reader`] says.
pub fn page(path: &Path, document: &WhyDocument) -> Result<String> {
    let reader = Reader::open(path)?;
    let runs = reader.runs()?;
    let drawn = document.starts.iter().map(|start| {
        let trace = reader.cpu(start.run)?.unwrap_or_default();
        let milestones = runs.iter().find(|(row, _)| row.id == start.run).map(|(_, list)| list.clone());
        Ok((picture(&trace, &start.report, MOST_PIECES), milestones.unwrap_or_default()))
    });
    let drawn: Vec<(Picture, Vec<Milestone>)> = drawn.collect::<Result<_>>()?;
    let starts = document.starts.iter().zip(&drawn).map(|(start, (picture, milestones))| WhyStartOf {
        variant_name: &start.variant_name,
        state: start.state,
        runs: &start.runs,
        ready_ns: start.ready_ns,
        explained_share: start.explained_share,
        owners: &start.owners,
        run: start.run,
        report: &start.report,
        picture,
        milestones,
    });
    view::why_page(&WhyOf { file: &document.recording.file, starts: starts.collect(), warnings: &document.warnings })
}
