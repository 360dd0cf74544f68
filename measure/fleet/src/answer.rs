//! The rows of an engine into one document, `thaw.fleet/1`: the same bytes whoever answered, with cells hidden that
//! show too few machines.

mod cells;
mod compared;

pub use cells::{AppCell, Class, ColdCell, Percentile, PercentileCell};
pub use compared::{Moved, Regression, RemedyEffect, Side, Verdict};

use crate::engine::Rows;
use crate::hidden::Hidden;
use crate::questions::{About, Question};
use model::Result;
use serde::Serialize;

/// An answer. Times are in microseconds, sizes in bytes, intervals are 95 %.
#[derive(Debug, Serialize)]
pub struct Document {
    /// `thaw.fleet/1`.
    pub schema: &'static str,
    /// The question's name.
    pub question: &'static str,
    /// The application that was chosen; `None`: each.
    pub app: Option<String>,
    /// The version that was compared with.
    pub version_old: Option<String>,
    /// The version that was judged.
    pub version_new: Option<String>,
    /// Fewest distinct machines of a cell that is shown.
    pub k: u64,
    /// Cells that are not shown.
    pub suppressed: Hidden,
    /// What is shown.
    pub cells: Cells,
}

/// What is shown, by question.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Cells {
    /// Of `apps`.
    Apps(Vec<AppCell>),
    /// Of `versions`, `classes` and `worst`.
    Percentiles(Vec<PercentileCell>),
    /// Of `cold`.
    Cold(Vec<ColdCell>),
    /// Of `regressions`.
    Regressions(Vec<Regression>),
    /// Of `remedies`.
    Remedies(Vec<RemedyEffect>),
}

impl Cells {
    /// Leaves out cells of versions that are not wanted. What speaks of all versions, or of two, stays.
    pub(crate) fn keep(&mut self, is_wanted: &dyn Fn(&str, &str) -> bool) {
        match self {
            Self::Percentiles(cells) => cells.retain(|cell| is_wanted(&cell.app, &cell.version)),
            Self::Cold(cells) => cells.retain(|cell| is_wanted(&cell.app, &cell.version)),
            Self::Apps(_) | Self::Regressions(_) | Self::Remedies(_) => {}
        }
    }
}

/// Makes the document.
///
/// # Errors
/// A bug: rows that the question does not have.
pub fn answer(question: Question, about: &About, rows: &Rows) -> Result<Document> {
    let k = about.k;
    let (cells, suppressed) = match question {
        Question::Apps => {
            let (cells, hidden) = cells::apps(rows, k)?;
            (Cells::Apps(cells), hidden)
        }
        Question::Versions | Question::Classes | Question::Worst => {
            let (cells, hidden) = cells::percentiles(question, rows, k)?;
            (Cells::Percentiles(cells), hidden)
        }
        Question::Cold => {
            let (cells, hidden) = cells::cold(rows, k)?;
            (Cells::Cold(cells), hidden)
        }
        Question::Regressions => {
            let (cells, hidden) = compared::regressions(about, rows, k)?;
            (Cells::Regressions(cells), hidden)
        }
        Question::Remedies => {
            let (cells, hidden) = compared::remedies(rows, k)?;
            (Cells::Remedies(cells), hidden)
        }
    };
    let compares = question == Question::Regressions;
    Ok(Document {
        schema: "thaw.fleet/1",
        question: question.name(),
        app: about.app.clone(),
        version_old: about.old.clone().filter(|_| compares),
        version_new: about.new.clone().filter(|_| compares),
        k,
        suppressed,
        cells,
    })
}
