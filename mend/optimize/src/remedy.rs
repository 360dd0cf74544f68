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
    /// Caches of fonts, icons, modules, file types and locales are built from the files that it reads one by one.
    Caches,
    /// Functions of libraries are looked up when it is loaded, not at their first calls.
    BindNow,
    /// All threads take memory from one arena of glibc's allocator.
    OneArena,
    /// glibc's allocator asks the kernel for more memory at once and keeps what is freed.
    KeepHeap,
    /// glibc's allocator asks for huge pages.
    HugeHeap,
    /// Its directory is one compressed image in the order of its start.
    Image,
    /// What it needs is read before it asks for it.
    Preload,
}

impl Remedy {
    /// All of them, in the order in which they are built: the later ones see the files of the earlier ones.
    pub const ALL: [Self; 9] = [
        Self::Pack,
        Self::Archive,
        Self::Caches,
        Self::BindNow,
        Self::OneArena,
        Self::KeepHeap,
        Self::HugeHeap,
        Self::Image,
        Self::Preload,
    ];

    /// Its name in answers, and of its variant in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Archive => "archive",
            Self::Caches => "caches",
            Self::BindNow => "bind-now",
            Self::OneArena => "one-arena",
            Self::KeepHeap => "keep-heap",
            Self::HugeHeap => "huge-heap",
            Self::Image => "image",
            Self::Preload => "preload",
        }
    }

    /// What it changes, in one sentence.
    pub fn changes(self) -> &'static str {
        match self {
            Self::Pack => "relative relocations of ELF files go into packed tables (DT_RELR)",
            Self::Archive => "entries of zip archives that the start uses lie first, in the order of their use",
            Self::Caches => "caches are built of files that the start reads one by one",
            Self::BindNow => "functions of libraries are looked up while they are loaded, not at their first calls",
            Self::OneArena => "all threads take memory from one arena of glibc's allocator",
            Self::KeepHeap => "glibc's allocator takes memory in larger steps and keeps up to 256 MiB that are freed",
            Self::HugeHeap => "glibc's allocator asks for huge pages",
            Self::Image => "the program's directory is one compressed image in the order of its start",
            Self::Preload => "what the start needs is read before the program is started",
        }
    }

    /// Whether there are other files with it, which root lays over the originals for a measurement.
    pub fn changes_files(self) -> bool {
        matches!(self, Self::Pack | Self::Archive | Self::Caches | Self::Image)
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
