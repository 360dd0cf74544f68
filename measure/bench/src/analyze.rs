//! From runs to [`Report`]. Pure: the world is one argument.
//!
//! Only accepted timed runs make estimates. Runs that do not count are listed; outliers and runs taken while
//! the machine was busy are named and kept in all figures.

mod cells;
pub(crate) mod contrasts;
mod doubts;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod book;
#[cfg(test)]
mod tests;

use crate::report::{Cell, REPORT_VERSION, Rejected, Report};
use model::{CacheState, Milestone, RunId, RunKind, RunRow, Warning, WarningKind};
use serde::{Deserialize, Serialize};
use stats::{Estimate, Pairing, Random};
use std::collections::BTreeMap;

/// What was asked for: decides which warnings apply and which hints make sense.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// `--runs`: runs per cell that were asked for, 0 if not known.
    pub runs: u32,
    /// `--precision`, as a share (0.01: 1 %).
    pub precision: Option<f64>,
    /// `--budget`, seconds.
    pub budget_s: Option<f64>,
    /// `--aa`: all variants are the same program.
    pub same_program: bool,
    /// `--restore DIR` was given.
    pub restores: bool,
    /// Name of the user as whom the program ran; `None`: not recorded.
    pub user: Option<String>,
    /// `--cpu steady` was given.
    pub steady_cpu: bool,
    /// `--disk throttle:...` was given.
    pub throttled: bool,
}

/// Everything that an analysis looks at.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// Names of the variants, by index.
    pub variants: &'a [String],
    /// All runs of the recording, in the order taken.
    pub runs: &'a [(RunRow, Vec<Milestone>)],
    /// Facts about the machine: (`disk:vda read_ahead_kb`, `128`). Only [`crate::compare::compare`] looks at them.
    pub facts: &'a [(String, String)],
    /// What was asked for.
    pub options: Options,
}

impl Input<'_> {
    fn name(&self, variant: u32) -> String {
        self.variants.get(variant as usize).cloned().unwrap_or_else(|| format!("variant {variant}"))
    }
}

/// A run as the recording stores it.
pub(crate) type Run = (RunRow, Vec<Milestone>);

/// The runs of a kind of one variant in one state that count, in the order taken.
pub(crate) struct Group<'a> {
    pub(crate) variant: u32,
    pub(crate) variant_name: String,
    pub(crate) state: CacheState,
    pub(crate) runs: Vec<&'a Run>,
}

impl Group<'_> {
    /// Wall times in seconds.
    pub(crate) fn wall(&self) -> Vec<f64> {
        self.of(wall_s)
    }

    /// One figure of every run.
    pub(crate) fn of(&self, figure: impl Fn(&RunRow) -> f64) -> Vec<f64> {
        self.runs.iter().map(|(row, _)| figure(row)).collect()
    }
}

/// Wall time in seconds of a run that counts.
pub(crate) fn wall_s(row: &RunRow) -> f64 {
    row.wall_ns.map_or(f64::NAN, |wall| wall.seconds())
}

/// CPU time in seconds.
pub(crate) fn cpu_s(row: &RunRow) -> f64 {
    (row.user_ns + row.system_ns).seconds()
}

/// The median with its interval: wherever the same times are looked at, the same figures come out.
pub(crate) fn median(x: &[f64]) -> Estimate {
    stats::median(x, &mut Random::of_values(&[x]))
}

/// The ratio of the medians with its interval, likewise.
pub(crate) fn ratio_of_medians(new: &[f64], old: &[f64]) -> Estimate {
    stats::ratio_of_medians(new, old, &mut Random::of_values(&[new, old]))
}

/// The p of a permutation test, likewise.
pub(crate) fn permutation_p(new: &[f64], old: &[f64], pairing: Pairing) -> f64 {
    stats::permutation_p(new, old, pairing, &mut Random::of_values(&[new, old]))
}

/// (cold2-hot2)-(cold1-hot1) with its interval, likewise.
pub(crate) fn difference_of_differences(times: [&[f64]; 4]) -> Estimate {
    let [cold2, hot2, cold1, hot1] = times;
    stats::difference_of_differences(cold2, hot2, cold1, hot1, &mut Random::of_values(&times))
}

/// Whether a run counts: accepted, and it did get ready.
fn counts(row: &RunRow) -> bool {
    row.accepted && row.wall_ns.is_some()
}

/// Runs of a kind that count, by variant, then from hot to cold.
pub(crate) fn groups<'a>(input: &Input<'a>, kind: RunKind) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(u32, CacheState), Vec<&'a Run>> = BTreeMap::new();
    for run in input.runs.iter().filter(|(row, _)| row.kind == kind && counts(row)) {
        groups.entry((run.0.variant, run.0.state)).or_default().push(run);
    }
    groups
        .into_iter()
        .map(|((variant, state), runs)| Group { variant, variant_name: input.name(variant), state, runs })
        .collect()
}

/// What the runs say.
pub fn analyze(input: &Input) -> Report {
    let timed = groups(input, RunKind::Timed);
    let mut report = Report {
        contrasts: contrasts::contrasts(input, &timed),
        differences: contrasts::differences(input, &timed),
        overhead: contrasts::overhead(input, &timed),
        noise_floor: contrasts::noise_floor(input, &timed),
        ..cells_alone(input, &timed)
    };
    report.warnings = doubts::doubts(input, &report);
    report
}

/// The ratio of each cell's median to that of the reference variant in the same state, or, without one, to the fastest
/// cell; with its interval. `None`: the reference has no such state, or takes no time.
pub fn relative(cells: &[Cell], reference: Option<&str>) -> Vec<Option<Estimate>> {
    let fastest = cells.iter().min_by(|a, b| f64::total_cmp(&a.median_s.value, &b.median_s.value));
    let wall = |cell: &Cell| cell.samples.iter().map(|sample| sample.wall_s).collect::<Vec<f64>>();
    let to = |cell: &Cell| match reference {
        Some(name) => cells.iter().find(|other| other.state == cell.state && other.variant_name == name),
        None => fastest,
    };
    let ratio = |cell: &Cell| {
        let to = to(cell)?;
        if std::ptr::eq(to, cell) {
            return Some(Estimate { value: 1.0, interval: None });
        }
        Some(ratio_of_medians(&wall(cell), &wall(to))).filter(|ratio| ratio.value.is_finite())
    };
    cells.iter().map(ratio).collect()
}

/// Doubts about the cells of a recording, without those about its contrasts.
pub(crate) fn doubts_about_cells(input: &Input) -> Vec<Warning> {
    doubts::doubts(input, &cells_alone(input, &groups(input, RunKind::Timed)))
}

/// A report of nothing but cells.
fn cells_alone(input: &Input, timed: &[Group]) -> Report {
    let rejected: Vec<Rejected> =
        input.runs.iter().filter(|(row, _)| !counts(row) && row.kind != RunKind::Warmup).map(rejected).collect();
    Report {
        version: REPORT_VERSION,
        cells: timed.iter().map(|group| cells::cell(group, &rejected)).collect(),
        contrasts: Vec::new(),
        differences: Vec::new(),
        overhead: Vec::new(),
        noise_floor: None,
        rejected,
        warnings: Vec::new(),
    }
}

fn rejected((row, _): &Run) -> Rejected {
    let because = row.rejected_because.clone().unwrap_or_else(|| "it never got ready".to_owned());
    Rejected { run: row.id, variant: row.variant, state: row.state, kind: row.kind, attempt: row.attempt, because }
}

/// The warnings of a report together with those that were stored while recording, each doubt once: what was stored
/// about a run that does not count, or about a precision that was not reached, the report says better.
pub fn all_warnings(recorded: &[Warning], report: &Report) -> Vec<Warning> {
    let listed = |run: Option<RunId>| run.is_some_and(|run| report.rejected.iter().any(|rejected| rejected.run == run));
    let said_again = |warning: &Warning| match warning.kind {
        WarningKind::NotInState | WarningKind::FailedRun => listed(warning.run),
        WarningKind::Precision => true,
        _ => false,
    };
    let mut all: Vec<Warning> = recorded.iter().filter(|warning| !said_again(warning)).cloned().collect();
    for warning in &report.warnings {
        if !all.iter().any(|said| said.text == warning.text) {
            all.push(warning.clone());
        }
    }
    all
}
