//! Changes that are not in the file yet, the last of each key, in the order in which a reader has to make them. Pure.

use crate::map::{Bytes, Map};
use crate::record::{self, Change};

/// What becomes of a key.
pub struct Op {
    /// Its new value; `None`: it is gone.
    pub value: Option<Bytes>,
    /// It is new in the file, or comes back: it is the last then.
    pub fresh: bool,
    /// The file may have it.
    pub based: bool,
}

/// The changes.
#[derive(Default)]
pub struct Pending {
    /// All that the file has is gone first.
    pub cleared: bool,
    /// Then these.
    pub ops: Map<Op>,
}

impl Pending {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        !self.cleared && self.ops.is_empty()
    }

    /// Bytes that its changes take in a file, about.
    #[cfg(feature = "memreport")]
    pub fn bytes(&self) -> u64 {
        let value = |op: &Op| op.value.as_ref().map_or(0, |value| value.len() as u64);
        self.ops.iter().map(|(key, op)| record::size(key, &[]) + value(op)).sum()
    }

    /// A key was set. `new`: it had not been there.
    pub fn set(&mut self, key: &Bytes, value: Bytes, new: bool) {
        match self.ops.get_mut(key) {
            Some(op) if op.value.is_some() => op.value = Some(value),
            Some(op) => {
                (op.value, op.fresh) = (Some(value), true);
                self.ops.move_to_end(key);
            }
            None => drop(self.ops.set(key, Op { value: Some(value), fresh: new, based: !new })),
        }
    }

    /// A key that was there was removed.
    pub fn remove(&mut self, key: &Bytes) {
        match self.ops.get_mut(key) {
            Some(op) if op.based => (op.value, op.fresh) = (None, false),
            Some(_) => drop(self.ops.remove(key)),
            None => drop(self.ops.set(key, Op { value: None, fresh: false, based: true })),
        }
    }

    /// All keys were. What had been pending is returned: letting go of it takes time.
    pub fn clear(&mut self) -> Pending {
        std::mem::replace(self, Pending { cleared: true, ops: Map::default() })
    }

    /// Adds changes that were made after these.
    pub fn merge(&mut self, later: Pending) {
        if later.cleared {
            *self = later;
            return;
        }
        if self.is_empty() {
            self.ops = later.ops;
            return;
        }
        for (key, op) in later.ops {
            match (self.ops.get_mut(&key), op.value) {
                (Some(old), None) if old.based => (old.value, old.fresh) = (None, false),
                (Some(_), None) => drop(self.ops.remove(&key)),
                (Some(old), Some(value)) => {
                    let moved = op.fresh || old.value.is_none();
                    (old.value, old.fresh) = (Some(value), old.fresh || moved);
                    if moved {
                        self.ops.move_to_end(&key);
                    }
                }
                (None, value) => drop(self.ops.set(&key, Op { value, ..op })),
            }
        }
    }

    /// The records that say this: one, if it is not longer than `most` bytes.
    pub fn records(&self, most: usize) -> Vec<Vec<u8>> {
        let (mut records, mut record) = (Vec::new(), Vec::new());
        if self.cleared {
            record::write(&mut record, Change::Clear);
        }
        for (key, op) in self.ops.iter() {
            let change = match &op.value {
                Some(value) if op.fresh => Change::Anew(key, value),
                Some(value) => Change::Set(key, value),
                None => Change::Remove(key),
            };
            let len = op.value.as_ref().map_or(0, |value| value.len());
            if !record.is_empty() && record.len() + key.len() + len + 9 > most {
                records.push(std::mem::take(&mut record));
            }
            record::write(&mut record, change);
        }
        records.extend((!record.is_empty()).then_some(record));
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{apply, parse};
    use proptest::prelude::*;

    type List = Vec<(Bytes, Bytes)>;

    fn list(map: &Map<Bytes>) -> List {
        map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn replay(map: &mut Map<Bytes>, pending: &Pending) {
        for record in pending.records(64) {
            parse(&record, false).unwrap().into_iter().for_each(|change| apply(map, change));
        }
    }

    proptest! {
        /// However changes are coalesced and merged, whoever replays them has the same keys in the same order.
        #[test]
        fn what_is_replayed_is_what_was_done(
            batches in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec((0..8_u8, 0..6_u8), 0..12)), 1..6),
        ) {
            let (mut map, mut file, mut inflight) = (Map::default(), Map::default(), Pending::default());
            let mut number = 0_u8;
            for (fails, steps) in batches {
                let mut pending = Pending::default();
                for (what, key) in steps {
                    number = number.wrapping_add(1);
                    let (key, value) = (Bytes::from([0, key]), Bytes::from([0, number]));
                    match what {
                        0..=3 => {
                            let new = map.set(&key, value.clone()).is_none();
                            pending.set(&key, value, new);
                        }
                        4..=6 => if map.remove(&key).is_some() {
                            pending.remove(&key);
                        },
                        _ => {
                            map = Map::default();
                            pending.clear();
                        }
                    }
                }
                inflight.merge(pending);
                if !fails {
                    replay(&mut file, &std::mem::take(&mut inflight));
                    prop_assert_eq!(list(&file), list(&map));
                }
            }
            replay(&mut file, &inflight);
            prop_assert_eq!(list(&file), list(&map));
        }
    }

    #[test]
    fn keys_that_come_and_go_leave_nothing() {
        let (mut pending, mut merged) = (Pending::default(), Pending::default());
        for number in 0..1000_u32 {
            let key = Bytes::from(number.to_le_bytes());
            pending.set(&key, key.clone(), true);
            if number % 2 == 0 {
                merged.merge(std::mem::take(&mut pending));
            }
            pending.remove(&key);
        }
        merged.merge(pending);
        assert!(merged.is_empty());
    }
}
