//! Numbers of things, to be found by what they are.

/// What can be found.
pub(crate) trait Key: Copy + Eq + Default {
    /// Good in its high bits.
    fn hash(&self) -> u64;
}

/// The numbers, by open addressing, at most three quarters full. The things lie beside them, so that finding one is mostly one access to memory.
#[derive(Debug)]
pub(crate) struct Index<K> {
    slots: Vec<(K, u32)>,
    used: usize,
}

/// No number.
const NONE: u32 = u32::MAX;

impl<K: Key> Default for Index<K> {
    fn default() -> Self {
        Self { slots: vec![(K::default(), NONE); 1 << 8], used: 0 }
    }
}

impl<K: Key> Index<K> {
    /// Where a thing is, or the free slot where it would be.
    fn slot(&self, key: &K) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.hash() >> (64 - self.slots.len().ilog2())) as usize;
        while self.slots[at].1 != NONE && self.slots[at].0 != *key {
            at = (at + 1) & mask;
        }
        at
    }

    /// The number of a thing; `fresh`, which is entered, if it has none.
    pub(crate) fn find_or(&mut self, key: K, fresh: u32) -> u32 {
        let at = self.slot(&key);
        if self.slots[at].1 != NONE {
            return self.slots[at].1;
        }
        self.slots[at] = (key, fresh);
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            let larger = vec![(K::default(), NONE); self.slots.len() * 2];
            for entry in std::mem::replace(&mut self.slots, larger) {
                if entry.1 != NONE {
                    let at = self.slot(&entry.0);
                    self.slots[at] = entry;
                }
            }
        }
        fresh
    }
}

/// A hash of two words, good in its high bits.
pub(crate) fn hash(a: u64, b: u64) -> u64 {
    let mixed = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Key for u64 {
        fn hash(&self) -> u64 {
            hash(*self, 1)
        }
    }

    proptest! {
        #[test]
        fn the_same_thing_has_one_number(things in prop::collection::vec(0u64..500, 0..3000)) {
            let mut index = Index::default();
            let mut kept: Vec<u64> = Vec::new();
            for thing in things {
                let number = index.find_or(thing, kept.len() as u32);
                if number as usize == kept.len() {
                    prop_assert!(!kept.contains(&thing));
                    kept.push(thing);
                }
                prop_assert_eq!(kept[number as usize], thing);
            }
        }
    }
}
