//! What writer and reader of a finished recording both know, so that an address or a block is mostly told by a small
//! number.
//!
//! Allocators hand out what came back last, of the same size, or the next bytes of a region. So an address is told as
//! its place among the last blocks of its size that its thread gave back, or as the end of the last block that was none
//! of these; only what is neither is written down. A block that goes is told by the number of younger live blocks of
//! its thread, or by how much later it was made than the last one that its thread gave back.
//!
//! Nothing here depends on the allocator: where it does otherwise, the file is larger.

/// What is kept by thread is kept for so many; further ones share with these.
const THREADS: usize = 64;
/// Blocks that came back, remembered for each thread and bucket.
const RING: usize = 32;
/// How many of these are searched.
const DEPTH: usize = 24;
/// Buckets of sizes below 16 KiB are 16 bytes wide.
const FINE: u64 = 1024;
/// All buckets: the fine ones, and four for each doubling.
const BUCKETS: usize = FINE as usize + 4 * 64;

/// How an address is told: below [`DEPTH`], its place among the last blocks of its bucket.
pub mod told {
    /// Where the block was that `realloc` replaces.
    pub const SAME_PLACE: u8 = 29;
    /// Behind the last block that was no reuse.
    pub const NEXT: u8 = 30;
    /// Behind the last such block of the bucket.
    pub const NEXT_OF_BUCKET: u8 = 31;
    /// That and a place: among the last blocks of the bucket that any thread gave back.
    pub const SHARED: u8 = 64;
    /// As a difference to [`NEXT`].
    pub const BY_DIFFERENCE: u8 = 255;
}

/// Blocks of about this size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket(pub u16);

impl Bucket {
    /// That of blocks of the same size of an owner.
    pub fn of(self, owner: Owner) -> Self {
        if owner == Owner::Pool { Self(self.0 + BUCKETS as u16) } else { self }
    }
}

/// Whose blocks: pools hand out parts of blocks of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The allocator.
    Heap,
    /// A pool of the program.
    Pool,
}

/// What a block takes, as far as that can be known: the usable size and a word, else the rule of glibc.
pub fn taken(size: u64, usable: Option<u64>) -> u64 {
    let bytes = usable.unwrap_or(size).saturating_add(8 + 15) & !15;
    bytes.max(32)
}

/// The bucket of blocks of the heap that take so many bytes.
pub fn bucket(taken: u64) -> Bucket {
    let sixteenths = taken / 16;
    let index = if sixteenths < FINE {
        sixteenths as usize
    } else {
        let log = sixteenths.ilog2();
        FINE as usize + 4 * log as usize + (sixteenths >> (log - 2) & 3) as usize
    };
    Bucket(index.min(BUCKETS - 1) as u16)
}

/// The last blocks of a bucket that came back, and where its next new one may be.
#[derive(Clone, Debug)]
struct Ring {
    freed: [u64; RING],
    /// Where the next one goes.
    head: u8,
    len: u8,
    next: u64,
}

impl Ring {
    fn place(&self, depth: usize) -> usize {
        (usize::from(self.head) + 2 * RING - 1 - depth) % RING
    }

    fn push(&mut self, ptr: u64) {
        self.freed[usize::from(self.head)] = ptr;
        self.head = (self.head + 1) % RING as u8;
        self.len = (self.len + 1).min(RING as u8);
    }

    fn depth_of(&self, ptr: u64, from: usize, to: usize) -> Option<usize> {
        (from..to.min(self.len.into())).find(|depth| self.freed[self.place(*depth)] == ptr)
    }

    fn take(&mut self, depth: usize) -> Option<u64> {
        if depth >= DEPTH.min(self.len.into()) {
            return None;
        }
        let ptr = self.freed[self.place(depth)];
        for newer in (0..depth).rev() {
            self.freed[self.place(newer + 1)] = self.freed[self.place(newer)];
        }
        self.head = self.place(0) as u8;
        self.len -= 1;
        Some(ptr)
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self { freed: [0; RING], head: 0, len: 0, next: 0 }
    }
}

/// Where the next blocks of a thread may be: most allocators keep for each thread what it gave back.
#[derive(Debug)]
struct Own {
    /// By bucket: number of its ring + 1; 0: it has none.
    numbers: Vec<u16>,
    rings: Vec<Ring>,
    next: u64,
}

impl Own {
    fn ring(&mut self, bucket: Bucket) -> Option<&mut Ring> {
        let number = self.numbers.get_mut(usize::from(bucket.0))?;
        if *number == 0 {
            self.rings.push(Ring::default());
            *number = self.rings.len() as u16;
        }
        self.rings.get_mut(usize::from(*number) - 1)
    }
}

/// Where the next blocks may be.
#[derive(Debug, Default)]
pub struct Places {
    threads: Vec<Own>,
    /// What any thread gave back, by bucket, if there are several.
    shared: Vec<Ring>,
}

impl Places {
    /// Enters a thread, the next one by number.
    pub fn add_thread(&mut self) {
        if self.threads.len() == THREADS {
            return;
        }
        if self.threads.len() == 1 {
            self.shared = vec![Ring::default(); 2 * BUCKETS];
        }
        self.threads.push(Own { numbers: vec![0; 2 * BUCKETS], rings: Vec::new(), next: 0 });
    }

    /// How the address of a thread's new block is told, and the difference if there is one; `replaced` is what
    /// `realloc` was called with.
    #[inline]
    pub fn tell(
        &mut self,
        thread: usize,
        ptr: u64,
        bucket: Bucket,
        taken: u64,
        replaced: Option<u64>,
    ) -> (u8, Option<u64>) {
        if replaced == Some(ptr) {
            return (told::SAME_PLACE, None);
        }
        let Some(own) = self.threads.get_mut(thread % THREADS) else { return (told::BY_DIFFERENCE, None) };
        let next = own.next;
        let Some(ring) = own.ring(bucket) else { return (told::BY_DIFFERENCE, None) };
        // What is likely is looked at first.
        if let Some(depth) =
            ring.depth_of(ptr, 0, 1).or_else(|| if ptr == next { None } else { ring.depth_of(ptr, 1, DEPTH) })
        {
            ring.take(depth);
            return (depth as u8, None);
        }
        let (how, difference) = if ptr == next {
            (told::NEXT, None)
        } else if ptr == ring.next {
            (told::NEXT_OF_BUCKET, None)
        } else {
            let shared = self.shared.get_mut(usize::from(bucket.0));
            if let Some((depth, shared)) = shared.and_then(|shared| Some((shared.depth_of(ptr, 0, DEPTH)?, shared))) {
                shared.take(depth);
                return (told::SHARED + depth as u8, None);
            }
            let difference = heap_wire::spread(ptr).wrapping_sub(heap_wire::spread(next));
            (told::BY_DIFFERENCE, Some(heap_wire::zigzag(difference)))
        };
        let end = ptr.wrapping_add(taken);
        ring.next = end;
        own.next = end;
        (how, difference)
    }

    /// Undoes [`Self::tell`]; `None`: what was told cannot be.
    pub fn find(
        &mut self,
        thread: usize,
        how: u8,
        difference: impl FnOnce() -> Option<u64>,
        bucket: Bucket,
        taken: u64,
        replaced: Option<u64>,
    ) -> Option<u64> {
        let own = self.threads.get_mut(thread % THREADS)?;
        let next = own.next;
        let ring = own.ring(bucket)?;
        let ptr = match how {
            told::SAME_PLACE => return replaced,
            told::NEXT => next,
            told::NEXT_OF_BUCKET => ring.next,
            told::BY_DIFFERENCE => {
                let difference = heap_wire::unzigzag(difference()?);
                heap_wire::gather(heap_wire::spread(next).wrapping_add(difference))
            }
            told::SHARED.. => return self.shared.get_mut(usize::from(bucket.0))?.take((how - told::SHARED).into()),
            depth => return ring.take(depth.into()),
        };
        let end = ptr.wrapping_add(taken);
        ring.next = end;
        own.next = end;
        Some(ptr)
    }

    /// A block came back, by this thread.
    #[inline]
    pub fn freed(&mut self, thread: usize, ptr: u64, bucket: Bucket) {
        if let Some(ring) = self.threads.get_mut(thread % THREADS).and_then(|own| own.ring(bucket)) {
            ring.push(ptr);
        }
        if let Some(shared) = self.shared.get_mut(usize::from(bucket.0)) {
            shared.push(ptr);
        }
    }
}

/// Blocks that a thread made lately: so many.
const LATELY: usize = 2048;
/// Blocks that were made lately by all threads.
const RECENT: usize = 4 * LATELY;

/// Which blocks are live of those that were made lately, by thread. Who gives blocks back mostly takes those that it
/// made, and which of the live ones says less than how many were made since.
#[derive(Debug)]
pub struct Ages {
    /// By serial number of the block: its thread, and how many this one had made.
    all: Vec<(u32, u32)>,
    threads: Vec<Lately>,
}

/// What a thread made.
#[derive(Debug)]
struct Lately {
    made: u32,
    /// Live ones, by how many were made.
    live: [u64; LATELY / 64],
    /// How many there are in each word.
    counts: [u8; LATELY / 64],
}

impl Lately {
    fn word(number: u32) -> usize {
        number as usize / 64 % (LATELY / 64)
    }

    /// Whether it is known of this one.
    fn knows(&self, number: u32) -> bool {
        // The word that goes on was the oldest one.
        self.made.wrapping_sub(number) < LATELY as u32 - 64
    }

    fn set(&mut self, number: u32) {
        self.live[Self::word(number)] |= 1 << (number % 64);
        self.counts[Self::word(number)] += 1;
    }

    fn clear(&mut self, number: u32) {
        let (word, bit) = (Self::word(number), 1 << (number % 64));
        if self.live[word] & bit != 0 {
            self.live[word] &= !bit;
            self.counts[word] -= 1;
        }
    }

    /// Live ones that were made after this one.
    fn after(&self, number: u32) -> u32 {
        let (word, last) = (Self::word(number), Self::word(self.made));
        let mut sum = (self.live[word] >> (number % 64) >> 1).count_ones();
        let mut at = word;
        while at != last {
            at = (at + 1) % (LATELY / 64);
            sum += u32::from(self.counts[at]);
        }
        sum
    }

    /// The live one after which so many live ones were made: how many were made after it.
    fn before(&self, mut rank: u32) -> Option<u32> {
        let last = Self::word(self.made);
        let mut at = last;
        loop {
            let count = u32::from(self.counts[at]);
            if rank < count {
                let mut word = self.live[at];
                (0..rank).for_each(|_| word &= !(1 << word.ilog2()));
                let number = (at * 64) as u32 + word.checked_ilog2()?;
                let after = self.made.wrapping_sub(number) % LATELY as u32;
                return Some(after);
            }
            rank -= count;
            at = (at + LATELY / 64 - 1) % (LATELY / 64);
            if at == last {
                return None;
            }
        }
    }
}

impl Default for Ages {
    fn default() -> Self {
        Self { all: vec![(u32::MAX, 0); RECENT], threads: Vec::new() }
    }
}

impl Ages {
    /// Enters a thread, the next one by number.
    pub fn add_thread(&mut self) {
        if self.threads.len() == THREADS {
            return;
        }
        self.threads.push(Lately { made: 0, live: [0; LATELY / 64], counts: [0; LATELY / 64] });
    }

    /// A thread makes a block; the number of blocks that it has made.
    #[inline]
    pub fn made(&mut self, thread: usize, serial: u64) -> u32 {
        let Some(own) = self.threads.get_mut(thread % THREADS) else { return 0 };
        own.made = own.made.wrapping_add(1);
        if own.made % 64 == 0 {
            let word = Lately::word(own.made);
            (own.live[word], own.counts[word]) = (0, 0);
        }
        own.set(own.made);
        self.all[serial as usize % RECENT] = ((thread % THREADS) as u32, own.made);
        own.made
    }

    /// A block goes, `after` which so many were made by all: how many live ones the thread has made after it, if it
    /// made it lately.
    #[inline]
    pub fn gone(&mut self, thread: usize, serial: u64, after: u64) -> Option<u32> {
        if after >= RECENT as u64 {
            return None;
        }
        let (maker, number) = self.all[serial as usize % RECENT];
        let own = self.threads.get_mut(maker as usize).filter(|own| own.knows(number))?;
        own.clear(number);
        (maker as usize == thread % THREADS).then(|| own.after(number))
    }

    /// Undoes this: the number of the block among those that the thread has made.
    pub fn find(&self, thread: usize, rank: u32) -> Option<u32> {
        let own = self.threads.get(thread % THREADS)?;
        let number = own.made.wrapping_sub(own.before(rank)?);
        own.knows(number).then_some(number)
    }
}

/// Of a reader: the serial numbers of what each thread made lately.
#[derive(Debug, Default)]
pub struct Serials(Vec<Vec<u64>>);

impl Serials {
    /// A thread makes a block, which has this number among its.
    #[inline]
    pub fn made(&mut self, thread: usize, number: u32, serial: u64) {
        let (thread, index) = (thread % THREADS, number as usize % LATELY);
        if thread >= self.0.len() {
            self.0.resize(thread + 1, Vec::new());
        }
        let own = &mut self.0[thread];
        if index >= own.len() {
            own.resize((index + 1).next_power_of_two(), 0);
        }
        own[index] = serial;
    }

    /// The serial number of a block with this number; 0: there is none.
    pub fn of(&self, thread: usize, number: u32) -> u64 {
        let own = self.0.get(thread % THREADS);
        own.and_then(|own| own.get(number as usize % LATELY)).copied().unwrap_or(0)
    }
}

/// How a block that goes is told.
pub mod gone {
    use std::ops::RangeInclusive;

    /// Below this: so many live blocks of the thread are younger.
    pub const RANKS: u8 = 120;
    /// Ranks below this are told before all else.
    pub const LAST: u32 = 8;
    /// That minus this: how much later it was made than the one that its thread gave back before.
    pub const SAME: i64 = 162;
    /// Least and most of these differences.
    pub const NEAR: RangeInclusive<i64> = -42..=90;
    /// Those that are told before larger ranks.
    pub const NEXT: RangeInclusive<i64> = -4..=12;
    /// The rank follows, without [`RANKS`].
    pub const RANK: u8 = 253;
    /// It is unknown: its address follows.
    pub const UNKNOWN: u8 = 254;
    /// The number of blocks made after it follows.
    pub const FAR: u8 = 255;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_come_back(steps in prop::collection::vec((0u64..40, 1u64..70, any::<bool>(), 0usize..3), 0..500)) {
            let (mut here, mut there) = (Places::default(), Places::default());
            [&mut here, &mut there].into_iter().for_each(|places| (0..3).for_each(|_| places.add_thread()));
            let mut blocks = Vec::new();
            for (place, size, free, thread) in steps {
                if free && !blocks.is_empty() {
                    let (ptr, bucket) = blocks.swap_remove(place as usize % blocks.len());
                    here.freed(thread, ptr, bucket);
                    there.freed(thread, ptr, bucket);
                    continue;
                }
                let (ptr, taken) = (place << 5, taken(size, None));
                let bucket = bucket(taken);
                let (how, difference) = here.tell(thread, ptr, bucket, taken, None);
                prop_assert_eq!(there.find(thread, how, || difference, bucket, taken, None), Some(ptr));
                blocks.push((ptr, bucket));
            }
        }
    }

    proptest! {
        #[test]
        fn live_blocks_are_found_by_their_ranks(
            steps in prop::collection::vec((0usize..3, any::<bool>(), any::<u16>()), 0..6000),
        ) {
            let (mut here, mut there) = (Ages::default(), Ages::default());
            let mut serials = Serials::default();
            [&mut here, &mut there].into_iter().for_each(|ages| (0..3).for_each(|_| ages.add_thread()));
            let (mut live, mut serial): ([Vec<u64>; 3], u64) = Default::default();
            for (thread, make, which) in steps {
                // Who takes one of another thread, now and then.
                let maker = if which % 16 == 0 { (thread + 1) % 3 } else { thread };
                if make || live[maker].is_empty() {
                    serial += 1;
                    here.made(thread, serial);
                    serials.made(thread, there.made(thread, serial), serial);
                    live[thread].push(serial);
                    continue;
                }
                let index = live[maker].len() - 1 - usize::from(which) % live[maker].len();
                let gone = live[maker].remove(index);
                let rank = here.gone(thread, gone, serial - gone);
                if let Some(rank) = rank {
                    prop_assert_eq!(rank as usize, live[maker].len() - index);
                    prop_assert_eq!(there.find(thread, rank).map(|number| serials.of(thread, number)), Some(gone));
                }
                prop_assert_eq!(there.gone(thread, gone, serial - gone), rank);
                prop_assert!(rank.is_some() == (maker == thread) || serial - gone > 1900);
            }
        }
    }

    #[test]
    fn every_size_has_a_bucket() {
        for size in [0, 1, 24, 25, 16_000, 17_000, 1 << 30, u64::MAX] {
            for owner in [Owner::Heap, Owner::Pool] {
                let taken = taken(size, None);
                assert!(usize::from(bucket(taken).of(owner).0) < 2 * BUCKETS);
            }
        }
        assert_eq!(taken(24, None), 32);
        assert_eq!((taken(25, None), taken(25, Some(40))), (48, 48));
    }
}
