//! Heap recordings looked at: sites, trees, differences, exports.

use super::dark;
use crate::progress::Telling;
use heap::diff::{self, Difference};
use heap::export::{self, Export, Format};
use heap::modes::{Figures, Held, Measure, Split, Timeline, Window};
use heap::named::{Cut, Filter, Named, Row};
use heap::tree::{self, Node, Shape};
use heapfile::check::Check;
use heapfile::reader::Reader;
use heapfile::sums;
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use os::replace::Existing;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `thaw.heap-report/1`.
#[derive(Debug, Serialize)]
pub struct ReportDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The recording.
    pub file: PathBuf,
    /// Which blocks.
    pub measure: Measure,
    /// Which time.
    pub window: Window,
    /// The processes.
    pub processes: Vec<Process>,
    /// All sites that were asked for, added up.
    pub total: Figures,
    /// How many rows there are.
    pub sites: u64,
    /// The first of them, most bytes first.
    pub rows: Vec<Row>,
    /// The tree, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Node>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// A process of a report.
#[derive(Debug, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// What its sites add up to.
    pub figures: Figures,
    /// Most bytes live at a time within the window, whatever was filtered out.
    pub peak: Held,
    /// When, since the recording began.
    pub peak_at_ns: Nanos,
    /// What was live over time, since the process began, whatever was filtered out.
    pub timeline: Timeline,
}

/// `thaw.heap-diff/1`.
#[derive(Debug, Serialize)]
pub struct DiffDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The first recording.
    pub before: PathBuf,
    /// The second one.
    pub after: PathBuf,
    /// Which blocks.
    pub measure: Measure,
    /// Which time.
    pub window: Window,
    /// What changed.
    pub difference: Difference,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// What is looked at.
pub struct Look {
    /// Which blocks.
    pub measure: Measure,
    /// Which time.
    pub window: Window,
    /// What of them.
    pub filter: Filter,
}

impl Look {
    fn read(&self, directory: &Path, split: Split, told: &Telling<'_>) -> Result<(Reader, Named)> {
        let read = |reader: &Reader| Named::read(reader, self.window, split, &self.filter);
        let (reader, mut named) = self.reading(directory, told, read)?;
        let nothing = self.nothing(&named, directory);
        named.warnings.extend(nothing);
        Ok((reader, named))
    }

    /// Why there is nothing to look at in a recording that has something.
    fn nothing(&self, named: &Named, directory: &Path) -> Option<Warning> {
        let is_recorded = named.heaps.iter().any(|heap| heap.timeline.points.iter().any(|point| point.allocations > 0));
        if !is_recorded || named.total().made.blocks > 0 {
            return None;
        }
        let Filter { modules, functions, threads, .. } = &self.filter;
        let option =
            |name: &str, values: &[String]| values.iter().map(move |value| format!("--{name} {value}")).collect();
        let mut asked: Vec<String> = [("module", modules), ("function", functions), ("thread", threads)]
            .into_iter()
            .flat_map(|(name, values)| -> Vec<String> { option(name, values) })
            .collect();
        let time = |name: &str, at: Nanos| format!("{name} {}", at.seconds());
        asked.extend((self.window.since_ns.0 > 0).then(|| time("--since", self.window.since_ns)));
        asked.extend(self.window.until_ns.map(|until| time("--until", until)));
        let warning = Warning::new(WarningKind::Note, format!("no block fits {}", asked.join(", ")));
        let mut known: Vec<&str> =
            named.heaps.iter().flat_map(|heap| heap.threads.values()).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let all = format!("thaw heap report {}", shown(directory));
        Some(match () {
            () if !modules.is_empty() => warning.hint(format!("objects: {all} --tree module")),
            () if !functions.is_empty() => warning.hint(format!("functions: {all} --tree up")),
            () if !threads.is_empty() && !known.is_empty() => warning.hint(format!("threads: {}", known.join(", "))),
            () => warning.hint(format!("without it: {all}")),
        })
    }

    /// Opens a recording and reads it, while the terminal says so.
    pub(super) fn reading<T>(
        &self,
        directory: &Path,
        told: &Telling<'_>,
        read: impl FnOnce(&Reader) -> Result<T>,
    ) -> Result<(Reader, T)> {
        let reader = Reader::open(directory)?;
        let known = |pid: &&u32| !reader.processes().iter().any(|process| process.pid == **pid);
        if let Some(pid) = self.filter.processes.iter().find(known) {
            return Err(Error::on(Exit::Usage, format!("the recording has no process {pid}"), directory)
                .hint(format!("thaw heap report {} lists them", shown(directory))));
        }
        if matches!(self.measure, Measure::Reached(_)) {
            let looked = |process: &heapfile::event::Process| Check::is_there(&process.file);
            if !reader.recording().leak_check && !reader.processes().iter().any(looked) {
                return Err(Error::on(Exit::Usage, "nobody looked which leaks can still be reached", directory)
                    .hint("record it so: thaw heap run --leak-check -- PROGRAM"));
            }
            if self.window.until_ns.is_some() {
                return Err(Error::new(Exit::Usage, "leaks are looked at when a process exits", "--until"));
            }
        }
        let of_sums = reader.processes().iter().any(heapfile::event::Process::is_summed);
        if of_sums && self.window.since_ns.0 > 0 && matches!(self.measure, Measure::End | Measure::Peak) {
            return Err(sums::no_events(
                directory,
                "which blocks were made after a moment and are live later is not known",
            ));
        }
        let mut progress = told();
        progress.note(&format!("reading {}", shown(directory)), Duration::ZERO);
        let answer = read(&reader)?;
        progress.done();
        Ok((reader, answer))
    }
}

/// What is listed.
#[derive(Clone, Debug)]
pub struct Listing {
    /// What tells sites apart.
    pub cut: Cut,
    /// Most rows.
    pub top: usize,
    /// Branches of the tree with a smaller share of all bytes are left out; in percent.
    pub threshold: f64,
    /// The tree, if one is wished for.
    pub tree: Option<Shape>,
}

/// What a recording says; with it what was read, for exports.
///
/// # Errors
/// The recording cannot be read.
pub fn report(recording: &Path, look: &Look, listing: &Listing, told: &Telling<'_>) -> Result<(ReportDocument, Named)> {
    let (_, named) = look.read(recording, Split::Stack, told)?;
    let mut rows = named.rows(look.measure, listing.cut, look.filter.min_bytes);
    let sites = rows.len() as u64;
    rows.truncate(listing.top);
    let total = named.total();
    let all = look.measure.of(&total).bytes;
    let least = ((all as f64 * listing.threshold / 100.0) as u64).max(look.filter.min_bytes);
    let document = ReportDocument {
        schema: "thaw.heap-report/1",
        file: recording.to_owned(),
        measure: look.measure,
        window: look.window,
        processes: processes(&named),
        total,
        sites,
        rows,
        tree: listing.tree.map(|shape| tree::tree(&named, look.measure, shape, least)),
        warnings: named.warnings.clone(),
    };
    Ok((document, named))
}

fn processes(named: &Named) -> Vec<Process> {
    let each = named.processes.iter().zip(&named.heaps);
    each.map(|(process, heap)| {
        let mut figures = Figures::default();
        heap.sites.iter().for_each(|site| figures.add(&site.figures));
        Process {
            pid: process.pid,
            exe: shown(&process.exe),
            figures,
            peak: heap.peak,
            peak_at_ns: process.start + heap.peak_at,
            timeline: heap.timeline.clone(),
        }
    })
    .collect()
}

/// What changed from one recording to another.
///
/// # Errors
/// A recording cannot be read.
pub fn diff(before: &Path, after: &Path, look: &Look, cut: Cut, told: &Telling<'_>) -> Result<DiffDocument> {
    let (_, old) = look.read(before, Split::Stack, told)?;
    let (_, new) = look.read(after, Split::Stack, told)?;
    let difference = diff::difference(&old, &new, look.measure, cut, look.filter.min_bytes);
    Ok(DiffDocument {
        schema: "thaw.heap-diff/1",
        before: before.to_owned(),
        after: after.to_owned(),
        measure: look.measure,
        window: look.window,
        difference,
        warnings: old.warnings.into_iter().chain(new.warnings).collect(),
    })
}

/// Where an export goes, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its format.
    pub format: Format,
    /// Its file.
    pub output: &'a Path,
    /// What becomes of a file that is there.
    pub existing: Existing,
}

/// Writes a recording in another program's format; with `reported`, what the program's reporters know beside it.
/// Returns what is doubtful about it.
///
/// # Errors
/// The recording cannot be read, the file cannot be written; a log of events cannot be filtered by site.
pub fn export(
    recording: &Path,
    reported: Option<&Path>,
    look: &Look,
    target: Target<'_>,
    told: &Telling<'_>,
) -> Result<Vec<Warning>> {
    let Target { format, output, existing } = target;
    let filter = &look.filter;
    let by_site = !(filter.modules.is_empty() && filter.functions.is_empty() && filter.threads.is_empty());
    if format.is_log() && by_site {
        return Err(Error::new(Exit::Usage, "a log of events has all of them", "--module, --function, --thread")
            .hint("--process, --since and --until choose what it has"));
    }
    if format == Format::Dmd && !filter.threads.is_empty() {
        return Err(Error::new(Exit::Usage, "DMD's format is by size, which cannot be told by thread", "--thread"));
    }
    if let Some(reported) = reported {
        if format != Format::Dmd {
            return Err(
                Error::new(Exit::Usage, "only DMD's format knows dark matter", "--reported").hint("--format dmd")
            );
        }
        return dark_matter(recording, reported, look, target, told);
    }
    let (reader, named) = look.read(recording, format.split(), told)?;
    let window = look.window;
    let export = Export { reader: &reader, named: &named, measure: look.measure, window };
    let otherwise = export.write(format, output, existing)?;
    Ok(named.warnings.into_iter().chain(otherwise).collect())
}

/// DMD's dark matter; what is doubtful about it.
fn dark_matter(
    recording: &Path,
    reported: &Path,
    look: &Look,
    target: Target<'_>,
    told: &Telling<'_>,
) -> Result<Vec<Warning>> {
    let mut marks = dark::marks(reported)?;
    let wanted = &look.filter.processes;
    if let Some(pid) = wanted.iter().find(|pid| !marks.iter().any(|marks| marks.pid == **pid)) {
        return Err(Error::on(Exit::Usage, format!("the memory report has no process {pid}"), reported));
    }
    marks.retain(|marks| wanted.is_empty() || wanted.contains(&marks.pid));
    let (_, blocks) = look.reading(recording, told, |reader| heap::dark::blocks(reader, &marks))?;
    export::dark_matter(&blocks, target.output, target.existing)?;
    Ok(blocks.warnings)
}
