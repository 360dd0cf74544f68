//! Which factors are there in which variant, and which sums of variants tell the effect of each.

use serde::{Deserialize, Serialize};

/// Most factors whose every combination is started: 64 variants.
pub const MOST_FULL: usize = 6;

/// How factors are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Each factor alone is taken away.
    OneOut,
    /// Each factor alone is put into what has none.
    OneIn,
    /// Every combination: effects, and interactions of two.
    Full,
    /// A fraction of them in which no effect is mixed up with an interaction of two (resolution IV).
    Fractional,
}

/// A variant: which factors are there. All of them: dirty; none: clean.
pub type Cell = Vec<bool>;

/// A sum of variants' times, with what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The factors whose effect it is: one, or two of an interaction; none: of all together.
    pub factors: Vec<usize>,
    /// The weight of each variant; their sum is 0.
    pub weights: Vec<f64>,
}

impl Design {
    /// The variants for so many factors: dirty first, then clean.
    ///
    /// # Errors
    /// Too many factors for it, or none.
    pub fn cells(self, factors: usize) -> Result<Vec<Cell>, String> {
        if factors == 0 {
            return Err("there is no factor".to_owned());
        }
        let mut cells = vec![vec![true; factors], vec![false; factors]];
        let mut add = |cell: Cell| {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        match self {
            Self::OneOut | Self::OneIn => {
                let alone = self == Self::OneIn;
                (0..factors).for_each(|one| add((0..factors).map(|at| (at == one) == alone).collect()));
            }
            Self::Full if factors > MOST_FULL => {
                return Err(format!(
                    "{factors} factors have {} combinations: {MOST_FULL} can be had",
                    1_u64 << factors.min(60)
                ));
            }
            Self::Full => {
                (0..1_u32 << factors).for_each(|bits| add((0..factors).map(|at| bits >> at & 1 == 1).collect()))
            }
            // Sylvester's matrix and its mirror: folded over, a design of resolution III becomes one of IV (Box and
            // Wilson 1951).
            Self::Fractional => {
                let order = factors.next_power_of_two();
                for row in 0..order {
                    let there = |at: usize| (row & at).count_ones().is_multiple_of(2);
                    add((0..factors).map(there).collect());
                    add((0..factors).map(|at| !there(at)).collect());
                }
            }
        }
        Ok(cells)
    }

    /// The effect of each factor, then interactions of two where the design tells them apart. Times of `cells`, added
    /// with these weights, are by how much a start takes longer with the factor than without it.
    pub fn contrasts(self, cells: &[Cell]) -> Vec<Contrast> {
        let factors = cells.first().map_or(0, Vec::len);
        let only = |plus: usize, minus: usize| {
            (0..cells.len()).map(|at| f64::from(u8::from(at == plus)) - f64::from(u8::from(at == minus))).collect()
        };
        let alone = |one: usize, there: bool| {
            cells.iter().position(|cell| (0..factors).all(|at| cell[at] == ((at == one) == there)))
        };
        let signed = |of: &[usize]| -> Vec<f64> {
            let sign = |cell: &Cell| of.iter().map(|at| if cell[*at] { 1.0 } else { -1.0 }).product::<f64>();
            let part = cells.len() as f64 / 2.0;
            cells.iter().map(|cell| sign(cell) / part).collect()
        };
        let effect = |one: usize| match self {
            // Of a single factor clean is what is left without it.
            Self::OneOut => only(0, alone(one, false).unwrap_or(1)),
            Self::OneIn => only(alone(one, true).unwrap_or(0), 1),
            Self::Full | Self::Fractional => signed(&[one]),
        };
        let mut contrasts: Vec<Contrast> =
            (0..factors).map(|one| Contrast { factors: vec![one], weights: effect(one) }).collect();
        if self == Self::Full {
            for one in 0..factors {
                contrasts.extend(
                    (one + 1..factors).map(|two| Contrast { factors: vec![one, two], weights: signed(&[one, two]) }),
                );
            }
        }
        contrasts
    }

    /// By how much a start takes longer with all factors than with none.
    pub fn together(cells: &[Cell]) -> Contrast {
        let weight = |at: usize| match at {
            0 => 1.0,
            1 => -1.0,
            _ => 0.0,
        };
        Contrast { factors: Vec::new(), weights: (0..cells.len()).map(weight).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Design; 4] = [Design::OneOut, Design::OneIn, Design::Full, Design::Fractional];

    /// Times of cells where each factor adds its number of seconds, and the first two together one more.
    fn times(cells: &[Cell], interaction: f64) -> Vec<f64> {
        let own = |cell: &Cell| {
            cell.iter().enumerate().filter(|(_, there)| **there).map(|(at, _)| (at + 1) as f64).sum::<f64>()
        };
        cells.iter().map(|cell| 10.0 + own(cell) + if cell[0] && cell[1] { interaction } else { 0.0 }).collect()
    }

    fn sum(contrast: &Contrast, times: &[f64]) -> f64 {
        contrast.weights.iter().zip(times).map(|(weight, time)| weight * time).sum()
    }

    #[test]
    fn every_design_has_dirty_and_clean_and_tells_what_was_planted() {
        for design in ALL {
            for factors in 1..=6 {
                let cells = design.cells(factors).unwrap();
                assert_eq!((&cells[0], &cells[1]), (&vec![true; factors], &vec![false; factors]));
                let planted =
                    times(&cells.iter().map(|cell| [cell.clone(), vec![false; 2]].concat()).collect::<Vec<_>>(), 0.0);
                for contrast in design.contrasts(&cells).iter().filter(|contrast| contrast.factors.len() == 1) {
                    let told = sum(contrast, &planted);
                    let truth = (contrast.factors[0] + 1) as f64;
                    assert!((told - truth).abs() < 1e-9, "{design:?} {factors}: {told} for {truth}");
                    assert!(contrast.weights.iter().sum::<f64>().abs() < 1e-9);
                }
                let all = sum(&Design::together(&cells), &planted);
                assert!((all - (factors * (factors + 1) / 2) as f64).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn interactions_are_told_by_the_full_design_alone() {
        let cells = Design::Full.cells(3).unwrap();
        assert_eq!(cells.len(), 8);
        let planted = times(&cells, 1.0);
        let told = Design::Full.contrasts(&cells);
        let pairs: Vec<(Vec<usize>, f64)> = told
            .iter()
            .filter(|contrast| contrast.factors.len() == 2)
            .map(|contrast| (contrast.factors.clone(), sum(contrast, &planted)))
            .collect();
        assert_eq!(pairs, [(vec![0, 1], 0.5), (vec![0, 2], 0.0), (vec![1, 2], 0.0)]);
        assert!(Design::OneOut.contrasts(&cells).iter().all(|contrast| contrast.factors.len() == 1));
    }

    #[test]
    fn a_fraction_keeps_effects_clear_of_interactions_of_two() {
        for factors in 2..=11 {
            let cells = Design::Fractional.cells(factors).unwrap();
            assert!(cells.len() <= 2 * factors.next_power_of_two(), "{factors}: {}", cells.len());
            let contrasts = Design::Fractional.contrasts(&cells);
            for one in 0..factors {
                for two in one + 1..factors {
                    for contrast in &contrasts {
                        let sign = |cell: &Cell| if cell[one] == cell[two] { 1.0 } else { -1.0 };
                        let mixed: f64 =
                            cells.iter().zip(&contrast.weights).map(|(cell, weight)| sign(cell) * weight).sum();
                        assert!(mixed.abs() < 1e-9, "{factors} factors: {:?} with {one} {two}", contrast.factors);
                    }
                }
            }
        }
    }

    #[test]
    fn too_many_factors_and_none_are_refused() {
        assert!(Design::Full.cells(7).unwrap_err().contains("128"));
        assert!(ALL.iter().all(|design| design.cells(0).is_err()));
        assert_eq!(Design::OneOut.cells(11).unwrap().len(), 13);
    }
}
