//! What can be done to a program from outside. A new remedy is a variant here, a [`Change`](crate::predict::Change) for
//! its prediction, and a step of the builder in the app.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that may make a start faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// The relocations of its ELF files go into packed tables.
    Pack,
    /// The entries of its zip archives go into the order of their first use.
    Archive,
    /// What it needs is read before it asks for it.
    Preload,
}

impl Remedy {
    /// All of them, in the order in which they are built: the later ones see the files of the earlier ones.
    pub const ALL: [Self; 3] = [Self::Pack, Self::Archive, Self::Preload];

    /// Its name in answers, and of its variant in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Archive => "archive",
            Self::Preload => "preload",
        }
    }

    /// What it changes, in one sentence.
    pub fn changes(self) -> &'static str {
        match self {
            Self::Pack => "relative relocations of ELF files go into packed tables (DT_RELR)",
            Self::Archive => "entries of zip archives that the start uses lie first, in the order of their use",
            Self::Preload => "what the start needs is read before the program is started",
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Several remedies at once, in the order of [`Remedy::ALL`].
pub type Set = std::collections::BTreeSet<Remedy>;

/// How a set is called: the remedy's name, or all names with `+` between them; `original` without any.
pub fn name_of(set: &Set) -> String {
    match set.is_empty() {
        true => "original".into(),
        false => set.iter().map(|remedy| remedy.name()).collect::<Vec<_>>().join("+"),
    }
}
