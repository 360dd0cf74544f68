//! Entries in memory: bodies within a budget of bytes, the latest used last to go, metadata longer than bodies. Pure.

use crate::key::Key;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

/// Bytes that an entry costs besides key, metadata and body: its rows in the tables, about.
const OVERHEAD: usize = 256;

struct Item {
    meta: Bytes,
    body: Option<Bytes>,
    length: u64,
    used: u64,
}

/// The pool. Metadata may take an eighth of it beside the bodies.
pub struct Pool {
    items: HashMap<Key, Item>,
    by_use: BTreeMap<u64, Key>,
    with_body: BTreeMap<u64, Key>,
    bodies: usize,
    metas: usize,
    limit: usize,
    clock: u64,
}

impl Pool {
    /// A pool of so many bytes.
    pub fn new(limit: usize) -> Pool {
        Pool {
            items: HashMap::new(),
            by_use: BTreeMap::new(),
            with_body: BTreeMap::new(),
            bodies: 0,
            metas: 0,
            limit,
            clock: 0,
        }
    }

    /// Bytes held: bodies and metadata.
    pub fn bytes(&self) -> usize {
        self.bodies + self.metas
    }

    /// Another limit, from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink();
    }

    fn meta_cost(key: &Key, meta: &Bytes) -> usize {
        key.bytes().len() + meta.len() + OVERHEAD
    }

    /// Metadata, the body if it is there, and the length of the body. Using an entry keeps it longer.
    pub fn get(&mut self, key: &Key) -> Option<(Bytes, Option<Bytes>, u64)> {
        self.clock += 1;
        let clock = self.clock;
        let item = self.items.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&item.used) {
            self.by_use.insert(clock, key);
        }
        if let Some(key) = self.with_body.remove(&item.used) {
            self.with_body.insert(clock, key);
        }
        item.used = clock;
        Some((item.meta.clone(), item.body.clone(), item.length))
    }

    /// Whether an entry is here, with its body if that is wanted.
    pub fn has(&self, key: &Key, with_body: bool) -> bool {
        self.items.get(key).is_some_and(|item| item.body.is_some() || !with_body)
    }

    /// Puts an entry in; without a body if that is over a quarter of the limit.
    pub fn put(&mut self, key: &Key, meta: Bytes, body: Option<Bytes>, length: u64) {
        self.remove(key);
        if self.limit == 0 {
            return;
        }
        self.clock += 1;
        let body = body.filter(|body| body.len() <= self.limit / 4);
        self.metas += Pool::meta_cost(key, &meta);
        self.by_use.insert(self.clock, key.clone());
        if let Some(body) = &body {
            self.bodies += body.len();
            self.with_body.insert(self.clock, key.clone());
        }
        self.items.insert(key.clone(), Item { meta, body, length, used: self.clock });
        self.shrink();
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &Key) -> bool {
        let Some(item) = self.items.remove(key) else { return false };
        self.by_use.remove(&item.used);
        self.with_body.remove(&item.used);
        self.metas -= Pool::meta_cost(key, &item.meta);
        self.bodies -= item.body.map_or(0, |body| body.len());
        true
    }

    /// Keeps what passes.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key) -> bool) {
        let gone: Vec<Key> = self.items.keys().filter(|key| !keep(key)).cloned().collect();
        gone.iter().for_each(|key| {
            self.remove(key);
        });
    }

    fn shrink(&mut self) {
        while self.metas > self.limit / 8 {
            let Some((_, key)) = self.by_use.pop_first() else { break };
            self.remove(&key);
        }
        while self.bodies + self.metas > self.limit {
            let Some((_, key)) = self.with_body.pop_first() else { break };
            if let Some(body) = self.items.get_mut(&key).and_then(|item| item.body.take()) {
                self.bodies -= body.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_go_before_metadata_and_the_limit_holds() {
        let mut pool = Pool::new(1 << 20);
        let key = |number: u32| Key::new(b"", &number.to_le_bytes()).unwrap();
        for number in 0..300 {
            pool.put(&key(number), Bytes::from_static(b"head"), Some(vec![1; 10_000].into()), 10_000);
            assert!(pool.get(&key(0)).is_some() && pool.bytes() <= 1 << 20);
        }
        assert!(pool.get(&key(0)).unwrap().1.is_some(), "used all the time");
        let (meta, body, length) = pool.get(&key(100)).unwrap();
        assert_eq!((&meta[..], body, length), (&b"head"[..], None, 10_000));
        assert!(pool.get(&key(299)).unwrap().1.is_some());
        pool.set_limit(0);
        assert_eq!(pool.bytes(), 0);
    }
}
