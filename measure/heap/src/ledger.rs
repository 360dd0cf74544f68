//! Following the events of a process: what is live, what it adds up to, and whether it can be true.

use crate::stack::{Quick, StackId};
use crate::stream::{Event, Freer, Maker, Origin, Pointer, ThreadId, What};
use model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes asked for.
    pub size: u64,
    /// Where it was made.
    pub stack: Option<StackId>,
    /// When.
    pub at: Nanos,
    /// By whom.
    pub thread: ThreadId,
    /// By which function.
    pub maker: Maker,
    /// Bytes that the allocator gave, where that is known.
    pub usable: Option<Bytes>,
    /// How many blocks like this one it stands for.
    pub count: u64,
}

impl Block {
    /// The one that an event makes.
    pub fn made_by(event: &Event) -> Option<Self> {
        let What::Alloc { size, maker, usable, count, .. } = event.what else { return None };
        Some(Self { size, stack: event.stack, at: event.at, thread: event.thread, maker, usable, count })
    }

    /// Bytes asked for, by all that it stands for.
    pub fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count)
    }
}

/// What books keep of a block.
pub trait Kept: Copy {
    /// Where.
    type Table: Table<Self>;
    /// Of the one that an event makes.
    fn made_by(event: &Event) -> Option<Self>;
    /// How many blocks it stands for.
    fn count(&self) -> u64;
    /// Bytes asked for, by all of them.
    fn bytes(&self) -> u64;
}

/// Blocks by address.
pub trait Table<B>: Default {
    /// Enters one; what was there before.
    fn insert(&mut self, ptr: Pointer, block: B) -> Option<B>;
    /// Takes one out.
    fn remove(&mut self, ptr: Pointer) -> Option<B>;
}

type Blocks = HashMap<Pointer, Block, BuildHasherDefault<Quick>>;

impl Kept for Block {
    type Table = Blocks;
    fn made_by(event: &Event) -> Option<Self> {
        Self::made_by(event)
    }
    fn count(&self) -> u64 {
        self.count
    }
    fn bytes(&self) -> u64 {
        self.bytes()
    }
}

impl Table<Block> for Blocks {
    fn insert(&mut self, ptr: Pointer, block: Block) -> Option<Block> {
        self.insert(ptr, block)
    }
    fn remove(&mut self, ptr: Pointer) -> Option<Block> {
        self.remove(&ptr)
    }
}

/// What an event cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconsistency {
    /// A block was made where one is live: a free was missed.
    AllocOverLive,
    /// A block was freed that nobody made: an allocation was missed, or the program frees twice.
    FreeOfUnknown,
}

/// What an event did to the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<B = Block> {
    /// A block came.
    Came(Pointer, B),
    /// A block went.
    Went(Pointer, B),
    /// A pool of the program handed a block out. It lies in another block, maybe at its very beginning, and is counted apart.
    PoolCame(Pointer, B),
    /// It came back.
    PoolWent(Pointer, B),
    /// Nothing: no heap event, or the block of a parent or of the time before.
    Nothing,
    /// It cannot be.
    Wrong(Inconsistency),
}

/// The books of one process.
#[derive(Debug)]
pub struct Ledger<B: Kept = Block> {
    live: B::Table,
    /// Blocks of pools: they lie in blocks of the heap.
    pooled: B::Table,
    /// By thread: what `realloc` is about to replace.
    replaced: HashMap<ThreadId, (Pointer, B), BuildHasherDefault<Quick>>,
    /// Blocks may have been made before the stream began.
    inherits: bool,
    totals: Totals,
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
    /// Blocks live now.
    pub live_blocks: u64,
    /// Bytes live now.
    pub live: Bytes,
    /// Most bytes live at a time.
    pub peak: Bytes,
    /// When.
    pub peak_at: Nanos,
    /// Blocks of the parent, or from before the recording, that were given back.
    pub inherited_frees: u64,
    /// Blocks that pools of the program handed out.
    pub pool_allocations: u64,
    /// Their bytes.
    pub pool_allocated: Bytes,
    /// Mappings that are no heap.
    pub maps: u64,
    /// Their bytes.
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
}

impl Ledger {
    /// Empty books for a process of this origin.
    pub fn new(origin: Origin) -> Self {
        Self::keeping(origin)
    }

    /// Blocks of pools that are handed out now, in no order.
    pub fn pooled(&self) -> impl Iterator<Item = (Pointer, &Block)> {
        self.pooled.iter().map(|(ptr, block)| (*ptr, block))
    }

    /// The live block at whose address this event, not yet entered, makes one: a free was missed.
    pub fn covered_by(&self, event: &Event) -> Option<Block> {
        match event.what {
            What::Alloc { ptr, maker, .. } if maker != Maker::Pool => self.live.get(&ptr).copied(),
            _ => None,
        }
    }

    /// Whether a block is live here.
    pub fn holds(&self, ptr: Pointer) -> bool {
        self.live.contains_key(&ptr)
    }

    /// Whether blocks may have been made before the stream began.
    pub fn inherits(&self) -> bool {
        self.inherits
    }

    /// What is live now, in no order: after the last event, what leaked.
    pub fn live(&self) -> impl Iterator<Item = (Pointer, &Block)> {
        self.live.iter().map(|(ptr, block)| (*ptr, block))
    }
}

impl<B: Kept> Ledger<B> {
    /// Empty books that keep `B` of each block, for a process of this origin.
    pub(crate) fn keeping(origin: Origin) -> Self {
        Self {
            live: B::Table::default(),
            pooled: B::Table::default(),
            replaced: HashMap::default(),
            inherits: origin != Origin::Exec,
            totals: Totals::default(),
        }
    }

    /// Enters an event.
    pub fn enter(&mut self, event: &Event) -> Change<B> {
        match event.what {
            What::Alloc { ptr, size, maker, count, .. } => {
                let Some(block) = B::made_by(event) else { return Change::Nothing };
                if maker == Maker::Pool {
                    self.totals.pool_allocations += 1;
                    self.totals.pool_allocated += Bytes(size);
                    self.pooled.insert(ptr, block);
                    return Change::PoolCame(ptr, block);
                }
                let if_so = |so: bool| if so { count } else { 0 };
                self.totals.reallocs =
                    self.totals.reallocs.saturating_add(if_so(matches!(maker, Maker::Realloc(Some(_)))));
                self.totals.without_stack = self.totals.without_stack.saturating_add(if_so(event.stack.is_none()));
                self.totals.allocations = self.totals.allocations.saturating_add(count);
                self.totals.allocated = Bytes(self.totals.allocated.0.saturating_add(block.bytes()));
                self.came(ptr, block, event.at)
            }
            What::Free { ptr, by: Freer::Pool } => {
                self.pooled.remove(ptr).map_or(Change::Nothing, |block| Change::PoolWent(ptr, block))
            }
            What::Free { ptr, by } => {
                let Some(block) = self.went(ptr) else {
                    if self.inherits {
                        self.totals.inherited_frees += 1;
                        return Change::Nothing;
                    }
                    self.totals.frees_of_unknown += 1;
                    return Change::Wrong(Inconsistency::FreeOfUnknown);
                };
                self.totals.frees = self.totals.frees.saturating_add(block.count());
                if by == Freer::Realloc {
                    self.replaced.insert(event.thread, (ptr, block));
                }
                Change::Went(ptr, block)
            }
            What::Restored { ptr } => match self.replaced.remove(&event.thread).filter(|(old, _)| *old == ptr) {
                Some((_, block)) => {
                    self.totals.frees = self.totals.frees.saturating_sub(block.count());
                    self.came(ptr, block, event.at)
                }
                None => Change::Nothing,
            },
            What::Map { size, .. } => {
                self.totals.maps += 1;
                self.totals.mapped += Bytes(size);
                Change::Nothing
            }
            What::Unmap { .. } | What::Fork | What::ThreadBegins | What::ThreadNamed => Change::Nothing,
        }
    }

    fn came(&mut self, ptr: Pointer, block: B, at: Nanos) -> Change<B> {
        let over = self.live.insert(ptr, block);
        if let Some(over) = over {
            self.gone(&over);
        }
        self.totals.live_blocks = self.totals.live_blocks.saturating_add(block.count());
        self.totals.live = Bytes(self.totals.live.0.saturating_add(block.bytes()));
        if self.totals.live > self.totals.peak {
            (self.totals.peak, self.totals.peak_at) = (self.totals.live, at);
        }
        if over.is_some() {
            self.totals.allocs_over_live += 1;
            return Change::Wrong(Inconsistency::AllocOverLive);
        }
        Change::Came(ptr, block)
    }

    fn went(&mut self, ptr: Pointer) -> Option<B> {
        let block = self.live.remove(ptr)?;
        self.gone(&block);
        Some(block)
    }

    fn gone(&mut self, block: &B) {
        self.totals.live_blocks = self.totals.live_blocks.saturating_sub(block.count());
        self.totals.live = Bytes(self.totals.live.0.saturating_sub(block.bytes()));
    }

    /// The sums so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Where the live blocks are.
    pub(crate) fn table(&self) -> &B::Table {
        &self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: What) -> Event {
        Event { at: Nanos(7), ticks: 7, thread: ThreadId(1), stack: None, what }
    }

    fn alloc(ptr: u64, size: u64, maker: Maker) -> Event {
        event(What::Alloc { ptr: Pointer(ptr), size, maker, usable: None, count: 1 })
    }

    fn free(ptr: u64, by: Freer) -> Event {
        event(What::Free { ptr: Pointer(ptr), by })
    }

    #[test]
    fn a_failed_realloc_changes_nothing() {
        let mut ledger = Ledger::new(Origin::Exec);
        ledger.enter(&alloc(16, 100, Maker::Malloc));
        ledger.enter(&free(16, Freer::Realloc));
        ledger.enter(&event(What::Restored { ptr: Pointer(16) }));
        let totals = *ledger.totals();
        assert_eq!((totals.live, totals.live_blocks, totals.frees, totals.peak), (Bytes(100), 1, 0, Bytes(100)));
        ledger.enter(&free(16, Freer::Realloc));
        ledger.enter(&alloc(32, 300, Maker::Realloc(Some(Pointer(16)))));
        assert_eq!((ledger.totals().live, ledger.totals().reallocs), (Bytes(300), 1));
    }

    #[test]
    fn a_pool_lies_in_the_heap_and_is_counted_apart() {
        let mut ledger = Ledger::new(Origin::Exec);
        ledger.enter(&alloc(16, 4096, Maker::Malloc));
        assert!(matches!(ledger.enter(&alloc(16, 64, Maker::Pool)), Change::PoolCame(..)));
        assert_eq!((ledger.totals().live, ledger.totals().inconsistencies()), (Bytes(4096), 0));
        assert_eq!(ledger.pooled().count(), 1);
        assert!(matches!(ledger.enter(&free(16, Freer::Pool)), Change::PoolWent(..)));
        assert_eq!((ledger.pooled().count(), ledger.totals().live_blocks, ledger.totals().pool_allocations), (0, 1, 1));
    }

    #[test]
    fn what_cannot_be_is_counted() {
        let mut ledger = Ledger::new(Origin::Exec);
        ledger.enter(&alloc(16, 100, Maker::Malloc));
        assert_eq!(ledger.enter(&alloc(16, 50, Maker::Malloc)), Change::Wrong(Inconsistency::AllocOverLive));
        assert_eq!(ledger.enter(&free(64, Freer::Free)), Change::Wrong(Inconsistency::FreeOfUnknown));
        assert_eq!((ledger.totals().inconsistencies(), ledger.totals().live), (2, Bytes(50)));
        let mut child = Ledger::new(Origin::Fork);
        assert_eq!(child.enter(&free(64, Freer::Free)), Change::Nothing);
        assert_eq!((child.totals().inherited_frees, child.totals().inconsistencies()), (1, 0));
    }
}
