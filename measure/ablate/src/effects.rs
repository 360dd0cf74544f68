//! The effect of each factor, from the times of starts that were taken in random blocks.
//!
//! Every effect is a weighted sum of the variants' times of one block ([`crate::design`]), so that what changes from
//! block to block falls out; its estimate is the median over the blocks with a BCa bootstrap interval, its p that of a
//! sign-flip permutation test, corrected over all effects after Holm (1979).

use crate::design::{Cell, Contrast, Design};
use serde::Serialize;
use stats::{Estimate, Pairing, Random};
use std::collections::BTreeMap;

/// Seconds of the starts of each variant, by block.
pub type Times = [BTreeMap<u32, f64>];

/// Chance with which an effect is called one where there is none, over all of them.
pub const LEVEL: f64 = 0.05;

/// One effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Its factors: one, or two of an interaction.
    pub factors: Vec<String>,
    /// By how many seconds a start takes longer with it.
    pub seconds: Estimate,
    /// As a share of what all factors together cost; `None`: those cost nothing that is seen.
    pub share: Option<f64>,
    /// Chance of so large an effect where there is none.
    pub p: f64,
    /// The same, for as many effects as there are.
    pub p_of_all: f64,
    /// Blocks that tell it.
    pub blocks: usize,
    /// Whether it is one: `p_of_all` is below [`LEVEL`].
    pub is_seen: bool,
}

/// What the starts of one cache state say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effects {
    /// Seconds with all factors.
    pub dirty: Estimate,
    /// Seconds with none.
    pub clean: Estimate,
    /// What all factors together cost.
    pub together: Estimate,
    /// Chance of so large a cost where there is none.
    pub together_p: f64,
    /// Effects and interactions, the largest first.
    pub effects: Vec<Effect>,
    /// What of all together the single effects do not explain; `None` where the design does not add up to it.
    pub not_explained: Option<Estimate>,
}

/// The effects of these factors.
pub fn effects(design: Design, names: &[String], cells: &[Cell], times: &Times) -> Effects {
    let together = Design::together(cells);
    let whole = by_block(&together, times);
    let contrasts = design.contrasts(cells);
    let told: Vec<Vec<f64>> = contrasts.iter().map(|contrast| by_block(contrast, times)).collect();
    let p: Vec<f64> = told.iter().map(|values| p_of(values)).collect();
    let corrected = stats::holm(&p);
    let seconds = |values: &[f64]| stats::median(values, &mut Random::of_values(&[values]));
    let all = seconds(&whole);
    let is_cost = all.interval.is_some_and(|interval| interval.low > 0.0);
    let mut effects: Vec<Effect> = contrasts
        .iter()
        .zip(&told)
        .enumerate()
        .map(|(at, (contrast, values))| {
            let estimate = seconds(values);
            Effect {
                factors: contrast.factors.iter().map(|factor| names[*factor].clone()).collect(),
                share: is_cost.then(|| estimate.value / all.value),
                seconds: estimate,
                p: p[at],
                p_of_all: corrected[at],
                blocks: values.len(),
                is_seen: corrected[at] < LEVEL,
            }
        })
        .collect();
    effects.sort_by(|one, two| two.seconds.value.total_cmp(&one.seconds.value));
    let times_of = |cell: usize| times[cell].values().copied().collect::<Vec<f64>>();
    Effects {
        dirty: seconds(&times_of(0)),
        clean: seconds(&times_of(1)),
        together: all,
        together_p: p_of(&whole),
        effects,
        not_explained: rest(&together, &contrasts).map(|rest| seconds(&by_block(&rest, times))),
    }
}

/// What of all together is not in the single effects. An average effect over all combinations does not add up to it.
fn rest(together: &Contrast, contrasts: &[Contrast]) -> Option<Contrast> {
    let single: Vec<&Contrast> = contrasts.iter().filter(|contrast| contrast.factors.len() == 1).collect();
    let weights = together
        .weights
        .iter()
        .enumerate()
        .map(|(at, weight)| weight - single.iter().map(|contrast| contrast.weights[at]).sum::<f64>());
    let weights: Vec<f64> = weights.collect();
    weights.iter().any(|weight| *weight != 0.0).then_some(Contrast { factors: Vec::new(), weights })
}

/// The sum in every block in which each variant that it needs has a time.
fn by_block(contrast: &Contrast, times: &Times) -> Vec<f64> {
    let needed: Vec<(usize, f64)> =
        contrast.weights.iter().copied().enumerate().filter(|(_, weight)| *weight != 0.0).collect();
    let Some((first, _)) = needed.first() else { return Vec::new() };
    times[*first]
        .keys()
        .filter_map(|block| needed.iter().map(|(cell, weight)| Some(weight * times[*cell].get(block)?)).sum())
        .collect()
}

fn p_of(values: &[f64]) -> f64 {
    let nothing = vec![0.0; values.len()];
    stats::permutation_p(values, &nothing, Pairing::Paired, &mut Random::of_values(&[values]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten blocks of times; the machine is slower in some, and every run has noise of a hundredth.
    fn made(cells: &[Cell], seed: u64, cost: impl Fn(&Cell) -> f64) -> Vec<BTreeMap<u32, f64>> {
        let mut random = Random::from_seed(seed);
        let mut noise = || (random.below(2001) as f64 - 1000.0) / 1e5;
        let blocks: Vec<f64> = (0..10).map(|_| 1.0 + 10.0 * noise()).collect();
        let of_cell = |cell: &Cell, noise: &mut dyn FnMut() -> f64| {
            (0..10_u32).map(|block| (block, blocks[block as usize] + cost(cell) + noise())).collect()
        };
        cells.iter().map(|cell| of_cell(cell, &mut noise)).collect()
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("f{at}")).collect()
    }

    #[test]
    fn what_was_planted_is_seen_and_hardly_anything_else() {
        let mut wrong = 0;
        for design in [Design::OneOut, Design::OneIn, Design::Fractional] {
            for seed in 0..10 {
                let cells = design.cells(11).unwrap();
                let cost = |cell: &Cell| 0.1 * f64::from(u8::from(cell[3])) + 0.04 * f64::from(u8::from(cell[7]));
                let told = effects(design, &names(11), &cells, &made(&cells, seed, cost));
                let [first, second, others @ ..] = &told.effects[..] else { panic!("{told:?}") };
                assert_eq!((&first.factors[0], &second.factors[0]), (&"f3".into(), &"f7".into()), "{design:?} {seed}");
                assert!(first.is_seen && second.is_seen, "{design:?} {seed}: {told:#?}");
                wrong += u32::from(others.iter().any(|effect| effect.is_seen));
                assert!((first.seconds.value - 0.1).abs() < 0.01);
                assert!((told.together.value - 0.14).abs() < 0.01 && told.together_p < 0.01);
                assert!((first.share.unwrap() - 0.1 / 0.14).abs() < 0.1);
            }
        }
        assert!(wrong <= 5, "{wrong} of 30 at a level of one in twenty");
    }

    #[test]
    fn two_that_are_slow_only_together_are_not_explained_one_by_one() {
        let cells = Design::OneIn.cells(3).unwrap();
        let both = |cell: &Cell| if cell[0] && cell[1] { 0.2 } else { 0.0 };
        let told = effects(Design::OneIn, &names(3), &cells, &made(&cells, 1, both));
        assert!(told.effects.iter().all(|effect| !effect.is_seen));
        assert!((told.not_explained.unwrap().value - 0.2).abs() < 0.02, "{told:#?}");
        let cells = Design::Full.cells(3).unwrap();
        let told = effects(Design::Full, &names(3), &cells, &made(&cells, 1, both));
        let pair = told.effects.iter().find(|effect| effect.factors == ["f0", "f1"]).unwrap();
        assert!(pair.is_seen && (pair.seconds.value - 0.1).abs() < 0.01, "{pair:?}");
    }

    #[test]
    fn where_nothing_is_slow_nothing_is_called_so() {
        let cells = Design::OneOut.cells(11).unwrap();
        let wrong = (0..60).filter(|seed| {
            let told = effects(Design::OneOut, &names(11), &cells, &made(&cells, *seed, |_| 0.0));
            told.effects.iter().any(|effect| effect.is_seen)
        });
        let wrong = wrong.count();
        assert!(wrong <= 8, "{wrong} of 60 at a level of one in twenty");
    }

    #[test]
    fn a_block_without_a_run_tells_nothing_of_what_needs_it() {
        let cells = Design::OneOut.cells(2).unwrap();
        let mut times = made(&cells, 3, |_| 0.0);
        times[2].remove(&4);
        let told = effects(Design::OneOut, &names(2), &cells, &times);
        let blocks = |name: &str| told.effects.iter().find(|effect| effect.factors == [name]).unwrap().blocks;
        assert_eq!((blocks("f0"), blocks("f1")), (9, 10));
    }
}
