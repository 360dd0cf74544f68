//! The pages of memory reports, watches and courses.

use super::{Part, wanted};
use memory::MemoryFile;
use memory::tree::{Detail, Meaning};
use memory::watch::{self, Checkpoint, Watched};
use model::Result;
use view::{CourseOf, MemoryOf, TreesOf, WatchOf};

fn trees(name: String, report: &MemoryFile, meaning: Meaning, part: &Part<'_>) -> TreesOf {
    TreesOf {
        name,
        difference: meaning == Meaning::Difference,
        // The page puts tiny nodes together itself.
        processes: wanted(report, meaning, Detail::All, part),
        reporters: report.thaw.clone(),
        warnings: report.warnings.clone(),
    }
}

fn change(name: String, before: &MemoryFile, after: &MemoryFile, part: &Part<'_>) -> TreesOf {
    trees(name, &memory::diff::diff(before, after), Meaning::Difference, part)
}

/// One report.
///
/// # Errors
/// The page is too large for its format: a bug.
pub fn of_report(name: &str, report: &MemoryFile, part: &Part<'_>) -> Result<String> {
    let trees = [trees(name.to_owned(), report, Meaning::State, part)];
    view::memory_page(&MemoryOf { name, trees: &trees, watches: &[], pairs: &[], course: None })
}

/// Two reports: what changed, then both.
///
/// # Errors
/// The page is too large for its format: a bug.
pub fn of_reports(files: &[(String, &MemoryFile); 2], part: &Part<'_>) -> Result<String> {
    let [(before, first), (after, second)] = files;
    let trees = [
        change("difference".into(), first, second, part),
        trees(before.clone(), first, Meaning::State, part),
        trees(after.clone(), second, Meaning::State, part),
    ];
    view::memory_page(&MemoryOf {
        name: &format!("{before}, {after}"),
        trees: &trees,
        watches: &[],
        pairs: &[],
        course: None,
    })
}

/// One watch: the trees of its marks, and what changed from one to the next.
///
/// # Errors
/// The page is too large for its format: a bug.
pub fn of_watch(name: &str, watched: &Watched, part: &Part<'_>) -> Result<String> {
    let checkpoints = watched.checkpoints();
    let known: Vec<(&str, &MemoryFile)> = with_trees(&checkpoints).collect();
    let mut shown: Vec<TreesOf> =
        known.iter().map(|(name, report)| trees((*name).to_owned(), report, Meaning::State, part)).collect();
    for pair in known.windows(2) {
        shown.push(change(format!("{} → {}", pair[0].0, pair[1].0), pair[0].1, pair[1].1, part));
    }
    view::memory_page(&MemoryOf {
        name,
        trees: &shown,
        watches: &[WatchOf { name, watched }],
        pairs: &[],
        course: None,
    })
}

/// Two watches: the checkpoints side by side, and what changed in the trees of those that both have.
///
/// # Errors
/// The page is too large for its format: a bug.
pub fn of_watches(files: &[(String, &Watched); 2], part: &Part<'_>) -> Result<String> {
    let [(before, first), (after, second)] = files;
    let (earlier, later) = (first.checkpoints(), second.checkpoints());
    let shown: Vec<TreesOf> = with_trees(&earlier)
        .filter_map(|(name, report)| {
            let (_, other) = with_trees(&later).find(|(other, _)| *other == name)?;
            Some(change(format!("difference at {name}"), report, other, part))
        })
        .collect();
    view::memory_page(&MemoryOf {
        name: &format!("{before}, {after}"),
        trees: &shown,
        watches: &[WatchOf { name: before, watched: first }, WatchOf { name: after, watched: second }],
        pairs: &watch::pairs(&earlier, &later),
        course: None,
    })
}

/// A course: its figures, trees by their titles, and a watch of each version. What changed between any two of the trees
/// the page itself works out.
///
/// # Errors
/// The page is too large for its format: a bug.
pub fn of_course(
    name: &str,
    course: CourseOf<'_>,
    reports: &[(String, &MemoryFile)],
    watches: &[(&str, &Watched)],
) -> Result<String> {
    let all = Part::default();
    let shown: Vec<TreesOf> =
        reports.iter().map(|(title, report)| trees(title.clone(), report, Meaning::State, &all)).collect();
    let watches: Vec<WatchOf> = watches.iter().map(|(name, watched)| WatchOf { name, watched }).collect();
    view::memory_page(&MemoryOf { name, trees: &shown, watches: &watches, pairs: &[], course: Some(course) })
}

/// Whether a checkpoint is a mark. The others, `peak` and `last`, may be marks too, whose trees are there already.
pub(super) fn is_mark(name: &str) -> bool {
    !["peak", "last"].contains(&name)
}

fn with_trees(checkpoints: &[Checkpoint]) -> impl Iterator<Item = (&str, &MemoryFile)> {
    let marks = checkpoints.iter().filter(|checkpoint| is_mark(&checkpoint.name));
    marks.filter_map(|checkpoint| Some((checkpoint.name.as_str(), checkpoint.reports.as_ref()?)))
}
