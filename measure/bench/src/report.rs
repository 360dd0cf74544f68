//! What the runs of a recording say: the public result of this room, as JSON, the terminal, the viewer and `query`
//! see it. Types only; `analyze` and `compare` fill them.
//!
//! Times are seconds (`_s`), sizes bytes (`_bytes`). A ratio is new over old: above 1 means that new is slower.
//! Every interval is a 95 % confidence interval.

use model::{CacheState, RunId, RunKind, Warning};
use serde::{Deserialize, Serialize};
use stats::{Drift, Estimate};

/// Version of [`Report`] and [`Comparison`] in JSON.
pub const REPORT_VERSION: u32 = 1;

/// The answer of one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "Statistics"))]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// One per variant and state with at least one accepted timed run; by variant, then hot, app, boot, cold.
    pub cells: Vec<Cell>,
    /// States of one variant against its hot (or else fastest) state, and variants of one state against variant 0.
    /// With `--aa` variants are the same program: see `noise_floor` instead.
    pub contrasts: Vec<Contrast>,
    /// (cold2-hot2)-(cold1-hot1): by how much a variant changes what a cold cache costs.
    pub differences: Vec<Difference>,
    /// What tracing cost, per variant and state that has traced runs.
    pub overhead: Vec<Overhead>,
    /// What this machine can tell apart, from a recording of the same program against itself.
    pub noise_floor: Option<NoiseFloor>,
    /// Timed and traced runs that do not count.
    pub rejected: Vec<Rejected>,
    /// Doubts about the figures above.
    pub warnings: Vec<Warning>,
}

/// A variant in a state: one row of the table that answers "how long does it take to start?".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Cell {
    /// Index of the variant.
    pub variant: u32,
    /// Name of the variant.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// Accepted timed runs: what all figures of this cell are made of.
    pub runs: u32,
    /// Timed runs that do not count; [`Report::rejected`] lists them.
    pub rejected: u32,
    /// Mean wall time with the t interval of its log, which does not reach below 0.
    pub mean_s: Estimate,
    /// Half of the mean's interval as a share of the mean: the "± 0.5 %" of the table.
    pub mean_half_width: Option<f64>,
    /// Median wall time with its BCa bootstrap interval.
    pub median_s: Estimate,
    /// Sample standard deviation of the wall time; `None` with one run.
    pub stddev_s: Option<f64>,
    /// Fastest run.
    pub min_s: f64,
    /// Slowest run.
    pub max_s: f64,
    /// Mean CPU time in user mode, with an interval like that of `mean_s`.
    pub user_s: Estimate,
    /// Mean CPU time in the kernel, likewise.
    pub system_s: Estimate,
    /// Median of the largest resident set.
    pub max_rss_bytes: f64,
    /// Median of page faults served without the disk.
    pub minor_faults: f64,
    /// Median of page faults that waited for the disk.
    pub major_faults: f64,
    /// Median of bytes read from block devices; `None`: this machine could not tell.
    pub read_bytes: Option<f64>,
    /// Median of read requests to block devices.
    pub read_requests: Option<f64>,
    /// Median of bytes written to block devices.
    pub written_bytes: Option<f64>,
    /// Median of instructions retired.
    pub instructions: Option<f64>,
    /// Median of CPU cycles.
    pub cycles: Option<f64>,
    /// The readiness probes that fired, in the order of their median times.
    pub milestones: Vec<MilestoneReport>,
    /// Runs far from the others (modified z-score above 3.5); they are kept in all figures.
    pub outliers: Vec<RunId>,
    /// Runs taken while the rest of the machine was busy; they are kept in all figures.
    pub busy: Vec<RunId>,
    /// Trend of the wall time in the order of the runs; `None`: too few runs.
    pub drift: Option<Drift>,
    /// Lag-1 autocorrelation of the wall time in the order of the runs.
    pub lag1: Option<f64>,
    /// Every accepted timed run, in the order taken.
    pub samples: Vec<Sample>,
}

/// When a readiness probe fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct MilestoneReport {
    /// Its name, as on the command line.
    pub name: String,
    /// Median time since exec, with its BCa bootstrap interval.
    pub median_s: Estimate,
    /// Runs in which it fired.
    pub runs: u32,
}

/// One accepted timed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Sample {
    /// Its number in the recording.
    pub run: RunId,
    /// Its random block.
    pub block: u32,
    /// Time until ready.
    pub wall_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Page faults served without the disk.
    pub minor_faults: u64,
    /// Page faults that waited for the disk.
    pub major_faults: u64,
    /// Bytes read from block devices.
    pub read_bytes: Option<u64>,
    /// Read requests to block devices.
    pub read_requests: Option<u64>,
    /// Bytes written to block devices.
    pub written_bytes: Option<u64>,
    /// Instructions retired.
    pub instructions: Option<u64>,
    /// CPU cycles.
    pub cycles: Option<u64>,
    /// CPU time of others as a share of all CPUs (0..1).
    pub others_cpu_share: Option<f64>,
    /// Share of the run in which others waited for the disk (0..1).
    pub others_io_pressure: Option<f64>,
    /// Exit code of the first process, if it ended by itself.
    pub exit_code: Option<i32>,
}

/// A run that does not count, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Rejected {
    /// Its number in the recording.
    pub run: RunId,
    /// Index of the variant.
    pub variant: u32,
    /// The state that it claimed.
    pub state: CacheState,
    /// Why it was made.
    pub kind: RunKind,
    /// 1 for the first try, 2 for its repetition, ...
    pub attempt: u32,
    /// Why it does not count.
    pub because: String,
}

/// One side of a [`Contrast`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct CellName {
    /// Index of the variant.
    pub variant: u32,
    /// Name of the variant.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
}

/// How a ratio was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Geometric mean of the ratios of runs of the same block, t interval on the logs, sign-flip permutation p.
    PairedLogRatio,
    /// Ratio of the medians, BCa bootstrap interval, label permutation p.
    RatioOfMedians,
}

/// A ratio of wall times inside one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Contrast {
    /// In words: `b / a (cold)` or `cold / hot (firefox)`.
    pub what: String,
    /// Above the line.
    pub new: CellName,
    /// Below the line.
    pub old: CellName,
    /// Median of new over median of old, the two of the table, with its BCa bootstrap interval.
    pub ratio: Estimate,
    /// Geometric mean of the ratios of runs of the same block, with its t interval: another figure than `ratio` where
    /// some runs are much slower than most. `None`: fewer than three pairs.
    pub in_pairs: Option<Estimate>,
    /// Two-sided permutation p of "there is no difference": of the signs of the pairs if `in_pairs` is known, else of
    /// labels.
    pub p: f64,
    /// How `ratio` was made: of medians.
    pub method: Method,
    /// Blocks in which both have an accepted run.
    pub pairs: u32,
}

/// A difference of differences: (slow2-fast2)-(slow1-fast1) of medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Difference {
    /// In words: `(cold-hot) of b minus (cold-hot) of a`.
    pub what: String,
    /// The slower state: cold.
    pub slow: CacheState,
    /// The faster state: hot.
    pub fast: CacheState,
    /// Name of the first variant (or recording).
    pub old: String,
    /// Name of the second.
    pub new: String,
    /// Seconds, with its BCa bootstrap interval.
    pub difference_s: Estimate,
}

/// What tracing cost: traced runs over timed runs of the same variant and state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Overhead {
    /// Name of the variant.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// CPU time (user and kernel), traced over timed; `None` if the CPU time is too short to be counted.
    pub cpu_ratio: Option<Estimate>,
    /// Wall time, traced over timed.
    pub wall_ratio: Option<Estimate>,
    /// Traced runs that count.
    pub traced_runs: u32,
    /// Timed runs that they are compared with.
    pub timed_runs: u32,
    /// How the ratios were made.
    pub method: Method,
}

/// What this machine can tell apart: the same program recorded as two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct NoiseFloor {
    /// One per state and further variant.
    pub states: Vec<NoiseState>,
}

/// The noise floor of one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct NoiseState {
    /// Cache state.
    pub state: CacheState,
    /// Pairs of runs.
    pub pairs: u32,
    /// The program against itself: should contain 1.
    pub ratio: Estimate,
    /// Two-sided sign-flip permutation p.
    pub p: f64,
    /// The smallest change that a recording with this many pairs shows in four cases out of five (0.03: 3 %).
    /// `None`: too few pairs.
    pub smallest_change: Option<f64>,
}

/// Two recordings side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Comparison {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// One per variant and state that both recordings have.
    pub states: Vec<StateComparison>,
    /// (cold2-hot2)-(cold1-hot1), 1 being the recording before and 2 the one after.
    pub differences: Vec<Difference>,
    /// Facts about the machines that differ.
    pub changed: Vec<ChangedFact>,
    /// Doubts about the figures above.
    pub warnings: Vec<Warning>,
}

/// One state before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct StateComparison {
    /// Name of the variant before.
    pub before_name: String,
    /// Name of the variant after.
    pub after_name: String,
    /// Cache state.
    pub state: CacheState,
    /// Accepted timed runs before.
    pub before_runs: u32,
    /// Accepted timed runs after.
    pub after_runs: u32,
    /// Median wall time before.
    pub before_s: Estimate,
    /// Median wall time after.
    pub after_s: Estimate,
    /// after / before: ratio of medians with its BCa bootstrap interval.
    pub ratio: Estimate,
    /// Two-sided permutation p: of labels, or of the signs of pairs where both are variants of one recording.
    pub p: f64,
    /// Figures beside the wall time.
    pub metrics: Vec<MetricChange>,
}

/// A figure beside the wall time, before and after (medians).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct MetricChange {
    /// `cpu_s`, `instructions`, `read_bytes`, ...: as in [`Sample`], and `cpu_s` is user and system.
    pub metric: String,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// after / before; `None` if before is 0.
    pub ratio: Option<f64>,
}

/// A fact about the machine that differs between two recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct ChangedFact {
    /// `disk:vda read_ahead_kb`
    pub name: String,
    /// Before; `None`: not recorded.
    pub before: Option<String>,
    /// After; `None`: not recorded.
    pub after: Option<String>,
}
