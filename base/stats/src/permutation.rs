//! Permutation tests: how often chance alone gives a difference as large as the one seen.

use crate::Random;

/// Up to this many arrangements are all tried; beyond, [`DRAWS`] of them are drawn.
const ENUMERATED: f64 = 200_000.0;
/// Random arrangements drawn where there are too many to try all.
const DRAWS: u32 = 10_000;
/// Sums closer than this share of their terms are equal: they differ only by rounding.
const ROUNDING: f64 = 1e-10;

/// How two samples belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `new[i]` and `old[i]` were taken together, in the same block.
    Paired,
    /// The samples are independent.
    Independent,
}

/// Two-sided p of "`new` and `old` come from the same distribution".
///
/// The statistic is the difference of the mean logs, the log of the ratio of geometric means; where a value is not
/// positive, the difference of the means. Paired: the sign of each difference is flipped (values beyond the shorter
/// slice are left out). Independent: the labels are shuffled.
///
/// Up to 200,000 arrangements (17 pairs; 10 against 10) the p is exact. Beyond, it is (b+1)/(m+1) with m = 10,000
/// random arrangements of which b are as extreme as the data (Phipson and Smyth 2010), so it is never 0.
/// 1 if there is nothing to arrange.
pub fn permutation_p(new: &[f64], old: &[f64], pairing: Pairing, random: &mut Random) -> f64 {
    let positive = new.iter().chain(old).all(|&value| value > 0.0);
    let scale = |x: &[f64]| -> Vec<f64> { x.iter().map(|&value| if positive { value.ln() } else { value }).collect() };
    let (new, old) = (scale(new), scale(old));
    match pairing {
        Pairing::Paired => sign_flip(&new.iter().zip(&old).map(|(new, old)| new - old).collect::<Vec<_>>(), random),
        Pairing::Independent => label_shuffle(&new, &old, random),
    }
}

/// P(|sum of the differences with random signs| ≥ |their sum|).
fn sign_flip(differences: &[f64], random: &mut Random) -> f64 {
    let n = differences.len();
    let limit = differences.iter().sum::<f64>().abs() - ROUNDING * differences.iter().map(|d| d.abs()).sum::<f64>();
    let sum = |flipped: &dyn Fn(usize) -> bool| -> f64 {
        differences.iter().enumerate().map(|(at, d)| if flipped(at) { -d } else { *d }).sum()
    };
    if (n as f64).exp2() <= ENUMERATED {
        let all = 1_u64 << n;
        let extreme = (0..all).filter(|signs| sum(&|at| signs >> at & 1 == 1).abs() >= limit).count();
        return extreme as f64 / all as f64;
    }
    let extreme = (0..DRAWS)
        .filter(|_| {
            let signs: Vec<u64> = (0..n.div_ceil(64)).map(|_| random.next_u64()).collect();
            sum(&|at| signs[at / 64] >> (at % 64) & 1 == 1).abs() >= limit
        })
        .count();
    (extreme + 1) as f64 / f64::from(DRAWS + 1)
}

/// P(|difference of means with random labels| ≥ |the one seen|).
fn label_shuffle(new: &[f64], old: &[f64], random: &mut Random) -> f64 {
    if new.is_empty() || old.is_empty() {
        return 1.0;
    }
    let (chosen, all) = (new.len(), new.len() + old.len());
    let mut pool = [new, old].concat();
    // Around their mean the sum of all is 0, so the difference of means is proportional to the sum of the chosen ones.
    let mean = pool.iter().sum::<f64>() / all as f64;
    pool.iter_mut().for_each(|value| *value -= mean);
    let seen = pool[..chosen].iter().sum::<f64>().abs();
    let limit = seen - ROUNDING * pool.iter().map(|value| value.abs()).sum::<f64>();
    if combinations(all, chosen) <= ENUMERATED {
        return enumerate_labels(&pool, chosen, limit);
    }
    let extreme = (0..DRAWS)
        .filter(|_| {
            for at in 0..chosen {
                pool.swap(at, at + random.below(all - at));
            }
            pool[..chosen].iter().sum::<f64>().abs() >= limit
        })
        .count();
    (extreme + 1) as f64 / f64::from(DRAWS + 1)
}

/// Share of all choices of `chosen` from `pool` whose absolute sum reaches `limit`.
fn enumerate_labels(pool: &[f64], chosen: usize, limit: f64) -> f64 {
    let mut places: Vec<usize> = (0..chosen).collect();
    let (mut extreme, mut all) = (0_u64, 0_u64);
    loop {
        all += 1;
        extreme += u64::from(places.iter().map(|&place| pool[place]).sum::<f64>().abs() >= limit);
        // The next choice in lexicographic order: move the last place that can move, and put the rest behind it.
        let Some(moving) = (0..chosen).rev().find(|&at| places[at] < pool.len() - chosen + at) else { break };
        places[moving] += 1;
        for at in moving + 1..chosen {
            places[at] = places[at - 1] + 1;
        }
    }
    extreme as f64 / all as f64
}

/// Number of choices of `k` from `n`.
fn combinations(n: usize, k: usize) -> f64 {
    (1..=k).fold(1.0, |product, at| product * (n - k + at) as f64 / at as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{DARWIN, close, normal};

    fn p(new: &[f64], old: &[f64], pairing: Pairing) -> f64 {
        permutation_p(new, old, pairing, &mut Random::from_seed(1))
    }

    #[test]
    fn positive_values_are_compared_by_their_logs() {
        // Logs 0.69 three times and -1: 10 of the 16 arrangements are as far from 0. The differences themselves, 1
        // three times and -17.2, would always be.
        let (new, old) = ([2.0, 2.0, 2.0, 10.0], [1.0, 1.0, 1.0, 10.0 * std::f64::consts::E]);
        assert_eq!(p(&new, &old, Pairing::Paired), 10.0 / 16.0);
    }

    #[test]
    fn small_numbers_are_told_apart_as_well_as_large_ones() {
        // One is 0, so that there are no logs.
        let (new, old) = ([5.0, 6.0, 7.0, 9.0], [0.0, 1.0, 2.0, 4.0]);
        for size in [1.0, 1e-12] {
            let [new, old] = [new, old].map(|x| x.map(|value| value * size));
            assert_eq!(p(&new, &old, Pairing::Independent), 2.0 / 70.0, "{size}");
        }
        assert_eq!((p(&[1.0], &[], Pairing::Independent), p(&[], &[1.0], Pairing::Independent)), (1.0, 1.0));
    }

    #[test]
    fn fishers_test_of_darwins_maize() {
        // Fisher (1935), "The design of experiments", section 21: in 863 of the 32,768 arrangements the sum is 314 or
        // more; two-sided that is 1,726.
        let new: Vec<f64> = DARWIN.iter().map(|difference| 1_000.0 + difference).collect();
        let logs = sign_flip(&DARWIN, &mut Random::from_seed(1));
        assert_eq!(logs, 1_726.0 / 32_768.0);
        // As times with logs it is nearly the same test.
        close(p(&new, &[1_000.0; 15], Pairing::Paired), logs, 0.01);
    }

    #[test]
    fn four_against_four_that_do_not_overlap() {
        let (new, old) = ([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]);
        // 2 of the 70 ways to choose 4 of 8 are as extreme: all the largest, all the smallest.
        close(p(&new, &old, Pairing::Independent), 2.0 / 70.0, 1e-12);
        close(p(&new, &old, Pairing::Paired), 2.0 / 16.0, 1e-12);
    }

    #[test]
    fn values_without_a_log_are_taken_as_they_are() {
        close(p(&[0.0, 1.0, 2.0], &[10.0, 11.0, 12.0], Pairing::Independent), 2.0 / 20.0, 1e-12);
    }

    #[test]
    fn nothing_to_arrange() {
        assert_eq!(p(&[], &[], Pairing::Paired), 1.0);
        assert_eq!(p(&[1.0], &[], Pairing::Independent), 1.0);
        assert_eq!(p(&[2.0; 6], &[2.0; 6], Pairing::Independent), 1.0);
        assert_eq!(p(&[2.0; 6], &[2.0; 6], Pairing::Paired), 1.0);
    }

    #[test]
    fn drawn_and_enumerated_p_agree() {
        let mut random = Random::from_seed(4);
        let take = |random: &mut Random, n: usize, shift: f64| -> Vec<f64> {
            (0..n).map(|_| shift + normal(random)).collect()
        };
        // 17 pairs are enumerated; a pair without a difference more doubles the arrangements, so that they are drawn,
        // and changes no p.
        let differences = take(&mut random, 17, 0.5);
        let exact = sign_flip(&differences, &mut random);
        let drawn = sign_flip(&[&differences[..], &[0.0]].concat(), &mut random);
        close(drawn, exact, 0.02);
        // 10 against 11 are drawn; compare with their enumeration.
        let (new, old) = (take(&mut random, 10, 0.4), take(&mut random, 11, 0.0));
        let pool = [&new[..], &old[..]].concat();
        let mean = pool.iter().sum::<f64>() / 21.0;
        let pool: Vec<f64> = pool.iter().map(|value| value - mean).collect();
        let exact = enumerate_labels(&pool, 10, pool[..10].iter().sum::<f64>().abs() - 1e-12);
        close(label_shuffle(&new, &old, &mut random), exact, 0.02);
    }

    #[test]
    fn a_drawn_p_is_never_zero() {
        let new: Vec<f64> = (0..60).map(|at| 100.0 + f64::from(at)).collect();
        let old: Vec<f64> = (0..60).map(|at| 1.0 + f64::from(at) / 100.0).collect();
        for pairing in [Pairing::Paired, Pairing::Independent] {
            close(p(&new, &old, pairing), 1.0 / 10_001.0, 1e-12);
        }
    }

    #[test]
    fn chance_alone_is_called_a_difference_as_often_as_the_p_says() {
        let mut random = Random::from_seed(6);
        for pairing in [Pairing::Paired, Pairing::Independent] {
            let trials = 1_000;
            let alarms = (0..trials)
                .filter(|_| {
                    let mut take = || -> Vec<f64> { (0..8).map(|_| (0.1 * normal(&mut random)).exp()).collect() };
                    let (new, old) = (take(), take());
                    p(&new, &old, pairing) <= 0.05
                })
                .count();
            let rate = alarms as f64 / f64::from(trials);
            assert!((0.03..=0.065).contains(&rate), "{pairing:?}: {rate}");
        }
    }
}
