//! What to run next: random blocks. Pure.
//!
//! A block holds every cell (variant in a state) once, in random order, so that whatever changes on the machine
//! while runs are taken (heat, other programs, a filling disk) falls on all cells alike, and runs of the same
//! block can be compared as pairs. States and variants are never measured one after the other.

use model::{CacheState, RunKind};
use stats::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// In which states starts are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedIn {
    /// The coldest of the plan, which reads most.
    Coldest,
    /// Each.
    Each,
}

/// Traced runs that count, by variant and state.
pub type Traced = BTreeMap<(u32, CacheState), u32>;

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many variants (programs) there are; they are numbered from 0.
    pub variants: u32,
    /// The states that each is started in, without repetition.
    pub states: Vec<CacheState>,
    /// Number of the first block; above 0 where blocks are added to a recording.
    pub first_block: u32,
    /// Blocks to run, which is timed runs per cell. With `precision`: the fewest blocks (at least
    /// [`FEWEST_FOR_PRECISION`]).
    pub blocks: u32,
    /// With `precision`: the most blocks, even when there is budget left.
    pub most_blocks: u32,
    /// Run until half the width of the 95 % interval of every cell's median is below this share of it (0.01: 1 %).
    pub precision: Option<f64>,
    /// Start no block after this time. A block that has begun is finished, so that every cell has as many runs.
    pub budget: Option<Duration>,
    /// Traced runs per variant, each an extra cell of one of the first blocks. A run that learns the needs (see
    /// [`crate::conduct::conduct`]) is one of them if it is in the same state.
    pub trace_runs: u32,
    /// In which states.
    pub traced_in: TracedIn,
    /// How often a program is started before its first run that counts, and before a hot one whose files were thrown
    /// out; at least once.
    pub warm_ups: u32,
    /// How often a run that does not count is tried in its block.
    pub max_attempts: u32,
    /// How long to wait, after a run that was not in its state, for others to let go of what they hold; three times as
    /// long after each further attempt.
    pub patience: Duration,
    /// Seed of all random choices.
    pub seed: u64,
}

/// With fewer than six runs even the whole range from the fastest to the slowest covers the median in less than 95 % of
/// cases (1 - 2 x 0.5^n), so no interval of fewer may stop the recording.
pub const FEWEST_FOR_PRECISION: u32 = 6;

impl Default for Plan {
    fn default() -> Self {
        Self {
            variants: 1,
            states: vec![CacheState::Hot, CacheState::Cold],
            first_block: 0,
            blocks: 10,
            most_blocks: 1000,
            precision: None,
            budget: None,
            trace_runs: 1,
            traced_in: TracedIn::Coldest,
            warm_ups: 1,
            max_attempts: 3,
            patience: Duration::ZERO,
            seed: 1,
        }
    }
}

/// One run to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// Which program.
    pub variant: u32,
    /// In which state.
    pub state: CacheState,
    /// Why.
    pub kind: Kind,
}

/// The two kinds of runs that a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`RunKind::Timed`]
    Timed,
    /// [`RunKind::Trace`]
    Trace,
}

impl From<Kind> for RunKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Timed => Self::Timed,
            Kind::Trace => Self::Trace,
        }
    }
}

impl Plan {
    /// The states that traced runs are made in.
    fn trace_states(&self) -> Vec<CacheState> {
        match self.traced_in {
            TracedIn::Coldest => self.states.iter().copied().max().into_iter().collect(),
            TracedIn::Each => self.states.clone(),
        }
    }

    /// The cells of a block in the order to run them. `traced`: the traced runs that there are; `None`: there is no
    /// tracer.
    pub fn block(&self, traced: Option<&Traced>, random: &mut Random) -> Vec<Cell> {
        let mut cells = Vec::new();
        for variant in 0..self.variants {
            cells.extend(self.states.iter().map(|&state| Cell { variant, state, kind: Kind::Timed }));
            let Some(traced) = traced else { continue };
            let has = |state: CacheState| traced.get(&(variant, state)).copied().unwrap_or(0);
            let wanted = self.trace_states().into_iter().filter(|state| has(*state) < self.trace_runs);
            cells.extend(wanted.map(|state| Cell { variant, state, kind: Kind::Trace }));
        }
        random.shuffle(&mut cells);
        cells
    }

    /// Timed runs per cell: exactly, or with `precision` at least.
    pub fn fewest_blocks(&self) -> u32 {
        match self.precision {
            Some(_) => self.blocks.max(FEWEST_FOR_PRECISION).min(self.most_blocks),
            None => self.blocks,
        }
    }

    /// The block at which to stop in any case.
    pub fn last_block(&self) -> u32 {
        match self.precision {
            Some(_) => self.most_blocks,
            None => self.blocks,
        }
    }

    /// Timed runs of all cells together: exactly, or with `precision` at least.
    pub fn planned_runs(&self) -> u32 {
        self.variants * self.states.len() as u32 * self.fewest_blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn plan(variants: u32, states: &[CacheState], trace_runs: u32) -> Plan {
        Plan { variants, states: states.to_vec(), trace_runs, ..Plan::default() }
    }

    #[test]
    fn a_block_holds_every_cell_once_and_the_traced_runs_that_are_still_missing() {
        let plan = plan(2, &[CacheState::Hot, CacheState::App], 2);
        // A start that was traced in a state of its own is none of these.
        let traced = [((0, CacheState::App), 2), ((1, CacheState::App), 1), ((1, CacheState::Cold), 3)];
        let mut cells = plan.block(Some(&traced.into()), &mut Random::from_seed(5));
        cells.sort();
        let timed = |variant, state| Cell { variant, state, kind: Kind::Timed };
        assert_eq!(
            cells,
            [
                timed(0, CacheState::Hot),
                timed(0, CacheState::App),
                timed(1, CacheState::Hot),
                timed(1, CacheState::App),
                Cell { variant: 1, state: CacheState::App, kind: Kind::Trace },
            ]
        );
    }

    #[test]
    fn starts_are_traced_in_each_state_where_that_is_wanted() {
        let plan = Plan { traced_in: TracedIn::Each, ..plan(1, &[CacheState::Hot, CacheState::Cold], 2) };
        let traced = [((0, CacheState::Cold), 2)];
        let cells = plan.block(Some(&traced.into()), &mut Random::from_seed(5));
        let traced: Vec<CacheState> =
            cells.iter().filter(|cell| cell.kind == Kind::Trace).map(|cell| cell.state).collect();
        assert_eq!(traced, [CacheState::Hot]);
    }

    #[test]
    fn blocks_differ_in_their_order_and_a_seed_repeats_it() {
        let plan = plan(2, &CacheState::ALL, 0);
        let orders = |seed| {
            let mut random = Random::from_seed(seed);
            (0..20).map(|_| plan.block(None, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(orders(1), orders(1));
        assert_ne!(orders(1), orders(2));
        let distinct: BTreeSet<_> = orders(1).into_iter().collect();
        assert!(distinct.len() > 15, "{} orders in 20 blocks of 8 cells", distinct.len());
    }

    #[test]
    fn every_cell_is_at_every_place_of_a_block_about_equally_often() {
        let plan = plan(1, &CacheState::ALL, 0);
        let mut random = Random::from_seed(3);
        let mut first = std::collections::HashMap::<CacheState, u32>::new();
        for _ in 0..4000 {
            *first.entry(plan.block(None, &mut random)[0].state).or_default() += 1;
        }
        // Binomial(4000, 1/4): standard deviation 27; five of them.
        assert!(first.len() == 4 && first.values().all(|&n| n.abs_diff(1000) < 137), "{first:?}");
    }

    #[test]
    fn with_a_precision_the_number_of_blocks_is_the_least() {
        let plan = Plan { blocks: 3, precision: Some(0.01), ..plan(1, &[CacheState::Hot], 0) };
        assert_eq!((plan.fewest_blocks(), plan.last_block(), plan.planned_runs()), (6, 1000, 6));
        let plan = Plan { precision: None, ..plan };
        assert_eq!((plan.fewest_blocks(), plan.last_block()), (3, 3));
    }

    proptest! {
        #[test]
        fn no_cell_is_lost_or_doubled(variants in 1u32..5, states in 1usize..5, seed: u64, trace_runs in 0u32..3) {
            let plan = plan(variants, &CacheState::ALL[..states], trace_runs);
            let cells = plan.block(Some(&Traced::new()), &mut Random::from_seed(seed));
            let set: BTreeSet<_> = cells.iter().copied().collect();
            prop_assert_eq!(set.len(), cells.len());
            prop_assert_eq!(cells.len() as u32, variants * states as u32 + if trace_runs > 0 { variants } else { 0 });
        }
    }
}
