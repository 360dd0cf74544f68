//! One cell: a variant in a state.

use super::{Group, median, wall_s};
use crate::report::{Cell, MilestoneReport, Rejected, Sample};
use model::{Milestone, RunId, RunKind, RunRow};

/// A run counts as taken on a busy machine from this share on: of all CPUs used by others, or of its time in which
/// others waited for the disk.
pub(super) const BUSY: f64 = 0.10;

/// All figures of one cell. `group` is not empty.
pub(super) fn cell(group: &Group, rejected: &[Rejected]) -> Cell {
    let wall = group.wall();
    let mean_s = stats::mean_of_positive(&wall);
    let stddev = stats::stddev(&wall);
    let rejected = rejected
        .iter()
        .filter(|one| (one.variant, one.state, one.kind) == (group.variant, group.state, RunKind::Timed));
    Cell {
        variant: group.variant,
        variant_name: group.variant_name.clone(),
        state: group.state,
        runs: group.runs.len() as u32,
        rejected: rejected.count() as u32,
        mean_s,
        mean_half_width: stats::relative_half_width(&mean_s),
        median_s: median(&wall),
        stddev_s: stddev.is_finite().then_some(stddev),
        min_s: stats::quantile(&wall, 0.0),
        max_s: stats::quantile(&wall, 1.0),
        user_s: stats::mean_of_positive(&group.of(|row| row.user_ns.seconds())),
        system_s: stats::mean_of_positive(&group.of(|row| row.system_ns.seconds())),
        max_rss_bytes: stats::quantile(&group.of(|row| row.max_rss.0 as f64), 0.5),
        minor_faults: stats::quantile(&group.of(|row| row.minor_faults as f64), 0.5),
        major_faults: stats::quantile(&group.of(|row| row.major_faults as f64), 0.5),
        read_bytes: known_median(group, |row| row.read_bytes.map(|bytes| bytes.0)),
        read_requests: known_median(group, |row| row.read_requests),
        written_bytes: known_median(group, |row| row.written_bytes.map(|bytes| bytes.0)),
        instructions: known_median(group, |row| row.instructions),
        cycles: known_median(group, |row| row.cycles),
        milestones: milestones(group),
        outliers: stats::outliers(&wall).into_iter().map(|at| group.runs[at].0.id).collect(),
        busy: group.runs.iter().filter(|(row, _)| is_busy(row)).map(|(row, _)| row.id).collect(),
        drift: stats::drift(&wall),
        lag1: stats::lag1(&wall),
        samples: group.runs.iter().map(|(row, _)| sample(row)).collect(),
    }
}

/// Whether the rest of the machine was busy during a run.
fn is_busy(row: &RunRow) -> bool {
    [row.others_cpu_share, row.others_io_pressure].into_iter().flatten().any(|share| share > BUSY)
}

/// Median over the runs in which the machine could tell; `None` if it never could.
pub(crate) fn known_median(group: &Group, figure: impl Fn(&RunRow) -> Option<u64>) -> Option<f64> {
    let known: Vec<f64> = group.runs.iter().filter_map(|(row, _)| figure(row)).map(|value| value as f64).collect();
    (!known.is_empty()).then(|| stats::quantile(&known, 0.5))
}

/// Milestones by name, in the order of their medians. A probe that fires twice in a run counts with its first time.
fn milestones(group: &Group) -> Vec<MilestoneReport> {
    let mut names: Vec<&str> = Vec::new();
    for milestone in group.runs.iter().flat_map(|(_, milestones)| milestones) {
        if !names.contains(&milestone.name.as_str()) {
            names.push(&milestone.name);
        }
    }
    let first = |milestones: &[Milestone], name: &str| {
        milestones.iter().filter(|milestone| milestone.name == name).map(|milestone| milestone.at_ns).min()
    };
    let mut reports: Vec<MilestoneReport> = names
        .into_iter()
        .map(|name| {
            let times: Vec<f64> =
                group.runs.iter().filter_map(|(_, all)| first(all, name)).map(|at| at.seconds()).collect();
            let median_s = median(&times);
            MilestoneReport { name: name.to_owned(), median_s, runs: times.len() as u32 }
        })
        .collect();
    reports.sort_by(|a, b| f64::total_cmp(&a.median_s.value, &b.median_s.value));
    reports
}

fn sample(row: &RunRow) -> Sample {
    Sample {
        run: RunId(row.id.0),
        block: row.block,
        wall_s: wall_s(row),
        user_s: row.user_ns.seconds(),
        system_s: row.system_ns.seconds(),
        max_rss_bytes: row.max_rss.0,
        minor_faults: row.minor_faults,
        major_faults: row.major_faults,
        read_bytes: row.read_bytes.map(|bytes| bytes.0),
        read_requests: row.read_requests,
        written_bytes: row.written_bytes.map(|bytes| bytes.0),
        instructions: row.instructions,
        cycles: row.cycles,
        others_cpu_share: row.others_cpu_share,
        others_io_pressure: row.others_io_pressure,
        exit_code: row.exit_code,
    }
}
