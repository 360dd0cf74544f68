//! What writer and reader of a finished recording both know, so that an address or a block is mostly told by a small number.
//!
//! Allocators hand out what came back last, of the same size, or the next bytes of a region. So an address is told as its place among the
//! last blocks of its size that came back, or as the end of the last block that was none of these; only what is neither is written down.
//! A block that goes is told by the number of blocks made since it was made, or since the last one was made that its thread gave back.
//!
//! Nothing here depends on the allocator: where it does otherwise, the file is larger.

/// Blocks that came back, remembered for each bucket.
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
    /// As a difference to [`NEXT`].
    pub const BY_DIFFERENCE: u8 = 255;
}

/// Blocks of about this size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket(pub u16);

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

/// The bucket of blocks that take so many bytes.
pub fn bucket(taken: u64, owner: Owner) -> Bucket {
    let sixteenths = taken / 16;
    let index = if sixteenths < FINE {
        sixteenths as usize
    } else {
        let log = sixteenths.ilog2();
        FINE as usize + 4 * log as usize + (sixteenths >> (log - 2) & 3) as usize
    };
    let index = index.min(BUCKETS - 1);
    Bucket(if owner == Owner::Pool { index + BUCKETS } else { index } as u16)
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

    fn depth_of(&self, ptr: u64) -> Option<usize> {
        (0..DEPTH.min(self.len.into())).find(|depth| self.freed[self.place(*depth)] == ptr)
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

/// Where the next blocks may be.
#[derive(Debug)]
pub struct Places {
    rings: Vec<Ring>,
    next: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self { rings: vec![Ring { freed: [0; RING], head: 0, len: 0, next: 0 }; 2 * BUCKETS], next: 0 }
    }
}

impl Places {
    /// How a new block's address is told, and the difference if there is one; `replaced` is what `realloc` was called with.
    pub fn tell(&mut self, ptr: u64, bucket: Bucket, taken: u64, replaced: Option<u64>) -> (u8, Option<u64>) {
        let Some(ring) = self.rings.get_mut(usize::from(bucket.0)) else { return (told::BY_DIFFERENCE, None) };
        if replaced == Some(ptr) {
            return (told::SAME_PLACE, None);
        }
        if let Some(depth) = ring.depth_of(ptr) {
            ring.take(depth);
            return (depth as u8, None);
        }
        let (how, difference) = if ptr == self.next {
            (told::NEXT, None)
        } else if ptr == ring.next {
            (told::NEXT_OF_BUCKET, None)
        } else {
            let difference = heap_wire::spread(ptr).wrapping_sub(heap_wire::spread(self.next));
            (told::BY_DIFFERENCE, Some(heap_wire::zigzag(difference)))
        };
        ring.next = ptr.wrapping_add(taken);
        self.next = ring.next;
        (how, difference)
    }

    /// Undoes [`Self::tell`]; `None`: what was told cannot be.
    pub fn find(
        &mut self,
        how: u8,
        difference: impl FnOnce() -> Option<u64>,
        bucket: Bucket,
        taken: u64,
        replaced: Option<u64>,
    ) -> Option<u64> {
        let ring = self.rings.get_mut(usize::from(bucket.0))?;
        let ptr = match how {
            told::SAME_PLACE => return replaced,
            told::NEXT => self.next,
            told::NEXT_OF_BUCKET => ring.next,
            told::BY_DIFFERENCE => {
                let difference = heap_wire::unzigzag(difference()?);
                heap_wire::gather(heap_wire::spread(self.next).wrapping_add(difference))
            }
            depth => return ring.take(depth.into()),
        };
        ring.next = ptr.wrapping_add(taken);
        self.next = ring.next;
        Some(ptr)
    }

    /// A block came back.
    pub fn freed(&mut self, ptr: u64, bucket: Bucket) {
        if let Some(ring) = self.rings.get_mut(usize::from(bucket.0)) {
            ring.push(ptr);
        }
    }
}

/// How a block that goes is told.
pub mod gone {
    /// Below this: so many blocks were made after it.
    pub const RECENT: u8 = 8;
    /// That minus this: how much later it was made than the one that its thread gave back before.
    pub const SAME: i64 = 110;
    /// Least and most of these differences.
    pub const NEAR: std::ops::RangeInclusive<i64> = -102..=143;
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
        fn addresses_come_back(steps in prop::collection::vec((0u64..40, 1u64..70, any::<bool>()), 0..500)) {
            let (mut here, mut there) = (Places::default(), Places::default());
            let mut blocks = Vec::new();
            for (place, size, free) in steps {
                if free && !blocks.is_empty() {
                    let (ptr, bucket) = blocks.swap_remove(place as usize % blocks.len());
                    here.freed(ptr, bucket);
                    there.freed(ptr, bucket);
                    continue;
                }
                let (ptr, taken) = (place << 5, taken(size, None));
                let bucket = bucket(taken, Owner::Heap);
                let (how, difference) = here.tell(ptr, bucket, taken, None);
                prop_assert_eq!(there.find(how, || difference, bucket, taken, None), Some(ptr));
                blocks.push((ptr, bucket));
            }
        }
    }

    #[test]
    fn every_size_has_a_bucket() {
        for size in [0, 1, 24, 25, 16_000, 17_000, 1 << 30, u64::MAX] {
            for owner in [Owner::Heap, Owner::Pool] {
                let taken = taken(size, None);
                assert!(usize::from(bucket(taken, owner).0) < 2 * BUCKETS);
            }
        }
        assert_eq!(taken(24, None), 32);
        assert_eq!((taken(25, None), taken(25, Some(40))), (48, 48));
    }
}
