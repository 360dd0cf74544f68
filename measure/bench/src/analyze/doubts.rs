//! Doubts about the figures of a report, each with its figures and a hint chosen from what the user already did.

use super::cells::BUSY;
use super::words::{changes, p_value, percent, run_list, runs, seconds, typed_percent};
use super::{Input, counts};
use crate::report::{Cell, Overhead, Rejected, Report, Sample};
use model::{CacheState, RunId, RunKind, Warning, WarningKind};
use stats::Drift;
use std::collections::BTreeMap;

/// With fewer runs than this no interval can hold the median with 95 % confidence: 1 - 2^(1-n).
pub(crate) const FEWEST_RUNS: u32 = 6;
/// Drift is warned about below this p, so noise alone gives the warning at most once in a hundred cells.
const DRIFT_P: f64 = 0.01;
/// ... and only if it sums up to this share of the median from the first to the last run.
const DRIFT_TOTAL: f64 = 0.01;
/// Fewest runs for a judgement on autocorrelation.
const FEWEST_FOR_LAG1: usize = 8;
/// How far above `--precision` an interval may be before it is warned about: bootstrap intervals of the same runs
/// differ by a few percent of their width.
const PRECISION_SLACK: f64 = 1.05;
/// Tracing may cost this share before it is warned about.
const OVERHEAD: f64 = 0.05;
/// A program that differs from itself with this p or less is no longer chance.
const BIASED_P: f64 = 0.01;

/// All doubts, the gravest first.
pub(super) fn doubts(input: &Input, report: &Report) -> Vec<Warning> {
    let mut all = rejections(input, report);
    all.extend(empty_cells(input, report));
    let each_cell =
        |doubt: fn(&Input, &Cell) -> Option<Warning>| report.cells.iter().filter_map(move |cell| doubt(input, cell));
    all.extend(each_cell(too_few));
    all.extend(busy_cpu(input, report));
    all.extend(busy_disk(input, report));
    all.extend(each_cell(drift));
    all.extend(each_cell(autocorrelation));
    all.extend(each_cell(outliers));
    all.extend(each_cell(precision));
    all.extend(report.overhead.iter().filter_map(|overhead| costly_trace(input, overhead)));
    all.extend(bias(report));
    all
}

/// `cold`, or `firefox, cold` where there are several variants.
fn cell_name(input: &Input, variant: u32, state: CacheState) -> String {
    if input.variants.len() > 1 { format!("{}, {state}", input.name(variant)) } else { state.to_string() }
}

fn name(input: &Input, cell: &Cell) -> String {
    cell_name(input, cell.variant, cell.state)
}

fn walls(cell: &Cell) -> Vec<f64> {
    cell.samples.iter().map(|sample| sample.wall_s).collect()
}

/// Whether a rejection says that the caches were not in their state; anything else is a run that failed.
fn is_not_in_state(rejected: &Rejected) -> bool {
    rejected.because.starts_with(&format!("not {}", rejected.state))
}

fn rejections(input: &Input, report: &Report) -> Vec<Warning> {
    let mut groups: BTreeMap<(u32, CacheState, bool), Vec<&Rejected>> = BTreeMap::new();
    for rejected in &report.rejected {
        groups.entry((rejected.variant, rejected.state, is_not_in_state(rejected))).or_default().push(rejected);
    }
    groups
        .into_iter()
        .map(|((variant, state, not_in_state), group)| {
            let ids: Vec<RunId> = group.iter().map(|rejected| rejected.run).collect();
            let last = group.last().map(|rejected| rejected.because.as_str()).unwrap_or_default();
            let (name, count) = (cell_name(input, variant, state), runs(group.len()));
            let text = format!("{name}: {count} not counted ({}); the last because: {last}", run_list(&ids));
            let (kind, hint) = if not_in_state {
                (
                    WarningKind::NotInState,
                    "they were repeated; end the programs that hold these files, or measure other states (--state)",
                )
            } else {
                (
                    WarningKind::FailedRun,
                    "run the same command by hand; if it takes longer, raise --timeout; see --ready and --ok-exit",
                )
            };
            about(Warning::new(kind, text).hint(hint), &ids)
        })
        .collect()
}

/// Ties a warning to a run if it is about a single one.
fn about(warning: Warning, ids: &[RunId]) -> Warning {
    match ids {
        [only] => warning.run(*only),
        _ => warning,
    }
}

/// Cells that were tried and have no run that counts.
fn empty_cells(input: &Input, report: &Report) -> Vec<Warning> {
    let mut tried: BTreeMap<(u32, CacheState), usize> = BTreeMap::new();
    for (row, _) in input.runs.iter().filter(|(row, _)| row.kind == RunKind::Timed && !counts(row)) {
        *tried.entry((row.variant, row.state)).or_default() += 1;
    }
    for cell in &report.cells {
        tried.remove(&(cell.variant, cell.state));
    }
    let warning = |((variant, state), count): ((u32, CacheState), usize)| {
        let text = format!("{} has no figures: none of its {} counts", cell_name(input, variant, state), runs(count));
        Warning::new(WarningKind::TooFewRuns, text).hint("the runs that do not count are listed with their reasons")
    };
    tried.into_iter().map(warning).collect()
}

fn too_few(input: &Input, cell: &Cell) -> Option<Warning> {
    if cell.runs >= FEWEST_RUNS {
        return None;
    }
    let name = name(input, cell);
    let text = match cell.runs {
        1 => format!("{name} has a single run: how much it varies is not known"),
        n => {
            let at_best = 1.0 - 2.0_f64.powi(1 - n as i32);
            let n = runs(n as usize);
            format!(
                "{name} has {n}: even from the fastest to the slowest they hold the median with {} confidence only",
                percent(at_best)
            )
        }
    };
    let options = &input.options;
    let hint = if cell.rejected > 0 && options.runs >= FEWEST_RUNS {
        format!("{} of it did not count; the list of them says why", runs(cell.rejected as usize))
    } else if options.runs > cell.runs {
        match options.budget_s {
            Some(budget) => {
                format!("{} were requested; raise --budget above {}", runs(options.runs as usize), typed_time(budget))
            }
            None => {
                format!("{} were requested and the recording ended early: record again", runs(options.runs as usize))
            }
        }
    } else {
        "record at least 10 runs: --runs 10, or --precision 2%".to_owned()
    };
    Some(Warning::new(WarningKind::TooFewRuns, text).hint(hint))
}

/// What a share of others says about the runs: which were taken above the limit, and whether that shows in their times.
struct Busy {
    ids: Vec<RunId>,
    all: usize,
    /// Among the busy runs.
    median: f64,
    highest: (f64, RunId),
    /// Time of busy runs over that of calm ones, where both exist.
    slower: Option<f64>,
}

fn busy(report: &Report, share: impl Fn(&Sample) -> Option<f64>) -> Option<Busy> {
    let samples: Vec<&Sample> = report.cells.iter().flat_map(|cell| &cell.samples).collect();
    let known: Vec<(f64, RunId)> =
        samples.iter().filter_map(|sample| share(sample).map(|share| (share, sample.run))).collect();
    let above: Vec<(f64, RunId)> = known.iter().copied().filter(|(share, _)| *share > BUSY).collect();
    let highest = above.iter().copied().max_by(|a, b| f64::total_cmp(&a.0, &b.0))?;
    let shares: Vec<f64> = above.iter().map(|(share, _)| *share).collect();
    let mut ids: Vec<RunId> = above.iter().map(|(_, run)| *run).collect();
    ids.sort_unstable();
    let logs: Vec<f64> = report.cells.iter().filter_map(|cell| log_slowdown(cell, &share)).collect();
    let slower = (!logs.is_empty()).then(|| stats::mean(&logs).value.exp());
    Some(Busy { ids, all: known.len(), median: stats::quantile(&shares, 0.5), highest, slower })
}

/// Log of the ratio of the medians of busy and calm runs of a cell that has at least three of each.
fn log_slowdown(cell: &Cell, share: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let of = |is_busy: bool| -> Vec<f64> {
        let wanted = cell.samples.iter().filter(|sample| share(sample).is_some_and(|share| (share > BUSY) == is_busy));
        wanted.map(|sample| sample.wall_s).collect()
    };
    let (busy, calm) = (of(true), of(false));
    let log = (stats::quantile(&busy, 0.5) / stats::quantile(&calm, 0.5)).ln();
    (busy.len() >= 3 && calm.len() >= 3 && log.is_finite()).then_some(log)
}

impl Busy {
    fn warning(&self, input: &Input, what: &str) -> Warning {
        let mut text = format!(
            "{} of {} were taken while {what} (median {}, at most {} in run {})",
            self.ids.len(),
            runs(self.all),
            percent(self.median),
            percent(self.highest.0),
            self.highest.1.0
        );
        if let Some(slower) = self.slower {
            let direction = if slower < 1.0 { "shorter" } else { "longer" };
            text.push_str(&format!("; their times are {} {direction} than the others'", percent((slower - 1.0).abs())));
        }
        let hint = if self.ids.len() * 2 > self.all {
            "end other programs and record again; until then trust instructions and I/O counts more than times"
        } else if input.options.precision.is_some() {
            "they are kept; end other programs, so that --precision needs fewer runs"
        } else {
            "they are kept; more runs make up for a few busy ones: --runs, or --precision 2%"
        };
        about(Warning::new(WarningKind::BusyMachine, text).hint(hint), &self.ids)
    }
}

fn busy_cpu(input: &Input, report: &Report) -> Option<Warning> {
    let busy = busy(report, |sample| sample.others_cpu_share)?;
    Some(busy.warning(input, &format!("others used more than {} of the CPUs", typed_percent(BUSY))))
}

fn busy_disk(input: &Input, report: &Report) -> Option<Warning> {
    let busy = busy(report, |sample| sample.others_io_pressure)?;
    Some(busy.warning(input, &format!("others waited for the disk for more than {} of the time", typed_percent(BUSY))))
}

/// The drift of a cell, if it is neither chance nor negligible.
fn material_drift(cell: &Cell) -> Option<Drift> {
    let total = |drift: &Drift| drift.share_per_run.abs() * f64::from(cell.runs.saturating_sub(1));
    cell.drift.filter(|drift| drift.p < DRIFT_P && total(drift) >= DRIFT_TOTAL)
}

fn drift(input: &Input, cell: &Cell) -> Option<Warning> {
    let drift = material_drift(cell)?;
    let slower = drift.slope_per_run > 0.0;
    let text = format!(
        "{}: the runs get {} in the order they were taken, by {} ({}) per run, {} over all {} (Theil-Sen slope; \
         Mann-Kendall {})",
        name(input, cell),
        if slower { "slower" } else { "faster" },
        percent(drift.share_per_run.abs()),
        seconds(drift.slope_per_run.abs()),
        percent(drift.share_per_run.abs() * f64::from(cell.runs - 1)),
        cell.runs,
        p_value(drift.p),
    );
    let options = &input.options;
    let hint = match (options.restores, slower) {
        (false, true) => {
            "each run may leave something behind for the next: give the program's profile to --restore DIR"
        }
        (false, false) => "the first runs may fill a cache of the program's own: give its profile to --restore DIR",
        (true, _) if !options.steady_cpu => {
            "the profile is restored, so look outside of it: files elsewhere, a CPU that heats up (--cpu steady)"
        }
        (true, _) => {
            "the profile is restored and the CPU held: look for files elsewhere, a disk that fills, other programs"
        }
    };
    Some(Warning::new(WarningKind::Drift, text).hint(hint))
}

fn autocorrelation(input: &Input, cell: &Cell) -> Option<Warning> {
    let mut wall = walls(cell);
    if wall.len() < FEWEST_FOR_LAG1 {
        return None;
    }
    // A drift makes neighbours alike; it has its own warning, so only what is left without it counts.
    let drifts = material_drift(cell);
    if let Some(drift) = drifts {
        wall = stats::detrend(&wall, drift.slope_per_run);
    }
    let limit = stats::lag1_limit(wall.len());
    let lag1 = stats::lag1(&wall).filter(|lag1| *lag1 > limit)?;
    // Of a first-order autoregressive series.
    let narrow = ((1.0 + lag1) / (1.0 - lag1.min(0.99))).sqrt();
    let beside = if drifts.is_some() { ", beside the drift" } else { "" };
    let text = format!(
        "{}: each run resembles the one before (lag-1 autocorrelation {lag1:.2}{beside}; {limit:.2} is the limit \
         for {} independent runs), so the intervals are too narrow, by a factor of about {narrow:.1}",
        name(input, cell),
        wall.len(),
    );
    let hint = if !cell.busy.is_empty() {
        "the machine was busy during some of them: end other programs and record again"
    } else if !input.options.restores {
        "if a run leaves something for the next, --restore DIR; else spread more runs over a longer time"
    } else if !input.options.steady_cpu {
        "try --cpu steady; else spread more runs over a longer time"
    } else {
        "spread more runs over a longer time, and compare by instructions and I/O counts"
    };
    Some(Warning::new(WarningKind::Autocorrelation, text).hint(hint))
}

fn outliers(input: &Input, cell: &Cell) -> Option<Warning> {
    if cell.outliers.is_empty() {
        return None;
    }
    let far: Vec<&Sample> = cell.samples.iter().filter(|sample| cell.outliers.contains(&sample.run)).collect();
    let mut times: Vec<String> = far.iter().take(4).map(|sample| seconds(sample.wall_s)).collect();
    if far.len() > times.len() {
        times.push("...".to_owned());
    }
    let text = format!(
        "{}: {} of {} far from the others ({}: {}; median {}); kept in all figures",
        name(input, cell),
        far.len(),
        if far.len() == 1 {
            format!("{} lies", runs(cell.samples.len()))
        } else {
            format!("{} lie", runs(cell.samples.len()))
        },
        run_list(&cell.outliers),
        times.join(", "),
        seconds(cell.median_s.value),
    );
    let first = cell.samples.first().map(|sample| sample.run);
    let hint = if cell.outliers.iter().all(|run| cell.busy.contains(run)) {
        "the machine was busy just then; the median hardly moves, the mean does"
    } else if cell.outliers.len() == 1 && first == cell.outliers.first().copied() && !input.options.restores {
        "it is the first run: the program may fill a cache of its own; --restore DIR gives every run the same start"
    } else if f64::from(cell.runs) < 5.0 * cell.outliers.len() as f64 {
        "so many are no accidents: the program may start in two ways; look at its runs with `thaw query`"
    } else {
        "the median hardly moves, the mean does; `thaw query` shows what else was different in these runs"
    };
    Some(about(Warning::new(WarningKind::Outlier, text).hint(hint), &cell.outliers))
}

/// `--precision` is about the median, as when recording.
fn precision(input: &Input, cell: &Cell) -> Option<Warning> {
    let goal = input.options.precision?;
    let reached = stats::relative_half_width(&cell.median_s);
    if reached.is_some_and(|width| width <= goal * PRECISION_SLACK) {
        return None;
    }
    let is = reached.map_or("no interval yet".to_owned(), |width| format!("±{}", percent(width)));
    let count = runs(cell.runs as usize);
    let text = format!("{}: the median has {is} after {count}; ±{} was asked", name(input, cell), typed_percent(goal));
    // The width falls with the square root of the number of runs.
    let needed = reached.map(|width| f64::from(cell.runs) * (width / goal).powi(2)).filter(|needed| *needed < 1e5);
    let hint = match (needed, input.options.budget_s) {
        _ if material_drift(cell).is_some() => {
            "more runs will not help as long as they drift: see that warning".to_owned()
        }
        (Some(needed), Some(budget)) => {
            let time = budget * needed / f64::from(cell.runs);
            format!("about {needed:.0} runs would do: raise --budget to about {}", typed_time(time))
        }
        (Some(needed), None) => format!("about {needed:.0} runs would do: raise --budget and --runs"),
        (None, _) => "raise --budget, or ask for less".to_owned(),
    };
    Some(Warning::new(WarningKind::Precision, text).hint(hint))
}

/// A duration as typed, rounded up: `90s`, `25m`, `7h`.
fn typed_time(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{:.0}s", short.ceil()),
        medium if medium < 3.0 * 3600.0 => format!("{:.0}m", (medium / 60.0).ceil()),
        long => format!("{:.0}h", (long / 3600.0).ceil()),
    }
}

/// Warns if tracing costs more than 5 % CPU time and that is not chance: the interval must exclude 1, so a single
/// traced run proves nothing. Wall time takes the place of CPU time that is too short to be counted.
fn costly_trace(input: &Input, overhead: &Overhead) -> Option<Warning> {
    let (what, ratio) = match (overhead.cpu_ratio, overhead.wall_ratio) {
        (Some(cpu), _) => ("CPU time", cpu),
        (None, Some(wall)) => ("wall time", wall),
        (None, None) => return None,
    };
    let interval = ratio.interval.filter(|interval| ratio.value > 1.0 + OVERHEAD && interval.low > 1.0)?;
    let of = if input.variants.len() > 1 { format!(" of {}", overhead.variant_name) } else { String::new() };
    let text = format!(
        "tracing adds {} {what} to {} {} start{of} {} ({} traced against {} timed)",
        percent(ratio.value - 1.0),
        overhead.state.article(),
        overhead.state,
        changes(interval),
        overhead.traced_runs,
        overhead.timed_runs,
    );
    let hint = if overhead.traced_runs < FEWEST_RUNS {
        "the timed runs are never traced and are not affected; for a better estimate: --trace-runs 10"
    } else {
        "the timed runs are never traced and are not affected; times inside of the trace are too long by as much"
    };
    Some(Warning::new(WarningKind::Overhead, text).hint(hint))
}

/// The same program twice must not differ.
fn bias(report: &Report) -> Vec<Warning> {
    let Some(floor) = &report.noise_floor else { return Vec::new() };
    let biased = floor.states.iter().filter(|state| state.p <= BIASED_P);
    biased
        .map(|state| {
            let interval = state.ratio.interval.map(|interval| format!(" {}", changes(interval))).unwrap_or_default();
            let text = format!(
                "{}: the program differs from itself by {}{interval} ({}, {} pairs): something favours one of the two",
                state.state,
                percent((state.ratio.value - 1.0).abs()),
                p_value(state.p),
                state.pairs
            );
            Warning::new(WarningKind::Note, text)
                .hint("record again; if it stays, distrust comparisons on this machine that are not much larger")
        })
        .collect()
}
