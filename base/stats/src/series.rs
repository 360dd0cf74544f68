//! Signs that the runs are not independent draws of one distribution: a trend in their order, and neighbours that
//! resemble each other.

use crate::describe::{plain_mean, plain_median, select_quantile};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

/// Up to this many values without ties, the p of Mann and Kendall is exact; above, the normal approximation is.
const EXACT_UP_TO: usize = 40;
/// Fewer values than this have no [`drift`]: with 4, not even a perfect order has a p below 0.08.
const FEWEST: usize = 4;

/// A trend in the order of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Drift {
    /// Theil-Sen slope: the median of the slopes of all pairs; unit of the data per run.
    pub slope_per_run: f64,
    /// The slope as a share of the median: 0.02 is "2 % per run". 0 if the median is 0.
    pub share_per_run: f64,
    /// Two-sided p of Mann and Kendall's test of "there is no trend".
    pub p: f64,
}

/// The trend of `x` in its order: Theil-Sen slope (Sen 1968) and Mann-Kendall p (Mann 1945, Kendall 1975).
///
/// The p is exact for up to 40 different values; else it comes from the normal approximation, with the variance
/// corrected for ties and with the correction for continuity. `None` for fewer than 4 values. O(n²).
pub fn drift(x: &[f64]) -> Option<Drift> {
    if x.len() < FEWEST {
        return None;
    }
    let positions: Vec<f64> = (0..x.len()).map(|at| at as f64).collect();
    let slope = theil_sen(&positions, x);
    let median = plain_median(x);
    let share = if median == 0.0 { 0.0 } else { slope / median.abs() };
    Some(Drift { slope_per_run: slope, share_per_run: share, p: mann_kendall(x) })
}

/// `x` without the trend of `slope` per value.
pub fn detrend(x: &[f64], slope: f64) -> Vec<f64> {
    x.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect()
}

/// Autocorrelation at lag 1: Σ(x[i]-m)(x[i+1]-m) / Σ(x[i]-m)². `None` for fewer than 3 values or if all are equal
/// (but for rounding).
pub fn lag1(x: &[f64]) -> Option<f64> {
    if x.len() < 3 {
        return None;
    }
    let mean = plain_mean(x);
    let squares: f64 = x.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = x.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // The mean of equal values is not always that value.
    let rounding = x.len() as f64 * (mean * 1e-12).powi(2);
    (squares > rounding).then(|| products / squares)
}

/// The limit that [`lag1`] of `n` independent values exceeds once in a hundred series, below 20 values more rarely:
/// (-1 + 2.326·√(n-2)) / (n-1) (Anderson 1942). 1 for fewer than 3 values: nothing exceeds it.
pub fn lag1_limit(n: usize) -> f64 {
    if n < 3 {
        return 1.0;
    }
    let n = n as f64;
    (-1.0 + 2.326_347_874 * (n - 2.0).sqrt()) / (n - 1.0)
}

/// Median of the slopes of all pairs of points at different positions.
fn theil_sen(positions: &[f64], x: &[f64]) -> f64 {
    let mut slopes = Vec::with_capacity(x.len() * (x.len() - 1) / 2);
    for later in 1..x.len() {
        for earlier in 0..later {
            let run = positions[later] - positions[earlier];
            if run != 0.0 {
                slopes.push((x[later] - x[earlier]) / run);
            }
        }
    }
    select_quantile(&mut slopes, 0.5)
}

/// Two-sided p of Mann and Kendall's test.
fn mann_kendall(x: &[f64]) -> f64 {
    let score = kendall_score(x);
    let ties = tie_sizes(x);
    if ties.is_empty() && x.len() <= EXACT_UP_TO {
        return exact_kendall_p(x.len(), score);
    }
    let variance = kendall_variance(x.len(), &ties);
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (score.abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2).min(1.0)
}

/// Kendall's S: pairs that rise less pairs that fall.
fn kendall_score(x: &[f64]) -> i64 {
    let mut score = 0;
    for later in 1..x.len() {
        for earlier in 0..later {
            score += i64::from(x[later] > x[earlier]) - i64::from(x[later] < x[earlier]);
        }
    }
    score
}

/// Sizes of the groups of equal values, those of two or more.
fn tie_sizes(x: &[f64]) -> Vec<usize> {
    let mut sorted = x.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|&size| size > 1).collect()
}

/// Variance of S when there is no trend: (n(n-1)(2n+5) - Σ t(t-1)(2t+5)) / 18 over groups of t ties.
fn kendall_variance(n: usize, ties: &[usize]) -> f64 {
    let term = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64;
    (term(n) - ties.iter().map(|&size| term(size)).sum::<f64>()) / 18.0
}

/// P(|S| ≥ |score|) over all n! orders. The chance of k inversions of n values follows from that of n-1 values: the
/// largest of them stands at each of the n places equally often and adds 0 to n-1 inversions.
fn exact_kendall_p(n: usize, score: i64) -> f64 {
    let mut chance = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; size * (size - 1) / 2 + 1];
        for (inversions, share) in chance.iter().enumerate() {
            for added in 0..size {
                next[inversions + added] += share / size as f64;
            }
        }
        chance = next;
    }
    let pairs = (n * (n - 1) / 2) as i64;
    // S = pairs - 2·inversions.
    let extreme = |inversions: usize| (pairs - 2 * inversions as i64).abs() >= score.abs();
    chance
        .iter()
        .enumerate()
        .filter(|&(inversions, _)| extreme(inversions))
        .map(|(_, share)| share)
        .sum::<f64>()
        .min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::test_data::{close, normal, permutations};

    #[test]
    fn the_slope_is_that_of_sen_1968() {
        let positions = [1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0];
        let x = [9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0];
        close(theil_sen(&positions, &x), 4.0, 1e-12);
    }

    #[test]
    fn four_runs_have_a_drift_and_three_a_correlation() {
        let drifting = drift(&[10.0, 12.0, 14.0, 16.0]).unwrap();
        assert_eq!((drifting.slope_per_run, drifting.share_per_run), (2.0, 2.0 / 13.0));
        assert_eq!(drift(&[10.0, 12.0, 14.0]), None);
        // Distances from the mean: -4/3, -1/3, 5/3.
        close(lag1(&[1.0, 2.0, 4.0]).unwrap(), -1.0 / 42.0, 1e-12);
        assert_eq!(lag1(&[1.0, 2.0]), None);
        assert_eq!(lag1(&[0.0; 3]), None, "equal values have none");
        close(lag1_limit(3), 1.326_347_874 / 2.0, 1e-12);
        assert_eq!(lag1_limit(2), 1.0);
    }

    #[test]
    fn one_wild_run_does_not_move_the_slope() {
        let mut x: Vec<f64> = (0..20).map(|at| 10.0 + 0.2 * f64::from(at)).collect();
        x[19] = 1e6;
        close(drift(&x).unwrap().slope_per_run, 0.2, 1e-9);
    }

    #[test]
    fn the_p_is_that_of_hollander_and_wolfe() {
        // Hollander and Wolfe (1973), table 8.1, lightness of tuna against panel scores, put in the order of lightness.
        // R prints for cor.test(method = "kendall"): T = 26, tau = 0.4444444, p-value = 0.1194.
        let lightness_order = {
            let lightness = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1];
            let panel = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8];
            let mut order: Vec<usize> = (0..9).collect();
            order.sort_by(|&a, &b| f64::total_cmp(&lightness[a], &lightness[b]));
            order.iter().map(|&at| panel[at]).collect::<Vec<f64>>()
        };
        assert_eq!(kendall_score(&lightness_order), 2 * 26 - 36);
        close(drift(&lightness_order).unwrap().p, 0.1194, 5e-5);
    }

    #[test]
    fn the_exact_p_is_the_share_of_all_orders() {
        let x = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0];
        let score = kendall_score(&x).abs();
        let orders = permutations(&x);
        let extreme = orders.iter().filter(|order| kendall_score(order).abs() >= score).count();
        close(mann_kendall(&x), extreme as f64 / orders.len() as f64, 1e-12);
    }

    #[test]
    fn the_variance_with_ties_is_that_over_all_orders() {
        let x = [1.0, 1.0, 2.0, 3.0, 3.0, 3.0];
        let orders = permutations(&x);
        let squares: f64 = orders.iter().map(|order| (kendall_score(order) as f64).powi(2)).sum();
        close(kendall_variance(x.len(), &tie_sizes(&x)), squares / orders.len() as f64, 1e-9);
    }

    #[test]
    fn ties_have_the_approximate_p_with_its_correction_for_continuity() {
        // S = 12, variance (6·5·17 - 3·2·1·9)/18 = 25.33, z = 11/√25.33 = 2.1855.
        close(mann_kendall(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), 0.028_853_8, 1e-6);
    }

    #[test]
    fn exact_and_approximate_p_meet() {
        // For 40 values the two differ by less than a tenth.
        for score in [20_i64, 100, 200, 222] {
            let exact = exact_kendall_p(40, score);
            let z = (score as f64 - 1.0) / kendall_variance(40, &[]).sqrt();
            let approximate = erfc(z / std::f64::consts::SQRT_2);
            assert!((exact - approximate).abs() < 0.1 * exact, "S = {score}: {exact} {approximate}");
        }
    }

    #[test]
    fn equal_runs_do_not_drift() {
        let still = drift(&[2.0; 12]).unwrap();
        assert_eq!(still, Drift { slope_per_run: 0.0, share_per_run: 0.0, p: 1.0 });
        assert_eq!(drift(&[1.0, 2.0, 3.0]), None);
        assert_eq!(drift(&[0.0; 5]).unwrap().share_per_run, 0.0);
    }

    #[test]
    fn a_perfect_order_has_the_smallest_p() {
        let x: Vec<f64> = (0..6).map(f64::from).collect();
        close(drift(&x).unwrap().p, 2.0 / 720.0, 1e-12);
    }

    #[test]
    fn noise_is_called_drift_as_often_as_the_p_says() {
        let mut random = Random::from_seed(21);
        for runs in [10, 20, 50] {
            let trials = 4_000;
            let alarms = (0..trials)
                .filter(|_| {
                    let x: Vec<f64> = (0..runs).map(|_| 1.0 + 0.01 * normal(&mut random)).collect();
                    drift(&x).unwrap().p < 0.01
                })
                .count();
            let rate = alarms as f64 / f64::from(trials);
            assert!(rate <= 0.013, "{rate} of {runs}-run series");
            assert!(rate >= 0.004, "{rate} of {runs}-run series: the test has lost its power");
        }
    }

    #[test]
    fn lag1_is_that_of_r() {
        // R: acf(lh)$acf[2] is 0.576; luteinising hormone in blood at ten-minute intervals (Diggle 1990).
        let lh = [
            2.4, 2.4, 2.4, 2.2, 2.1, 1.5, 2.3, 2.3, 2.5, 2.0, 1.9, 1.7, 2.2, 1.8, 3.2, 3.2, 2.7, 2.2, 2.2, 1.9, 1.9,
            1.8, 2.7, 3.0, 2.3, 2.0, 2.0, 2.9, 2.9, 2.7, 2.7, 2.3, 2.6, 2.4, 1.8, 1.7, 1.5, 1.4, 2.1, 3.3, 3.5, 3.5,
            3.1, 2.6, 2.1, 3.4, 3.0, 2.9,
        ];
        close(lag1(&lh).unwrap(), 0.576, 5e-4);
        assert!(lag1(&lh).unwrap() > lag1_limit(lh.len()));
        assert_eq!(lag1(&[1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(lag1(&[0.4; 20]), None, "0.4 is not exactly their mean");
        assert_eq!(lag1(&[1.0, 2.0]), None);
        close(lag1_limit(20), 0.466_834_6, 1e-6);
        assert_eq!(lag1_limit(2), 1.0);
    }

    #[test]
    fn noise_is_called_autocorrelated_at_most_once_in_a_hundred() {
        let mut random = Random::from_seed(22);
        for runs in [8, 10, 20, 50] {
            let trials = 4_000;
            let alarms = (0..trials)
                .filter(|_| {
                    let x: Vec<f64> = (0..runs).map(|_| normal(&mut random)).collect();
                    lag1(&x).unwrap() > lag1_limit(runs)
                })
                .count();
            let rate = alarms as f64 / f64::from(trials);
            let at_least = if runs < 20 { 0.0 } else { 0.004 };
            assert!((at_least..=0.014).contains(&rate), "{rate} of {runs}-run series");
        }
    }

    #[test]
    fn detrending_takes_the_slope_away() {
        let x: Vec<f64> = (0..10).map(|at| 3.0 + 0.5 * f64::from(at)).collect();
        assert_eq!(detrend(&x, 0.5), [3.0; 10]);
    }
}
