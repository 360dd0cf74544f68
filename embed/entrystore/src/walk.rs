//! Going through the entries on disk, a few heads at a time: for visitors, and for clearing what has no place of its
//! own.

use crate::key::Key;
use crate::log::Log;
use crate::recover;
use crate::shared::{Clear, Event, Visited};
use std::collections::BinaryHeap;

/// Heads that one step reads.
const STEP: usize = 16;

/// A way through the entries.
pub(crate) struct Walk {
    /// Hashes; the last one is the next.
    left: Vec<u64>,
    next: Option<u64>,
    found: Vec<Visited>,
}

impl Walk {
    /// At most so many entries, of those that may be wanted, from a hash on.
    pub fn new(log: &Log, wanted: &Clear, from: u64, most: usize) -> Walk {
        let tag = match wanted {
            Clear::Partition(partition) => Key::new(partition, b"").map(|key| key.tag()),
            _ => None,
        };
        let index = log.shared.index();
        let may = index.iter().filter(|slot| slot.hash >= from && tag.is_none_or(|tag| slot.partition == tag));
        let hashes = may.map(|slot| slot.hash);
        let mut left: Vec<u64> = if most == usize::MAX {
            hashes.collect()
        } else {
            let mut least = BinaryHeap::new();
            for hash in hashes {
                least.push(hash);
                if least.len() > most + 1 {
                    least.pop();
                }
            }
            least.into_vec()
        };
        left.sort_unstable();
        let next = left.get(most).copied();
        left.truncate(most);
        left.reverse();
        Walk { left, next, found: Vec::new() }
    }

    /// Reads some heads. `true`: that was all.
    pub fn step(&mut self, log: &Log, wanted: &Clear) -> bool {
        for _ in 0..STEP {
            let Some(hash) = self.left.pop() else { return true };
            let Some(slot) = log.shared.index().get(hash) else { continue };
            let Some(head) = recover::head(log, &log.name(slot.segment), slot.offset.into()) else { continue };
            if wanted.wants(&head.key) && head.key.hash(log.seed) == hash {
                let (key, meta, body, time, group) = (head.key, head.meta, head.body, head.time, head.group);
                self.found.push(Visited { key, meta, body, time, group });
            }
        }
        self.left.is_empty()
    }

    /// The keys found since the last call.
    pub fn keys(&mut self) -> Vec<Key> {
        self.found.drain(..).map(|found| found.key).collect()
    }

    /// All that was found.
    pub fn page(self) -> Event {
        Event::Visited { entries: self.found, next: self.next }
    }
}
