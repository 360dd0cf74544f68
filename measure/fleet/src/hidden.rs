//! No cell of an answer shows fewer machines than a threshold (k-anonymity), and none that is hidden can be reckoned
//! from a total and the others. What this protects from, and what not, is in docs/fleet-query.md.

use std::collections::BTreeMap;

/// How many cells are not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Hidden {
    /// With fewer machines than the threshold.
    pub small: u64,
    /// With enough machines, but what is hidden beside them could be reckoned without this.
    pub beside_small: u64,
}

/// A cell, as far as this rule looks at it.
pub trait Counted {
    /// Distinct machines in it.
    fn machines(&self) -> u64;
    /// The total that another answer shows and that this cell is a part of; `None`: there is none.
    fn total(&self) -> Option<String>;
}

/// Cells that may be shown, in their order. `k` below 2 hides nothing.
///
/// Where a total has hidden parts, further parts are hidden, the smallest first, until at least two are hidden and
/// together have at least `k` machines: else the total less the parts that are shown would tell what is hidden.
pub fn hide<T: Counted>(cells: Vec<T>, k: u64) -> (Vec<T>, Hidden) {
    let mut hidden = Hidden::default();
    let mut is_hidden: Vec<bool> = cells.iter().map(|cell| cell.machines() < k).collect();
    hidden.small = is_hidden.iter().filter(|is| **is).count() as u64;
    let mut totals: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, cell) in cells.iter().enumerate() {
        if let Some(total) = cell.total() {
            totals.entry(total).or_default().push(at);
        }
    }
    for mut parts in totals.into_values() {
        parts.sort_by_key(|at| (cells[*at].machines(), *at));
        let small: Vec<usize> = parts.iter().copied().filter(|at| is_hidden[*at]).collect();
        if small.is_empty() {
            continue;
        }
        let (mut number, mut machines) = (small.len(), small.iter().map(|at| cells[*at].machines()).sum::<u64>());
        for at in parts {
            if number >= 2 && machines >= k {
                break;
            }
            if !is_hidden[at] {
                is_hidden[at] = true;
                hidden.beside_small += 1;
                number += 1;
                machines += cells[at].machines();
            }
        }
    }
    let shown = cells.into_iter().zip(is_hidden).filter(|(_, is_hidden)| !is_hidden).map(|(cell, _)| cell);
    (shown.collect(), hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Part(&'static str, u64);

    impl Counted for Part {
        fn machines(&self) -> u64 {
            self.1
        }

        fn total(&self) -> Option<String> {
            (!self.0.is_empty()).then(|| self.0.to_owned())
        }
    }

    #[test]
    fn small_cells_are_hidden() {
        let (shown, hidden) = hide(vec![Part("", 19), Part("", 20), Part("", 1)], 20);
        assert_eq!(shown, [Part("", 20)]);
        assert_eq!(hidden, Hidden { small: 2, beside_small: 0 });
        assert_eq!(hide(vec![Part("", 1)], 1).0.len(), 1);
    }

    #[test]
    fn what_is_hidden_cannot_be_reckoned_from_a_total() {
        // One hidden part is the total less the others.
        let (shown, hidden) = hide(vec![Part("a", 5), Part("a", 90), Part("a", 30), Part("b", 40)], 20);
        assert_eq!(shown, [Part("a", 90), Part("b", 40)]);
        assert_eq!(hidden, Hidden { small: 1, beside_small: 1 });
        // Two hidden parts together are a cell that is too small.
        let (shown, _) = hide(vec![Part("a", 5), Part("a", 6), Part("a", 30), Part("a", 40)], 20);
        assert_eq!(shown, [Part("a", 40)]);
        // Enough are hidden.
        let (shown, hidden) = hide(vec![Part("a", 15), Part("a", 16), Part("a", 30)], 20);
        assert_eq!(shown, [Part("a", 30)]);
        assert_eq!(hidden.beside_small, 0);
    }
}
