//! From runs to [`Report`]. Pure: the world is one argument.
//!
//! Only accepted timed runs make estimates. Runs that do not count are listed; outliers and runs taken while
//! the machine was busy are named and kept in all figures.

mod cells;
mod contrasts;
mod doubts;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod book;
#[cfg(test)]
mod tests;

use crate::report::{REPORT_VERSION, Rejected, Report};
use model::{CacheState, Milestone, RunId, RunKind, RunRow, Warning, WarningKind};
use serde::{Deserialize, Serialize};
use stats::Random;
use std::collections::BTreeMap;

/// What was asked for: decides which warnings apply and which hints make sense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Seed of the bootstrap and of permutation tests: the same recording always gives the same report.
    pub seed: u64,
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

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            runs: 0,
            precision: None,
            budget_s: None,
            same_program: false,
            restores: false,
            user: None,
            steady_cpu: false,
            throttled: false,
        }
    }
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

    /// Random numbers for one figure: a figure stays the same when others are added to the report.
    pub(crate) fn random(&self, figure: &str) -> Random {
        // FNV-1a, folded into the seed.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.options.seed;
        Random::from_seed(
            figure.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        )
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
        cells: timed.iter().map(|group| cells::cell(input, group, &rejected)).collect(),
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
