//! Pure statistics on slices of `f64`: estimates with intervals, tests, and the signs that a series of runs is not
//! what the estimates assume (outliers, drift, autocorrelation).
//!
//! Nothing in here knows what the numbers are; nothing reads a clock. Whatever draws random numbers takes a
//! [`Random`] from the caller, so the same data and the same seed always give the same result.
//!
//! Values must be finite. The special functions come from `statrs`; everything that resamples is here, because it
//! must be quick: 10,000 resamples of twenty runs take about half a millisecond.

mod bootstrap;
mod describe;
mod growth;
mod limit;
mod permutation;
mod random;
mod ratio;
mod series;
#[cfg(test)]
mod test_data;

pub use bootstrap::{RESAMPLES, difference_of_differences, median, ratio_of_medians};
pub use describe::{mean, mean_of_positive, outliers, quantile, relative_half_width, stddev};
pub use growth::{Bend, Fit, Growth, LEVELS, Order, Untold, VALUES, growth};
pub use limit::{Limit, against_limit, holm, smallest_p, spend, t_above_limit, values_needed};
pub use permutation::{Pairing, permutation_p};
pub use random::Random;
pub use ratio::{detectable_change, paired_ratio};
pub use series::{Drift, detrend, drift, lag1, lag1_limit};

use serde::{Deserialize, Serialize};

/// Confidence level of every interval.
pub const LEVEL: f64 = 0.95;

/// A confidence interval at [`LEVEL`], in the unit of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A figure with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Estimate {
    /// The point estimate; NaN when there was no data at all.
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub value: f64,
    /// `None`: too few values for an interval.
    pub interval: Option<Interval>,
}
