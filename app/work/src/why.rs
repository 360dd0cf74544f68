//! Where the time of starts went: what the traced starts of a recording say.

pub mod difference;
mod exported;
pub mod helps;
pub mod loader;
pub mod page;

pub use exported::{Exported, exported};

use crate::recorded::Loaded;
use crate::report::{Next, Source};
use crate::shell::command_line;
use cpu::{Flames, Report, Shared, analyze, flames, together};
use model::{CacheState, Error, Exit, Result, RunId, Warning, WarningKind};
use recording::Reader;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Pieces of a thread's lane in a document.
const MOST_PIECES: usize = 2_000;

/// `thaw.why/1`: who owns each millisecond of the starts of a recording.
#[derive(Debug, Serialize)]
pub struct WhyDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where it comes from.
    pub recording: Source,
    /// Of each program in each state.
    pub starts: Vec<Start>,
    /// What the loader of each program did; empty: it was not watched.
    pub loader: Vec<loader::LoaderShare>,
    /// What makes the figures less certain.
    pub warnings: Vec<Warning>,
    /// What to type next.
    pub next: Vec<Next>,
}

/// The traced starts of a program in a state.
#[derive(Debug, Serialize)]
pub struct Start {
    /// The program's name.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// The runs.
    pub runs: Vec<RunId>,
    /// Their mean time until ready, in nanoseconds.
    pub ready_ns: u64,
    /// The share of it that has an owner who is known, 0 to 1.
    pub explained_share: f64,
    /// Who owns it, over all of them: longest first. Their times add up to `ready_ns`.
    pub owners: Vec<Shared>,
    /// The run whose time is the middle one of all.
    pub run: RunId,
    /// What that run did, by time.
    pub report: Report,
    /// Its times by stacks.
    pub flames: Flames,
    /// What would make it faster, the largest gain first. Gains do not add up.
    pub helps: Vec<helps::HelpRow>,
}

/// Whether it was taken down in any run of a recording where its time went.
///
/// # Errors
/// No recording.
pub fn is_in(path: &Path) -> Result<bool> {
    Ok(!Reader::open(path)?.cpu_runs()?.is_empty())
}

/// A recording, and the runs of it in which it was taken down where their time went, by program and state.
struct Traced {
    reader: Reader,
    loaded: Loaded,
    runs: BTreeMap<(u32, CacheState), Vec<RunId>>,
}

impl Traced {
    fn of(path: &Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        let loaded = Loaded::of(path, &reader)?;
        let mut runs: BTreeMap<(u32, CacheState), Vec<RunId>> = BTreeMap::new();
        for run in reader.cpu_runs()? {
            let Some((row, _)) = loaded.runs.iter().find(|(row, _)| row.id == run && row.accepted) else { continue };
            // One that told what a start needs was made in a state of its own.
            if loaded.asked.states.is_empty() || loaded.asked.states.contains(&row.state) {
                runs.entry((row.variant, row.state)).or_default().push(run);
            }
        }
        Ok(Self { reader, loaded, runs })
    }

    /// # Errors
    /// Data: there are no such runs.
    fn with_runs(path: &Path) -> Result<Self> {
        let traced = Self::of(path)?;
        match traced.runs.is_empty() {
            false => Ok(traced),
            true => Err(Error::on(Exit::Data, "it was not taken down where the time went in", path)
                .hint("thaw why -- PROGRAM, or thaw record --why -- PROGRAM")),
        }
    }

    fn name(&self, variant: u32) -> String {
        self.loaded.names.get(variant as usize).cloned().unwrap_or_default()
    }

    fn reports(&self, runs: &[RunId]) -> Result<Vec<Report>> {
        let report = |run: &RunId| Ok(analyze(&self.reader.cpu(*run)?.unwrap_or_default(), MOST_PIECES));
        runs.iter().map(report).collect()
    }
}

/// What a recording says of where the time went.
///
/// # Errors
/// No recording; data: nothing of that was taken down.
pub fn read(path: &Path) -> Result<WhyDocument> {
    let traced = Traced::with_runs(path)?;
    let (reader, loaded) = (&traced.reader, &traced.loaded);
    let row_of = |run: RunId| loaded.runs.iter().find(|(row, _)| row.id == run).map(|(row, _)| row);
    let loader = loader::shares(reader, |run| row_of(run).map(|row| traced.name(row.variant)))?;
    let of = |((variant, state), runs): (&(u32, CacheState), &Vec<RunId>)| {
        let runs = runs.iter().copied().zip(traced.reports(runs)?).collect();
        start(reader, traced.name(*variant), *state, runs)
    };
    let mut starts: Vec<Start> = traced.runs.iter().map(of).collect::<Result<_>>()?;
    let file = loaded.source.file.clone();
    for start in &mut starts {
        start.helps = helps::helps(start, &loader, &file);
    }
    Ok(WhyDocument {
        schema: "thaw.why/1",
        warnings: starts.iter().flat_map(doubts_of_start).chain(loader::failures(reader)?).collect(),
        starts,
        loader,
        next: vec![Next {
            command: command_line(&["thaw".into(), "report".into(), file.into()]),
            why: "shows the timed starts, and what they read".to_owned(),
        }],
        recording: traced.loaded.source,
    })
}

fn start(reader: &Reader, variant_name: String, state: CacheState, mut runs: Vec<(RunId, Report)>) -> Result<Start> {
    runs.sort_by_key(|(run, report)| (report.ready_ns, *run));
    let (numbers, reports): (Vec<RunId>, Vec<Report>) = runs.into_iter().unzip();
    let sum: u64 = reports.iter().map(|report| report.ready_ns).sum();
    let explained: f64 = reports.iter().map(|report| report.explained_share * report.ready_ns as f64).sum();
    let middle = (reports.len() - 1) / 2;
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    let run = numbers[middle];
    Ok(Start {
        variant_name,
        state,
        runs: sorted,
        ready_ns: sum / reports.len() as u64,
        explained_share: if sum == 0 { 1.0 } else { explained / sum as f64 },
        owners: together(&reports),
        run,
        report: reports.into_iter().nth(middle).unwrap_or_else(|| unreachable!("there is a middle one")),
        flames: flames(&reader.cpu(run)?.unwrap_or_default()),
        helps: Vec::new(),
    })
}

/// What is to be said of a start that is shown.
fn doubts_of_start(start: &Start) -> Vec<Warning> {
    let warnings = doubts(&format!("run {}", start.run.0), std::slice::from_ref(&start.report));
    warnings.into_iter().map(|warning| warning.run(start.run)).collect()
}

/// What makes it less certain whose time these starts are; `of` says which they are.
fn doubts(of: &str, starts: &[Report]) -> Vec<Warning> {
    let sum = |lost: fn(&Report) -> u64| starts.iter().map(lost).sum::<u64>();
    let lost = [
        (sum(|start| start.lost), "records of where threads were, lost: functions are known by fewer samples"),
        (sum(|start| start.lost_switches), "changes of CPUs, missing: who ran and who waited then is not known"),
    ];
    let lost = lost.into_iter().filter(|(lost, _)| *lost > 0);
    let lost = lost.map(|(lost, text)| Warning::new(WarningKind::LostRecords, format!("{of}: {lost} {text}")));
    let cannot: BTreeSet<&String> = starts.iter().flat_map(|start| &start.cannot).collect();
    let cannot = cannot.into_iter().map(|what| Warning::new(WarningKind::Note, format!("{of}: not known: {what}")));
    lost.chain(cannot).collect()
}
