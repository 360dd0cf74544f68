//! Pure statistics on slices of `f64`: estimates with intervals, tests, and the signs that a series of runs is not
//! what the estimates assume (outliers, drift, autocorrelation).
//!
//! Nothing in here knows what the numbers are; nothing reads a clock. Whatever draws random numbers takes a
//! [`Random`] from the caller, so the same data and the same seed always give the same result.
//!
//! Values must be finite. The special functions come from `statrs`; everything that resamples is here, because it
//! must be quick: 10,000 resamples of twenty runs take about half a millisecond.

mod bootstrap;
mod change;
mod describe;
mod growth;
mod limit;
mod permutation;
mod random;
mod ratio;
mod series;
mod summed;
#[cfg(test)]
mod test_data;

pub use bootstrap::{RESAMPLES, difference_of_differences, median, ratio_of_medians};
pub use change::{Change, Changes, FALSE_STEP, FEWEST_COMMITS, MOST_COMMITS, changes};
pub use describe::{difference_of_means, mean, mean_of_positive, outliers, quantile, relative_half_width, stddev};
pub use growth::{Bend, Fit, Growth, LEVELS, Order, Untold, VALUES, foretold, growth};
pub use limit::{
    Limit, against_limit, against_value, holm, smallest_p, spend, t_above_limit, values_needed, values_needed_against,
};
pub use permutation::{Pairing, permutation_p};
pub use random::Random;
pub use ratio::{detectable_change, paired_ratio};
pub use series::{Drift, detrend, drift, lag1, lag1_limit};
pub use summed::{
    Ratio, difference_of_estimates, pooled_ratio, ratio_of_estimates, ratio_of_grouped_means, ratio_of_replicated,
    share,
};

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

impl Estimate {
    /// The same the other way round: what was more is less.
    #[must_use]
    pub fn negated(&self) -> Self {
        let interval = self.interval.map(|it| Interval { low: -it.high, high: -it.low });
        Self { value: -self.value, interval }
    }
}
