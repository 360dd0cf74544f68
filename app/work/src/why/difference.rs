//! Why starts take another time than others: of two recordings, or of two variants of one.

use super::{Traced, doubts};
use crate::recorded;
use crate::report::{Next, Source};
use crate::shell::command_line;
use cpu::{Difference, differ};
use model::{CacheState, Error, Exit, Result, RunId, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// `thaw.why-difference/1`: why the starts of one recording take another time than those of another.
#[derive(Debug, Serialize)]
pub struct WhyDifferenceDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The recording before.
    pub before: Source,
    /// The one after.
    pub after: Source,
    /// Why, of each program in each state that both have.
    #[serde(flatten)]
    pub why: Explained,
    /// What to type next.
    pub next: Vec<Next>,
}

/// Why starts differ.
#[derive(Debug, Default, Serialize)]
pub struct Explained {
    /// Of each program in each state whose owners are known on both sides.
    pub starts: Vec<StartsDiffer>,
    /// Why it is not known of others, and what to type, as one sentence; `None`: there are no others.
    pub unknown: Option<String>,
    /// What makes it less certain.
    pub warnings: Vec<Warning>,
}

/// Why the starts of a program in a state differ.
#[derive(Debug, Serialize)]
pub struct StartsDiffer {
    /// The program's name before.
    pub before_name: String,
    /// Its name after.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// The runs before.
    pub before_runs: Vec<RunId>,
    /// The runs after.
    pub after_runs: Vec<RunId>,
    /// By whom.
    pub difference: Difference,
}

/// Starts that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The program's name before.
    pub before: String,
    /// Its name after.
    pub after: String,
    /// Cache state.
    pub state: CacheState,
}

impl Explained {
    /// Of starts of which it is not known, for this reason.
    pub fn unknown(because: &str) -> Self {
        Self { unknown: Some(format!("{UNKNOWN}: {because}")), ..Self::default() }
    }

    /// Of a program in a state; `None`: it is not known.
    pub fn of(&self, name: &str, state: CacheState) -> Option<&StartsDiffer> {
        self.starts.iter().find(|starts| (starts.variant_name.as_str(), starts.state) == (name, state))
    }
}

/// Why the starts of a recording take another time than those of one before: of each state that both have. Programs
/// are the same by their names; if both recordings have one each, it is that.
///
/// # Errors
/// No recording; data: nothing of that was taken down, or the recordings have no program and state in common.
pub fn document(before: &Path, after: &Path) -> Result<WhyDifferenceDocument> {
    let (old, new) = (Traced::with_runs(before)?, Traced::with_runs(after)?);
    let programs = |of: &Traced| of.runs.keys().map(|(variant, _)| *variant).collect::<BTreeSet<_>>().len();
    let is_single = programs(&old) == 1 && programs(&new) == 1;
    let pairs = new.runs.keys().filter_map(|(variant, state)| {
        let after = new.name(*variant);
        let mut names = old.runs.keys().filter(|(_, of)| of == state).map(|(variant, _)| old.name(*variant));
        let before = names.find(|name| is_single || *name == after)?;
        Some(Pair { before, after, state: *state })
    });
    let mut why = explained(&old, &new, &pairs.collect::<Vec<_>>())?;
    if why.starts.is_empty() {
        return Err(Error::on(Exit::Data, "no program was started in the same state in", after)
            .because(format!("and in {}, while its time was taken down", shown(before)))
            .hint("record both with the same --state"));
    }
    why.warnings.splice(0..0, recorded::unlike(&old.loaded, &new.loaded));
    let (before, after) = (old.loaded.source, new.loaded.source);
    let words = ["thaw", "compare", &before.file, &after.file].map(Into::into);
    let next = vec![Next { command: command_line(&words), why: "says by how much the timed starts differ".to_owned() }];
    Ok(WhyDifferenceDocument { schema: "thaw.why-difference/1", before, after, why, next })
}

/// Why these starts of two recordings differ, or of two variants of the same one.
///
/// # Errors
/// No recording, or a damaged one.
pub fn between(before: &Path, after: &Path, pairs: &[Pair]) -> Result<Explained> {
    explained(&Traced::of(before)?, &Traced::of(after)?, pairs)
}

/// Of a recording that is compared with nothing: where its own time is shown.
///
/// # Errors
/// No recording.
pub fn of_one(recording: &Path) -> Result<Explained> {
    let first = if super::is_in(recording)? { "" } else { "record it with thaw record --why; " };
    let command = command_line(&["thaw".into(), "why".into(), "--from".into(), recording.into()]);
    Ok(Explained::unknown(&format!("there is nothing before; {first}{command} shows whose the time is")))
}

fn explained(old: &Traced, new: &Traced, pairs: &[Pair]) -> Result<Explained> {
    let mut explained = Explained::default();
    let mut without: Vec<&Pair> = Vec::new();
    for pair in pairs {
        let (before_runs, after_runs) = (runs(old, &pair.before, pair.state), runs(new, &pair.after, pair.state));
        let (before, after) = (old.reports(&before_runs)?, new.reports(&after_runs)?);
        let Some(difference) = differ(&before, &after) else {
            without.push(pair);
            continue;
        };
        for (traced, name, starts) in [(old, &pair.before, &before), (new, &pair.after, &after)] {
            let of = format!("{}, {name} ({})", traced.loaded.source.file, pair.state);
            if starts.len() < 2 {
                let text = format!("{of}: one traced start does not show how much starts differ by chance");
                explained
                    .warnings
                    .push(Warning::new(WarningKind::TooFewRuns, text).hint("record both with --trace-runs 5, or more"));
            }
            explained.warnings.extend(doubts(&of, starts));
        }
        let Pair { before: before_name, after: variant_name, state } = pair.clone();
        explained.starts.push(StartsDiffer { before_name, variant_name, state, before_runs, after_runs, difference });
    }
    explained.unknown = unknown(old, new, &without);
    Ok(explained)
}

/// The traced starts of a program in a state; empty: there are none.
fn runs(traced: &Traced, name: &str, state: CacheState) -> Vec<RunId> {
    let mut found = traced.runs.iter().filter(|((variant, of), _)| *of == state && traced.name(*variant) == name);
    found.next().map(|(_, runs)| runs.clone()).unwrap_or_default()
}

/// Why it is not known of these starts.
fn unknown(old: &Traced, new: &Traced, without: &[&Pair]) -> Option<String> {
    if without.is_empty() {
        return None;
    }
    let mut bare: Vec<&str> =
        [old, new].into_iter().filter(|of| of.runs.is_empty()).map(|of| of.loaded.source.file.as_str()).collect();
    bare.dedup();
    Some(match bare[..] {
        [] => {
            let starts: Vec<String> = without.iter().map(|pair| format!("{} ({})", pair.after, pair.state)).collect();
            let starts = starts.join(", ");
            format!("{UNKNOWN} of {starts}: it has no traced start on one side; record both with --why, and alike")
        }
        [file] => format!("{UNKNOWN}: {file} does not say whose it is; {RECORD}"),
        _ => format!("{UNKNOWN}: neither recording says whose it is; {RECORD}"),
    })
}

/// What to type for recordings that do.
pub(crate) const RECORD: &str = "record both with thaw record --why";
/// How a sentence begins that says so.
const UNKNOWN: &str = "why the time differs is not known";
