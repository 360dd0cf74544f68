//! Which remedies helped, and which of them go together. Pure.

use crate::remedy::{Remedy, Set};
use serde::{Deserialize, Serialize};
use stats::Estimate;

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

/// The sets to measure beside the original: each remedy alone, and all together.
pub fn sets(remedies: &[Remedy]) -> Vec<Set> {
    let mut sets: Vec<Set> = remedies.iter().map(|remedy| Set::from([*remedy])).collect();
    if remedies.len() > 1 {
        sets.push(remedies.iter().copied().collect());
    }
    sets
}

/// The set to keep, at most one more than [`sets`] to measure however many remedies there are: the remedies that help alone; where together they do not help, the best of them. It may be one that was not measured: then
/// it is to be measured, and chosen from again.
pub fn choose(measured: &[(Set, Estimate)]) -> Set {
    let helps = |set: &Set| measured.iter().any(|(known, ratio)| known == set && verdict(ratio) == Verdict::Helps);
    let known = |set: &Set| measured.iter().any(|(known, _)| known == set);
    let singles = measured.iter().filter(|(set, _)| set.len() == 1 && helps(set));
    let all: Set = singles.clone().flat_map(|(set, _)| set.iter().copied()).collect();
    if all.is_empty() {
        // What helps only together is kept together.
        let together = measured.iter().filter(|(set, _)| set.len() > 1 && helps(set));
        return together
            .min_by(|one, other| one.1.value.total_cmp(&other.1.value))
            .map(|(set, _)| set.clone())
            .unwrap_or_default();
    }
    if !known(&all) || helps(&all) {
        return all;
    }
    singles.min_by(|one, other| one.1.value.total_cmp(&other.1.value)).map(|(set, _)| set.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stats::Interval;

    fn ratio(low: f64, value: f64, high: f64) -> Estimate {
        Estimate { value, interval: Some(Interval { low, high }) }
    }

    const PACK: [Remedy; 1] = [Remedy::Pack];
    const PRELOAD: [Remedy; 1] = [Remedy::Preload];
    const BOTH: [Remedy; 2] = [Remedy::Pack, Remedy::Preload];

    fn chosen(pack: Estimate, preload: Estimate, both: Option<Estimate>) -> Vec<Remedy> {
        let mut measured = vec![(Set::from(PACK), pack), (Set::from(PRELOAD), preload)];
        measured.extend(both.map(|both| (Set::from(BOTH), both)));
        choose(&measured).into_iter().collect()
    }

    #[test]
    fn what_helps_within_its_interval_is_kept() {
        let (good, unclear, bad) = (ratio(0.4, 0.5, 0.6), ratio(0.8, 0.9, 1.1), ratio(1.1, 1.2, 1.3));
        assert_eq!(chosen(good, good, Some(good)), BOTH);
        assert_eq!(chosen(good, unclear, Some(good)), PACK);
        assert_eq!(chosen(bad, good, Some(good)), PRELOAD);
        assert_eq!(chosen(unclear, unclear, Some(unclear)), []);
        assert_eq!(chosen(bad, bad, Some(bad)), []);
        let none = Estimate { value: 0.1, interval: None };
        assert_eq!(chosen(none, none, Some(none)), [], "two runs prove nothing");
    }

    #[test]
    fn together_they_must_help_too() {
        let (better, good, unclear) = (ratio(0.3, 0.4, 0.5), ratio(0.5, 0.6, 0.7), ratio(0.8, 0.9, 1.1));
        assert_eq!(chosen(good, better, Some(unclear)), PRELOAD);
        assert_eq!(chosen(good, better, None), BOTH, "to be measured yet");
        assert_eq!(chosen(unclear, unclear, Some(good)), BOTH);
    }

    #[test]
    fn each_alone_and_all_together() {
        assert_eq!(sets(&BOTH), [Set::from(PACK), Set::from(PRELOAD), Set::from(BOTH)]);
        assert_eq!(sets(&PACK), [Set::from(PACK)]);
        assert_eq!(sets(&[]), Vec::<Set>::new());
        let [pack, archive, preload] = Remedy::ALL.map(|remedy| Set::from([remedy]));
        assert_eq!(sets(&Remedy::ALL), [pack, archive, preload, Set::from(Remedy::ALL)]);
    }

    /// What is measured, round by round, and what is kept at last.
    fn search(remedies: &[Remedy], ratio: &dyn Fn(&Set) -> Estimate) -> (Vec<Vec<Set>>, Set) {
        let (mut rounds, mut measured) = (vec![sets(remedies)], Vec::new());
        loop {
            measured.extend(rounds[rounds.len() - 1].iter().map(|set| (set.clone(), ratio(set))));
            let kept = choose(&measured);
            if kept.is_empty() || measured.iter().any(|(set, _)| *set == kept) {
                return (rounds, kept);
            }
            rounds.push(vec![kept]);
        }
    }

    #[test]
    fn of_three_the_two_that_help_are_measured_together_before_they_are_kept() {
        let (good, bad) = (ratio(0.4, 0.5, 0.6), ratio(1.1, 1.2, 1.3));
        let pair = Set::from([Remedy::Archive, Remedy::Preload]);
        let without_pack = |set: &Set| if set.contains(&Remedy::Pack) { bad } else { good };
        let (rounds, kept) = search(&Remedy::ALL, &without_pack);
        assert_eq!((rounds.len(), &rounds[1][..], kept), (2, &[pair.clone()][..], pair));
        // Together they do not help: the better of them, which is measured already.
        let alone = |set: &Set| match set.len() {
            1 if set.contains(&Remedy::Archive) => ratio(0.3, 0.4, 0.5),
            1 => without_pack(set),
            _ => bad,
        };
        let (rounds, kept) = search(&Remedy::ALL, &alone);
        assert_eq!((rounds.len(), kept), (2, Set::from([Remedy::Archive])));
    }

    proptest! {
        /// Whatever is measured, the search ends after one more set, and what is kept was measured and helps.
        #[test]
        fn the_search_is_bounded(ratios in prop::collection::vec((0.1_f64..2.0, 0.0_f64..0.5), 8)) {
            let of = |set: &Set| {
                let number: usize = set.iter().map(|remedy| 1 << (*remedy as usize)).sum();
                let (value, width) = ratios[number];
                ratio(value - width, value, value + width)
            };
            let (rounds, kept) = search(&Remedy::ALL, &of);
            prop_assert!(rounds.len() <= 2 && rounds.iter().map(Vec::len).sum::<usize>() <= Remedy::ALL.len() + 2);
            prop_assert!(kept.is_empty() || verdict(&of(&kept)) == Verdict::Helps);
        }
    }
}
