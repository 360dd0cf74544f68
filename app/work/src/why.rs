//! Where the time of starts went: what the traced starts of a recording say.

mod exported;
pub mod helps;
pub mod loader;
pub mod page;

pub use exported::{Exported, exported};

use crate::recorded::Loaded;
use crate::report::{Next, Source};
use crate::shell::command_line;
use cpu::{Difference, Flames, Report, Shared, analyze, differ, flames, together};
use model::{CacheState, Error, Exit, Result, RunId, Warning, WarningKind, shown};
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

/// `thaw.why-difference/1`: why the starts of one recording take another time than those of another.
#[derive(Debug, Serialize)]
pub struct WhyDifferenceDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The recording before.
    pub before: Source,
    /// The one after.
    pub after: Source,
    /// Of each program in each state that both have.
    pub starts: Vec<StartsDiffer>,
    /// What to type next.
    pub next: Vec<Next>,
}

/// Why the starts of a program in a state differ.
#[derive(Debug, Serialize)]
pub struct StartsDiffer {
    /// The program's name, after.
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

/// The analyzed starts of a recording, by program and state.
struct Analyzed {
    reader: Reader,
    loaded: Loaded,
    by_kind: BTreeMap<(u32, CacheState), Vec<(RunId, Report)>>,
}

impl Analyzed {
    fn name(&self, variant: u32) -> String {
        self.loaded.names.get(variant as usize).cloned().unwrap_or_default()
    }

    /// How many programs it has.
    fn programs(&self) -> usize {
        self.by_kind.keys().map(|(variant, _)| *variant).collect::<BTreeSet<_>>().len()
    }
}

fn analyzed(path: &Path) -> Result<Analyzed> {
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let mut by_kind: BTreeMap<(u32, CacheState), Vec<(RunId, Report)>> = BTreeMap::new();
    for run in reader.cpu_runs()? {
        let Some((row, _)) = loaded.runs.iter().find(|(row, _)| row.id == run && row.accepted) else { continue };
        // One that told what a start needs was made in a state of its own.
        if !loaded.asked.states.is_empty() && !loaded.asked.states.contains(&row.state) {
            continue;
        }
        let Some(trace) = reader.cpu(run)? else { continue };
        let report = analyze(&trace, MOST_PIECES);
        by_kind.entry((row.variant, row.state)).or_default().push((run, report));
    }
    if by_kind.is_empty() {
        return Err(Error::on(Exit::Data, "it was not taken down where the time went in", path)
            .hint("thaw why -- PROGRAM, or thaw record --why -- PROGRAM"));
    }
    Ok(Analyzed { reader, loaded, by_kind })
}

/// Why the starts of a recording take another time than those of one before: of each state that both have. Programs
/// are the same by their names; if both recordings have one each, it is that.
///
/// # Errors
/// No recording; data: nothing of that was taken down, or the recordings have no program and state in common.
pub fn compared(before: &Path, after: &Path) -> Result<WhyDifferenceDocument> {
    let (old, new) = (analyzed(before)?, analyzed(after)?);
    let is_single = old.programs() == 1 && new.programs() == 1;
    let mut starts = Vec::new();
    for ((variant, state), runs) in &new.by_kind {
        let is_same =
            |(other, of): &(u32, CacheState)| of == state && (is_single || old.name(*other) == new.name(*variant));
        let Some((_, old_runs)) = old.by_kind.iter().find(|(kind, _)| is_same(kind)) else { continue };
        let split = |runs: &[(RunId, Report)]| runs.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
        let ((before_runs, before), (after_runs, after)) = (split(old_runs), split(runs));
        if let Some(difference) = differ(&before, &after) {
            let (variant_name, state) = (new.name(*variant), *state);
            starts.push(StartsDiffer { variant_name, state, before_runs, after_runs, difference });
        }
    }
    if starts.is_empty() {
        return Err(Error::on(Exit::Data, "no program was started in the same state in", after)
            .because(format!("and in {}, while its time was taken down", shown(before)))
            .hint("record both with the same --state"));
    }
    let (before, after) = (old.loaded.source, new.loaded.source);
    let next = vec![Next {
        command: command_line(&[
            "thaw".into(),
            "compare".into(),
            before.file.clone().into(),
            after.file.clone().into(),
        ]),
        why: "says by how much the timed starts differ".to_owned(),
    }];
    Ok(WhyDifferenceDocument { schema: "thaw.why-difference/1", before, after, starts, next })
}

/// What a recording says of where the time went.
///
/// # Errors
/// No recording; data: nothing of that was taken down.
pub fn read(path: &Path) -> Result<WhyDocument> {
    let Analyzed { reader, loaded, by_kind } = analyzed(path)?;
    let name = |variant: u32| loaded.names.get(variant as usize).cloned().unwrap_or_default();
    let variant_of = |run: RunId| loaded.runs.iter().find(|(row, _)| row.id == run).map(|(row, _)| name(row.variant));
    let loader = loader::shares(&reader, variant_of)?;
    let of = |((variant, state), runs)| start(&reader, name(variant), state, runs);
    let mut starts: Vec<Start> = by_kind.into_iter().map(of).collect::<Result<_>>()?;
    let file = loaded.source.file.clone();
    for start in &mut starts {
        start.helps = helps::helps(start, &loader, &file);
    }
    Ok(WhyDocument {
        schema: "thaw.why/1",
        warnings: starts.iter().flat_map(doubts).chain(loader::failures(&reader)?).collect(),
        starts,
        loader,
        next: vec![Next {
            command: command_line(&["thaw".into(), "report".into(), file.into()]),
            why: "shows the timed starts, and what they read".to_owned(),
        }],
        recording: loaded.source,
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

/// What is to be said of it.
fn doubts(start: &Start) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let run = start.run.0;
    for (lost, text) in [
        (start.report.lost, "records of where threads were, lost: functions are known by fewer samples"),
        (start.report.lost_switches, "changes of CPUs, missing: who ran and who waited then is not known"),
    ] {
        if lost > 0 {
            warnings.push(Warning::new(WarningKind::LostRecords, format!("run {run}: {lost} {text}")));
        }
    }
    let cannot = start.report.cannot.iter();
    warnings.extend(cannot.map(|what| Warning::new(WarningKind::Note, format!("not known: {what}")).run(start.run)));
    warnings
}
