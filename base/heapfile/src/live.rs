//! The live blocks of a process by address, for those who read its events: the summary and the finished file ask the
//! same table.
//!
//! What blocks have in common is a class; a block is the number of its class and its own, eight bytes.

use crate::event::{Brief, Deed, ThreadId};
use crate::finished::predict::{Bucket, bucket, taken};
use crate::index::{self, Index};
use crate::near::Near;
use crate::stack::{End, Quick, StackId, Stacks};
use model::{Error, Exit};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::path::Path;

/// What blocks have in common.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Bytes that the program asked for, of one block.
    pub size: u64,
    /// How many blocks one stands for.
    pub count: u64,
    /// Usable size + 1; 0: unknown.
    pub usable: u64,
    /// Stack + 1; 0: none.
    stack: u32,
    /// What a block takes of the heap.
    pub taken: u64,
    /// Where the finished file looks for blocks of the heap like these.
    pub bucket: Bucket,
    /// How the outer end of the stack was reached.
    pub end: End,
    /// Whether frames are missing between others of it.
    pub skips: bool,
}

impl Class {
    /// Where they were made.
    #[inline]
    pub fn stack(&self) -> Option<StackId> {
        self.stack.checked_sub(1).map(StackId)
    }

    /// Bytes asked for, by all that one stands for.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count)
    }
}

/// A live block: how many blocks were made before it, and its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveId(u64);

/// Bits of a class. A class takes 40 bytes of memory, so there are never as many; nor as many blocks as the other bits
/// can tell.
const CLASS: u32 = 28;

impl LiveId {
    /// The number of its class.
    #[inline]
    pub fn class(self) -> u32 {
        (self.0 & ((1 << CLASS) - 1)) as u32
    }

    /// Blocks made until it was, itself among them.
    #[inline]
    pub fn serial(self) -> u64 {
        self.0 >> CLASS
    }
}

/// What an event did.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// A block was made, maybe where another one was live.
    Made {
        /// It.
        held: LiveId,
        /// What was live there.
        over: Option<LiveId>,
        /// Whether there is one like it.
        fresh: Fresh,
    },
    /// A block went.
    Went(LiveId),
    /// A block went that nobody made.
    Unknown,
    /// The block that `realloc` was about to replace came back, maybe where another one was live.
    Back {
        /// It.
        held: LiveId,
        /// What was live there.
        over: Option<LiveId>,
    },
    /// Nothing.
    Nothing,
}

/// Whether a class is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// It is the first block of its class.
    New,
    /// There was one before.
    Known,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Which it is.
    pub id: ThreadId,
    /// Whether it made a block.
    pub allocated: bool,
    /// What it called `realloc` with last.
    pub pending: Option<u64>,
    /// The same, if it was a block, until that came back.
    replaced: Option<(u64, LiveId)>,
}

/// The live blocks.
#[derive(Debug)]
pub struct Live {
    classes: Vec<Class>,
    index: Index,
    heap: Near<LiveId>,
    pools: Near<LiveId>,
    serial: u64,
    threads: Vec<Thread>,
    numbers: HashMap<ThreadId, usize, BuildHasherDefault<Quick>>,
    /// The thread of the last event.
    thread: usize,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            classes: Vec::new(),
            index: Index::default(),
            heap: Near::new(4),
            pools: Near::new(3),
            serial: 0,
            threads: Vec::new(),
            numbers: HashMap::default(),
            thread: 0,
        }
    }
}

/// A class as it is looked for: size, count, usable size + 1, stack + 1.
type Asked = (u64, u64, u64, u32);

fn asked(event: &Brief) -> Asked {
    (event.size, event.count.into(), event.usable, event.stack)
}

fn hash((size, count, usable, stack): Asked) -> u64 {
    index::hash(size ^ u64::from(stack) << 32, usable ^ count << 48)
}

/// A block is made; what was live where it is.
#[inline(always)]
fn came(blocks: &mut Near<LiveId>, serial: &mut u64, ptr: u64, class: u32) -> (LiveId, Option<LiveId>) {
    *serial += 1;
    let held = LiveId(*serial << CLASS | u64::from(class));
    (held, blocks.insert(ptr, held))
}

impl Live {
    /// Fetches what [`Self::enter`] will look for: the tables are larger than what is near the processor, and events
    /// are known ahead.
    pub fn prefetch(&self, events: &[Brief]) {
        if self.index.is_large() {
            let made = events.iter().filter(|event| event.deed.makes());
            made.for_each(|event| self.index.prefetch(hash(asked(event))));
        }
        // Pools are small beside the heap, and what is fetched in vain does no harm.
        if self.heap.is_large() {
            events.iter().for_each(|event| self.heap.prefetch(event.ptr));
            events.iter().for_each(|event| self.heap.fetch(event.ptr));
        }
    }

    /// Enters an event.
    #[inline(always)]
    pub fn enter(&mut self, event: &Brief, stacks: &Stacks) -> Effect {
        self.turn_to(event.thread);
        let ptr = event.ptr;
        match event.deed {
            Deed::PoolAlloc => {
                let (class, fresh) = self.class(asked(event), stacks);
                self.threads[self.thread].allocated = true;
                let (held, over) = came(&mut self.pools, &mut self.serial, ptr, class);
                Effect::Made { held, over, fresh }
            }
            deed if deed.makes() => {
                let (class, fresh) = self.class(asked(event), stacks);
                self.threads[self.thread].allocated = true;
                let (held, over) = came(&mut self.heap, &mut self.serial, ptr, class);
                Effect::Made { held, over, fresh }
            }
            Deed::Free => self.heap.remove(ptr).map_or(Effect::Unknown, Effect::Went),
            Deed::ReallocOld => {
                let held = self.heap.remove(ptr);
                let thread = &mut self.threads[self.thread];
                thread.pending = Some(ptr);
                thread.replaced = held.map(|held| (ptr, held)).or(thread.replaced);
                held.map_or(Effect::Unknown, Effect::Went)
            }
            Deed::PoolFree => self.pools.remove(ptr).map_or(Effect::Unknown, Effect::Went),
            Deed::Restored => {
                let replaced = self.threads[self.thread].replaced.take();
                match replaced.filter(|(old, _)| *old == ptr) {
                    Some((_, old)) => {
                        let (held, over) = came(&mut self.heap, &mut self.serial, ptr, old.class());
                        Effect::Back { held, over }
                    }
                    None => Effect::Nothing,
                }
            }
            _ => Effect::Nothing,
        }
    }

    #[inline(always)]
    fn turn_to(&mut self, thread: ThreadId) {
        if self.threads.get(self.thread).is_none_or(|last| last.id != thread) {
            self.turn_to_other(thread);
        }
    }

    #[inline(never)]
    fn turn_to_other(&mut self, thread: ThreadId) {
        let fresh = self.threads.len();
        self.thread = *self.numbers.entry(thread).or_insert(fresh);
        if self.thread == fresh {
            self.threads.push(Thread { id: thread, allocated: false, pending: None, replaced: None });
        }
    }

    fn class(&mut self, asked: Asked, stacks: &Stacks) -> (u32, Fresh) {
        let fresh = self.classes.len() as u32;
        let is = |number: u32| {
            let class = &self.classes[number as usize];
            (class.size, class.count, class.usable, class.stack) == asked
        };
        let number = self.index.find_or(hash(asked), fresh, is);
        if number != fresh {
            return (number, Fresh::Known);
        }
        let (size, count, usable, stack) = asked;
        let taken = taken(size, usable.checked_sub(1));
        let bucket = bucket(taken);
        let known = stack.checked_sub(1).map(StackId);
        let end = known.map_or(End::Root, |stack| stacks.ended(stack));
        let skips = known.is_some_and(|stack| stacks.skips(stack));
        self.classes.push(Class { size, count, usable, stack, taken, bucket, end, skips });
        (number, Fresh::New)
    }

    /// Whether there were more blocks or classes than can be told apart: then nothing that was said holds.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.serial >> (64 - CLASS) != 0 || self.classes.len() >> CLASS != 0
    }

    /// What is to be said if it is.
    pub fn full(&self, file: &Path) -> Error {
        let why = format!("it has more than {} blocks, or {} kinds of them", u64::MAX >> CLASS, 1 << CLASS);
        Error::on(Exit::Machine, "cannot add up the events of a stream", file).because(why)
    }

    /// A class.
    #[inline]
    pub fn class_of(&self, held: LiveId) -> &Class {
        &self.classes[held.class() as usize]
    }

    /// Blocks made so far.
    #[inline]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The number of the thread of the last event.
    #[inline]
    pub fn turned(&self) -> usize {
        self.thread
    }

    /// The thread of the last event, and its number: threads are numbered as they come.
    #[inline]
    pub fn thread(&self) -> (usize, &Thread) {
        (self.thread, &self.threads[self.thread])
    }

    /// All threads.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The blocks of the heap that are live now, in no order.
    pub fn held(&self) -> impl Iterator<Item = LiveId> {
        self.held_at().map(|(_, held)| held)
    }

    /// The same with their addresses.
    pub fn held_at(&self) -> impl Iterator<Item = (u64, LiveId)> {
        self.heap.entries().map(|(ptr, held)| (ptr, *held))
    }
}
