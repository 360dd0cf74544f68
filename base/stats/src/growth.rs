//! How a figure grows with another: constant, log n, n, n log n, n², or "cannot tell".
//!
//! A trend is there if shuffling the runs over the levels seldom gives one as clear (a permutation test, whatever
//! the noise is). Which order it has is judged by prediction: each level is left out in turn and foretold from the
//! others (leave-one-out cross-validation), and that is done again on resampled runs (bootstrap). An order is told only
//! if nearly all resamples choose it and its curve passes through the medians as closely as their noise lets it;
//! otherwise a bend may be: two straight pieces.
//!
//! Errors count relative to the level's median, since the noise of times grows with the times.

use crate::{Estimate, Interval, Random, describe};
use serde::{Deserialize, Serialize};

/// How a figure grows with n. The term of `Logarithmic` is ln(1+n), so that n may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub enum Order {
    /// It does not.
    Constant,
    /// a + b·ln(1+n).
    Logarithmic,
    /// a + b·n.
    Linear,
    /// a + b·n·ln(1+n).
    Linearithmic,
    /// a + b·n².
    Quadratic,
}

/// Those that grow.
const GROWING: [Order; 4] = [Order::Logarithmic, Order::Linear, Order::Linearithmic, Order::Quadratic];
/// Levels without which orders cannot be told apart: two are fitted, one is left out, one more must judge.
pub const LEVELS: usize = 4;
/// Values of each level without which its noise is not known.
pub const VALUES: usize = 3;
/// Resamples of the runs.
const RESAMPLES: usize = 400;
/// An order is told if at least this share of the resamples chooses it.
const SUPPORT: f64 = 0.95;
/// Chance of a trend where there is none.
const FALSE_TREND: f64 = 0.001;
/// No trend and a growth that may still be larger than this, from end to end: "cannot tell", not "constant".
const FLAT: f64 = 0.25;
/// A curve fits that misses medians by no more than this share, however quiet they are.
const CLOSE: f64 = 0.02;
/// And by no more than so many standard errors.
const ERRORS: f64 = 5.0;

impl Order {
    /// What is multiplied by b.
    pub fn term(self, n: f64) -> f64 {
        match self {
            Order::Constant => 0.0,
            Order::Logarithmic => n.ln_1p(),
            Order::Linear => n,
            Order::Linearithmic => n * n.ln_1p(),
            Order::Quadratic => n * n,
        }
    }

    /// In the O notation.
    pub fn notation(self) -> &'static str {
        match self {
            Order::Constant => "O(1)",
            Order::Logarithmic => "O(log n)",
            Order::Linear => "O(n)",
            Order::Linearithmic => "O(n log n)",
            Order::Quadratic => "O(n²)",
        }
    }
}

/// A curve a + b·term(n), or one with a bend: a + b·n + c·max(0, n − at).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Fit {
    /// Its order.
    pub order: Order,
    /// a, in the unit of the values.
    pub base: Estimate,
    /// b, in that unit for each unit of the term.
    pub slope: Estimate,
    /// Root of the mean square of how far levels that were left out were missed; a share of their medians.
    pub error: f64,
    /// Share of the resamples in which it foretells best.
    pub support: f64,
}

impl Fit {
    /// The value that it foretells. Beyond the levels that is an extrapolation.
    pub fn at(&self, n: f64) -> f64 {
        self.base.value + self.slope.value * self.order.term(n)
    }
}

/// Where the straight line bends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Bend {
    /// The level; the true place is between its neighbours.
    pub at: f64,
    /// Growth for each unit of n below it.
    pub before: f64,
    /// And above it.
    pub after: f64,
}

/// Why no order is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub enum Untold {
    /// Fewer than [`LEVELS`] levels, or one has fewer than [`VALUES`] values or a median that is not positive.
    TooFew,
    /// No trend is seen, but the noise would hide one.
    TooNoisy,
    /// It falls.
    Falls,
    /// Several orders foretell as well.
    Several,
    /// None passes through the medians.
    NoneFits,
}

/// What is known of the growth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Growth {
    /// The order; `None`: it cannot be told.
    pub order: Option<Order>,
    /// Why not.
    pub untold: Option<Untold>,
    /// Median of the last level over that of the first.
    pub ratio: Estimate,
    /// Chance of so clear a trend where there is none.
    pub trend_p: f64,
    /// The growing orders, the one that foretells best first. Empty where there are too few levels.
    pub fits: Vec<Fit>,
    /// Where no order fits: a bend that does.
    pub bend: Option<Bend>,
}

/// Orders that no more of the resamples choose are not likely.
const UNLIKELY: f64 = 0.05;

impl Growth {
    /// The orders that it may have, the likeliest fit first.
    pub fn likely(&self) -> impl Iterator<Item = Order> {
        self.fits.iter().filter(|fit| fit.support > UNLIKELY).map(|fit| fit.order)
    }
}

/// Medians of levels with their n.
type Medians = [(f64, f64)];

/// Sums of weighted least squares of y = a + b·t with weights 1/y²: of 1, t, y, t² and t·y.
type Sums = [f64; 5];

fn part(order: Order, (n, y): (f64, f64)) -> Sums {
    let (w, t) = (1.0 / (y * y), order.term(n));
    [w, w * t, w * y, w * t * t, w * t * y]
}

fn sums(order: Order, medians: &Medians) -> Sums {
    medians
        .iter()
        .map(|point| part(order, *point))
        .fold([0.0; 5], |sum, one| std::array::from_fn(|at| sum[at] + one[at]))
}

/// a and b; b is not below 0.
fn solved([w, t, y, tt, ty]: Sums) -> (f64, f64) {
    let spread = w * tt - t * t;
    let slope = if spread > 0.0 { ((w * ty - t * y) / spread).max(0.0) } else { 0.0 };
    ((y - slope * t) / w, slope)
}

/// Mean square of how far each level is missed that was left out.
fn missed(order: Order, medians: &Medians) -> f64 {
    let all = sums(order, medians);
    let squares = medians.iter().map(|point| {
        let own = part(order, *point);
        let (base, slope) = solved(std::array::from_fn(|at| all[at] - own[at]));
        ((base + slope * order.term(point.0)) / point.1 - 1.0).powi(2)
    });
    squares.sum::<f64>() / medians.len() as f64
}

fn best(medians: &Medians) -> Order {
    GROWING.into_iter().min_by(|one, two| missed(*one, medians).total_cmp(&missed(*two, medians))).unwrap_or(GROWING[0])
}

/// a, b, c of a line with a bend at a level, by weighted least squares.
fn bent(medians: &Medians, at: f64) -> Option<[f64; 3]> {
    let mut rows = [[0.0_f64; 4]; 3];
    for (n, y) in medians {
        let (weight, terms) = (1.0 / (y * y), [1.0, *n, (n - at).max(0.0)]);
        for (row, one) in rows.iter_mut().zip(terms) {
            for (cell, two) in row.iter_mut().zip([terms[0], terms[1], terms[2], *y]) {
                *cell += weight * one * two;
            }
        }
    }
    // Gauss, with pivots.
    for column in 0..3 {
        let pivot = (column..3).max_by(|one, two| rows[*one][column].abs().total_cmp(&rows[*two][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column];
        if head[column].abs() <= f64::MIN_POSITIVE {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let share = row[column] / head[column];
            row.iter_mut().zip(head).for_each(|(cell, of)| *cell -= share * of);
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at]))
}

/// The bend that misses the medians least, with the curve's values at them.
fn best_bend(medians: &Medians) -> Option<(Bend, Vec<f64>)> {
    let inner = medians.get(1..medians.len().checked_sub(1)?)?;
    let all = inner.iter().filter_map(|(at, _)| {
        let [a, b, c] = bent(medians, *at)?;
        let values: Vec<f64> = medians.iter().map(|(n, _)| a + b * n + c * (n - at).max(0.0)).collect();
        let missed: f64 = values.iter().zip(medians).map(|(is, (_, y))| (is / y - 1.0).powi(2)).sum();
        Some((missed, Bend { at: *at, before: b, after: b + c }, values))
    });
    all.min_by(|one, two| one.0.total_cmp(&two.0)).map(|(_, bend, values)| (bend, values))
}

/// One-sided p of "values do not grow with the level", and of "they do not fall": the correlation of the ranks.
///
/// The permutation distribution of Spearman's coefficient, by its normal approximation (Hotelling and Pabst 1936).
fn trend(levels: &[(f64, &[f64])]) -> (f64, f64) {
    let mut all: Vec<(f64, f64)> =
        levels.iter().enumerate().flat_map(|(at, (_, values))| values.iter().map(move |y| (at as f64, *y))).collect();
    all.sort_by(|one, two| one.1.total_cmp(&two.1));
    // Equal values share their ranks.
    let mut ranks = vec![0.0; all.len()];
    let mut from = 0;
    for group in all.chunk_by(|one, two| one.1 == two.1) {
        let middle = from as f64 + (group.len() - 1) as f64 / 2.0;
        ranks[from..from + group.len()].fill(middle);
        from += group.len();
    }
    // The mean and the variance that the sum has over all permutations are known; it is nearly normal.
    let mean = |of: &mut dyn Iterator<Item = f64>| of.sum::<f64>() / all.len() as f64;
    let (level, rank) = (mean(&mut all.iter().map(|one| one.0)), mean(&mut ranks.iter().copied()));
    let [both, levels, ranks] = all.iter().zip(&ranks).fold([0.0; 3], |sum, (one, of)| {
        let (x, y) = (one.0 - level, of - rank);
        [sum[0] + x * y, sum[1] + x * x, sum[2] + y * y]
    });
    let spread = (levels * ranks / (all.len() as f64 - 1.0)).sqrt();
    let z = if spread > 0.0 { both / spread } else { 0.0 };
    let above = |z: f64| statrs::function::erf::erfc(z / std::f64::consts::SQRT_2) / 2.0;
    (above(z), above(-z))
}

fn interval(mut values: Vec<f64>) -> Option<Interval> {
    values.sort_by(f64::total_cmp);
    let edge = (1.0 - crate::LEVEL) / 2.0;
    Some(Interval { low: describe::quantile(&values, edge), high: describe::quantile(&values, 1.0 - edge) })
}

/// The levels' medians, over and over, of runs that are drawn from each level anew.
fn resampled(levels: &[(f64, &[f64])], random: &mut Random) -> Vec<Vec<(f64, f64)>> {
    let drawn = |values: &[f64], random: &mut Random| -> f64 {
        let again: Vec<f64> = values.iter().map(|_| values[random.below(values.len())]).collect();
        describe::quantile(&again, 0.5)
    };
    (0..RESAMPLES).map(|_| levels.iter().map(|(n, values)| (*n, drawn(values, random))).collect()).collect()
}

fn medians(levels: &[(f64, &[f64])]) -> Vec<(f64, f64)> {
    levels.iter().map(|(n, values)| (*n, describe::quantile(values, 0.5))).collect()
}

/// What an order that fits the levels foretells at other n, with intervals for the noise of the runs alone: that
/// growth goes on in this order is not known beyond the levels. Levels are as for [`growth`], none of them empty.
pub fn foretold(levels: &[(f64, &[f64])], order: Order, at: &[f64], random: &mut Random) -> Vec<Estimate> {
    let curve = |medians: &Medians| solved(sums(order, medians));
    let again: Vec<(f64, f64)> = resampled(levels, random).iter().map(|medians| curve(medians)).collect();
    let fitted = curve(&medians(levels));
    let value = |(base, slope): (f64, f64), n: f64| base + slope * order.term(n);
    at.iter()
        .map(|n| Estimate {
            value: value(fitted, *n),
            interval: interval(again.iter().map(|curve| value(*curve, *n)).collect()),
        })
        .collect()
}

/// How the values of the levels grow with their n. Levels are (n, values), in any order; n is not below 0, and no two
/// levels have the same.
pub fn growth(levels: &[(f64, &[f64])], random: &mut Random) -> Growth {
    let mut levels = levels.to_vec();
    levels.sort_by(|one, two| one.0.total_cmp(&two.0));
    let medians = medians(&levels);
    let ends = |medians: &Medians| match medians {
        [first, .., last] => last.1 / first.1,
        _ => f64::NAN,
    };
    let mut told = Growth {
        order: None,
        untold: Some(Untold::TooFew),
        ratio: Estimate { value: ends(&medians), interval: None },
        trend_p: 1.0,
        fits: Vec::new(),
        bend: None,
    };
    let known = levels.iter().all(|(n, values)| *n >= 0.0 && values.len() >= VALUES);
    if levels.len() < LEVELS || !known || medians.iter().any(|(_, y)| *y <= 0.0) {
        return told;
    }
    let resampled = resampled(&levels, random);
    told.ratio.interval = interval(resampled.iter().map(|medians| ends(medians)).collect());
    told.fits = fits(&medians, &resampled);
    let (grows, falls) = trend(&levels);
    told.trend_p = grows.min(falls);
    let errors = errors(&medians, &resampled);
    let fit = |curve: &dyn Fn(usize) -> f64| {
        medians
            .iter()
            .zip(&errors)
            .enumerate()
            .all(|(at, ((_, y), error))| (curve(at) - y).abs() <= (ERRORS * error).max(CLOSE * y))
    };
    let verdict = if falls <= FALSE_TREND {
        Err(Untold::Falls)
    } else if grows > FALSE_TREND {
        let most = told.ratio.interval.map_or(f64::INFINITY, |interval| interval.high);
        if most <= 1.0 + FLAT { Ok(Order::Constant) } else { Err(Untold::TooNoisy) }
    } else {
        let best = told.fits[0];
        if !fit(&|at| best.at(medians[at].0)) {
            Err(Untold::NoneFits)
        } else if best.support < SUPPORT {
            Err(Untold::Several)
        } else {
            Ok(best.order)
        }
    };
    if verdict == Err(Untold::NoneFits) && medians.len() > LEVELS {
        told.bend = best_bend(&medians).filter(|(_, curve)| fit(&|at| curve[at])).map(|(bend, _)| bend);
    }
    (told.order, told.untold) = (verdict.ok(), verdict.err());
    told
}

/// Standard errors of the medians. Where runs are few a level's own noise is known badly, so that none counts for less
/// than all of them together say.
fn errors(medians: &Medians, resampled: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let own: Vec<f64> = (0..medians.len())
        .map(|at| describe::stddev(&resampled.iter().map(|medians| medians[at].1).collect::<Vec<_>>()))
        .collect();
    let squares = own.iter().zip(medians).map(|(error, (_, y))| (error / y).powi(2));
    let together = (squares.sum::<f64>() / medians.len() as f64).sqrt();
    own.iter().zip(medians).map(|(error, (_, y))| error.max(together * y)).collect()
}

/// The growing orders, the best first.
fn fits(medians: &Medians, resampled: &[Vec<(f64, f64)>]) -> Vec<Fit> {
    let chosen: Vec<Order> = resampled.iter().map(|medians| best(medians)).collect();
    let mut fits: Vec<Fit> = GROWING
        .into_iter()
        .map(|order| {
            let (base, slope) = solved(sums(order, medians));
            let (bases, slopes) = resampled.iter().map(|medians| solved(sums(order, medians))).unzip();
            let support = chosen.iter().filter(|chosen| **chosen == order).count() as f64 / chosen.len() as f64;
            Fit {
                order,
                base: Estimate { value: base, interval: interval(bases) },
                slope: Estimate { value: slope, interval: interval(slopes) },
                error: missed(order, medians).sqrt(),
                support,
            }
        })
        .collect();
    fits.sort_by(|one, two| one.error.total_cmp(&two.error));
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::normal;

    /// Ten runs at each level with noise that is a share of the value.
    fn told(levels: &[f64], noise: f64, seed: u64, of: impl Fn(f64) -> f64) -> Growth {
        let mut random = Random::from_seed(seed);
        let runs: Vec<(f64, Vec<f64>)> = levels
            .iter()
            .map(|n| (*n, (0..10).map(|_| of(*n) * (1.0 + noise * normal(&mut random))).collect()))
            .collect();
        let levels: Vec<(f64, &[f64])> = runs.iter().map(|(n, values)| (*n, &values[..])).collect();
        growth(&levels, &mut random)
    }

    const LEVELS_OF_A_SWEEP: [f64; 7] = [1.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

    #[test]
    fn planted_orders_are_told_apart_in_20_of_20() {
        for (order, scale) in [
            (Order::Constant, 0.0),
            (Order::Logarithmic, 0.1),
            (Order::Linear, 0.001),
            (Order::Linearithmic, 0.001),
            (Order::Quadratic, 0.00001),
        ] {
            for seed in 0..20 {
                let growth = told(&LEVELS_OF_A_SWEEP, 0.03, seed, |n| 0.1 + scale * order.term(n));
                assert_eq!(growth.order, Some(order), "{seed}: {growth:#?}");
            }
        }
    }

    #[test]
    fn the_slope_is_in_its_interval_nineteen_times_of_twenty() {
        let inside = (0..100).filter(|seed| {
            let growth = told(&LEVELS_OF_A_SWEEP, 0.03, *seed, |n| 0.1 + 0.001 * n);
            growth.fits[0].slope.interval.unwrap().contains(0.001)
        });
        let count = inside.count();
        assert!((84..=100).contains(&count), "{count}");
    }

    #[test]
    fn what_is_foretold_holds_the_truth_nineteen_times_of_twenty() {
        let inside = (0..100).filter(|seed| {
            let mut random = Random::from_seed(*seed);
            let levels: Vec<(f64, Vec<f64>)> = LEVELS_OF_A_SWEEP
                .iter()
                .map(|n| {
                    let runs = (0..10).map(|_| (0.1 + 0.001 * n) * (1.0 + 0.03 * normal(&mut random)));
                    (*n, runs.collect())
                })
                .collect();
            let levels: Vec<(f64, &[f64])> = levels.iter().map(|(n, values)| (*n, &values[..])).collect();
            let far = foretold(&levels, Order::Linear, &[5000.0, 0.0], &mut random);
            far[0].interval.unwrap().contains(5.1) && far[1].interval.unwrap().contains(0.1)
        });
        let count = inside.count();
        assert!((80..=100).contains(&count), "{count}");
    }

    #[test]
    fn what_does_not_grow_is_foretold_as_it_is() {
        let values = [[1.0, 1.1, 0.9], [1.05, 1.0, 0.95], [1.0, 1.02, 0.98]];
        let levels: Vec<(f64, &[f64])> = values.iter().enumerate().map(|(at, y)| (at as f64, &y[..])).collect();
        let far = foretold(&levels, Order::Constant, &[1e6], &mut Random::from_seed(1))[0];
        assert!((far.value - 1.0).abs() < 0.01 && far.interval.unwrap().contains(1.0), "{far:?}");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let narrow = told(&[100.0, 110.0, 120.0, 130.0], 0.03, 1, |n| 0.1 + 0.01 * n);
        assert_eq!((narrow.order, narrow.untold), (None, Some(Untold::Several)), "{narrow:#?}");
        let noisy = told(&LEVELS_OF_A_SWEEP, 0.6, 2, |_| 0.1);
        assert_eq!((noisy.order, noisy.untold), (None, Some(Untold::TooNoisy)), "{noisy:#?}");
        let falling = told(&LEVELS_OF_A_SWEEP, 0.03, 3, |n| 1.0 / (1.0 + n));
        assert_eq!((falling.order, falling.untold), (None, Some(Untold::Falls)));
        let few = told(&[1.0, 10.0, 100.0], 0.03, 4, |n| n);
        assert_eq!((few.order, few.untold, few.fits.len()), (None, Some(Untold::TooFew), 0));
    }

    #[test]
    fn a_level_is_foretold_from_the_others_alone() {
        let medians = [(1.0, 1.0), (2.0, 2.1), (5.0, 4.8), (9.0, 14.0), (20.0, 21.0)];
        for order in GROWING {
            let each = (0..medians.len()).map(|out| {
                let mut others = medians.to_vec();
                let (n, y) = others.remove(out);
                let (base, slope) = solved(sums(order, &others));
                ((base + slope * order.term(n)) / y - 1.0).powi(2)
            });
            let mean = each.sum::<f64>() / medians.len() as f64;
            crate::test_data::close(missed(order, &medians), mean, 1e-9);
        }
    }

    #[test]
    fn a_trend_is_seen_by_chance_as_rarely_as_is_said() {
        let seen = (0..200).filter(|seed| told(&LEVELS_OF_A_SWEEP, 0.1, *seed, |_| 1.0).trend_p <= 2.0 * FALSE_TREND);
        assert!(seen.count() <= 3);
    }

    #[test]
    fn a_bend_is_where_it_was_planted() {
        for seed in 0..20 {
            let bends = |n: f64| 0.1 + 0.0001 * n + 0.01 * (n - 200.0).max(0.0);
            let growth = told(&[1.0, 50.0, 100.0, 200.0, 300.0, 400.0, 600.0, 1000.0], 0.01, seed, bends);
            assert_eq!((growth.order, growth.untold), (None, Some(Untold::NoneFits)), "{growth:#?}");
            let bend = growth.bend.unwrap();
            assert_eq!(bend.at, 200.0);
            assert!((0.0095..0.0107).contains(&bend.after) && bend.before < 0.0004, "{bend:?}");
        }
    }

    #[test]
    fn levels_in_any_order_give_the_same() {
        let values: Vec<Vec<f64>> =
            (1..6).map(|n| vec![f64::from(n), 1.01 * f64::from(n), 0.99 * f64::from(n)]).collect();
        let mut levels: Vec<(f64, &[f64])> = values.iter().enumerate().map(|(at, y)| (at as f64, &y[..])).collect();
        let one = growth(&levels, &mut Random::from_seed(1));
        levels.reverse();
        assert_eq!(one, growth(&levels, &mut Random::from_seed(1)));
        assert_eq!(one.order, Some(Order::Linear));
        assert!((one.fits[0].at(10.0) - 11.0).abs() < 0.2);
    }
}
