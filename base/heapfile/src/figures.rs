//! Figures: what blocks add up to, by site, over time and for a whole process. Not for how they are found:
//! `books` does that from events.

mod reached;
mod timeline;

pub use reached::{Reach, Reached};
pub use timeline::{Point, Timeline};

use crate::stack::{End, StackId};
use model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Held {
    /// Bytes that the program asked for.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    /// Adds others.
    /// More of it, at most as much as the numbers hold.
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }

    /// Less of it, at least nothing.
    #[inline]
    pub fn remove(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.blocks = self.blocks.saturating_sub(other.blocks);
    }
}

/// What the blocks of one site add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Figures {
    /// Blocks made in the window.
    pub made: Held,
    /// Of these, live at the window's end.
    pub end: Held,
    /// Of these, live when the process had the most bytes live.
    pub peak: Held,
    /// Most bytes of this site live at a time, and how many blocks these were.
    pub max: Held,
    /// Of those made, freed by their thread's next event: they were needed for nothing else.
    pub temporary: Held,
    /// Of those made, freed by another thread than their maker.
    pub handed_over: Held,
    /// Sum over the blocks made: from making to freeing, or to the window's end.
    pub lifetime_ns: Nanos,
    /// Of those live at the end, what a leak check knew. Not in files of sums.
    #[serde(default, skip_serializing_if = "Reached::is_empty")]
    #[cfg_attr(feature = "ts", ts(optional, as = "Option<Reached>"))]
    pub reached: Reached,
}

impl Figures {
    /// Adds those of other blocks. The most bytes at a time become an upper bound.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.made.add(other.made);
        self.end.add(other.end);
        self.peak.add(other.peak);
        self.max.add(other.max);
        self.temporary.add(other.temporary);
        self.handed_over.add(other.handed_over);
        self.lives(other.lifetime_ns, 1);
        self.reached.add(&other.reached);
    }

    /// So many blocks lived for so long each.
    pub fn lives(&mut self, time: Nanos, blocks: u64) {
        self.lifetime_ns = Nanos(self.lifetime_ns.0.saturating_add(time.0.saturating_mul(blocks)));
    }
}

/// Which of the figures is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// All blocks made.
    Made,
    /// Those live at the end of the window.
    End,
    /// Those live at the peak.
    Peak,
    /// Temporary ones.
    Temporary,
    /// Those live at the end of a kind that a leak check knew.
    #[serde(untagged)]
    Reached(Reach),
}

impl Measure {
    /// It, of these figures.
    pub fn of(self, figures: &Figures) -> Held {
        match self {
            Self::Made => figures.made,
            Self::End => figures.end,
            Self::Peak => figures.peak,
            Self::Temporary => figures.temporary,
            Self::Reached(reach) => figures.reached.of(reach),
        }
    }
}

/// A part of the time of a recording, counted from its beginning. Only blocks made in it are counted; what is live is
/// so at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Window {
    /// First moment.
    pub since_ns: Nanos,
    /// Last moment; `None`: the end of the recording.
    pub until_ns: Option<Nanos>,
}

/// What makes two blocks of one stack different sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nothing.
    Stack,
    /// The thread that made them.
    Thread,
    /// Their size, and what the allocator gave for it.
    Size,
}

/// Blocks that were made by the same stack (and thread, or size: see [`Split`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Where they were made; `None`: no stack was taken.
    pub stack: Option<StackId>,
    /// Thread or size.
    pub part: u64,
    /// Split by size: what the allocator gave for it, if that was recorded.
    pub usable: Option<Bytes>,
    /// What they add up to.
    pub figures: Figures,
    /// How many peaks there had been when the site changed last.
    #[serde(skip)]
    pub seen: u64,
}

/// Sums over the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Blocks made.
    pub allocations: u64,
    /// Blocks given back, also by `realloc`.
    pub frees: u64,
    /// Calls of `realloc` that replaced a block.
    pub reallocs: u64,
    /// Bytes asked for, all blocks.
    pub allocated: Bytes,
    /// Blocks live after the last event.
    pub live_blocks: u64,
    /// Bytes live after the last event.
    pub live: Bytes,
    /// Most bytes live at a time.
    pub peak: Bytes,
    /// When that was, since the process began.
    pub peak_at: Nanos,
    /// Blocks of the parent, or from before the recording, that were given back.
    pub inherited_frees: u64,
    /// Blocks that pools of the program handed out.
    pub pool_allocations: u64,
    /// Bytes of these blocks.
    pub pool_allocated: Bytes,
    /// Mappings that are no heap.
    pub maps: u64,
    /// Bytes of these mappings.
    pub mapped: Bytes,
    /// Blocks made where one was live.
    pub allocs_over_live: u64,
    /// Frees of blocks that nobody made.
    pub frees_of_unknown: u64,
    /// Allocations without a stack.
    pub without_stack: u64,
}

impl Totals {
    /// Events that cannot be.
    pub fn inconsistencies(&self) -> u64 {
        self.allocs_over_live + self.frees_of_unknown
    }

    /// A block of the heap was made: `count` of them, `bytes` in all.
    #[inline]
    pub fn made(&mut self, stack: Option<StackId>, count: u64, bytes: u64) {
        if stack.is_none() {
            self.without_stack = self.without_stack.saturating_add(count);
        }
        self.allocations = self.allocations.saturating_add(count);
        self.allocated = Bytes(self.allocated.0.saturating_add(bytes));
    }

    /// Blocks were made by `realloc`, in the place of others.
    pub fn replaced(&mut self, count: u64) {
        self.reallocs = self.reallocs.saturating_add(count);
    }

    /// Blocks are live from now on, count and bytes; `over` were live where they are. Whether that is more than ever:
    /// then `peak_at` is now.
    #[must_use]
    #[inline]
    pub fn came(&mut self, (count, bytes): (u64, u64), over: Option<(u64, u64)>) -> bool {
        if let Some((count, bytes)) = over {
            self.went(count, bytes);
            self.allocs_over_live += 1;
        }
        self.live_blocks = self.live_blocks.saturating_add(count);
        self.live = Bytes(self.live.0.saturating_add(bytes));
        let more = self.live > self.peak;
        self.peak = self.peak.max(self.live);
        more
    }

    fn went(&mut self, count: u64, bytes: u64) {
        self.live_blocks = self.live_blocks.saturating_sub(count);
        self.live = Bytes(self.live.0.saturating_sub(bytes));
    }

    /// Blocks were given back.
    #[inline]
    pub fn freed(&mut self, count: u64, bytes: u64) {
        self.went(count, bytes);
        self.frees = self.frees.saturating_add(count);
    }

    /// Blocks were not given back after all.
    pub fn back(&mut self, count: u64) {
        self.frees = self.frees.saturating_sub(count);
    }

    /// A block was given back that nobody made; that can be where blocks are inherited.
    pub fn unknown(&mut self, inherits: bool) {
        if inherits {
            self.inherited_frees += 1;
        } else {
            self.frees_of_unknown += 1;
        }
    }

    /// A pool handed a block out.
    pub(crate) fn pool_made(&mut self, size: u64) {
        self.pool_allocations += 1;
        self.pool_allocated = Bytes(self.pool_allocated.0.saturating_add(size));
    }

    /// Memory that is no heap came.
    pub fn mapped(&mut self, size: u64) {
        self.maps += 1;
        self.mapped = Bytes(self.mapped.0.saturating_add(size));
    }
}

/// Allocations whose stacks lack frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingFrames {
    /// At their outer ends.
    pub cut: u64,
    /// Of these, because they are deeper than was asked for.
    pub deep: u64,
    /// Between others.
    pub skipped: u64,
}

impl MissingFrames {
    /// So many allocations with a stack that ended so.
    #[inline]
    pub fn add(&mut self, end: End, skips: bool, count: u64) {
        let add = |sum: &mut u64, is| *sum = sum.saturating_add(if is { count } else { 0 });
        add(&mut self.cut, end != End::Root);
        add(&mut self.deep, end == End::DepthLimit);
        add(&mut self.skipped, skips);
    }
}
