//! Which sets of remedies to measure, and which of them to keep. Pure.

use crate::remedy::{Remedy, Set};
use serde::{Deserialize, Serialize};
use stats::Estimate;
use std::collections::BTreeMap;

/// What a measurement says about a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is below 1.
    Helps,
    /// The interval holds 1, or there are too few runs for one.
    NoProvenGain,
    /// The whole interval is above 1.
    Harms,
}

/// The verdict on a ratio of times, new over old.
pub fn verdict(ratio: &Estimate) -> Verdict {
    match ratio.interval {
        Some(interval) if interval.high < 1.0 => Verdict::Helps,
        Some(interval) if interval.low > 1.0 => Verdict::Harms,
        _ => Verdict::NoProvenGain,
    }
}

/// Times of the runs of a set, seconds, by round and block: runs of one block are pairs.
pub type Times = BTreeMap<(u32, u32), f64>;

/// What was measured until now.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of the original (the empty set) and of every set that was tried.
    pub times: BTreeMap<Set, Times>,
}

/// One time over another where both were taken, pair by pair. No value without a pair, no interval below three of them.
pub fn ratio(new: &Times, old: &Times) -> Estimate {
    let pairs = new.iter().filter_map(|(place, new)| Some((*new, *old.get(place)?)));
    let (new, old): (Vec<f64>, Vec<f64>) = pairs.unzip();
    match new.len() {
        0 => Estimate { value: f64::NAN, interval: None },
        1 | 2 => Estimate { interval: None, ..stats::paired_ratio(&new, &old) },
        _ => stats::paired_ratio(&new, &old),
    }
}

impl Measured {
    /// Time of a set over that of the original. `None`: it was not measured.
    pub fn ratio(&self, set: &Set) -> Option<Estimate> {
        Some(ratio(self.times.get(set)?, self.times.get(&Set::new())?))
    }

    /// Seconds of a start of a set: the median of its runs. `None`: it was not measured.
    pub fn seconds(&self, set: &Set) -> Option<f64> {
        let times: Vec<f64> = self.times.get(set)?.values().copied().collect();
        (!times.is_empty()).then(|| stats::quantile(&times, 0.5))
    }

    fn sets(&self) -> impl Iterator<Item = &Set> {
        self.times.keys().filter(|set| !set.is_empty())
    }

    fn verdict(&self, set: &Set) -> Option<Verdict> {
        Some(verdict(&self.ratio(set)?))
    }

    /// The set to keep: of those that help, the one with the fewest remedies that no larger one is proven to beat. Of
    /// equally many the one with the smallest ratio. Empty: nothing helps.
    pub fn best(&self) -> Set {
        let value = |set: &Set| self.ratio(set).map_or(f64::INFINITY, |ratio| ratio.value);
        let mut helping: Vec<&Set> = self.sets().filter(|set| self.verdict(set) == Some(Verdict::Helps)).collect();
        helping.sort_by(|one, other| one.len().cmp(&other.len()).then(value(one).total_cmp(&value(other))));
        let mut best: Option<&Set> = None;
        for set in helping {
            let is_better = |best: &Set| {
                set.len() > best.len() && verdict(&ratio(&self.times[set], &self.times[best])) == Verdict::Helps
            };
            if best.is_none_or(is_better) {
                best = Some(set);
            }
        }
        best.cloned().unwrap_or_default()
    }

    /// What to measure next, beside the original and the best set: first each remedy alone and all together; then what
    /// helps together, and the best set with one more of those that do no proven harm. Nothing that was measured
    /// before; empty: the best set is the answer.
    pub fn next(&self, remedies: &[Remedy]) -> Vec<Set> {
        let alone = |remedy: &Remedy| Set::from([*remedy]);
        let mut sets: Vec<Set> = remedies.iter().map(alone).collect();
        if self.sets().next().is_none() {
            sets.push(remedies.iter().copied().collect());
        } else {
            let best = self.best();
            let of = |verdict: Verdict| move |remedy: &&Remedy| self.verdict(&alone(remedy)) == Some(verdict);
            sets.push(remedies.iter().filter(of(Verdict::Helps)).copied().collect());
            let harmless = remedies.iter().filter(|remedy| !of(Verdict::Harms)(remedy));
            let larger = harmless.map(|remedy| best.iter().copied().chain([*remedy]).collect());
            sets.extend(larger.filter(|_: &Set| !best.is_empty()));
        }
        let mut next: Vec<Set> = Vec::new();
        for set in sets {
            if !set.is_empty() && !self.times.contains_key(&set) && !next.contains(&set) {
                next.push(set);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACK: [Remedy; 1] = [Remedy::Pack];
    const ARCHIVE: [Remedy; 1] = [Remedy::Archive];
    const PRELOAD: [Remedy; 1] = [Remedy::Preload];
    const THREE: [Remedy; 3] = [Remedy::Pack, Remedy::Archive, Remedy::Preload];

    /// Runs whose ratio to the original is about this, within about a hundredth.
    fn about(ratio: f64, round: u32, seed: u32) -> Times {
        let noise = |block: u32| 1.0 + 0.01 * f64::from((block * 7 + seed * 3) % 5) - 0.02;
        (0..8).map(|block| ((round, block), ratio * noise(block))).collect()
    }

    /// Runs that scatter so much that nothing is proven.
    fn unclear(ratio: f64, seed: u32) -> Times {
        (0..8).map(|block| ((0, block), ratio * if (block + seed).is_multiple_of(2) { 0.5 } else { 2.0 })).collect()
    }

    fn measured(sets: &[(&[Remedy], Times)]) -> Measured {
        let mut times: BTreeMap<Set, Times> =
            sets.iter().map(|(set, times)| (set.iter().copied().collect(), times.clone())).collect();
        times.insert(Set::new(), about(1.0, 0, 0));
        Measured { times }
    }

    fn best(sets: &[(&[Remedy], Times)]) -> Vec<Remedy> {
        measured(sets).best().into_iter().collect()
    }

    #[test]
    fn the_simplest_set_wins_unless_a_larger_one_is_proven_better() {
        let at = |ratio, seed| about(ratio, 0, seed);
        let both = [Remedy::Archive, Remedy::Preload];
        // What was seen: the archive alone at 49 ms, both together at 245 ms.
        assert_eq!(best(&[(&ARCHIVE, at(0.10, 1)), (&PRELOAD, at(0.60, 2)), (&both, at(0.50, 3))]), ARCHIVE);
        assert_eq!(best(&[(&ARCHIVE, at(0.60, 1)), (&PRELOAD, at(0.50, 2)), (&both, at(0.40, 3))]), both);
        // A hundredth less is not proven.
        assert_eq!(best(&[(&ARCHIVE, at(0.60, 1)), (&PRELOAD, at(0.50, 2)), (&both, at(0.499, 3))]), PRELOAD);
        assert_eq!(best(&[(&ARCHIVE, at(1.2, 1)), (&PRELOAD, unclear(0.9, 2)), (&both, at(0.8, 3))]), both);
        assert_eq!(best(&[(&ARCHIVE, at(1.2, 1)), (&PRELOAD, unclear(0.9, 2)), (&both, unclear(0.8, 3))]), []);
        let two: Times = at(0.1, 1).into_iter().take(2).collect();
        assert_eq!(best(&[(&PRELOAD, two)]), [], "two runs prove nothing");
        assert!(ratio(&about(1.0, 0, 0), &about(1.0, 1, 0)).value.is_nan(), "runs of two rounds are no pairs");
    }

    #[test]
    fn a_start_of_a_set_takes_what_its_median_run_takes() {
        let measured = measured(&[(&PACK, about(0.5, 0, 0)), (&ARCHIVE, Times::new())]);
        let seconds = |set: &[Remedy]| measured.seconds(&set.iter().copied().collect());
        assert!(seconds(&PACK).is_some_and(|it| (it - 0.5).abs() < 0.01) && seconds(&[]).is_some_and(|it| it > 0.98));
        assert_eq!((seconds(&ARCHIVE), seconds(&PRELOAD)), (None, None), "none of its runs counted; not measured");
    }

    #[test]
    fn what_is_measured_next() {
        let sets = |sets: &[&[Remedy]]| sets.iter().map(|set| set.iter().copied().collect()).collect::<Vec<Set>>();
        let none = Measured::default();
        let [pack, archive, preload] = [&PACK[..], &ARCHIVE[..], &PRELOAD[..]];
        assert_eq!(none.next(&THREE), sets(&[pack, archive, preload, &THREE]));
        assert_eq!(none.next(&PACK), sets(&[pack]));
        assert_eq!(none.next(&[]), sets(&[]));
        let at = |ratio, seed| about(ratio, 0, seed);
        let (good, better, worse) = (at(0.6, 1), at(0.4, 2), at(1.3, 3));
        let first = measured(&[(pack, worse), (archive, good), (preload, better), (&THREE, at(0.5, 4))]);
        assert_eq!(first.next(&THREE), sets(&[&[Remedy::Archive, Remedy::Preload]]), "the two that help");
        let bad =
            measured(&[(pack, at(1.2, 1)), (preload, at(1.3, 2)), (&[Remedy::Pack, Remedy::Preload], at(1.1, 3))]);
        assert_eq!(bad.next(&[Remedy::Pack, Remedy::Preload]), sets(&[]), "nothing to add to");
    }

    proptest! {
        /// Whatever is measured, the search ends, each set is measured once, and what is kept was measured, helps, and
        /// is beaten by no set of its size.
        #[test]
        fn the_search_ends_with_a_set_that_helps(ratios in prop::collection::vec(0.1_f64..2.0, 512)) {
            let of = |set: &Set| ratios[set.iter().map(|remedy| 1 << (*remedy as usize)).sum::<usize>()];
            let mut all = Measured::default();
            let mut rounds = 0;
            loop {
                let next = all.next(&Remedy::ALL);
                if next.is_empty() {
                    break;
                }
                prop_assert!(rounds <= Remedy::ALL.len() as u32);
                let again = [Set::new(), all.best()];
                for set in next.iter().chain(&again) {
                    let ratio = if set.is_empty() { 1.0 } else { of(set) };
                    all.times.entry(set.clone()).or_default().extend(about(ratio, rounds, set.len() as u32));
                }
                rounds += 1;
            }
            // At most ten at first, and ten in each further round.
            prop_assert!(all.times.len() <= 64, "{}", all.times.len());
            let best = all.best();
            if !best.is_empty() {
                prop_assert!(verdict(&all.ratio(&best).unwrap()) == Verdict::Helps);
            }
            for remedy in Remedy::ALL {
                let alone = Set::from([remedy]);
                if verdict(&all.ratio(&alone).unwrap()) == Verdict::Helps {
                    prop_assert!(!best.is_empty());
                    let (of_best, of_one) = (all.ratio(&best).unwrap().value, all.ratio(&alone).unwrap().value);
                    prop_assert!(of_best <= of_one + 1e-9 || best.len() > 1);
                }
            }
        }
    }
}
