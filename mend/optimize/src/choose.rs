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

/// The set to keep: the remedies that help alone; where together they do not help, the best of them. It may be one that was not measured: then
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
    use stats::Interval;

    fn ratio(low: f64, value: f64, high: f64) -> Estimate {
        Estimate { value, interval: Some(Interval { low, high }) }
    }

    const PACK: [Remedy; 1] = [Remedy::Pack];
    const PRELOAD: [Remedy; 1] = [Remedy::Preload];
    const BOTH: [Remedy; 2] = Remedy::ALL;

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
    }
}
