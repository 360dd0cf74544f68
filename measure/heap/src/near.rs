//! A map from addresses to something small: what is near in the program's memory is near here.

/// A map from numbers that are mostly used near each other: sixteen neighbours lie together. Groups that became empty go when it grows.
#[derive(Debug)]
pub(crate) struct Near<V> {
    /// Which group is where: open addressing, at most half full.
    table: Vec<(u64, u32)>,
    groups: Vec<Group<V>>,
    /// Groups that are not in the table.
    unused: Vec<u32>,
    /// The group that was used last.
    last: (u64, u32),
    /// Low bits of keys that are mostly zero.
    shift: u32,
}

impl<V: Copy + Default> Default for Near<V> {
    /// For addresses of blocks.
    fn default() -> Self {
        Self::new(4)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Group<V> {
    used: u16,
    values: [V; 16],
}

/// No group.
const NONE: u32 = u32::MAX;

impl<V: Copy + Default> Near<V> {
    /// An empty one for keys of which `shift` low bits are mostly zero.
    pub fn new(shift: u32) -> Self {
        Self { table: vec![(0, NONE); 1 << 6], groups: Vec::new(), unused: Vec::new(), last: (0, NONE), shift }
    }

    /// The key of a group, and the place in it.
    fn split(&self, key: u64) -> (u64, usize) {
        let key = key.rotate_right(self.shift);
        (key >> 4, (key & 15) as usize)
    }

    /// The entry of a group, or the free one where it would be.
    fn entry(&self, group: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.table.len().ilog2())) as usize;
        while self.table[at].1 != NONE && self.table[at].0 != group {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&mut self, group: u64) -> Option<&mut Group<V>> {
        if self.last.0 != group || self.last.1 == NONE {
            self.last = self.table[self.entry(group)];
        }
        self.groups.get_mut(self.last.1 as usize)
    }

    /// Enters a value; what was there before.
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let (key, place) = self.split(key);
        let number = if self.find(key).is_some() { self.last.1 } else { self.add(key) };
        let group = self.groups.get_mut(number as usize)?;
        let before = (group.used & 1 << place != 0).then_some(group.values[place]);
        group.used |= 1 << place;
        group.values[place] = value;
        before
    }

    /// Enters an empty group.
    fn add(&mut self, group: u64) -> u32 {
        if (self.groups.len() - self.unused.len()) * 2 >= self.table.len() {
            self.make_room();
        }
        let number = self.unused.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            (self.groups.len() - 1) as u32
        });
        let at = self.entry(group);
        self.table[at] = (group, number);
        self.last = (group, number);
        number
    }

    /// Forgets empty groups; grows if that is not enough.
    fn make_room(&mut self) {
        let old = std::mem::take(&mut self.table);
        let full = |entry: &&(u64, u32)| self.groups.get(entry.1 as usize).is_some_and(|group| group.used != 0);
        let kept: Vec<(u64, u32)> = old.iter().filter(full).copied().collect();
        self.unused.extend(old.iter().filter(|entry| entry.1 != NONE && !full(entry)).map(|entry| entry.1));
        let length = if kept.len() * 4 > old.len() { old.len() * 2 } else { old.len() };
        self.table = vec![(0, NONE); length];
        for entry in kept {
            let at = self.entry(entry.0);
            self.table[at] = entry;
        }
        self.last = (0, NONE);
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let (group, place) = self.split(key);
        let group = self.find(group).filter(|group| group.used & 1 << place != 0)?;
        group.used &= !(1 << place);
        Some(group.values[place])
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let used = |group: &Group<V>, place: &usize| group.used & 1 << place != 0;
        self.groups.iter().flat_map(move |group| {
            (0..group.values.len()).filter(move |place| used(group, place)).map(|place| &group.values[place])
        })
    }

    #[cfg(test)]
    fn len(&self) -> u32 {
        self.groups.iter().map(|group| group.used.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn near_is_a_map(steps in prop::collection::vec((0u64..300, any::<bool>(), 0u32..3), 0..2000)) {
            let (mut near, mut map) = (Near::new(4), HashMap::new());
            for (number, (key, insert, spread)) in steps.into_iter().enumerate() {
                let key = [key << 40, key * 16, key][spread as usize];
                if insert {
                    prop_assert_eq!(near.insert(key, number), map.insert(key, number));
                } else {
                    prop_assert_eq!(near.remove(key), map.remove(&key));
                }
            }
            let (mut here, mut there): (Vec<_>, Vec<_>) = (near.values().collect(), map.values().collect());
            here.sort();
            there.sort();
            prop_assert_eq!(here, there);
            for (key, value) in map {
                prop_assert_eq!(near.remove(key), Some(value));
            }
            prop_assert_eq!(near.len(), 0);
        }
    }
}
