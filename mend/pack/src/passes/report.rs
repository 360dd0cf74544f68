//! What passes have to say, without logic. Text and JSON are made from these values.

use serde::{Deserialize, Serialize};

/// A rewrite beside packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// Fills the last page of data in the file, so that .bss begins with a page of its own and the loader need not read
    /// that page to clear its end.
    AlignBss,
    /// Moves the dynamic section to the front of the file, next to the headers that the loader reads first.
    DynamicFirst,
    /// Reverses .ctors and .dtors, which run from their end to their beginning, so that constructors run in the order
    /// of their addresses.
    Ctors,
    /// Lets vtable slots of pure virtual functions point to a trapping instruction in the file itself instead of
    /// `__cxa_pure_virtual`, which the loader has to look up for each.
    PureVirtual,
    /// Turns relocations against symbols that the file itself defines into relative ones, where a closed set of files
    /// proves that the loader would find no other definition.
    Symbolic,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Which rewrite it speaks of.
    pub pass: Pass,
    /// Whether it was done, and if not, why.
    pub outcome: Outcome,
    /// What was left as it is, and why; the most frequent reason first.
    pub withheld: Vec<Withheld>,
}

/// See [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was done.
    Done {
        /// What that saves.
        saves: Worth,
        /// One sentence.
        sentence: String,
    },
    /// It costs more than it saves here: nothing was changed.
    CostsMore {
        /// What it would save.
        saves: Worth,
        /// What it would cost.
        costs: Worth,
        /// One sentence.
        sentence: String,
    },
    /// It cannot be done, or there is nothing to do: nothing was changed.
    NotDone {
        /// One sentence.
        sentence: String,
    },
}

/// What is saved or spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worth {
    /// Relocations for which the loader looks up a symbol.
    pub lookups: u64,
    /// Pages of 4 KiB that a start reads or copies.
    pub pages: u64,
    /// Steps backwards from page to page, which read-ahead does not foresee.
    pub steps_back: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Relocations that a pass left as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// What kept these from being changed.
    pub why: Hindrance,
    /// How many relocations or slots it kept.
    pub count: u64,
    /// The first of them, by address.
    pub example: Example,
}

/// A symbol, and the file because of which its relocations stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Its name, as linked.
    pub symbol: String,
    /// The other file, where there is one.
    pub file: Option<String>,
}

/// Why a relocation stays symbolic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hindrance {
    /// Another file defines the symbol too, and may come first.
    DefinedElsewhere,
    /// A program copies the data (R_*_COPY): its copy is the one that counts.
    Copied,
    /// A program at a fixed address stands in for the function's address with an entry of its PLT.
    AddressInProgram,
    /// The symbol is unique in the process (STB_GNU_UNIQUE): a library that is loaded later may bring the first one.
    Unique,
    /// Type information that every library that uses the type may bring along, and a library from outside the closed
    /// set may be loaded later.
    TypeInformation,
    /// An allocator's function, which tools and other allocators replace by LD_PRELOAD.
    Allocator,
    /// A function that is chosen when the program starts (STT_GNU_IFUNC).
    Indirect,
    /// A number, not an address.
    Absolute,
    /// The file has several versions of it.
    SeveralVersions,
    /// A type of relocation that is not rewritten.
    OtherType,
    /// The word, or the symbol's place, is not in the file.
    NotInFile,
}
