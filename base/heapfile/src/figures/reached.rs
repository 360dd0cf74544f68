//! Blocks by whether the program can still reach them.

use super::Held;
use serde::{Deserialize, Serialize};

/// Whether a program can still free a block: the words of Valgrind's memcheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Nothing points to it.
    Lost,
    /// Only lost blocks point to it.
    Indirect,
    /// Something points into its middle, and nothing to its beginning.
    Possible,
    /// Pointers lead to it from what the program still has.
    Reachable,
}

/// What blocks of one site are, as far as the check knew them. What is live and nothing of this was made later, or in a
/// process that was not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Reached {
    /// [`Reach::Lost`].
    pub lost: Held,
    /// [`Reach::Indirect`].
    pub indirect: Held,
    /// [`Reach::Possible`].
    pub possible: Held,
    /// [`Reach::Reachable`].
    pub reachable: Held,
}

impl Reached {
    /// Those of a kind.
    pub fn of(&self, kind: Reach) -> Held {
        match kind {
            Reach::Lost => self.lost,
            Reach::Indirect => self.indirect,
            Reach::Possible => self.possible,
            Reach::Reachable => self.reachable,
        }
    }

    /// Adds blocks of a kind.
    pub fn enter(&mut self, kind: Reach, held: Held) {
        match kind {
            Reach::Lost => self.lost.add(held),
            Reach::Indirect => self.indirect.add(held),
            Reach::Possible => self.possible.add(held),
            Reach::Reachable => self.reachable.add(held),
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        for kind in [Reach::Lost, Reach::Indirect, Reach::Possible, Reach::Reachable] {
            self.enter(kind, other.of(kind));
        }
    }

    /// What no certain pointer leads to.
    pub fn unreached(&self) -> Held {
        let mut held = self.lost;
        held.add(self.indirect);
        held.add(self.possible);
        held
    }

    /// Whether it tells of no block.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
