//! A map that keeps the order of insertion: slots, of which removed ones stay empty for a while, and an index. Pure.

use std::collections::HashMap;
use std::sync::Arc;

/// A key or a value: its form in one byte, then its bytes (`text`).
pub type Bytes = Arc<[u8]>;

/// Empty slots that are borne besides as many as there are keys.
const SLACK: usize = 32;

/// The map.
pub struct Map<V> {
    index: HashMap<Bytes, u32>,
    slots: Vec<Option<(Bytes, V)>>,
    /// So many keys lie before this slot: what enumerates goes on from there.
    cursor: (usize, usize),
}

impl<V> Default for Map<V> {
    fn default() -> Map<V> {
        Map { index: HashMap::new(), slots: Vec::new(), cursor: (0, 0) }
    }
}

impl<V> Map<V> {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.slots[*self.index.get(key)? as usize].as_ref().map(|(_, value)| value)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.slots[*self.index.get(key)? as usize].as_mut().map(|(_, value)| value)
    }

    /// The key as it is held, and its value to change it.
    pub fn entry_mut(&mut self, key: &[u8]) -> Option<(&Bytes, &mut V)> {
        self.slots[*self.index.get(key)? as usize].as_mut().map(|(key, value)| (&*key, value))
    }

    /// It has this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.index.contains_key(key)
    }

    /// Gives a key a value. A key that is there keeps its place, a new one is the last.
    pub fn set(&mut self, key: &Bytes, value: V) -> Option<V> {
        if let Some(old) = self.get_mut(key) {
            return Some(std::mem::replace(old, value));
        }
        self.index.insert(key.clone(), self.slots.len() as u32);
        self.slots.push(Some((key.clone(), value)));
        None
    }

    /// Takes a key out. The others keep their order.
    pub fn remove(&mut self, key: &[u8]) -> Option<(Bytes, V)> {
        let slot = self.index.remove(key)? as usize;
        let old = self.slots[slot].take();
        if slot < self.cursor.1 {
            self.cursor.0 -= 1;
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        if self.cursor.1 > self.slots.len() {
            self.cursor = (self.index.len(), self.slots.len());
        }
        if self.slots.len() > 2 * self.index.len() + SLACK {
            self.close_up();
        }
        old
    }

    /// Makes a key that is there the last.
    pub fn move_to_end(&mut self, key: &[u8]) {
        if let Some((key, value)) = self.remove(key) {
            self.set(&key, value);
        }
    }

    fn close_up(&mut self) {
        self.slots.retain(Option::is_some);
        for (slot, (key, _)) in self.slots.iter().flatten().enumerate() {
            if let Some(place) = self.index.get_mut(key) {
                *place = slot as u32;
            }
        }
        self.cursor = (0, 0);
    }

    /// The key at a place in the order. All of them, one after another in either direction, take one walk.
    pub fn key(&mut self, at: usize) -> Option<&Bytes> {
        if at >= self.index.len() {
            return None;
        }
        if self.slots.len() == self.index.len() {
            return self.slots[at].as_ref().map(|(key, _)| key);
        }
        let (mut before, mut slot) = self.cursor;
        if at < before && at < before - at {
            (before, slot) = (0, 0);
        }
        while before > at {
            slot -= 1;
            before -= usize::from(self.slots[slot].is_some());
        }
        while before < at || self.slots[slot].is_none() {
            before += usize::from(self.slots[slot].is_some());
            slot += 1;
        }
        self.cursor = (before, slot);
        self.slots[slot].as_ref().map(|(key, _)| key)
    }

    /// Where its slots are: a block of the heap, or none.
    #[cfg(feature = "memreport")]
    pub fn slots(&self) -> *const std::ffi::c_void {
        self.slots.as_ptr().cast()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &V)> {
        self.slots.iter().flatten().map(|(key, value)| (key, value))
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (Bytes, V);
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Option<(Bytes, V)>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.slots.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(number: u8) -> Bytes {
        Arc::from([0, number])
    }

    proptest! {
        #[test]
        fn it_is_as_a_list(steps in proptest::collection::vec((0..6_u8, 0..40_u8), 0..400)) {
            let (mut map, mut list) = (Map::default(), Vec::<(u8, u8)>::new());
            for (number, (what, key)) in steps.into_iter().enumerate() {
                let at = list.iter().position(|(other, _)| *other == key);
                match what {
                    0 | 1 => {
                        let old = map.set(&bytes(key), number as u8);
                        prop_assert_eq!(old, at.map(|at| list[at].1));
                        match at {
                            Some(at) => list[at].1 = number as u8,
                            None => list.push((key, number as u8)),
                        }
                    }
                    2 | 3 => {
                        let old = map.remove(&bytes(key)).map(|(_, value)| value);
                        prop_assert_eq!(old, at.map(|at| list.remove(at).1));
                    }
                    4 => {
                        map.move_to_end(&bytes(key));
                        if let Some(at) = at {
                            let moved = list.remove(at);
                            list.push(moved);
                        }
                    }
                    _ => {
                        let at = usize::from(key);
                        prop_assert_eq!(map.key(at).cloned(), list.get(at).map(|(key, _)| bytes(*key)));
                    }
                }
                prop_assert_eq!(map.len(), list.len());
            }
            let all: Vec<(Bytes, u8)> = map.iter().map(|(key, value)| (key.clone(), *value)).collect();
            let wanted: Vec<(Bytes, u8)> = list.iter().map(|(key, value)| (bytes(*key), *value)).collect();
            prop_assert_eq!(&all, &wanted);
            for at in (0..list.len()).rev() {
                prop_assert_eq!(map.key(at), Some(&bytes(list[at].0)));
            }
        }
    }

    fn key_of(number: u32) -> Bytes {
        Arc::from(number.to_le_bytes())
    }

    /// Slots that were looked at, with half of the keys gone: `key` counts none, so the cursor tells.
    #[test]
    fn enumeration_walks_once_and_empty_slots_are_few() {
        let mut map = Map::default();
        (0..10_000_u32).for_each(|number| assert!(map.set(&key_of(number), number).is_none()));
        (0..10_000_u32)
            .filter(|number| number % 2 == 0)
            .for_each(|number| assert!(map.remove(&key_of(number)).is_some()));
        assert!(map.slots.len() > map.len(), "there are empty slots");
        let mut walked = 0;
        for at in 0..map.len() {
            let from = map.cursor.1;
            assert_eq!(map.key(at).unwrap()[..], key_of(2 * at as u32 + 1)[..]);
            assert!(map.cursor.1 >= from);
            walked += map.cursor.1 - from;
        }
        assert!(walked <= 10_000);
        // As pages clear what is theirs.
        while let Some(key) = map.key(0).cloned() {
            let from = map.cursor.1;
            map.remove(&key);
            assert!(map.cursor.1.abs_diff(from) <= 1 || map.cursor == (0, 0));
        }
        assert!(map.slots.is_empty() && map.is_empty());
        for number in 0..100_000_u32 {
            map.set(&key_of(number), number);
            map.remove(&key_of(number.wrapping_sub(10)));
            assert!(map.slots.len() <= 2 * map.len() + SLACK + 1);
        }
    }
}
