//! The page of an ablation.

use super::{AblateDocument, OfState};
use crate::words::units::{estimate_s, seconds};
use stats::{Estimate, Random};
use std::collections::BTreeMap;
use view::{AblationOf, BarOf, ablation_page};

/// Every start, the variants side by side, the effects.
pub fn of(document: &AblateDocument) -> String {
    let states: Vec<AblationOf> = document.states.iter().map(state).collect();
    ablation_page(&document.recording.file, &states, seconds)
}

fn bar(name: String, estimate: &Estimate, is_seen: bool) -> BarOf {
    let (low, high) = estimate.interval.map_or((estimate.value, estimate.value), |range| (range.low, range.high));
    BarOf { name, value: (estimate.value, low, high), is_seen }
}

fn state(of: &OfState) -> AblationOf {
    let told = &of.effects;
    let mut variants: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    // Those that are coloured first.
    for name in ["dirty", "clean"].into_iter().chain(of.runs.iter().map(|(name, ..)| name.as_str())) {
        index.entry(name).or_insert_with(|| {
            variants.push((name, Vec::new()));
            variants.len() - 1
        });
    }
    for (name, _, wall) in &of.runs {
        variants[index[name.as_str()]].1.push(*wall);
    }
    let mut effects: Vec<BarOf> =
        told.effects.iter().map(|effect| bar(effect.factors.join(" with "), &effect.seconds, effect.is_seen)).collect();
    effects.extend(told.not_explained.as_ref().map(|rest| bar("not explained".to_owned(), rest, false)));
    AblationOf {
        state: of.state.name().to_owned(),
        sentence: format!(
            "A {} start takes {} with the whole profile and {} with an empty one.",
            of.state.name(),
            estimate_s(&told.dirty),
            estimate_s(&told.clean)
        ),
        effects,
        runs: of.runs.iter().map(|(name, _, wall)| (index[name.as_str()], *wall)).collect(),
        variants: variants
            .into_iter()
            .filter(|(_, walls)| !walls.is_empty())
            .map(|(name, walls)| bar(name.to_owned(), &stats::median(&walls, &mut Random::of_values(&[&walls])), false))
            .collect(),
    }
}
