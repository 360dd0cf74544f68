//! Statistics of what was summed up elsewhere: medians that came with their intervals, counts, sums of groups.

use crate::describe::{standard_error, t_quantile};
use crate::{Estimate, Interval};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Half the width of a 95 % interval in standard errors of a normal distribution.
const Z: f64 = 1.96;

/// A ratio of two figures that were estimated independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// New over old, with its interval.
    pub estimate: Estimate,
    /// Two-sided: the chance of a ratio at least as far from 1 if nothing differs. 1 where there is no interval.
    pub p: f64,
    /// Standard error of the logarithm; infinite where there is no interval.
    pub log_error: f64,
}

const UNKNOWN: Ratio =
    Ratio { estimate: Estimate { value: f64::NAN, interval: None }, p: 1.0, log_error: f64::INFINITY };

/// The ratio of two independent figures, each with its own 95 % interval: the interval is that of the variance
/// estimates recovered from theirs (MOVER, Zou and Donner 2008) on the logarithms. Without an interval if one of the
/// two has none; NaN if a figure or a limit is not positive.
pub fn ratio_of_estimates(new: Estimate, old: Estimate) -> Ratio {
    if !(new.value > 0.0 && old.value > 0.0) {
        return UNKNOWN;
    }
    let value = new.value / old.value;
    let bare = Ratio { estimate: Estimate { value, interval: None }, ..UNKNOWN };
    let (Some(new_limits), Some(old_limits)) = (new.interval, old.interval) else { return bare };
    if !(new_limits.low > 0.0 && old_limits.low > 0.0) {
        return bare;
    }
    let down = (new.value / new_limits.low).ln().hypot((old_limits.high / old.value).ln());
    let up = (new_limits.high / new.value).ln().hypot((old.value / old_limits.low).ln());
    let log = value.ln();
    let interval = Interval { low: (log - down).exp(), high: (log + up).exp() };
    let toward_none = if log > 0.0 { down } else { up };
    let error = toward_none / Z;
    let p = if error > 0.0 {
        two_sided(log / error)
    } else if log == 0.0 {
        1.0
    } else {
        0.0
    };
    let log_error = (down + up) / (2.0 * Z);
    Ratio { estimate: Estimate { value, interval: Some(interval) }, p, log_error }
}

/// The difference of two independent figures, each with its own 95 % interval, by the same method as
/// [`ratio_of_estimates`] without logarithms. Without an interval if one of the two has none.
pub fn difference_of_estimates(new: Estimate, old: Estimate) -> Estimate {
    let value = new.value - old.value;
    let limits = new.interval.zip(old.interval).map(|(new_limits, old_limits)| Interval {
        low: value - (new.value - new_limits.low).hypot(old_limits.high - old.value),
        high: value + (new_limits.high - new.value).hypot(old.value - old_limits.low),
    });
    Estimate { value, interval: limits }
}

/// One ratio for several strata, weighted by how sure each is (inverse variance of the logarithm; one common ratio is
/// assumed). Strata without an interval are left out.
pub fn pooled_ratio(strata: &[Ratio]) -> Ratio {
    let known = strata.iter().filter(|ratio| ratio.log_error.is_finite() && ratio.log_error > 0.0);
    let (mut weights, mut sum) = (0.0, 0.0);
    for ratio in known {
        let weight = ratio.log_error.powi(-2);
        weights += weight;
        sum += weight * ratio.estimate.value.ln();
    }
    if weights == 0.0 {
        return UNKNOWN;
    }
    let (log, error) = (sum / weights, f64::sqrt(1.0 / weights));
    let interval = Interval { low: (log - Z * error).exp(), high: (log + Z * error).exp() };
    let estimate = Estimate { value: log.exp(), interval: Some(interval) };
    Ratio { estimate, p: two_sided(log / error), log_error: error }
}

/// A share of a whole, `part` of `whole`, with the interval of Wilson (1927) as if `independent` of them were
/// independent: of starts on few machines as many as there are machines, which is the widest that they can need.
pub fn share(part: f64, whole: f64, independent: f64) -> Estimate {
    let value = part / whole;
    if !(whole > 0.0 && independent > 0.0) {
        return Estimate { value: f64::NAN, interval: None };
    }
    let squared = Z * Z / independent;
    let middle = (value + squared / 2.0) / (1.0 + squared);
    let half = Z * (value * (1.0 - value) / independent + squared / (4.0 * independent)).sqrt() / (1.0 + squared);
    Estimate { value, interval: Some(Interval { low: (middle - half).max(0.0), high: (middle + half).min(1.0) }) }
}

/// The ratio of two means, each known by the sums of random groups: (sum, count) of each group. How much the groups'
/// means differ tells how sure each mean is, also when the values inside of a group are alike (random groups, Wolter
/// 2007); t interval of the logarithm with as many degrees of freedom as the smaller side has. Groups without values
/// are left out; no interval with fewer than 8 groups on a side; NaN if a mean is not positive.
pub fn ratio_of_grouped_means(new: &[(f64, f64)], old: &[(f64, f64)]) -> Ratio {
    let (Some(new), Some(old)) = (Grouped::of(new), Grouped::of(old)) else { return UNKNOWN };
    let value = new.mean / old.mean;
    let (Some(new_error), Some(old_error)) = (new.log_error, old.log_error) else {
        return Ratio { estimate: Estimate { value, interval: None }, ..UNKNOWN };
    };
    by_t(value, new_error.hypot(old_error), new.groups.min(old.groups) - 1)
}

/// The ratio of two figures, each known for all and again for each of its random groups, as a median is: how much the
/// groups' figures differ tells how sure the whole one is (random groups, Wolter 2007). Intervals and p as in
/// [`ratio_of_grouped_means`].
pub fn ratio_of_replicated(new: f64, new_groups: &[f64], old: f64, old_groups: &[f64]) -> Ratio {
    if !(new > 0.0 && old > 0.0) {
        return UNKNOWN;
    }
    let value = new / old;
    let error = |groups: &[f64]| {
        let logs: Vec<f64> = groups.iter().filter(|figure| **figure > 0.0).map(|figure| figure.ln()).collect();
        (logs.len() >= LEAST_GROUPS).then(|| (standard_error(&logs), logs.len()))
    };
    let (Some((new_error, new_count)), Some((old_error, old_count))) = (error(new_groups), error(old_groups)) else {
        return Ratio { estimate: Estimate { value, interval: None }, ..UNKNOWN };
    };
    by_t(value, new_error.hypot(old_error), new_count.min(old_count) - 1)
}

fn by_t(value: f64, error: f64, degrees: usize) -> Ratio {
    let log = value.ln();
    let half = t_quantile(0.975, degrees) * error;
    let interval = Interval { low: (log - half).exp(), high: (log + half).exp() };
    let p = match (error > 0.0, StudentsT::new(0.0, 1.0, degrees as f64)) {
        (true, Ok(t)) => 2.0 * t.cdf(-(log / error).abs()),
        _ => f64::from(log == 0.0),
    };
    Ratio { estimate: Estimate { value, interval: Some(interval) }, p, log_error: error }
}

/// Fewer groups than this say little of how much groups differ.
const LEAST_GROUPS: usize = 8;

struct Grouped {
    mean: f64,
    log_error: Option<f64>,
    groups: usize,
}

impl Grouped {
    fn of(groups: &[(f64, f64)]) -> Option<Self> {
        let full: Vec<_> = groups.iter().filter(|(_, count)| *count > 0.0).collect();
        let (sum, count) = full.iter().fold((0.0, 0.0), |all, group| (all.0 + group.0, all.1 + group.1));
        if !(sum > 0.0 && count > 0.0) {
            return None;
        }
        // Of a ratio of sums: how far each group is from what its count lets expect.
        let expected = sum / count;
        let residuals: Vec<f64> = full.iter().map(|group| group.0 - expected * group.1).collect();
        let groups = residuals.len();
        let log_error = (groups >= LEAST_GROUPS).then(|| {
            let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
            (squares * groups as f64 / (groups as f64 - 1.0)).sqrt() / sum
        });
        Some(Self { mean: expected, log_error, groups })
    }
}

fn two_sided(z: f64) -> f64 {
    2.0 * Normal::standard().cdf(-z.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::test_data::{close, normal};

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, interval: Some(Interval { low, high }) }
    }

    #[test]
    fn a_ratio_of_sure_figures_is_surer() {
        let wide = ratio_of_estimates(estimate(110.0, 100.0, 121.0), estimate(100.0, 90.0, 111.0));
        let sure = ratio_of_estimates(estimate(110.0, 109.0, 111.0), estimate(100.0, 99.0, 101.0));
        close(wide.estimate.value, 1.1, 1e-12);
        assert!(wide.estimate.interval.unwrap().contains(1.0) && wide.p > 0.05);
        let difference = difference_of_estimates(estimate(110.0, 107.0, 113.0), estimate(100.0, 96.0, 104.0));
        assert_eq!(difference, estimate(10.0, 5.0, 15.0));
        assert!(!sure.estimate.interval.unwrap().contains(1.0) && sure.p < 1e-6);
        assert!(ratio_of_estimates(estimate(0.0, 0.0, 1.0), estimate(1.0, 1.0, 1.0)).estimate.value.is_nan());
        let unsure = ratio_of_estimates(Estimate { value: 2.0, interval: None }, estimate(1.0, 1.0, 1.0));
        assert_eq!((unsure.estimate.value, unsure.estimate.interval, unsure.p), (2.0, None, 1.0));
    }

    /// Wilson's interval for 10 of 100, by his formula: 0.0552 to 0.1744.
    #[test]
    fn a_share_has_wilsons_interval() {
        let share = share(10.0, 100.0, 100.0);
        close(share.interval.unwrap().low, 0.0552, 1e-4);
        close(share.interval.unwrap().high, 0.1744, 1e-4);
        assert!(super::share(100.0, 1000.0, 20.0).interval.unwrap().high > 0.25);
    }

    #[test]
    fn strata_are_weighted_by_how_sure_they_are() {
        let sure = ratio_of_estimates(estimate(92.0, 91.5, 92.5), estimate(100.0, 99.5, 100.5));
        let unsure = ratio_of_estimates(estimate(150.0, 100.0, 225.0), estimate(100.0, 67.0, 149.0));
        let pooled = pooled_ratio(&[sure, unsure, UNKNOWN]);
        assert!((0.915..0.93).contains(&pooled.estimate.value), "{pooled:?}");
        assert!(pooled.log_error < sure.log_error);
        assert!(pooled_ratio(&[UNKNOWN]).estimate.value.is_nan());
    }

    /// As below, for medians.
    #[test]
    fn replicated_medians_cover_clustered_values() {
        let mut random = Random::from_seed(8);
        let sample = |random: &mut Random| {
            let mut groups = vec![Vec::new(); 16];
            for machine in 0..320 {
                let own = 100.0 * (0.1 * normal(random)).exp();
                groups[machine % 16].extend((0..5).map(|_| own * (0.1 * normal(random)).exp()));
            }
            let all: Vec<f64> = groups.iter().flatten().copied().collect();
            let medians: Vec<f64> = groups.iter().map(|group| crate::quantile(group, 0.5)).collect();
            (crate::quantile(&all, 0.5), medians)
        };
        let rounds = 1000;
        let covered = (0..rounds).filter(|_| {
            let (new, old) = (sample(&mut random), sample(&mut random));
            ratio_of_replicated(new.0, &new.1, old.0, &old.1).estimate.interval.unwrap().contains(1.0)
        });
        let covered = covered.count();
        assert!((930..=980).contains(&covered), "{covered} of {rounds}");
        assert!(ratio_of_replicated(1.0, &[1.0; 7], 1.0, &[1.0; 16]).estimate.interval.is_none());
    }

    /// Machines that differ and start often: the interval must cover although the starts are not independent.
    #[test]
    fn grouped_means_cover_clustered_values() {
        let mut random = Random::from_seed(7);
        let sample = |random: &mut Random| {
            let mut groups = [(0.0, 0.0); 16];
            for machine in 0..160 {
                let own = 100.0 + 20.0 * normal(random);
                for _ in 0..10 {
                    groups[machine % 16].0 += own + 2.0 * normal(random);
                    groups[machine % 16].1 += 1.0;
                }
            }
            groups
        };
        let rounds = 1000;
        let covered = (0..rounds).filter(|_| {
            let ratio = ratio_of_grouped_means(&sample(&mut random), &sample(&mut random));
            ratio.estimate.interval.unwrap().contains(1.0)
        });
        let covered = covered.count();
        assert!((930..=980).contains(&covered), "{covered} of {rounds}");
        assert!(ratio_of_grouped_means(&[(1.0, 1.0); 7], &[(1.0, 1.0); 16]).estimate.interval.is_none());
    }
}
