//! Where a series of commits changes its level: steps, with the place of each, its size and the chance of it.
//!
//! **Whether**: two statistics are compared with those of 1,999 shuffled series, each at half of [`FALSE_STEP`]: the
//! largest weighted difference of the means before and after a place (the CUSUM statistic of Page 1954), over all
//! places of the whole series, and over those of all *seeded* intervals (Kovács, Bühlmann, Li and Munk 2023: short
//! ones too, so that a step that is taken back soon is seen). Permutation tests, as in E-divisive (Matteson and James
//! 2014; used on commits by Daly et al. 2020 and Fleming et al. 2023): exact whatever the shape of the noise, as long
//! as commits do not resemble their neighbours. Values are clipped at three spreads, so that one wild commit is no
//! step. Both sides of a step are searched again (binary segmentation, Vostrikova 1981).
//!
//! **Where**: the posterior over all places between the two neighbouring steps, each as likely beforehand, with the
//! loss of Talwar (1977): squares that are cut at three spreads (Smith 1975 for the idea).

use crate::describe::{plain_mean, plain_median};
use crate::{Estimate, Random, ratio_of_medians};
use serde::{Deserialize, Serialize};

/// Fewest commits on either side of a step: one or two may be outliers.
pub const FEWEST_COMMITS: usize = 3;
/// Chance of a step in a series of pure noise.
pub const FALSE_STEP: f64 = 0.006;
/// A series is searched in its last so many commits.
pub const MOST_COMMITS: usize = 1_000;
/// Shuffled series.
const SHUFFLES: u32 = 1_999;
/// Spreads from the middle beyond which a value counts no more.
const CLIP: f64 = 3.0;
/// The least spread of the logarithms: counts that are equal but for one in a million do not differ.
const LEAST_SPREAD: f64 = 1e-6;

/// A step in a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Index of the first commit of the new level, the likeliest one.
    pub at: usize,
    /// With 95 % probability the first commit of the new level is one of these: from, to, ends included.
    pub between: (usize, usize),
    /// Probability that it is `at`, if there is a step.
    pub place_probability: f64,
    /// Level after over level before, by the medians of the commits; `NaN`: the level before is 0.
    pub ratio: Estimate,
    /// Chance that shuffled commits show as large a step anywhere.
    pub p: f64,
}

/// What a series does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Its steps, in the order of the commits.
    pub steps: Vec<Change>,
    /// Commits resemble their neighbours more than chance explains (lag-1 autocorrelation of what is left after the
    /// steps): the machine drifts, and steps may be false.
    pub drifts: bool,
}

/// The steps of a series with a figure for each commit, none below 0. Of more than [`MOST_COMMITS`] the last are
/// searched.
pub fn changes(values: &[f64], random: &mut Random) -> Changes {
    let skipped = values.len().saturating_sub(MOST_COMMITS);
    let values = &values[skipped..];
    let logs = scaled(values);
    let spread = spread(&logs);
    let mut cuts = Vec::new();
    search(&logs, 0, spread, random, &mut cuts);
    cuts.sort_unstable_by_key(|(at, _)| *at);
    settle(&logs, &mut cuts, spread);
    let ends = |index: usize, cuts: &[(usize, f64)]| {
        let from = if index == 0 { 0 } else { cuts[index - 1].0 };
        (from, cuts.get(index + 1).map_or(values.len(), |(at, _)| *at))
    };
    let steps = (0..cuts.len()).map(|index| {
        let ((at, p), (from, to)) = (cuts[index], ends(index, &cuts));
        let place = Place::of(&logs[from..to], at - from, spread);
        Change {
            at: skipped + at,
            between: (skipped + from + place.between.0, skipped + from + place.between.1),
            place_probability: place.probability,
            ratio: ratio_of_medians(&values[at..to], &values[from..at], random),
            p,
        }
    });
    let steps = steps.collect();
    Changes { steps, drifts: drifts(&logs, &cuts) }
}

/// Logarithms, so that a step is a share; the values themselves where one is 0.
fn scaled(values: &[f64]) -> Vec<f64> {
    match values.iter().all(|value| *value > 0.0) {
        true => values.iter().map(|value| value.ln()).collect(),
        false => {
            let mean = plain_mean(values);
            values.iter().map(|value| if mean > 0.0 { value / mean } else { 0.0 }).collect()
        }
    }
}

/// The standard deviation, by the median difference of neighbours: steps do not widen it.
fn spread(x: &[f64]) -> f64 {
    let differences: Vec<f64> = x.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    if differences.is_empty() {
        return LEAST_SPREAD;
    }
    (1.482_602_2 * plain_median(&differences) / std::f64::consts::SQRT_2).max(LEAST_SPREAD)
}

fn clipped(x: &[f64], spread: f64) -> Vec<f64> {
    let middle = plain_median(x);
    x.iter().map(|value| (value - middle).clamp(-CLIP * spread, CLIP * spread)).collect()
}

/// Finds the clearest step of `x`, which begins at commit `offset`, then those on both sides of it.
fn search(x: &[f64], offset: usize, spread: f64, random: &mut Random, cuts: &mut Vec<(usize, f64)>) {
    if x.len() < 2 * FEWEST_COMMITS {
        return;
    }
    let mut clipped = clipped(x, spread);
    let (whole, parts) = ([(0, x.len())], seeded(x.len()));
    let intervals = [&whole[..], &parts[..]];
    let found = intervals.map(|intervals| clearest(&clipped, intervals));
    let allowed = (FALSE_STEP / 2.0 * f64::from(SHUFFLES + 1)) as u32;
    let mut as_clear = [1, 1];
    for _ in 0..SHUFFLES {
        random.shuffle(&mut clipped);
        for (test, intervals) in intervals.iter().enumerate().filter(|(test, _)| found[*test].0 > 0.0) {
            if as_clear[test] <= allowed && clearest(&clipped, intervals).0 >= found[test].0 * (1.0 - 1e-12) {
                as_clear[test] += 1;
            }
        }
        if as_clear.iter().all(|count| *count > allowed) {
            return;
        }
    }
    let clearer = if as_clear[1] < as_clear[0] { 1 } else { 0 };
    let ((size, at), as_clear) = (found[clearer], as_clear[clearer]);
    if size <= 0.0 || as_clear > allowed {
        return;
    }
    // Two tests: each has half of the chance.
    cuts.push((offset + at, 2.0 * f64::from(as_clear) / f64::from(SHUFFLES + 1)));
    search(&x[..at], offset, spread, random, cuts);
    search(&x[at..], offset + at, spread, random, cuts);
}

/// The largest statistic over all places of all intervals, and its place.
fn clearest(x: &[f64], intervals: &[(usize, usize)]) -> (f64, usize) {
    let mut sums = Vec::with_capacity(x.len() + 1);
    sums.push(0.0);
    for value in x {
        sums.push(sums[sums.len() - 1] + value);
    }
    let mut best = (0.0, 0);
    for &(from, to) in intervals {
        let (n, all) = ((to - from) as f64, sums[to] - sums[from]);
        for at in from + FEWEST_COMMITS..=to - FEWEST_COMMITS {
            let before = (at - from) as f64;
            // The difference of the means, squared, in units of its variance.
            let excess = sums[at] - sums[from] - all * before / n;
            let square = excess * excess * n / (before * (n - before));
            if square > best.0 {
                best = (square, at);
            }
        }
    }
    best
}

/// Intervals of n, n/√2, n/2, ... commits, each length half-overlapping over the whole series.
fn seeded(n: usize) -> Vec<(usize, usize)> {
    let mut intervals = Vec::new();
    let mut length = n as f64;
    while length.ceil() as usize >= 2 * FEWEST_COMMITS {
        let size = length.ceil() as usize;
        let count = 2 * (n as f64 / length).ceil() as usize - 1;
        for index in 0..count {
            let from = if count == 1 { 0 } else { index * (n - size) / (count - 1) };
            intervals.push((from, from + size));
        }
        length /= std::f64::consts::SQRT_2;
    }
    intervals.sort_unstable();
    intervals.dedup();
    intervals
}

/// Moves every step to its likeliest place between its neighbours.
fn settle(x: &[f64], cuts: &mut [(usize, f64)], spread: f64) {
    for _ in 0..2 {
        for index in 0..cuts.len() {
            let from = if index == 0 { 0 } else { cuts[index - 1].0 };
            let to = cuts.get(index + 1).map_or(x.len(), |(at, _)| *at);
            cuts[index].0 = from + Place::of(&x[from..to], cuts[index].0 - from, spread).at;
        }
    }
}

/// Where the step of a stretch lies.
struct Place {
    at: usize,
    between: (usize, usize),
    probability: f64,
}

impl Place {
    /// By the levels on both sides of `near`.
    fn of(x: &[f64], near: usize, spread: f64) -> Self {
        let (before, after) = (plain_median(&x[..near]), plain_median(&x[near..]));
        let loss = |value: f64, level: f64| ((value - level) / spread).powi(2).min(CLIP * CLIP) / 2.0;
        // One commit on each side is enough here: that there is a step is known.
        let mut losses = Vec::with_capacity(x.len() - 1);
        let mut sum: f64 = loss(x[0], before) + x[1..].iter().map(|value| loss(*value, after)).sum::<f64>();
        losses.push(sum);
        for value in &x[1..x.len() - 1] {
            sum += loss(*value, before) - loss(*value, after);
            losses.push(sum);
        }
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let weights: Vec<f64> = losses.iter().map(|loss| (least - loss).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|one, two| weights[*two].total_cmp(&weights[*one]).then(one.cmp(two)));
        let (mut low, mut high, mut share) = (order[0], order[0], 0.0);
        for place in &order {
            if share >= crate::LEVEL {
                break;
            }
            share += weights[*place] / total;
            (low, high) = (low.min(*place), high.max(*place));
        }
        Self { at: order[0] + 1, between: (low + 1, high + 1), probability: weights[order[0]] / total }
    }
}

fn drifts(x: &[f64], cuts: &[(usize, f64)]) -> bool {
    let mut left = Vec::with_capacity(x.len());
    let mut from = 0;
    for to in cuts.iter().map(|(at, _)| *at).chain([x.len()]) {
        let level = if from < to { plain_median(&x[from..to]) } else { 0.0 };
        left.extend(x[from..to].iter().map(|value| value - level));
        from = to;
    }
    crate::lag1(&left).is_some_and(|lag| lag > crate::lag1_limit(left.len()))
}

#[cfg(test)]
mod tests;
