//! What was decided about a new file. Makes no decision: that is `plan`.

use crate::canvas::Fill;
use crate::dynamic::Entries;
use crate::image::Segment;
use crate::init::call::Initialiser;
use crate::layout::Load;
use crate::report::{DynamicPlace, HeaderSlot};
use std::ops::Range;

/// Whether what follows in the file may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// It moves up.
    Up,
    /// It stays where it is.
    Not,
}

/// Whether the dynamic section shall go to the front, read-only, although it need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// It shall, if there is room.
    Wanted,
    /// It stays writable.
    NotWanted,
}

/// One of the loader's tables, or a neighbour of the program headers, at its new address.
#[derive(Clone, Debug)]
pub struct Moved {
    pub name: String,
    /// Where its section was; none for a new one.
    pub from: Option<u64>,
    pub to: u64,
    pub len_before: u64,
    pub len: u64,
}

/// What was decided; only offsets in the file are open.
pub struct Draft {
    pub loads: Vec<Load>,
    /// The new program headers; offsets are open.
    pub headers: Vec<Segment>,
    pub slots: Vec<HeaderSlot>,
    /// New bytes, in the order in which they are put down.
    pub edits: Vec<(u64, Fill)>,
    pub moved: Vec<Moved>,
    /// Where the packed table is.
    pub relr: Range<u64>,
    pub dynamic_place: DynamicPlace,
    /// Addresses of the dynamic section, its spare entries included.
    pub dynamic: Range<u64>,
    pub entries: Entries,
    /// Addresses that nothing uses any more.
    pub freed: Range<u64>,
    /// What the loader protects after relocation.
    pub relro: Option<Range<u64>>,
    /// The code that applies the table, where the loader does not.
    pub initialiser: Option<Initialiser>,
}
