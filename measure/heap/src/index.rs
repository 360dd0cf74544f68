//! Numbers of things that are kept elsewhere, to be found by what they are: four bytes for each.

/// No number.
const NONE: u32 = u32::MAX;

/// The numbers, by open addressing, at most half full. Whoever owns the things tells their hashes and whether they are the same.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    used: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self { slots: vec![NONE; 1 << 8], used: 0 }
    }
}

impl Index {
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> (64 - self.slots.len().ilog2())) as usize;
        while self.slots[at] != NONE && !is_it(self.slots[at]) {
            at = (at + 1) & mask;
        }
        at
    }

    /// The number of the thing with this hash; `fresh`, which is entered, if there is none.
    pub(crate) fn find_or(
        &mut self,
        hash: u64,
        fresh: u32,
        is_it: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32) -> u64,
    ) -> u32 {
        let at = self.slot(hash, is_it);
        if self.slots[at] != NONE {
            return self.slots[at];
        }
        self.slots[at] = fresh;
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let larger = vec![NONE; self.slots.len() * 2];
            for number in std::mem::replace(&mut self.slots, larger) {
                if number != NONE {
                    // The one that was just entered is not with its owner yet.
                    let at = self.slot(if number == fresh { hash } else { hash_of(number) }, |_| false);
                    self.slots[at] = number;
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

    proptest! {
        #[test]
        fn the_same_thing_has_one_number(things in prop::collection::vec(0u64..500, 0..3000)) {
            let mut index = Index::default();
            let mut kept: Vec<u64> = Vec::new();
            for thing in things {
                let number = index.find_or(hash(thing, 1), kept.len() as u32, |number| kept[number as usize] == thing, |number| hash(kept[number as usize], 1));
                if number as usize == kept.len() {
                    prop_assert!(!kept.contains(&thing));
                    kept.push(thing);
                }
                prop_assert_eq!(kept[number as usize], thing);
            }
        }
    }
}
