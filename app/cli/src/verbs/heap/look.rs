//! `thaw heap report`, `diff` and `export`: looking at recordings.

use super::{dark, page};
use crate::args::heap::{self as typed, DiffArgs, ExportArgs, LookArgs, Mode, Moment, ReportArgs, TreeShape};
use crate::progress::Progress;
use crate::{output, text};
use heap::diff::{self, Difference};
use heap::export::{self, Export, Format};
use heap::modes::{Figures, Held, Measure, Split, Timeline, Window};
use heap::named::{Cut, Filter, Named, Row, Wrappers};
use heap::stream::Reader;
use heap::tree::{self, Node, Shape};
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
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

/// What was typed, as it is meant; all blocks ever made if nothing was.
pub(super) struct Look {
    pub(super) measure: Measure,
    pub(super) window: Window,
    pub(super) filter: Filter,
}

impl Look {
    fn of(args: &LookArgs) -> Result<Self> {
        let ns = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
        let mut until = args.until;
        if args.at.is_some() && args.mode != Mode::Live {
            return Err(Error::new(Exit::Usage, "a moment is for what is live", "--at").hint("add --mode live"));
        }
        let measure = match (args.mode, args.at) {
            (Mode::Cumulative, _) => Measure::Made,
            (Mode::Temporary, _) => Measure::Temporary,
            (Mode::Leaks, _) | (Mode::Live, Some(Moment::End)) => Measure::End,
            (Mode::Live, None | Some(Moment::Peak)) => Measure::Peak,
            (Mode::Live, Some(Moment::At(seconds))) => {
                if until.is_some() {
                    return Err(Error::new(Exit::Usage, "a moment was given twice", "--at, --until")
                        .hint("--at SECONDS already looks at the recording as if it had ended then"));
                }
                until = Some(seconds);
                Measure::End
            }
        };
        let window = Window { since_ns: ns(args.since.unwrap_or(0.0)), until_ns: until.map(ns) };
        if window.until_ns.is_some_and(|until| until < window.since_ns) {
            return Err(Error::new(Exit::Usage, "the time ends before it begins", "--since"));
        }
        let filter = Filter {
            modules: args.module.clone(),
            functions: args.function.clone(),
            threads: args.thread.clone(),
            processes: args.process.clone(),
            min_bytes: args.min_bytes.0,
        };
        Ok(Self { measure, window, filter })
    }

    fn read(&self, directory: &Path, split: Split, quiet: bool) -> Result<(Reader, Named)> {
        let read = |reader: &Reader| Named::read(reader, self.window, split, &self.filter);
        let (reader, mut named) = self.reading(directory, quiet, read)?;
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
        quiet: bool,
        read: impl FnOnce(&Reader) -> Result<T>,
    ) -> Result<(Reader, T)> {
        let reader = Reader::open(directory)?;
        let known = |pid: &&u32| !reader.processes().iter().any(|process| process.pid == **pid);
        if let Some(pid) = self.filter.processes.iter().find(known) {
            return Err(Error::on(Exit::Usage, format!("the recording has no process {pid}"), directory)
                .hint(format!("thaw heap report {} lists them", shown(directory))));
        }
        let mut progress = Progress::new(quiet);
        progress.note(&format!("reading {}", shown(directory)), Duration::ZERO);
        let answer = read(&reader)?;
        progress.done();
        Ok((reader, answer))
    }
}

/// `thaw heap report`.
///
/// # Errors
/// The recording cannot be read, a file cannot be written.
pub fn report(args: &ReportArgs, quiet: bool) -> Result<Exit> {
    let look = Look::of(&args.look)?;
    if let Some(target) = &args.html {
        output::file(target, page::page(&args.recording, None, &look, quiet)?.as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    let (_, named) = look.read(&args.recording, Split::Stack, quiet)?;
    let mut rows = named.rows(look.measure, cut(args.frames, args.alloc_functions), look.filter.min_bytes);
    let sites = rows.len() as u64;
    rows.truncate(args.top);
    let total = named.total();
    let all = look.measure.of(&total).bytes;
    let least = ((all as f64 * args.threshold / 100.0) as u64).max(look.filter.min_bytes);
    let shape = |shape| match shape {
        TreeShape::Down => Shape::Down,
        TreeShape::Up => Shape::Up,
        TreeShape::Module => Shape::Module,
    };
    let document = ReportDocument {
        schema: "thaw.heap-report/1",
        file: args.recording.clone(),
        measure: look.measure,
        window: look.window,
        processes: processes(&named),
        total,
        sites,
        rows,
        tree: args.tree.map(|typed| tree::tree(&named, look.measure, shape(typed), least)),
        warnings: named.warnings.clone(),
    };
    if let Some(path) = &args.folded {
        export::folded(&named, look.measure, path, args.force.existing())?;
    }
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::heap::look::report(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

pub(super) fn cut(frames: u16, alloc_functions: bool) -> Cut {
    Cut { frames: frames.into(), wrappers: if alloc_functions { Wrappers::Kept } else { Wrappers::Skipped } }
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

/// `thaw heap diff`.
///
/// # Errors
/// A recording cannot be read.
pub fn diff(args: &DiffArgs, quiet: bool) -> Result<Exit> {
    let look = Look::of(&args.look)?;
    if !look.filter.processes.is_empty() {
        return Err(Error::new(Exit::Usage, "processes have other numbers in another recording", "--process"));
    }
    if let Some(target) = &args.html {
        output::file(
            target,
            page::page(&args.after, Some(&args.before), &look, quiet)?.as_bytes(),
            args.force.existing(),
        )?;
        return Ok(Exit::Done);
    }
    let (_, before) = look.read(&args.before, Split::Stack, quiet)?;
    let (_, after) = look.read(&args.after, Split::Stack, quiet)?;
    let difference =
        diff::difference(&before, &after, look.measure, cut(args.frames, args.alloc_functions), look.filter.min_bytes);
    let warnings = before.warnings.into_iter().chain(after.warnings).collect();
    let document = DiffDocument {
        schema: "thaw.heap-diff/1",
        before: args.before.clone(),
        after: args.after.clone(),
        measure: look.measure,
        window: look.window,
        difference,
        warnings,
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::heap::look::diff(&document, args.top, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// `thaw heap export`.
///
/// # Errors
/// The recording cannot be read, the file cannot be written; a log of events cannot be filtered by site.
pub fn export(args: &ExportArgs, quiet: bool) -> Result<Exit> {
    let look = Look::of(&args.look)?;
    let format = match args.format {
        typed::Format::Dmd => Format::Dmd,
        typed::Format::Dhat => Format::Dhat,
        typed::Format::Pprof => Format::Pprof,
        typed::Format::Firefox => Format::Firefox,
        typed::Format::Heaptrack => Format::Heaptrack,
        typed::Format::Massif => Format::Massif,
        typed::Format::Folded => Format::Folded,
        typed::Format::Speedscope => Format::Speedscope,
        typed::Format::Logalloc => Format::LogAlloc,
    };
    let filter = &look.filter;
    let by_site = !(filter.modules.is_empty() && filter.functions.is_empty() && filter.threads.is_empty());
    if format.is_log() && by_site {
        return Err(Error::new(Exit::Usage, "a log of events has all of them", "--module, --function, --thread")
            .hint("--process, --since and --until choose what it has"));
    }
    if format == Format::Dmd && !filter.threads.is_empty() {
        return Err(Error::new(Exit::Usage, "DMD's format is by size, which cannot be told by thread", "--thread"));
    }
    let warnings = if let Some(reported) = &args.reported {
        if format != Format::Dmd {
            return Err(
                Error::new(Exit::Usage, "only DMD's format knows dark matter", "--reported").hint("--format dmd")
            );
        }
        dark_matter(args, reported, &look, quiet)?
    } else {
        let (reader, named) = look.read(&args.recording, format.split(), quiet)?;
        let window = look.window;
        Export { reader: &reader, named: &named, measure: look.measure, window }.write(
            format,
            &args.output,
            args.force.existing(),
        )?;
        named.warnings
    };
    let mut page = text::Page::new(text::width::of_terminal());
    text::heap::look::warnings(&mut page, &warnings);
    page.line(&format!("written to {}", text::harmless(&shown(&args.output))));
    output::page(&page)?;
    Ok(Exit::Done)
}

/// DMD's dark matter; what is doubtful about it.
fn dark_matter(args: &ExportArgs, reported: &Path, look: &Look, quiet: bool) -> Result<Vec<Warning>> {
    let mut marks = dark::marks(reported)?;
    let wanted = &look.filter.processes;
    if let Some(pid) = wanted.iter().find(|pid| !marks.iter().any(|marks| marks.pid == **pid)) {
        return Err(Error::on(Exit::Usage, format!("the memory report has no process {pid}"), reported));
    }
    marks.retain(|marks| wanted.is_empty() || wanted.contains(&marks.pid));
    let (_, blocks) = look.reading(&args.recording, quiet, |reader| heap::dark::blocks(reader, &marks))?;
    export::dark_matter(&blocks, &args.output, args.force.existing())?;
    Ok(blocks.warnings)
}
