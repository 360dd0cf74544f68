//! The index: which record holds which key, in 24 bytes a slot and at most 32 an entry. Open addressing in the order
//! of the hashes, linear probing, growth by a seventh. Pure.

use crate::format::SLOT;

const PINNED: u32 = 1 << 31;
const SIDE: u32 = 1 << 30;
const SIZE: u32 = SIDE - 1;

/// Where an entry lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Hash of the key.
    pub hash: u64,
    /// The segment; 0 in slots that are free.
    pub segment: u32,
    /// Where in it the record begins.
    pub offset: u32,
    size: u32,
    /// The logarithm of how often and how lately it was used: see [`touch`].
    pub frecency: u16,
    /// The tag of its partition.
    pub partition: u16,
}

impl Slot {
    /// A slot; sizes above 1 GiB count as that.
    pub fn new(hash: u64, place: (u32, u32), size: u64, pinned: bool, side: bool, partition: u16) -> Slot {
        let size = size.min(u64::from(SIZE)) as u32 | if pinned { PINNED } else { 0 } | if side { SIDE } else { 0 };
        Slot { hash, segment: place.0, offset: place.1, size, frecency: 0, partition }
    }

    /// Bytes of the record.
    pub fn size(&self) -> u64 {
        u64::from(self.size & SIZE)
    }

    /// Whether it is never evicted.
    pub fn pinned(&self) -> bool {
        self.size & PINNED != 0
    }

    /// Whether the record holds metadata alone and points to the body.
    pub fn side(&self) -> bool {
        self.size & SIDE != 0
    }

    /// The bytes of a snapshot.
    pub fn encode(&self) -> [u8; SLOT] {
        let mut out = [0; SLOT];
        out[..8].copy_from_slice(&self.hash.to_le_bytes());
        out[8..12].copy_from_slice(&self.segment.to_le_bytes());
        out[12..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.size.to_le_bytes());
        out[20..22].copy_from_slice(&self.frecency.to_le_bytes());
        out[22..].copy_from_slice(&self.partition.to_le_bytes());
        out
    }

    /// A slot of a snapshot.
    pub fn parse(bytes: &[u8; SLOT]) -> Slot {
        let four = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Slot {
            hash: u64::from(four(0)) | u64::from(four(4)) << 32,
            segment: four(8),
            offset: four(12),
            size: four(16),
            frecency: u16::from_le_bytes([bytes[20], bytes[21]]),
            partition: u16::from_le_bytes([bytes[22], bytes[23]]),
        }
    }
}

/// Frecency after a use: the logarithm (64 steps a doubling) of the sum of all uses, each worth twice what one of a
/// week before is. So an entry is compared with others without being visited as it ages.
pub fn touch(frecency: u16, now: u16) -> u16 {
    let behind = f64::from(frecency) - f64::from(now);
    let sum = f64::from(now) + 64.0 * (1.0 + (behind / 64.0).exp2()).log2();
    sum.min(f64::from(u16::MAX)) as u16
}

/// The worth of one use now: seconds since 1970 in 64ths of a week, from 2025 on, until 2044.
pub fn worth(seconds: u64) -> u16 {
    (seconds.saturating_sub(1_735_689_600) / 9450).min(u64::from(u16::MAX)) as u16
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Index {
    slots: Vec<Slot>,
    used: usize,
}

impl Index {
    /// Entries.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    fn find(&self, hash: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        while self.slots[at].segment != 0 {
            if self.slots[at].hash == hash {
                return Some(at);
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        None
    }

    /// The slot of a hash.
    pub fn get(&self, hash: u64) -> Option<Slot> {
        self.find(hash).map(|at| self.slots[at])
    }

    /// Whether one more entry wants a larger table; [`Index::grown`] makes it.
    pub fn is_full(&self) -> bool {
        self.used + 1 > self.slots.len() / 8 * 7
    }

    /// A larger copy, filled to three quarters and a bit.
    pub fn grown(&self) -> Index {
        self.sized((self.slots.len() * 113 / 100).max(64).next_multiple_of(8))
    }

    fn sized(&self, slots: usize) -> Index {
        let mut index = Index { slots: vec![Slot::default(); slots], used: 0 };
        self.iter().for_each(|slot| index.place(*slot));
        index
    }

    /// A table of slots, of which the last of each hash counts.
    pub fn of(slots: impl ExactSizeIterator<Item = Slot>) -> Index {
        let mut index = Index::default().sized((slots.len() * 128 / 100).max(64).next_multiple_of(8));
        for slot in slots.filter(|slot| slot.segment != 0) {
            index.set(slot);
        }
        index
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.slots[at].segment != 0 {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        self.slots[at] = slot;
        self.used += 1;
    }

    /// Puts a slot in place of that of the same hash, which it returns.
    pub fn set(&mut self, slot: Slot) -> Option<Slot> {
        if let Some(at) = self.find(slot.hash) {
            return Some(std::mem::replace(&mut self.slots[at], slot));
        }
        if self.is_full() {
            *self = self.grown();
        }
        self.place(slot);
        None
    }

    /// Changes the frecency of a hash.
    pub fn touch(&mut self, hash: u64, now: u16) {
        if let Some(at) = self.find(hash) {
            self.slots[at].frecency = touch(self.slots[at].frecency, now);
        }
    }

    /// Takes the slot of a hash out; those behind it move up.
    pub fn remove(&mut self, hash: u64) -> Option<Slot> {
        let mut hole = self.find(hash)?;
        let gone = std::mem::take(&mut self.slots[hole]);
        self.used -= 1;
        let len = self.slots.len();
        let mut at = hole;
        loop {
            at = if at + 1 == len { 0 } else { at + 1 };
            if self.slots[at].segment == 0 {
                return Some(gone);
            }
            let home = self.home(self.slots[at].hash);
            if (at + len - home) % len >= (at + len - hole) % len {
                self.slots[hole] = std::mem::take(&mut self.slots[at]);
                hole = at;
            }
        }
    }

    /// All slots in use.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.segment != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn slot(hash: u64, place: u32) -> Slot {
        Slot::new(hash, (1 + place, place), 7, place.is_multiple_of(2), place.is_multiple_of(3), 9)
    }

    #[test]
    fn a_million_entries_take_at_most_32_bytes_each() {
        let mut index = Index::default();
        let mut most = 0.0_f64;
        for number in 0..1_000_000_u64 {
            index.set(slot(twox_hash::XxHash3_64::oneshot(&number.to_le_bytes()), number as u32));
            if number > 10_000 {
                most = most.max(index.bytes() as f64 / index.len() as f64);
            }
        }
        assert_eq!((size_of::<Slot>(), index.len()), (24, 1_000_000));
        assert!(most <= 32.0, "{most} bytes an entry");
        for number in (0..1_000_000_u64).step_by(7) {
            let hash = twox_hash::XxHash3_64::oneshot(&number.to_le_bytes());
            assert_eq!(index.get(hash), Some(slot(hash, number as u32)));
        }
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0_u64..60, proptest::bool::ANY, 0_u32..1000), 0..400)) {
            let (mut index, mut map) = (Index::default(), HashMap::new());
            for (hash, put, place) in steps {
                // Hashes at both ends of the table: chains that go around.
                let hash = if hash % 2 == 0 { u64::MAX - hash } else { hash };
                if put {
                    assert_eq!(index.set(slot(hash, place)), map.insert(hash, slot(hash, place)));
                } else {
                    assert_eq!(index.remove(hash), map.remove(&hash));
                }
            }
            assert_eq!(index.len(), map.len());
            assert!(map.iter().all(|(hash, slot)| index.get(*hash) == Some(*slot)));
            assert!(index.iter().all(|slot| Slot::parse(&slot.encode()) == *slot));
        }
    }

    #[test]
    fn frecency_counts_uses_and_forgets_them() {
        let once = touch(0, 1000);
        assert_eq!(touch(once, 1000), once + 64);
        // Two uses of last week are worth one of today.
        assert_eq!(touch(once, 1000), touch(0, 1064));
        let (now, week) = (1_800_000_000, 7 * 86_400);
        assert_eq!(worth(now + week), worth(now) + 64);
        assert!(worth(2_300_000_000) < 60_000, "it can still grow in the year 2042");
    }
}
