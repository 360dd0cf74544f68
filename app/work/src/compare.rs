//! Two recordings side by side, or two variants of one.

use crate::recorded::{self, Loaded};
use crate::report::Source;
use crate::why;
use crate::why::difference::{self, Explained, Pair};
use bench::report::{Comparison, StateComparison};
use model::{CacheState, Error, Exit, Result, RunKind};
use recording::Reader;
use serde::Serialize;
use std::path::Path;

/// `thaw.compare/1`
#[derive(Serialize)]
pub struct CompareDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The recording before.
    pub before: Source,
    /// The one after; the same one, if variants are compared.
    pub after: Source,
    /// What differs.
    pub comparison: Comparison,
    /// Why, by owners; `None`: neither side has traced starts that say whose their time is.
    pub why: Option<Explained>,
}

/// Compares two recordings.
///
/// # Errors
/// A file that is no recording; recordings that have no state in common.
pub fn recordings(before: &Path, after: &Path) -> Result<CompareDocument> {
    let (old, new) = (load(before)?, load(after)?);
    let comparison = comparison(&old, &new)?;
    let why = why(before, after, &comparison)?;
    Ok(CompareDocument { schema: "thaw.compare/1", before: old.source, after: new.source, comparison, why })
}

/// Compares two variants of a recording, pair by pair.
///
/// # Errors
/// A file that is no recording; a variant that is not there.
pub fn variants(recording: &Path, old: &str, new: &str) -> Result<CompareDocument> {
    let loaded = load(recording)?;
    let comparison = bench::compare::variants(&loaded.input(), old, new)
        .filter(|comparison| !comparison.states.is_empty())
        .ok_or_else(|| no_variants(&loaded, old, new))?;
    let why = why(recording, recording, &comparison)?;
    let (before, after) = (loaded.source.clone(), loaded.source);
    Ok(CompareDocument { schema: "thaw.compare/1", before, after, comparison, why })
}

/// Why the starts differ that are compared. Who never asked whose their time is gets no answer.
fn why(before: &Path, after: &Path, comparison: &Comparison) -> Result<Option<Explained>> {
    if !why::is_in(before)? && !why::is_in(after)? {
        return Ok(None);
    }
    let pair = |state: &StateComparison| Pair {
        before: state.before_name.clone(),
        after: state.after_name.clone(),
        state: state.state,
    };
    let pairs: Vec<Pair> = comparison.states.iter().map(pair).collect();
    difference::between(before, after, &pairs).map(Some)
}

/// The comparison of two recordings.
///
/// # Errors
/// As [`recordings`].
pub fn between(before: &Path, after: &Path) -> Result<Comparison> {
    comparison(&load(before)?, &load(after)?)
}

/// Reads what can be compared.
///
/// # Errors
/// It is no recording.
pub fn load(path: &Path) -> Result<Loaded> {
    Loaded::of(path, &Reader::open(path)?)
}

/// Variants that a recording does not have, or not in one state.
pub fn no_variants(loaded: &Loaded, old: &str, new: &str) -> Error {
    Error::new(Exit::Usage, "there are no two variants to compare in", &loaded.source.file)
        .because(format!("'{old}' and '{new}' have no state with timed runs in common"))
        .hint(format!("its variants: {}", loaded.names.join(", ")))
}

fn comparison(before: &Loaded, after: &Loaded) -> Result<Comparison> {
    let mut comparison = bench::compare::compare(&before.input(), &after.input());
    if comparison.states.is_empty() {
        return Err(nothing_in_common(before, after));
    }
    comparison.warnings.splice(0..0, recorded::unlike_setup(before, after));
    Ok(comparison)
}

/// Two recordings without a common state.
pub fn nothing_in_common(before: &Loaded, after: &Loaded) -> Error {
    let both = format!("{}' and '{}", before.source.file, after.source.file);
    Error::new(Exit::Data, "there is nothing to compare in", both)
        .because(format!("{}, {}", states_of(before), states_of(after)))
        .hint("record both with the same --state")
}

/// `a.thaw has cold, hot`
fn states_of(loaded: &Loaded) -> String {
    let counted = |state: &CacheState| {
        loaded.runs.iter().any(|(run, _)| run.state == *state && run.kind == RunKind::Timed && run.accepted)
    };
    let states: Vec<&str> = CacheState::ALL.iter().filter(|state| counted(state)).map(|state| state.name()).collect();
    let states = if states.is_empty() { "no timed run".to_owned() } else { states.join(", ") };
    format!("{} has {states}", loaded.source.file)
}
