//! Has a figure grown by more than a limit? One-sided permutation tests of exactly that question.
//!
//! The statistic is the mean of the logs, as in Student's t, but no value counts for more than [`FAR`] spreads from the
//! middle: a start that took three times as long as the others is a slow one, and nothing more (Huber 1981). Middle
//! and spread are those of all values together, whichever sample they are of, so that the values stay exchangeable, and
//! the chance of a false alarm is right for every distribution: it is counted over the arrangements of the values that
//! were seen (Fisher 1935). Where the values are normal it has the power of Student's t.
//!
//! No random numbers are drawn: the number of arrangements with each sum is counted by the shift algorithm (Streitberg
//! and Röhmel 1986), which needs whole numbers. So scores are rounded to 1/32 of a spread, and it is the test with the
//! rounded scores that is exact. Where logs or spread do not exist (most values are 0, or equal) ranks take their
//! place.

use crate::Pairing;
use crate::describe::{plain_median, stddev};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

/// Steps of a score.
const GRID: f64 = 32.0;
/// No value counts for more than so many spreads from the middle.
const FAR: f64 = 2.5;
/// The spread of normal values is so many times their median distance from the middle.
const DISTANCE_TO_SPREAD: f64 = 1.4826;
/// Up to this many values of both samples together the arrangements are counted; above, their sum is as good as normal.
const COUNTED: usize = 60;
/// The same for pairs.
const COUNTED_PAIRS: usize = 400;

/// What the values say about a limit: two one-sided p values, each exact for its own question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Chance of values as high as these, or higher, if the true ratio is the limit: small means "above the limit".
    pub p_above: f64,
    /// Chance of values as low as these, or lower, if the true ratio is the limit: small means "below the limit".
    pub p_below: f64,
}

/// Tests whether `new` is above or below `ratio` times `old`.
///
/// Paired: `new[i]` and `old[i]` were taken together; values beyond the shorter slice are left out. Values may be 0,
/// not negative. Without values, or where all are equal to the limit, both p are 1.
pub fn against_limit(new: &[f64], old: &[f64], ratio: f64, pairing: Pairing) -> Limit {
    let moved: Vec<f64> = old.iter().map(|old| old * ratio).collect();
    match pairing {
        Pairing::Paired => signed(new, &moved),
        Pairing::Independent => two_samples(new, &moved),
    }
}

/// Tests whether the median of where `values` come from lies above or below `at`: the sign test (Arbuthnot 1710), which
/// is exact for every distribution. A value that equals `at` lies within it. Without values both p are 1.
pub fn against_value(values: &[f64], at: f64) -> Limit {
    let above = values.iter().filter(|value| **value > at).count();
    // As many heads, or more, of so many coins.
    let chance = |heads: usize| match heads.checked_sub(1) {
        Some(fewer) => coins(values.len()).sf(fewer as u64),
        None => 1.0,
    };
    Limit { p_above: chance(above), p_below: chance(values.len() - above) }
}

fn coins(n: usize) -> Binomial {
    Binomial::new(0.5, n as u64).expect("a half is a probability")
}

/// About how many values show by [`against_value`] with a chance of 80 % on which side of `at` the median lies, at
/// `level`, should the share of values above it stay as it is. `None`: half of them lie on either side.
pub fn values_needed_against(values: &[f64], at: f64, level: f64) -> Option<u32> {
    let above = values.iter().filter(|value| **value > at).count() as f64 / values.len() as f64;
    let share = above.max(1.0 - above);
    let quantile = |p: f64| Normal::standard().inverse_cdf(p);
    let scatter = (share * (1.0 - share)).sqrt();
    let needed = ((quantile(1.0 - level) / 2.0 + quantile(0.8) * scatter) / (share - 0.5)).powi(2).ceil();
    let fewest = (2..100).find(|&n| smallest_p(n, n, Pairing::Paired) <= level)? as f64;
    (needed.is_finite() && needed < 1e6).then_some(needed.max(fewest) as u32)
}

/// The smallest p that [`against_limit`] can give for so many values: a test at a lower level cannot decide.
pub fn smallest_p(new: usize, old: usize, pairing: Pairing) -> f64 {
    match pairing {
        Pairing::Paired => 0.5_f64.powi(new.min(old) as i32),
        Pairing::Independent => {
            (1..=new).map(|at| at as f64 / (old + at) as f64).product::<f64>().clamp(f64::MIN_POSITIVE, 1.0)
        }
    }
}

/// About how many values of each sample show with a chance of 80 % that a true ratio lies on its side of the limit, at
/// `level`, should the logs go on to scatter as they do. `None`: it lies on the limit, or nothing is known of the
/// scatter.
pub fn values_needed(new: &[f64], old: &[f64], ratio: f64, pairing: Pairing, level: f64) -> Option<u32> {
    let logs = |x: &[f64]| x.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (new, old) = (logs(new), logs(old));
    let (distance, spread) = match pairing {
        Pairing::Paired => {
            let differences: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new - old).collect();
            (plain_median(&differences), robust_spread(&differences))
        }
        Pairing::Independent => {
            (plain_median(&new) - plain_median(&old), robust_spread(&new).hypot(robust_spread(&old)))
        }
    };
    let quantile = |p: f64| Normal::standard().inverse_cdf(p);
    let distance = (distance - ratio.ln()).abs();
    let needed = ((quantile(1.0 - level) + quantile(0.8)) * spread / distance).powi(2).ceil();
    // A test of fewer values than this cannot reach the level at all.
    let fewest = (2..100).find(|&n| smallest_p(n, n, pairing) <= level)? as f64;
    (needed.is_finite() && needed < 1e6).then_some(needed.max(fewest) as u32)
}

/// The lower of two spreads: the standard deviation, and that which most of the values have.
fn robust_spread(x: &[f64]) -> f64 {
    let median = plain_median(x);
    let away: Vec<f64> = x.iter().map(|value| (value - median).abs()).collect();
    let of_most = plain_median(&away) * DISTANCE_TO_SPREAD;
    let all = stddev(x);
    if of_most > 0.0 { of_most.min(all) } else { all }
}

/// Student's t on the logs, one-sided: p of "above the limit". What [`against_limit`] is compared with.
pub fn t_above_limit(new: &[f64], old: &[f64], ratio: f64) -> f64 {
    let logs = |x: &[f64]| x.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (new, old) = (logs(new), logs(old));
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let degrees = new.len() + old.len() - 2;
    let squares = stddev(&new).powi(2) * (new.len() - 1) as f64 + stddev(&old).powi(2) * (old.len() - 1) as f64;
    let error = (squares / degrees as f64 * (1.0 / new.len() as f64 + 1.0 / old.len() as f64)).sqrt();
    let t = (mean(&new) - mean(&old) - ratio.ln()) / error;
    StudentsT::new(0.0, 1.0, degrees as f64).expect("two values of each leave degrees of freedom").cdf(-t)
}

fn two_samples(new: &[f64], old: &[f64]) -> Limit {
    if new.is_empty() || old.is_empty() {
        return Limit { p_above: 1.0, p_below: 1.0 };
    }
    let all = [new, old].concat();
    let logs: Vec<f64> = all.iter().map(|value| value.ln()).collect();
    let middle = plain_median(&logs);
    let away: Vec<f64> = logs.iter().map(|log| log - middle).collect();
    let scores = scores(&away).unwrap_or_else(|| ranks(&all));
    let seen: i64 = scores[..new.len()].iter().sum();
    if all.len() > COUNTED {
        let mean = scores.iter().sum::<i64>() as f64 / all.len() as f64;
        let squares: f64 = scores.iter().map(|score| (*score as f64 - mean).powi(2)).sum();
        let (chosen, total) = (new.len() as f64, all.len() as f64);
        let variance = squares * chosen * (total - chosen) / (total * (total - 1.0));
        return normal_tails(seen as f64, chosen * mean, variance);
    }
    // ways[k][s]: choices of k values whose scores add up to s above k times the smallest.
    let smallest = scores.iter().copied().min().unwrap_or(0);
    let steps: Vec<usize> = scores.iter().map(|score| (score - smallest) as usize).collect();
    let mut sorted = steps.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let most: usize = sorted[..new.len()].iter().sum();
    let largest = sorted[0];
    let mut ways = vec![vec![0.0_f64; most + 1]; new.len() + 1];
    ways[0][0] = 1.0;
    for &step in &steps {
        for chosen in (1..=new.len()).rev() {
            let (before, after) = ways.split_at_mut(chosen);
            // No sum of so many is larger.
            let top = ((chosen - 1) * largest).min(most.saturating_sub(step));
            let from = &before[chosen - 1][..=top];
            for (to, ways) in after[0][step.min(most)..].iter_mut().zip(from) {
                *to += ways;
            }
        }
    }
    let seen = (seen - smallest * new.len() as i64) as usize;
    tails(&ways[new.len()], seen)
}

fn signed(new: &[f64], old: &[f64]) -> Limit {
    let differences: Vec<f64> = new.iter().zip(old).map(|(new, old)| log_ratio(*new, *old)).collect();
    if differences.is_empty() {
        return Limit { p_above: 1.0, p_below: 1.0 };
    }
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).collect();
    let mut steps = scores(&sizes).unwrap_or_else(|| ranks(&sizes).into_iter().map(|rank| rank + 1).collect());
    // A pair on the limit says nothing.
    steps.iter_mut().zip(&differences).filter(|(_, d)| **d == 0.0).for_each(|(step, _)| *step = 0);
    let seen: i64 = steps.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(step, _)| step).sum();
    let all: i64 = steps.iter().sum();
    if differences.len() > COUNTED_PAIRS {
        let variance = steps.iter().map(|step| (*step as f64).powi(2)).sum::<f64>() / 4.0;
        return normal_tails(seen as f64, all as f64 / 2.0, variance);
    }
    let mut ways = vec![0.0_f64; all as usize + 1];
    ways[0] = 1.0;
    for &step in steps.iter().filter(|step| **step > 0) {
        for sum in (step as usize..ways.len()).rev() {
            // Halved each time: the ways of 400 pairs are more than a float holds.
            ways[sum] = (ways[sum] + ways[sum - step as usize]) / 2.0;
        }
        ways[..step as usize].iter_mut().for_each(|ways| *ways /= 2.0);
    }
    tails(&ways, seen as usize)
}

/// ln(new/old) with 0 as what it is: infinitely less than everything, and equal to 0.
fn log_ratio(new: f64, old: f64) -> f64 {
    if new == old { 0.0 } else { new.ln() - old.ln() }
}

/// Distances from the middle in steps of 1/[`GRID`] of their spread, none beyond [`FAR`]. `None`: they have no spread.
fn scores(away: &[f64]) -> Option<Vec<i64>> {
    let distances: Vec<f64> = away.iter().map(|away| away.abs()).collect();
    let spread = plain_median(&distances) * DISTANCE_TO_SPREAD;
    let score = |away: &f64| ((away / spread).clamp(-FAR, FAR) * GRID).round() as i64;
    // The logs of equal values differ by rounding.
    (spread > 1e-9 && spread.is_finite()).then(|| away.iter().map(score).collect())
}

/// Twice the mean rank of each value among all, from 0.
fn ranks(x: &[f64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_unstable_by(|a, b| f64::total_cmp(&x[*a], &x[*b]));
    let mut ranks = vec![0; x.len()];
    let mut start = 0;
    while start < order.len() {
        let first = x[order[start]];
        // A value times the limit is rounded.
        let equal = |at: &&usize| x[**at] == first || x[**at] - first <= 1e-12 * first.abs();
        let end = start + order[start..].iter().take_while(equal).count();
        order[start..end].iter().for_each(|&at| ranks[at] = (start + end - 1) as i64);
        start = end;
    }
    ranks
}

/// Shares of the ways at or above, and at or below, what was seen.
fn tails(ways: &[f64], seen: usize) -> Limit {
    let all: f64 = ways.iter().sum();
    let above: f64 = ways[seen..].iter().sum();
    let below: f64 = ways[..=seen].iter().sum();
    Limit { p_above: (above / all).min(1.0), p_below: (below / all).min(1.0) }
}

fn normal_tails(seen: f64, mean: f64, variance: f64) -> Limit {
    if variance <= 0.0 {
        return Limit { p_above: 1.0, p_below: 1.0 };
    }
    let z = (seen - mean) / variance.sqrt();
    let normal = Normal::standard();
    Limit { p_above: normal.cdf(-z), p_below: normal.cdf(z) }
}

/// Which of several hypotheses are rejected so that the chance of one false rejection among all is at most `level`,
/// however they depend on each other (Holm 1979): their p values, adjusted, in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_unstable_by(|a, b| f64::total_cmp(&p[*a], &p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut highest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        highest = highest.max(p[at] * (p.len() - rank) as f64).min(1.0);
        adjusted[at] = highest;
    }
    adjusted
}

/// The share of `level` that look number `look` (from 1) at growing data may spend: level/(look·(look+1)). All shares
/// together are `level`, so that the chance of a false alarm at any look, however many there are, is at most that:
/// alpha spending (Lan and DeMets 1983) by the union bound, which needs no plan of how many looks there will be.
pub fn spend(level: f64, look: u32) -> f64 {
    level / (f64::from(look) * (f64::from(look) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::test_data::{SLEEP_1, SLEEP_2, close, normal};

    #[test]
    fn the_median_is_tested_by_signs() {
        // P(all of n coins the same) = 2^-n; 8 of 10: 56 of 1024.
        let above = against_value(&[2.0; 10], 1.0);
        assert!((above.p_above - 0.5_f64.powi(10)).abs() < 1e-12 && above.p_below == 1.0, "{above:?}");
        let mixed: Vec<f64> = (0..10).map(|at| if at < 8 { 1.5 } else { 0.5 }).collect();
        let mixed = against_value(&mixed, 1.0);
        assert!((mixed.p_above - 56.0 / 1024.0).abs() < 1e-12, "{mixed:?}");
        // What equals the limit lies within it, 0 too.
        let within = against_value(&[0.0; 6], 0.0);
        assert!(within.p_above == 1.0 && (within.p_below - 0.5_f64.powi(6)).abs() < 1e-12, "{within:?}");
        assert_eq!(against_value(&[], 1.0), Limit { p_above: 1.0, p_below: 1.0 });
        assert_eq!(values_needed_against(&[2.0; 3], 1.0, 0.05), Some(5));
        assert_eq!(values_needed_against(&[0.5, 1.5], 1.0, 0.05), None);
        // Three of four above: as n coins of 3/4 against a half (Conover 1999, 3.4).
        let needed = values_needed_against(&[2.0, 2.0, 2.0, 0.5], 1.0, 0.05).unwrap();
        let power = 1.0
            - Binomial::new(0.75, u64::from(needed))
                .unwrap()
                .cdf((0..u64::from(needed)).find(|&k| coins(needed as usize).sf(k) <= 0.05).unwrap());
        assert!((0.7..0.9).contains(&power), "{needed} values have a power of {power}");
    }

    #[test]
    fn three_that_lie_above_three() {
        // One of the 20 ways to choose 3 of 6.
        let limit = against_limit(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 1.0, Pairing::Independent);
        close(limit.p_above, 1.0 / 20.0, 1e-12);
        close(limit.p_below, 1.0, 1e-12);
        close(smallest_p(3, 3, Pairing::Independent), 1.0 / 20.0, 1e-12);
        let paired = against_limit(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 1.0, Pairing::Paired);
        close(paired.p_above, 1.0 / 8.0, 1e-12);
        close(smallest_p(3, 5, Pairing::Paired), 1.0 / 8.0, 1e-12);
    }

    /// All choices of the first sample, and their shares at or beyond the sum that was seen.
    fn by_hand(new: &[f64], old: &[f64]) -> Limit {
        let all = [new, old].concat();
        let n = all.len();
        let logs: Vec<f64> = all.iter().map(|value| value.ln()).collect();
        let middle = plain_median(&logs);
        let scores = scores(&logs.iter().map(|log| log - middle).collect::<Vec<_>>()).unwrap_or_else(|| ranks(&all));
        let seen: i64 = scores[..new.len()].iter().sum();
        let (mut above, mut below, mut count) = (0.0, 0.0, 0.0);
        for choice in 0_u32..1 << n {
            if choice.count_ones() as usize == new.len() {
                let sum: i64 = (0..n).filter(|at| choice >> at & 1 == 1).map(|at| scores[at]).sum();
                count += 1.0;
                above += f64::from(u8::from(sum >= seen));
                below += f64::from(u8::from(sum <= seen));
            }
        }
        Limit { p_above: above / count, p_below: below / count }
    }

    #[test]
    fn the_shift_algorithm_counts_what_enumeration_counts() {
        let mut random = Random::from_seed(3);
        for (new, old) in [(3, 3), (5, 7), (8, 4), (6, 6)] {
            // Rounded, so that some are equal.
            let mut take =
                |n: usize| -> Vec<f64> { (0..n).map(|_| ((0.3 * normal(&mut random)).exp() * 10.0).round()).collect() };
            let (new, old) = (take(new), take(old));
            let (counted, hand) = (two_samples(&new, &old), by_hand(&new, &old));
            close(counted.p_above, hand.p_above, 1e-12);
            close(counted.p_below, hand.p_below, 1e-12);
        }
    }

    #[test]
    fn pairs_are_counted_over_their_signs() {
        let new: Vec<f64> = SLEEP_2.iter().map(|value: &f64| value.exp()).collect();
        let old: Vec<f64> = SLEEP_1.iter().map(|value: &f64| value.exp()).collect();
        let limit = against_limit(&new, &old, 1.0, Pairing::Paired);
        // One difference is 0, the other nine are positive: all signs alike is one of 2^9.
        close(limit.p_above, 1.0 / 512.0, 1e-12);
        close(limit.p_below, 1.0, 1e-12);
    }

    /// p of "above" for pairs whose logs differ by so much.
    fn p_above(differences: &[f64]) -> f64 {
        let new: Vec<f64> = differences.iter().map(|difference| difference.exp()).collect();
        against_limit(&new, &vec![1.0; new.len()], 1.0, Pairing::Paired).p_above
    }

    #[test]
    fn distances_count_and_not_only_their_order() {
        // Of the 8 ways to choose signs, 5 have a sum as high: with +3, or with +2 and +2.2. By ranks it would be 4.
        close(p_above(&[3.0, -2.0, -2.2]), 5.0 / 8.0, 1e-9);
    }

    #[test]
    fn equal_values_share_their_mean_rank_also_where_they_were_rounded() {
        assert_eq!(ranks(&[1.0, 3.0, 2.0, 1.0]), [1, 6, 4, 1]);
        assert_eq!(ranks(&[0.0, 0.0, 0.0]), [2, 2, 2]);
        // One part in 10^13 is rounding, one in 10^11 is not, whatever the size of the values.
        for size in [1.0, 1e6, 1e-3] {
            assert_eq!(ranks(&[size, size * (1.0 + 1e-13), size * 2.0]), [1, 1, 4]);
            assert_eq!(ranks(&[size, size * (1.0 + 1e-11), size * 2.0]), [0, 2, 4]);
        }
    }

    #[test]
    fn no_distance_counts_for_more_than_two_and_a_half_spreads() {
        // The spread of these is 1.4826: 3 lies within 2.5 of them, and three of 1, or 2 and 1, are as much: 24 ways.
        close(p_above(&[3.0, -1.0, -1.0, -1.0, -2.0]), 24.0 / 32.0, 1e-9);
        // 90 counts as 2.5 spreads, 3.7065: less than 2 and two of 1.
        close(p_above(&[90.0, -1.0, -1.0, -1.0, -2.0]), 20.0 / 32.0, 1e-9);
    }

    #[test]
    fn many_values_are_as_good_as_normal() {
        let mut random = Random::from_seed(9);
        let mut take =
            |n: usize, shift: f64| -> Vec<f64> { (0..n).map(|_| (shift + 0.1 * normal(&mut random)).exp()).collect() };
        // 30 and 30 are counted, 30 and 31 are not: one value more changes little.
        let (new, mut old) = (take(30, 0.04), take(30, 0.0));
        let counted = two_samples(&new, &old);
        old.push(plain_median(&old));
        let as_normal = two_samples(&new, &old);
        close(as_normal.p_above, counted.p_above, 0.15 * counted.p_above + 1e-3);
        // The same for pairs.
        let (new, old) = (take(COUNTED_PAIRS + 1, 0.005), take(COUNTED_PAIRS + 1, 0.0));
        let counted = signed(&new[1..], &old[1..]);
        close(signed(&new, &old).p_above, counted.p_above, 0.15 * counted.p_above + 1e-2);
    }

    #[test]
    fn nothing_is_neither_above_nor_below() {
        let none = Limit { p_above: 1.0, p_below: 1.0 };
        assert_eq!(against_limit(&[], &[1.0], 1.0, Pairing::Independent), none);
        assert_eq!(against_limit(&[1.0], &[], 1.0, Pairing::Independent), none);
        assert_eq!(against_limit(&[], &[1.0], 1.0, Pairing::Paired), none);
        assert_eq!(against_limit(&[0.0; 5], &[0.0; 5], 1.05, Pairing::Independent), none);
        assert_eq!(against_limit(&[0.0; 5], &[0.0; 5], 1.05, Pairing::Paired), none);
        // 0 before and something after lies above every limit.
        close(against_limit(&[1.0; 5], &[0.0; 5], 1.05, Pairing::Paired).p_above, 1.0 / 32.0, 1e-12);
        // Where most pairs are infinitely far, ranks take the place of distances, and the nearest pair counts too.
        let (new, old) = ([1.1, 1.2, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0]);
        close(against_limit(&new, &old, 1.0, Pairing::Paired).p_above, 1.0 / 32.0, 1e-12);
    }

    #[test]
    fn it_keeps_its_level_and_the_power_of_t() {
        let mut random = Random::from_seed(21);
        let trials = 1_000;
        let mut shares = |shift: f64| {
            let (mut alarms, mut student) = (0, 0);
            for _ in 0..trials {
                let mut take =
                    |shift: f64| -> Vec<f64> { (0..8).map(|_| (shift + 0.05 * normal(&mut random)).exp()).collect() };
                let (new, old) = (take(shift), take(0.0));
                alarms += u32::from(against_limit(&new, &old, 1.05, Pairing::Independent).p_above <= 0.05);
                student += u32::from(t_above_limit(&new, &old, 1.05) <= 0.05);
            }
            (f64::from(alarms) / f64::from(trials), f64::from(student) / f64::from(trials))
        };
        let (level, _) = shares(1.05_f64.ln());
        assert!((0.03..=0.065).contains(&level), "{level} at the limit");
        let (power, student) = shares(1.10_f64.ln());
        assert!(power > student - 0.03, "{power} against {student} of the t test");
    }

    #[test]
    fn one_slow_start_hides_no_regression() {
        let old: [f64; 10] = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01, 1.00, 0.99, 1.01, 5.0];
        let new: Vec<f64> = old.iter().map(|old| old.min(1.05) * 1.2).collect();
        assert!(against_limit(&new, &old, 1.05, Pairing::Independent).p_above < 0.05);
        assert!(t_above_limit(&new, &old, 1.05) > 0.3, "Student's t sees nothing");
    }

    #[test]
    fn t_on_logs_is_the_one_of_r() {
        // R: t.test(SLEEP_2, SLEEP_1, var.equal = TRUE, alternative = "greater"): t = 1.8608, df = 18, p = 0.0396.
        let [new, old] = [SLEEP_2, SLEEP_1].map(|x| x.map(f64::exp));
        close(t_above_limit(&new, &old, 1.0), 0.0396, 1e-4);
        // A limit is a factor of the old values.
        let moved = old.map(|old| old * 1.5);
        close(t_above_limit(&new, &old, 1.5), t_above_limit(&new, &moved, 1.0), 1e-12);
    }

    #[test]
    fn holm_is_that_of_r() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (value, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(*value, expected, 1e-12);
        }
        assert_eq!(holm(&[]), [0.0; 0]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn all_looks_together_spend_the_level() {
        let spent: f64 = (1..=10_000).map(|look| spend(0.05, look)).sum();
        assert!(spent <= 0.05 && spent > 0.0499, "{spent}");
    }

    #[test]
    fn sixty_values_and_four_hundred_pairs_are_still_counted() {
        // Far beyond what the normal distribution says of such a distance.
        let up = |from: u32, n: u32| (from..from + n).map(f64::from).collect::<Vec<f64>>();
        let limit = against_limit(&up(200, 30), &up(100, 30), 1.0, Pairing::Independent);
        let one_way = smallest_p(30, 30, Pairing::Independent);
        close(limit.p_above, one_way, one_way * 1e-9);
        let limit = against_limit(&[2.0; 400], &[1.0; 400], 1.0, Pairing::Paired);
        let one_way = 0.5_f64.powi(400);
        close(limit.p_above, one_way, one_way * 1e-9);
    }

    #[test]
    fn many_values_of_two_sizes_have_the_variance_of_draws_without_replacement() {
        // 20 of 50 and 10 of 50 are high: 15 are expected, with the variance 50 · 0.3 · 0.7 · 50 / 99 = 5.303.
        let sample = |high: usize| (0..50).map(|at| if at < high { 2.0 } else { 1.0 }).collect::<Vec<f64>>();
        let limit = against_limit(&sample(20), &sample(10), 1.0, Pairing::Independent);
        close(limit.p_above, 0.014_956, 2e-6);
        close(limit.p_below, 0.985_044, 2e-6);
    }

    /// Values with these logs.
    fn with_logs(logs: &[f64]) -> Vec<f64> {
        logs.iter().map(|log| log.exp()).collect()
    }

    #[test]
    fn values_needed_follow_from_distance_and_scatter() {
        // ((1.644854 + 0.841621) · spread / distance)², with the limit 0.01 below the median of 0.1.
        let limit = 0.09_f64.exp();
        let old = [0.0, 1.0, 2.0, 3.0, 4.0];
        let paired = |differences: [f64; 5], limit: f64, level: f64| {
            let new: Vec<f64> = old.iter().zip(differences).map(|(old, difference)| old + difference).collect();
            values_needed(&with_logs(&new), &with_logs(&old), limit, Pairing::Paired, level)
        };
        // The spread of most, 1.4826 · 0.02, is below the standard deviation, 0.0316: 54.4 and not 61.8.
        assert_eq!(paired([0.06, 0.08, 0.10, 0.12, 0.14], limit, 0.05), Some(55));
        // Most of these have no spread, so that it is the standard deviation, 0.02683.
        assert_eq!(paired([0.10, 0.10, 0.10, 0.10, 0.16], limit, 0.05), Some(45));
        // Of two samples both scatter: 1.4826 · 0.02 · √2.
        let [new, old] = [1.1, 1.0].map(|middle| [-0.04, -0.02, 0.0, 0.02, 0.04].map(|away| middle + away));
        let independent =
            |limit: f64, level| values_needed(&with_logs(&new), &with_logs(&old), limit, Pairing::Independent, level);
        assert_eq!(independent(limit, 0.05), Some(109));
        // However far it lies: 5 signs alike are 1 of 32 ways, 3 of 6 values 1 of 20, 4 of 8 values 1 of 70.
        assert_eq!(paired([0.06, 0.08, 0.10, 0.12, 0.14], 0.5, 0.05), Some(5));
        assert_eq!(independent(0.5, 0.06), Some(3));
        assert_eq!(independent(0.5, 0.04), Some(4));
        // Too near to the limit for any number of runs.
        assert_eq!(paired([0.06, 0.08, 0.10, 0.12, 0.14], (0.1_f64 - 1e-7).exp(), 0.05), None);
    }

    #[test]
    fn as_many_values_as_it_says_do_decide() {
        let mut random = Random::from_seed(5);
        let mut take =
            |n: usize, shift: f64| -> Vec<f64> { (0..n).map(|_| (shift + 0.05 * normal(&mut random)).exp()).collect() };
        let (new, old) = (take(40, 0.03), take(40, 0.0));
        let needed = values_needed(&new, &old, 1.06, Pairing::Independent, 0.05).unwrap() as usize;
        assert!((5..2_000).contains(&needed), "{needed}");
        let distance = (stats_median(&new) / stats_median(&old)).ln();
        let decided = (0..100)
            .filter(|_| {
                let (new, old) = (take(needed, distance), take(needed, 0.0));
                against_limit(&new, &old, 1.06, Pairing::Independent).p_below <= 0.05
            })
            .count();
        assert!(decided >= 65, "{decided} of 100 with {needed}");
        assert_eq!(values_needed(&[1.0; 5], &[1.0; 5], 1.0, Pairing::Independent, 0.05), None);
    }

    fn stats_median(x: &[f64]) -> f64 {
        plain_median(x)
    }
}
