//! The frames of a stream's stacks: addresses by the ids of the stream, and where sequences of ids led before.

use crate::stack::{Quick, StackId, Stacks};
use heap_wire::mark;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Ids below this, which is what there mostly is, are in a table.
const DENSE: usize = 1 << 20;
/// No address.
const NONE: u32 = u32::MAX;
/// An element in whose place others stand.
const HIDDEN: u32 = u32::MAX - 1;
/// Longest sequence that is remembered, in bytes and ids.
const BYTES: usize = 64;
const IDS: usize = BYTES / 2;
/// How many are.
const PATHS: usize = 1024;

/// What the ids of a stream are.
#[derive(Debug, Default)]
pub struct Frames {
    dense: Vec<u32>,
    sparse: HashMap<u32, u32, BuildHasherDefault<Quick>>,
    paths: Vec<Path>,
    /// Changes when an id becomes another address: what was remembered before does not hold.
    pub generation: u32,
}

/// A sequence, and the stacks that it led to.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The stack that it began at; `None`: it begins with how the walk ended.
    outer: Option<StackId>,
    generation: u32,
    width: u8,
    length: u8,
    ids: [u8; BYTES],
    stacks: [StackId; IDS],
}

impl Frames {
    /// Enters the number of an address; `None`: of one in whose place others stand.
    pub fn insert(&mut self, id: u32, address: Option<u32>) {
        let address = address.unwrap_or(HIDDEN);
        let index = id as usize;
        let before = if index < DENSE {
            if index >= self.dense.len() {
                self.dense.resize(index + 1, NONE);
            }
            Some(std::mem::replace(&mut self.dense[index], address)).filter(|before| *before != NONE)
        } else {
            self.sparse.insert(id, address)
        };
        if before.is_some_and(|before| before != address) {
            self.generation += 1;
        }
    }

    fn get(&self, id: u32) -> Option<u32> {
        match self.dense.get(id as usize) {
            Some(address) => Some(*address).filter(|address| *address != NONE),
            None => self.sparse.get(&id).copied(),
        }
    }

    /// Adds the stacks that these ids lead to, from the last one inwards; `None`: there are no such ones.
    pub fn push(&self, ids: impl Iterator<Item = u32>, path: &mut Vec<StackId>, stacks: &mut Stacks) -> Option<()> {
        for id in ids {
            let node = match path.last() {
                None if id < mark::FIRST_PC => Stacks::end(id),
                Some(outer) if id >= mark::FIRST_PC => match self.get(id)? {
                    HIDDEN => *outer,
                    address => stacks.push(*outer, address),
                },
                _ => return None,
            };
            path.push(node);
        }
        Some(())
    }

    /// As [`Self::push`], for ids of `width` bytes; what it led to is remembered.
    pub fn follow(&mut self, ids: &[u8], width: usize, path: &mut Vec<StackId>, stacks: &mut Stacks) -> Option<()> {
        let each =
            || ids.chunks_exact(width).map(|id| id.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
        if ids.len() > BYTES {
            return self.push(each(), path, stacks);
        }
        let outer = path.last().copied();
        if self.paths.is_empty() {
            let (ids, stacks) = ([0; BYTES], [StackId(0); IDS]);
            self.paths = vec![Path { outer: None, generation: 0, width: 0, length: 0, ids, stacks }; PATHS];
        }
        let slot = slot(outer, ids);
        let count = ids.len() / width;
        let known = &self.paths[slot];
        let is = (known.outer, known.generation, usize::from(known.width), usize::from(known.length))
            == (outer, self.generation, width, ids.len());
        if is && known.ids[..ids.len()] == *ids {
            path.extend_from_slice(&known.stacks[..count]);
            return Some(());
        }
        let from = path.len();
        self.push(each(), path, stacks)?;
        let known = &mut self.paths[slot];
        (known.outer, known.generation, known.width, known.length) =
            (outer, self.generation, width as u8, ids.len() as u8);
        known.ids[..ids.len()].copy_from_slice(ids);
        known.stacks[..count].copy_from_slice(&path[from..]);
        Some(())
    }
}

/// Where a sequence is remembered.
fn slot(outer: Option<StackId>, ids: &[u8]) -> usize {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = ids.as_chunks::<8>();
    let hash =
        words.iter().fold(outer.map_or(0, |outer| outer.0.into()), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let rest = rest.iter().fold(ids.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
    (mix(hash, rest) >> (64 - PATHS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Address;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_remembered_is_what_it_would_be(
            steps in prop::collection::vec(
                (0usize..4, prop::collection::vec(4u16..9, 0..40), any::<bool>(), 0u32..20), 0..300)
        ) {
            let (mut frames, mut stacks) = (Frames::default(), Stacks::default());
            for (keep, ids, wide, retold) in steps {
                if (4..9).contains(&retold) {
                    let address = stacks.address(Address { pc: u64::from(retold) * ids.len() as u64, module: None });
                    frames.insert(retold, Some(address).filter(|_| keep != 3));
                }
                let bytes = |id: &u16| match wide {
                    true => u32::from(*id).to_le_bytes().to_vec(),
                    false => id.to_le_bytes().to_vec(),
                };
                let told: Vec<u8> = ids.iter().flat_map(bytes).collect();
                let outer = vec![Stacks::end(keep as u32); keep.min(1)];
                let (mut here, mut there) = (outer.clone(), outer);
                let expected = frames.push(ids.iter().map(|id| u32::from(*id)), &mut there, &mut stacks);
                let found = frames.follow(&told, if wide { 4 } else { 2 }, &mut here, &mut stacks);
                prop_assert_eq!(found, expected);
                if found.is_some() {
                    prop_assert_eq!(here, there);
                }
            }
        }
    }
}
