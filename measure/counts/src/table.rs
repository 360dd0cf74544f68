//! Sums by line: open addressing over lines that lie one after the other. One probe is one comparison of hashes; no
//! line has an allocation of its own.

use std::ops::AddAssign;

#[derive(Debug)]
pub(crate) struct Table<N> {
    /// Positions in `entries` plus one; 0 is free. A power of two, at most half full.
    slots: Vec<usize>,
    entries: Vec<Entry<N>>,
    text: Vec<u8>,
    total: N,
}

#[derive(Debug)]
struct Entry<N> {
    hash: u64,
    start: usize,
    len: usize,
    sum: N,
}

impl<N: Default> Default for Table<N> {
    fn default() -> Self {
        Self { slots: vec![0; 1 << 10], entries: Vec::new(), text: Vec::new(), total: N::default() }
    }
}

impl<N: AddAssign + Copy> Table<N> {
    pub fn add(&mut self, line: &[u8], weight: N) {
        self.total += weight;
        let hash = hash(line);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(index) = self.slots[slot].checked_sub(1) {
            let entry = &mut self.entries[index];
            if entry.hash == hash && self.text[entry.start..entry.start + entry.len] == *line {
                entry.sum += weight;
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.entries.push(Entry { hash, start: self.text.len(), len: line.len(), sum: weight });
        self.text.extend_from_slice(line);
        self.slots[slot] = self.entries.len();
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots = vec![0; mask + 1];
        for (index, entry) in self.entries.iter().enumerate() {
            let mut slot = entry.hash as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = index + 1;
        }
    }

    pub fn total(&self) -> N {
        self.total
    }

    /// In the order of their first occurrence.
    pub fn lines(&self) -> Vec<(&[u8], N)> {
        let line = |entry: &Entry<N>| &self.text[entry.start..entry.start + entry.len];
        self.entries.iter().map(|entry| (line(entry), entry.sum)).collect()
    }
}

/// Sixteen bytes a multiplication. Not for lines that somebody chooses to collide; the worst is slowness.
fn hash(line: &[u8]) -> u64 {
    const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xe703_7ed1_a0b4_28db];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
    let mut hash = line.len() as u64;
    let mut chunks = line.chunks_exact(16);
    for chunk in &mut chunks {
        let (a, b) = chunk.split_at(8);
        hash = fold(whole(a) ^ KEYS[0] ^ hash, whole(b) ^ KEYS[1]);
    }
    let (a, b) = match chunks.remainder() {
        rest if rest.len() >= 8 => (whole(&rest[..8]), whole(&rest[rest.len() - 8..])),
        rest => (word(rest), 0),
    };
    fold(fold(a ^ KEYS[0] ^ hash, b ^ KEYS[1]), KEYS[0])
}

fn whole(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn sums_are_those_of_a_map(lines in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 0..2000)) {
            let mut table = Table::default();
            let mut map: BTreeMap<&[u8], i64> = BTreeMap::new();
            for (weight, line) in (1..).zip(&lines) {
                table.add(line, weight);
                *map.entry(line).or_default() += weight;
            }
            let mut found = table.lines();
            found.sort();
            prop_assert_eq!(found, map.into_iter().collect::<Vec<_>>());
        }
    }
}
