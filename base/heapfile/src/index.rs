//! Numbers of things, to be found by what they are.

/// The numbers, by open addressing, at most three quarters full. The things themselves are where their numbers say: a
/// slot is only a part of a hash and a number, so that many of them are near the processor.
#[derive(Debug)]
pub(crate) struct Index {
    /// High half of the hash, number.
    slots: Vec<(u32, u32)>,
    used: usize,
}

/// No number.
const NONE: u32 = u32::MAX;

impl Default for Index {
    fn default() -> Self {
        Self { slots: vec![(0, NONE); 1 << 8], used: 0 }
    }
}

impl Index {
    /// Where a thing of this tag is first looked for.
    fn place(&self, tag: u32) -> usize {
        (u64::from(tag) << self.slots.len().ilog2() >> 32) as usize
    }

    /// The number of a thing with this hash, good in its high bits: the one that `is` it; `fresh`, which is entered, if
    /// there is none.
    pub(crate) fn find_or(&mut self, hash: u64, fresh: u32, is: impl Fn(u32) -> bool) -> u32 {
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut at = self.place(tag);
        loop {
            match self.slots[at] {
                (_, NONE) => break,
                (other, number) if other == tag && is(number) => return number,
                _ => at = (at + 1) & mask,
            }
        }
        self.slots[at] = (tag, fresh);
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
        fresh
    }

    fn grow(&mut self) {
        let larger = vec![(0, NONE); self.slots.len() * 2];
        let mask = larger.len() - 1;
        for entry in std::mem::replace(&mut self.slots, larger) {
            if entry.1 != NONE {
                let mut at = self.place(entry.0);
                while self.slots[at].1 != NONE {
                    at = (at + 1) & mask;
                }
                self.slots[at] = entry;
            }
        }
    }

    /// Whether it is larger than what is near the processor anyway.
    pub(crate) fn is_large(&self) -> bool {
        self.slots.len() >= 1 << 14
    }

    /// Fetches what [`Self::find_or`] will look at.
    pub(crate) fn prefetch(&self, hash: u64) {
        crate::near::prefetch(&self.slots[self.place((hash >> 32) as u32)]);
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

    proptest! {
        #[test]
        fn the_same_thing_has_one_number(things in prop::collection::vec(0u64..500, 0..3000), bits in 34u32..64) {
            let mut index = Index::default();
            let mut kept: Vec<u64> = Vec::new();
            for thing in things {
                // Few bits: different things with the same hash.
                let hash = hash(thing, 1) & u64::MAX << bits;
                let number = index.find_or(hash, kept.len() as u32, |number| kept[number as usize] == thing);
                if number as usize == kept.len() {
                    prop_assert!(!kept.contains(&thing));
                    kept.push(thing);
                }
                prop_assert_eq!(kept[number as usize], thing);
            }
        }
    }
}
