//! A map from addresses to something small: what is near in the program's memory is near here.

/// A map from numbers that are mostly used near each other: sixteen neighbours lie together. Groups that became empty
/// go when it grows.
#[derive(Debug)]
pub(crate) struct Near<V> {
    /// Which group is where, and what is used of it: open addressing, at most half full.
    table: Vec<Entry>,
    groups: Vec<[V; WIDTH]>,
    /// Groups that are in the table.
    entered: usize,
    /// Groups that are not.
    unused: Vec<u32>,
    /// The entry that was used last.
    last: usize,
    /// Low bits of keys that are mostly zero.
    shift: u32,
    /// Bits of a hash that are too many to tell four entries of the table.
    surplus: u32,
}

/// Neighbours in a group.
const WIDTH: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    /// Number of the group + 1; 0: this is none.
    number: u32,
    used: u16,
}

impl Entry {
    fn group(self) -> usize {
        (self.number as usize).wrapping_sub(1)
    }
}

impl<V: Copy + Default> Near<V> {
    /// An empty one for keys of which `shift` low bits are mostly zero.
    pub fn new(shift: u32) -> Self {
        let table = zeroed(1 << 6);
        let surplus = surplus(&table);
        Self { table, groups: Vec::new(), entered: 0, unused: Vec::new(), last: 0, shift, surplus }
    }

    /// The key of a group, and the place in it.
    fn split(&self, key: u64) -> (u64, usize) {
        let key = key.rotate_right(self.shift);
        (key / WIDTH as u64, (key % WIDTH as u64) as usize)
    }

    /// Where a group is first looked for: four that follow each other are beside each other, in one line of the
    /// processor's cache.
    #[inline(always)]
    fn home(&self, group: u64) -> usize {
        (((group >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.surplus) as usize) << 2 | (group & 3) as usize
    }

    /// The entry of a group, or the free one where it would be.
    fn entry(&self, group: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(group);
        while self.table[at].number != 0 && self.table[at].key != group {
            at = (at + 1) & mask;
        }
        at
    }

    /// As [`Self::entry`]; mostly it is that of the last key.
    fn find(&mut self, group: u64) -> usize {
        let last = &self.table[self.last];
        if last.key != group || last.number == 0 {
            self.last = self.entry(group);
        }
        self.last
    }

    /// Enters a value; what was there before.
    #[inline]
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let (key, place) = self.split(key);
        let mut at = self.find(key);
        if self.table[at].number == 0 {
            at = self.add(key);
        }
        let entry = &mut self.table[at];
        let group = self.groups.get_mut(entry.group())?;
        let before = (entry.used & 1 << place != 0).then_some(group[place]);
        entry.used |= 1 << place;
        group[place] = value;
        before
    }

    /// Enters an empty group.
    fn add(&mut self, group: u64) -> usize {
        if self.entered * 2 >= self.table.len() {
            self.make_room();
        }
        let number = self.unused.pop().unwrap_or_else(|| {
            if self.groups.len() == self.groups.capacity() {
                self.groups.reserve(self.groups.len().max(64));
                large(&self.groups);
            }
            self.groups.push([V::default(); WIDTH]);
            self.groups.len() as u32
        });
        self.entered += 1;
        self.last = self.entry(group);
        self.table[self.last] = Entry { key: group, number, used: 0 };
        self.last
    }

    /// Forgets empty groups; grows if that is not enough.
    fn make_room(&mut self) {
        let old = std::mem::take(&mut self.table);
        let there = old.iter().copied().filter(|entry| entry.number != 0);
        let (kept, empty): (Vec<Entry>, Vec<Entry>) = there.partition(|entry| entry.used != 0);
        self.unused.extend(empty.iter().map(|entry| entry.number));
        self.entered = kept.len();
        let length = if kept.len() * 4 > old.len() { old.len() * 2 } else { old.len() };
        drop(old);
        self.table = zeroed(length);
        self.surplus = surplus(&self.table);
        for entry in kept {
            let at = self.entry(entry.key);
            self.table[at] = entry;
        }
        self.last = 0;
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let (group, place) = self.split(key);
        let at = self.find(group);
        let entry = &mut self.table[at];
        if entry.used & 1 << place == 0 {
            return None;
        }
        entry.used &= !(1 << place);
        self.groups.get(entry.group()).map(|group| group[place])
    }

    /// Whether it is larger than what is near the processor anyway.
    pub fn is_large(&self) -> bool {
        self.table.len() >= 1 << 11
    }

    /// Fetches where [`Self::fetch`] will look.
    pub fn prefetch(&self, key: u64) {
        prefetch(&self.table[self.home(self.split(key).0)]);
    }

    /// Fetches the value of a key.
    pub fn fetch(&self, key: u64) {
        let (key, place) = self.split(key);
        let entry = self.table[self.home(key)];
        if let Some(group) = self.groups.get(entry.group()).filter(|_| entry.key == key) {
            prefetch(&group[place]);
        }
    }

    /// All keys and values, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &V)> {
        self.table.iter().flat_map(move |entry| {
            (0..WIDTH).filter(move |place| entry.used & 1 << place != 0).filter_map(move |place| {
                let key = (entry.key * WIDTH as u64 + place as u64).rotate_left(self.shift);
                Some((key, &self.groups.get(entry.group())?[place]))
            })
        })
    }

    #[cfg(test)]
    fn len(&self) -> u32 {
        self.table.iter().map(|entry| entry.used.count_ones()).sum()
    }
}

/// Fetches memory that will be looked at soon.
pub(crate) fn prefetch<T>(memory: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it changes nothing but what is in caches; any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(memory).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

/// Bits of a hash without those that tell four entries of a table.
fn surplus(table: &[Entry]) -> u32 {
    64 - (table.len() / 4).ilog2()
}

/// So many zeros.
fn zeroed(length: usize) -> Vec<Entry> {
    let mut table = Vec::with_capacity(length);
    large(&table);
    table.resize(length, Entry::default());
    table
}

/// Asks for large pages, before the memory is touched: most of these tables is used all over.
pub(crate) fn large<T>(memory: &Vec<T>) {
    const PAGE: usize = 2 << 20;
    let begin = memory.as_ptr() as usize;
    let end = (begin + memory.capacity() * size_of::<T>()) & !(PAGE - 1);
    let begin = begin.next_multiple_of(PAGE);
    if begin < end {
        // SAFETY: whole pages of this vector; advice changes nothing of what is there. Where there are no large pages,
        // it fails, and small ones do.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
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
            let mut here: Vec<_> = near.entries().map(|(key, value)| (key, *value)).collect();
            let mut there: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
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
