//! Memory courses as a history keeps them: each version is a recording whose figures are sizes at checkpoints, in
//! bytes.

use super::{bare, digest, text};
use crate::footprint::course::Course;
use crate::git::Repository;
use bench::compare::is_momentary;
use bench::gate::{Baseline, Identity};
use history::{Commit, Entry, Figure};
use memory::course::AtCheckpoint;
use memory::scenario::Version;
use model::{Error, Result, shown};
use std::collections::BTreeMap;
use std::path::Path;

/// What stands in the place of a cache state: a course does not set one.
const STATE: &str = "course";

/// The versions of a course, each under its commit: `commit`, or the one that it is named by. Then all are one variant,
/// so that they are one series, and it is named after their program.
pub(super) fn entries(
    directory: &Path,
    commit: Option<&Commit>,
    repository: &Repository,
    dirty: bool,
) -> Result<Vec<(Entry, Baseline)>> {
    let course = Course::read(directory)?;
    let checkpoints = course.document().checkpoints;
    let machine: BTreeMap<String, String> =
        course.machine()?.into_iter().filter(|(name, _)| !is_momentary(name)).collect();
    let mut entries = Vec::new();
    for (index, (version, runs)) in course.versions().enumerate() {
        // A course that was interrupted may have none of it.
        let Some((_, first)) = runs.first() else { continue };
        let program = program(version);
        let (commit, variant, program) = match commit {
            Some(commit) => (commit.clone(), version.name.clone(), program),
            None => (named(repository, version, directory)?, file_name(&program), without_version(&program, version)),
        };
        let identity = Identity {
            programs: BTreeMap::from([(0, program)]),
            setup: BTreeMap::from([("steps".to_owned(), course.steps())]),
            machine: machine.clone(),
        };
        let figures = figures(&checkpoints, index, &variant);
        let told: Vec<(&str, &[f64])> = figures.iter().map(|it| (it.metric.as_str(), &it.values[..])).collect();
        let entry = Entry {
            source: format!("course-{}-{}", first.head.created_unix_ns, version.name),
            content: digest(&text(&(&identity, told))?),
            file: shown(&directory.join(&version.name)),
            created_unix_ns: first.head.created_unix_ns,
            added_unix_ns: os::machine::now_unix_ns(),
            thaw_version: first.head.thaw_version.clone(),
            commit,
            dirty,
            identity: text(&identity)?,
            figures,
        };
        entries.push((entry, bare(&identity)));
    }
    Ok(entries)
}

fn named(repository: &Repository, version: &Version, directory: &Path) -> Result<Commit> {
    repository.commit(&version.name).map_err(|error| {
        Error { what: format!("a version of {} names no commit: {}", shown(directory), error.what), ..error }
            .hint("name all of them by revisions of --repo, or say whose they are: --commit REV")
    })
}

/// The words that started it.
fn program(version: &Version) -> Vec<String> {
    match (&version.program, &version.browser) {
        (Some(program), _) => vec![shown(program)],
        (None, Some(browser)) => vec![browser.clone()],
        (None, None) => version.command.clone(),
    }
}

/// They may name the version, in a path: that makes no other program.
fn without_version(words: &[String], version: &Version) -> Vec<String> {
    words.iter().map(|word| word.replace(&version.name, "{version}")).collect()
}

fn file_name(program: &[String]) -> String {
    let first = program.first().map(String::as_str).unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first).to_owned()
}

/// The sizes of a version at all checkpoints, of each run.
fn figures(checkpoints: &[AtCheckpoint], version: usize, variant: &str) -> Vec<Figure> {
    let at = |checkpoint: &AtCheckpoint| {
        checkpoint.versions[version].sizes().map(|(size, figure)| Figure {
            variant: variant.to_owned(),
            state: STATE.to_owned(),
            metric: format!("{size}:{}", checkpoint.name),
            values: figure.runs.clone(),
        })
    };
    checkpoints.iter().flat_map(at).filter(|figure| !figure.values.is_empty()).collect()
}
