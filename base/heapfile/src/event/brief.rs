//! An event in one line of the processor's cache: what passes in great numbers from the lanes of a stream to the sums
//! and the finished file.

use super::{Event, Freer, Maker, MapFlags, Pointer, ThreadId, What};
use crate::stack::StackId;
use model::{Bytes, Nanos};

/// What happened, alone. Those that make a block come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// `malloc`.
    Malloc,
    /// `calloc`.
    Calloc,
    /// A function that aligns.
    Aligned,
    /// `operator new`.
    New,
    /// `realloc` of a null pointer.
    ReallocNull,
    /// `realloc` of a block.
    Realloc,
    /// A block of a pool is made.
    PoolAlloc,
    /// A block goes.
    Free,
    /// A block that `realloc` is about to replace.
    ReallocOld,
    /// A block of a pool goes.
    PoolFree,
    /// The block that `realloc` was about to replace is still there.
    Restored,
    /// Memory is mapped.
    Map,
    /// Memory is unmapped.
    Unmap,
    /// The process was forked.
    Fork,
    /// A thread begins.
    ThreadBegins,
    /// A thread has a name.
    ThreadNamed,
}

/// An event; its fields are those of [`What`].
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    /// Time stamp counter.
    pub ticks: u64,
    /// Address of the block or mapping.
    pub ptr: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Usable size + 1; 0: unknown.
    pub usable: u64,
    /// The block that [`Deed::Realloc`] replaces.
    pub replaces: u64,
    /// How many blocks it stands for: never more than [`super::SAMPLE_MAX`] and one.
    pub count: u32,
    /// Whose it is.
    pub thread: ThreadId,
    /// Number of the stack + 1; 0: none.
    pub stack: u32,
    /// What happened.
    pub deed: Deed,
    /// Log2 of the alignment (64 and more: none), flags of a mapping.
    pub extra: u8,
}

impl Deed {
    /// Whether a block is made.
    #[inline]
    pub fn makes(self) -> bool {
        self <= Self::PoolAlloc
    }
}

impl Brief {
    /// An event that is about no memory.
    pub fn rare(deed: Deed, ticks: u64, thread: ThreadId) -> Self {
        Self { ticks, ptr: 0, size: 0, usable: 0, replaces: 0, count: 1, thread, stack: 0, deed, extra: 0 }
    }

    /// The same event.
    pub fn of(event: &Event) -> Self {
        let mut brief = Self::rare(Deed::Fork, event.ticks, event.thread);
        // There are never as many stacks as numbers.
        brief.stack = event.stack.map_or(0, |stack| stack.0.saturating_add(1));
        match event.what {
            What::Alloc { ptr, size, maker, usable, count } => {
                (brief.ptr, brief.size) = (ptr.0, size);
                brief.count = u32::try_from(count).unwrap_or(u32::MAX);
                brief.usable = usable.map_or(0, |usable| usable.0.wrapping_add(1));
                brief.deed = match maker {
                    Maker::Malloc => Deed::Malloc,
                    Maker::Calloc => Deed::Calloc,
                    Maker::Aligned(0) => {
                        brief.extra = u8::MAX;
                        Deed::Aligned
                    }
                    Maker::Aligned(alignment) => {
                        brief.extra = alignment.trailing_zeros() as u8;
                        Deed::Aligned
                    }
                    Maker::New => Deed::New,
                    Maker::Realloc(None) => Deed::ReallocNull,
                    Maker::Realloc(Some(old)) => {
                        brief.replaces = old.0;
                        Deed::Realloc
                    }
                    Maker::Pool => Deed::PoolAlloc,
                };
            }
            What::Free { ptr, by } => {
                brief.ptr = ptr.0;
                brief.deed = match by {
                    Freer::Free => Deed::Free,
                    Freer::Realloc => Deed::ReallocOld,
                    Freer::Pool => Deed::PoolFree,
                };
            }
            What::Restored { ptr } => (brief.ptr, brief.deed) = (ptr.0, Deed::Restored),
            What::Map { at, size, flags } => {
                (brief.ptr, brief.size, brief.extra, brief.deed) = (at.0, size, flags.0, Deed::Map);
            }
            What::Unmap { at, size } => (brief.ptr, brief.size, brief.deed) = (at.0, size, Deed::Unmap),
            What::Fork => {}
            What::ThreadBegins => brief.deed = Deed::ThreadBegins,
            What::ThreadNamed => brief.deed = Deed::ThreadNamed,
        }
        brief
    }

    /// The stack that was taken, if one was.
    #[inline]
    pub fn stack(&self) -> Option<StackId> {
        self.stack.checked_sub(1).map(StackId)
    }

    /// The same event, which was `at` this time.
    pub fn event(&self, at: Nanos) -> Event {
        let ptr = Pointer(self.ptr);
        let made = |maker| What::Alloc {
            ptr,
            size: self.size,
            maker,
            usable: self.usable.checked_sub(1).map(Bytes),
            count: self.count.into(),
        };
        let what = match self.deed {
            Deed::Malloc => made(Maker::Malloc),
            Deed::Calloc => made(Maker::Calloc),
            Deed::Aligned => made(Maker::Aligned(1u64.checked_shl(self.extra.into()).unwrap_or(0))),
            Deed::New => made(Maker::New),
            Deed::ReallocNull => made(Maker::Realloc(None)),
            Deed::Realloc => made(Maker::Realloc(Some(Pointer(self.replaces)))),
            Deed::PoolAlloc => made(Maker::Pool),
            Deed::Free => What::Free { ptr, by: Freer::Free },
            Deed::ReallocOld => What::Free { ptr, by: Freer::Realloc },
            Deed::PoolFree => What::Free { ptr, by: Freer::Pool },
            Deed::Restored => What::Restored { ptr },
            Deed::Map => What::Map { at: ptr, size: self.size, flags: MapFlags(self.extra) },
            Deed::Unmap => What::Unmap { at: ptr, size: self.size },
            Deed::Fork => What::Fork,
            Deed::ThreadBegins => What::ThreadBegins,
            Deed::ThreadNamed => What::ThreadNamed,
        };
        Event { at, ticks: self.ticks, thread: self.thread, stack: self.stack(), what }
    }
}
