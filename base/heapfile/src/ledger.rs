//! Following the events of a process: what is live, what it adds up to, and whether it can be true.

pub use crate::figures::Totals;

use crate::event::{Event, Freer, Maker, Origin, Pointer, ThreadId, What};
use crate::figures::Held;
use crate::stack::{Quick, StackId};
use model::{Bytes, Nanos};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes that the program asked for.
    pub size: u64,
    /// The stack that made it; `None`: none was taken.
    pub stack: Option<StackId>,
    /// When it was made, since the process began.
    pub at: Nanos,
    /// The thread that made it.
    pub thread: ThreadId,
    /// The function of the allocator that made it.
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

    /// It, as a figure.
    pub fn held(&self) -> Held {
        Held { bytes: self.bytes(), blocks: self.count }
    }
}

type ByAddress = HashMap<Pointer, Block, BuildHasherDefault<Quick>>;

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
pub enum Change {
    /// A block came.
    Came(Pointer, Block),
    /// A block went.
    Went(Pointer, Block),
    /// A pool of the program handed a block out. It lies in another block, maybe at its very beginning, and is counted
    /// apart.
    PoolCame(Pointer, Block),
    /// A block of a pool came back to the pool.
    PoolWent(Pointer, Block),
    /// Nothing: no heap event, or the block of a parent or of the time before.
    Nothing,
    /// Something that cannot be, if nothing is missing.
    Wrong(Inconsistency),
}

/// The books of one process.
#[derive(Debug)]
pub struct Ledger {
    live: ByAddress,
    /// Blocks of pools: they lie in blocks of the heap.
    pooled: ByAddress,
    /// By thread: what `realloc` is about to replace.
    replaced: HashMap<ThreadId, (Pointer, Block), BuildHasherDefault<Quick>>,
    /// Blocks may have been made before the stream began.
    inherits: bool,
    totals: Totals,
}

impl Ledger {
    /// Empty books for a process of this origin.
    pub fn new(origin: Origin) -> Self {
        Self {
            live: ByAddress::default(),
            pooled: ByAddress::default(),
            replaced: HashMap::default(),
            inherits: origin != Origin::Exec,
            totals: Totals::default(),
        }
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

    /// The block that is live here.
    pub fn at(&self, ptr: Pointer) -> Option<Block> {
        self.live.get(&ptr).copied()
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

    /// Enters an event.
    pub fn enter(&mut self, event: &Event) -> Change {
        match event.what {
            What::Alloc { ptr, size, maker, count, .. } => {
                let Some(block) = Block::made_by(event) else { return Change::Nothing };
                if maker == Maker::Pool {
                    self.totals.pool_made(size);
                    self.pooled.insert(ptr, block);
                    return Change::PoolCame(ptr, block);
                }
                if matches!(maker, Maker::Realloc(Some(_))) {
                    self.totals.replaced(count);
                }
                self.totals.made(event.stack, count, block.bytes());
                self.came(ptr, block, event.at)
            }
            What::Free { ptr, by: Freer::Pool } => {
                self.pooled.remove(&ptr).map_or(Change::Nothing, |block| Change::PoolWent(ptr, block))
            }
            What::Free { ptr, by } => {
                let Some(block) = self.live.remove(&ptr) else {
                    self.totals.unknown(self.inherits);
                    if self.inherits {
                        return Change::Nothing;
                    }
                    return Change::Wrong(Inconsistency::FreeOfUnknown);
                };
                self.totals.freed(block.count, block.bytes());
                if by == Freer::Realloc {
                    self.replaced.insert(event.thread, (ptr, block));
                }
                Change::Went(ptr, block)
            }
            What::Restored { ptr } => match self.replaced.remove(&event.thread).filter(|(old, _)| *old == ptr) {
                Some((_, block)) => {
                    self.totals.back(block.count);
                    self.came(ptr, block, event.at)
                }
                None => Change::Nothing,
            },
            What::Map { size, .. } => {
                self.totals.mapped(size);
                Change::Nothing
            }
            What::Unmap { .. } | What::Fork | What::ThreadBegins | What::ThreadNamed => Change::Nothing,
        }
    }

    fn came(&mut self, ptr: Pointer, block: Block, at: Nanos) -> Change {
        let over = self.live.insert(ptr, block);
        if self.totals.came((block.count, block.bytes()), over.map(|over| (over.count, over.bytes()))) {
            self.totals.peak_at = at;
        }
        if over.is_some() { Change::Wrong(Inconsistency::AllocOverLive) } else { Change::Came(ptr, block) }
    }

    /// The sums so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
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
