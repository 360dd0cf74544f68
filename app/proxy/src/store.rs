//! Stored responses in memory, within a budget of bytes. What was not used for the longest time goes first. Behind it
//! there may be a disk, which has what is whole, of each key all or nothing.
//!
//! Its shape is that of a store on a disk: a key has variants, each with a head and its bytes; look-ups are `async`;
//! writers stream, and readers hold what they read however long they read it.

use crate::content::{Content, Reading};
use crate::disk::{Disk, Packed, Variant};
use crate::metrics::{Metrics, count};
use crate::upstream::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};
use thaw_entrystore::Urgency;
use thaw_httpcache::{Key, Store, Stored};

/// Bytes that an entry costs beside its head and its body: its places in tables, and what the allocator adds. Measured:
/// with it, a store full of tiny answers makes the process grow by what it says.
const OVERHEAD: u64 = 2304;

/// Bytes that a field or a piece of a body costs beside its text.
const SMALL: u64 = 64;

/// No body is larger than this part of the budget.
const SHARE: u64 = 8;

/// So many variants has a key at most: each look-up goes through all of them.
const MOST_VARIANTS: usize = 64;

/// The variants of one key, as they were when they were looked up.
#[derive(Default)]
pub struct Variants {
    /// Their heads.
    pub stored: Vec<Stored>,
    bodies: Vec<(u64, Arc<Content>)>,
    /// Of the disk's entry that has the bytes of just those that are whole; 0: none is known.
    number: AtomicU64,
}

impl Clone for Variants {
    fn clone(&self) -> Self {
        let number = self.number.load(Ordering::Relaxed).into();
        Self { stored: self.stored.clone(), bodies: self.bodies.clone(), number }
    }
}

impl Variants {
    /// Bytes of the one at `index`.
    pub fn body(&self, index: usize, range: Range<u64>) -> Body {
        self.bodies[index].1.range(range).boxed_unsync()
    }

    /// Bytes of the one at `index`, if all of them are there.
    pub fn pieces(&self, index: usize, range: Range<u64>) -> Option<Vec<Bytes>> {
        self.bodies[index].1.pieces(range)
    }

    /// Those with such a head.
    pub fn filter(&self, wanted: impl Fn(&Stored) -> bool) -> Self {
        let both = self.stored.iter().zip(&self.bodies).filter(|(stored, _)| wanted(stored));
        let (stored, bodies) = both.map(|(stored, body)| (stored.clone(), body.clone())).unzip();
        Self { stored, bodies, number: AtomicU64::default() }
    }

    /// Those of which all bytes are there, with their bytes.
    fn whole(&self) -> impl Iterator<Item = (&Stored, Vec<Bytes>)> {
        let whole = self.stored.iter().zip(0..).filter(|(stored, _)| stored.is_whole());
        whole.filter_map(|(stored, index)| {
            let pieces = self.pieces(index, 0..stored.length.unwrap_or_default())?;
            Some((stored, pieces))
        })
    }

    fn ids(&self) -> impl Iterator<Item = u64> {
        self.bodies.iter().map(|(id, _)| *id)
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.ids().position(|its| its == id)
    }

    fn push(&mut self, id: u64, stored: Stored, content: Arc<Content>) {
        self.number = 0.into();
        // Most keys have one variant, and a head is large: none is held in reserve.
        self.stored.reserve_exact(1);
        self.stored.push(stored);
        self.bodies.push((id, content));
    }
}

/// What an answer by a fresh stored response was made of: an extension of it.
#[derive(Clone)]
pub struct Hit {
    /// What was looked up.
    pub key: Key,
    /// What was found; the store has another one as soon as anything of it changes.
    pub variants: Weak<Variants>,
    /// Which of them was served.
    pub index: usize,
    /// The bytes of the answer's body.
    pub pieces: Vec<Bytes>,
    /// Seconds for which it was fresh.
    pub ttl: u64,
    /// When that was.
    pub at: SystemTime,
}

struct Entry {
    key: Key,
    /// Bytes that it costs.
    size: u64,
    /// When it was last used; `None`: it still comes, and is not evicted.
    used: Option<u64>,
}

/// What is on its way to the disk.
struct Saving {
    /// Of the last one who saves: who came later has seen more.
    turn: u64,
    /// The disk has been handed it.
    handed: bool,
    /// A head has changed since.
    again: bool,
}

#[derive(Default)]
struct Inner {
    of: HashMap<Key, Arc<Variants>>,
    entries: HashMap<u64, Entry>,
    /// Entries by their last use.
    order: BTreeMap<u64, u64>,
    /// Keys that are read from the disk: by how many, and how often what is there has changed meanwhile.
    loading: HashMap<Key, (usize, u64)>,
    /// Keys that are on their way to the disk.
    saving: HashMap<Key, Saving>,
    size: u64,
    /// Those that still come, and their bytes.
    open: HashSet<u64>,
    coming: u64,
    next: u64,
}

/// The store.
pub struct Memory {
    /// Bytes.
    budget: u64,
    disk: Option<Arc<Disk>>,
    inner: Mutex<Inner>,
    metrics: Arc<Metrics>,
}

impl Memory {
    /// An empty one that holds `budget` bytes: heads, bodies and what they cost beside. What it has not is looked for
    /// on the disk, if there is one.
    pub fn new(budget: u64, disk: Option<Arc<Disk>>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { budget, disk, inner: Mutex::default(), metrics })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored of a key. `urgency`: of the read, where it has to be read from the disk.
    pub async fn get(&self, key: &Key, urgency: impl Fn() -> Urgency) -> Arc<Variants> {
        loop {
            let Some(disk) = &self.disk else { return self.inner().of.get(key).cloned().unwrap_or_default() };
            let Some(loading) = Loading::begin(self, key) else {
                return self.inner().of.get(key).cloned().unwrap_or_default();
            };
            let (number, variants) = disk.load(key, urgency()).await;
            let mut inner = self.inner();
            if let Some(found) = inner.of.get(key) {
                return Arc::clone(found);
            }
            // Where it has changed, or is about to, what was read is of before.
            let changes = inner.loading.get(key).map(|(_, changes)| *changes);
            if changes == Some(loading.changes) && inner.saving.get(key).is_none_or(|saving| saving.handed) {
                inner.put(key, number, variants);
                let found = inner.of.get(key).cloned().unwrap_or_default();
                self.settle(&mut inner);
                return found;
            }
        }
    }

    /// Has the disk keep what is whole of a key, as it is now. The bytes are copied while nobody waits for the lock.
    fn save(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, key: &Key, group: u64) {
        let Some(disk) = &self.disk else { return };
        inner.changed(key);
        let turn = inner.next;
        inner.next += 1;
        let of = inner.of.get(key).cloned().unwrap_or_default();
        inner.saving.insert(key.clone(), Saving { turn, handed: false, again: false });
        drop(inner);
        let variants: Vec<Variant> = of.whole().map(|(stored, pieces)| (stored.clone(), pieces)).collect();
        let bytes: u64 = variants.iter().filter_map(|(stored, _)| stored.length).sum();
        // What memory could not take back is of no use.
        let packed = (!variants.is_empty() && bytes <= self.budget / SHARE).then(|| Packed::of(&variants));
        let mut inner = self.inner();
        let Inner { saving, of: all, .. } = &mut *inner;
        let Some(saved) = saving.get_mut(key).filter(|saving| saving.turn == turn) else { return };
        let Some(packed) = packed else {
            saving.remove(key);
            return disk.remove(key);
        };
        saved.handed = true;
        if let Some(now) = all.get(key).filter(|now| now.ids().eq(of.ids())) {
            now.number.store(packed.number, Ordering::Relaxed);
        }
        let written = disk.save(key, packed, group);
        let (memory, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move {
            let _ = written.await;
            let mut inner = memory.inner();
            let Some(Saving { again, .. }) = inner.saving.get(&key).filter(|saving| saving.turn == turn) else {
                return;
            };
            let again = *again;
            inner.saving.remove(&key);
            if again {
                memory.save_heads(inner, &key);
            }
        });
    }

    /// Has the disk keep the heads of a key as they are now. The bytes that it has are not written again; where they
    /// are on their way, the heads wait for them.
    fn save_heads(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, key: &Key) {
        let (Some(disk), Some(of)) = (&self.disk, inner.of.get(key).cloned()) else { return };
        if let Some(saving) = inner.saving.get_mut(key) {
            saving.again = true;
            return;
        }
        let number = of.number.load(Ordering::Relaxed);
        if number == 0 {
            return self.save(inner, key, 0);
        }
        inner.changed(key);
        let answer = disk.update(key, number, of.whole().map(|(stored, _)| stored));
        let (memory, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move {
            if answer.await == Ok(false) {
                let inner = memory.inner();
                // What memory has not any more is nowhere then.
                if inner.of.contains_key(&key) {
                    memory.save(inner, &key, 0);
                }
            }
        });
    }

    /// Waits until all that is on its way to the disk is on the medium.
    pub async fn flush(&self) {
        let Some(disk) = &self.disk else { return };
        self.saved(disk).await;
        disk.flush().await;
    }

    /// Ends the disk with all that is on its way to it; from then on nothing is found there and nothing kept. `false`:
    /// that took longer than this.
    pub async fn close(&self, bound: Duration) -> bool {
        let Some(disk) = &self.disk else { return true };
        let closing = async {
            self.saved(disk).await;
            disk.close().await;
        };
        tokio::time::timeout(bound, closing).await.is_ok()
    }

    /// Returns when nothing is on its way to the disk.
    async fn saved(&self, disk: &Disk) {
        while !self.inner().saving.is_empty() {
            disk.flush().await;
            tokio::task::yield_now().await;
        }
    }

    /// Whether what a hit was made of is what is stored still. If so, it was used.
    pub fn used(&self, hit: &Hit) -> bool {
        let mut inner = self.inner();
        let Some(of) = inner.of.get(&hit.key).filter(|of| std::ptr::eq(Arc::as_ptr(of), hit.variants.as_ptr())) else {
            return false;
        };
        let id = of.bodies[hit.index].0;
        inner.touch(id);
        true
    }

    /// The variant at `index` was used.
    pub fn touch(&self, variants: &Variants, index: usize) {
        self.inner().touch(variants.bodies[index].0);
    }

    /// Gives the variant at `index` another head, if it is still there.
    pub fn update(self: &Arc<Self>, variants: &Variants, index: usize, mut stored: Stored) {
        own(&mut stored);
        let mut inner = self.inner();
        let id = variants.bodies[index].0;
        let Some(of) = inner.of.get_mut(&stored.key) else { return };
        let Some(at) = of.find(id) else { return };
        let old = &mut Arc::make_mut(of).stored[at];
        let before = head(old);
        let after = head(&stored);
        // Which bytes there are is known better here: they may have come meanwhile.
        let (length, held, trailers) = (old.length, std::mem::take(&mut old.held), std::mem::take(&mut old.trailers));
        *old = Stored { length, held, trailers, ..stored };
        let key = old.key.clone();
        inner.resize(id, |size| size.saturating_sub(before) + after);
        self.save_heads(inner, &key);
        self.settle(&mut self.inner());
    }

    /// Takes the variant at `index` away.
    pub fn remove(self: &Arc<Self>, variants: &Variants, index: usize) {
        let mut inner = self.inner();
        inner.remove(variants.bodies[index].0);
        self.save(inner, &variants.stored[index].key, 0);
        self.settle(&mut self.inner());
    }

    /// Takes all of a key away, also what still comes.
    pub fn invalidate(&self, key: &Key) {
        let mut inner = self.inner();
        let mut gone: Vec<u64> = inner.of.get(key).into_iter().flat_map(|of| &of.bodies).map(|(id, _)| *id).collect();
        gone.extend(inner.open.iter().filter(|id| inner.entries[*id].key == *key));
        for id in gone {
            inner.remove(id);
        }
        if let Some(disk) = &self.disk {
            inner.changed(key);
            inner.saving.remove(key);
            disk.remove(key);
        }
        self.settle(&mut inner);
    }

    /// Begins to store a response; `variants` are those that the decision to store it was made with. `None`: it is too
    /// large, or too much is on its way. `group`: what is asked for together has the same.
    pub fn begin(self: &Arc<Self>, store: Store, variants: &Variants, group: u64) -> Option<Writer> {
        let Store { mut stored, into, offset } = store;
        own(&mut stored);
        let to_come = stored.held.last().filter(|range| range.start == offset).map(|range| range.end - offset);
        let length = match (stored.length, to_come) {
            (Some(0), None) => Some(0),
            (_, to_come) => to_come,
        };
        let before = into.map_or(0, |index| variants.stored[index].held.iter().map(|of| of.end - of.start).sum());
        let size = head(&stored) + before + length.unwrap_or(0);
        let into = into.map(|index| variants.bodies[index].clone());
        let mut inner = self.inner();
        if before + length.unwrap_or(0) > self.budget / SHARE || inner.coming + size > self.budget / 2 {
            count(&self.metrics.cache_too_large);
            return None;
        }
        let content = Content::new(into.as_ref().map(|(_, content)| &**content), offset);
        let id = inner.next;
        inner.next += 1;
        let key = stored.key.clone();
        inner.entries.insert(id, Entry { key: key.clone(), size, used: None });
        inner.open.insert(id);
        inner.size += size;
        inner.coming += size;
        let visible = into.is_none() && stored.is_whole();
        if visible {
            let of = Arc::make_mut(inner.of.entry(key).or_default());
            of.push(id, stored.clone(), Arc::clone(&content));
        }
        self.settle(&mut inner);
        drop(inner);
        let into = into.map(|(id, _)| id);
        Some(Writer { store: Arc::clone(self), id, stored, content, into, offset, length, visible, received: 0, group })
    }

    /// Takes away what the budget does not allow, and tells what is there.
    fn settle(&self, inner: &mut Inner) {
        while inner.size > self.budget
            && let Some((_, id)) = inner.order.first_key_value()
        {
            let id = *id;
            let mut gone = vec![id];
            if self.disk.is_some() {
                // With a disk behind it, what is here of a key is all of it.
                let of = inner.of.get(&inner.entries[&id].key);
                gone.extend(of.into_iter().flat_map(|of| &of.bodies).map(|(id, _)| *id));
            }
            for id in gone {
                if inner.entries.get(&id).is_some_and(|entry| entry.used.is_some()) {
                    inner.remove(id);
                    count(&self.metrics.cache_evicted);
                }
            }
        }
        self.metrics.cache_bytes.store(inner.size, Ordering::Relaxed);
        self.metrics.cache_entries.store(inner.entries.len() as u64, Ordering::Relaxed);
    }
}

impl Inner {
    /// What the disk has of a key is not what it was.
    fn changed(&mut self, key: &Key) {
        if let Some((_, changes)) = self.loading.get_mut(key) {
            *changes += 1;
        }
    }

    /// Takes in what was read from the disk.
    fn put(&mut self, key: &Key, number: u64, variants: Vec<Variant>) {
        for (stored, pieces) in variants {
            let size = head(&stored) + stored.length.unwrap_or_default();
            let id = self.next;
            self.entries.insert(id, Entry { key: key.clone(), size, used: Some(id) });
            self.order.insert(id, id);
            self.size += size;
            self.next += 1;
            let content = Content::whole(pieces, stored.trailers.clone());
            Arc::make_mut(self.of.entry(key.clone()).or_default()).push(id, stored, content);
        }
        if let Some(of) = self.of.get(key) {
            of.number.store(number, Ordering::Relaxed);
        }
    }

    fn touch(&mut self, id: u64) {
        let now = self.next;
        if let Some(Entry { used: Some(used), .. }) = self.entries.get_mut(&id) {
            self.order.remove(used);
            *used = now;
            self.order.insert(now, id);
            self.next += 1;
        }
    }

    fn resize(&mut self, id: u64, to: impl FnOnce(u64) -> u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let before = entry.size;
        entry.size = to(before);
        self.size = self.size - before + entry.size;
        if entry.used.is_none() {
            self.coming = self.coming - before + entry.size;
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        self.size -= entry.size;
        match entry.used {
            Some(used) => _ = self.order.remove(&used),
            None => {
                self.open.remove(&id);
                self.coming -= entry.size;
            }
        }
        let Some(of) = self.of.get_mut(&entry.key) else { return };
        if let Some(at) = of.find(id) {
            let of = Arc::make_mut(of);
            of.number = 0.into();
            of.stored.remove(at);
            of.bodies.remove(at);
        }
        if of.stored.is_empty() {
            self.of.remove(&entry.key);
        }
    }
}

/// A key is read from the disk.
struct Loading<'a> {
    memory: &'a Memory,
    key: &'a Key,
    changes: u64,
}

impl<'a> Loading<'a> {
    /// `None`: it is in memory.
    fn begin(memory: &'a Memory, key: &'a Key) -> Option<Self> {
        let mut inner = memory.inner();
        if inner.of.contains_key(key) {
            return None;
        }
        let (readers, changes) = inner.loading.entry(key.clone()).or_default();
        *readers += 1;
        let changes = *changes;
        Some(Self { memory, key, changes })
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut inner = self.memory.inner();
        if let Some((readers, _)) = inner.loading.get_mut(self.key) {
            *readers -= 1;
            if *readers == 0 {
                inner.loading.remove(self.key);
            }
        }
    }
}

/// Copies the fields: as they were read they are parts of a connection's buffer, many times as large, which they would
/// keep.
fn own(stored: &mut Stored) {
    let mut headers = HeaderMap::with_capacity(stored.headers.len());
    for (name, value) in &stored.headers {
        // What was a name and a value is one again.
        if let (Ok(name), Ok(mut own)) =
            (HeaderName::from_bytes(name.as_ref()), HeaderValue::from_bytes(value.as_ref()))
        {
            own.set_sensitive(value.is_sensitive());
            headers.append(name, own);
        }
    }
    stored.headers = headers;
}

/// Bytes that a head costs.
fn head(stored: &Stored) -> u64 {
    let fields = stored.headers.len() + stored.trailers.len() + stored.selecting.len();
    stored.encode().len() as u64 + SMALL * fields as u64 + OVERHEAD
}

/// A response on its way into the store. Dropped before its end it is not kept.
pub struct Writer {
    store: Arc<Memory>,
    id: u64,
    stored: Stored,
    content: Arc<Content>,
    /// The entry whose bytes are added to.
    into: Option<u64>,
    offset: u64,
    /// Bytes that the origin announced.
    length: Option<u64>,
    visible: bool,
    received: u64,
    group: u64,
}

impl Writer {
    /// Whether look-ups find it already, so that others read along: so it is where its length is known.
    pub fn is_visible(&self) -> bool {
        self.visible
    }

    /// Whether the origin announced a length.
    pub fn knows_length(&self) -> bool {
        self.length.is_some()
    }

    /// The bytes from `at` on, for the client that they are fetched for.
    pub fn tail(&self, at: u64) -> Reading {
        self.content.tail(at)
    }

    /// Where the first byte from the origin belongs.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns when the client of [`tail`](Self::tail) is gone.
    pub async fn left(&self) {
        self.content.left().await;
    }

    /// Adds bytes. `false`: this is too large to be kept.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.received += bytes.len() as u64;
        self.content.add(bytes);
        if self.length.is_some() {
            return true;
        }
        let mut inner = self.store.inner();
        inner.resize(self.id, |size| size + bytes.len() as u64);
        self.store.settle(&mut inner);
        self.received <= self.store.budget / SHARE && inner.coming <= self.store.budget / 2
    }

    /// This is not kept: the client takes the rest from the origin.
    pub fn hand_over(self, rest: Body) {
        count(&self.store.metrics.cache_too_large);
        self.content.hand_over(rest);
    }

    /// The body has ended with these bytes, or has broken off. Whether it is kept: look-ups find it then, also those of
    /// whoever has just read its last byte.
    pub fn finish(mut self, whole: bool, last: &[u8], trailers: Option<HeaderMap>) -> bool {
        self.received += last.len() as u64;
        let kept = self.keep(whole, trailers.clone().unwrap_or_default());
        count(if kept { &self.store.metrics.cache_stored } else { &self.store.metrics.cache_broken });
        self.content.add(last);
        self.content.end(whole, trailers);
        if kept {
            self.store.save(self.store.inner(), &self.stored.key, self.group);
        }
        kept
    }

    fn keep(&mut self, whole: bool, trailers: HeaderMap) -> bool {
        let mut inner = self.store.inner();
        // It may have been invalidated meanwhile, or what it adds to.
        let there = |id: &u64| inner.entries.contains_key(id);
        if !there(&self.id) || !self.into.as_ref().is_none_or(there) {
            return false;
        }
        let key = &self.stored.key;
        let at = inner.of.get(key).and_then(|of| of.find(self.id));
        // A 304 may have given it another head.
        let mut stored = at.map_or(&self.stored, |at| &inner.of[key].stored[at]).clone();
        if !stored.finish(self.offset, self.received, whole, trailers) {
            return false;
        }
        let mut gone: Vec<u64> = self.into.into_iter().collect();
        if let Some(of) = inner.of.get(key) {
            let older = of.stored.iter().zip(&of.bodies).filter(|(of, (id, _))| {
                *id != self.id
                    && stored.is_whole()
                    && of.selecting == stored.selecting
                    && of.response_time <= stored.response_time
            });
            gone.extend(older.map(|(_, (id, _))| *id));
            let others: Vec<u64> = of.bodies.iter().map(|(id, _)| *id).filter(|id| *id != self.id).collect();
            gone.extend(&others[..(others.len() + 1).saturating_sub(MOST_VARIANTS)]);
        }
        let bytes: u64 = stored.held.iter().map(|range| range.end - range.start).sum();
        let size = head(&stored) + bytes;
        inner.resize(self.id, |_| size);
        inner.coming -= size;
        inner.open.remove(&self.id);
        let now = inner.next;
        inner.next += 1;
        if let Some(entry) = inner.entries.get_mut(&self.id) {
            entry.used = Some(now);
        }
        inner.order.insert(now, self.id);
        let of = Arc::make_mut(inner.of.entry(key.clone()).or_default());
        of.number = 0.into();
        match of.find(self.id) {
            Some(at) => of.stored[at] = stored,
            None => of.push(self.id, stored, Arc::clone(&self.content)),
        }
        for id in gone {
            inner.remove(id);
        }
        self.store.settle(&mut inner);
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Where it has ended already this changes nothing.
        self.content.end(false, None);
        let mut inner = self.store.inner();
        if inner.entries.get(&self.id).is_some_and(|entry| entry.used.is_none()) {
            inner.remove(self.id);
            self.store.settle(&mut inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    /// So long that the disk takes it piece by piece.
    const LENGTH: u64 = 2 << 20;

    fn numbered(key: &Key, number: &str) -> Stored {
        Stored {
            key: key.clone(),
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(HeaderName::from_static("x-number"), number.parse().unwrap())]),
            trailers: HeaderMap::new(),
            selecting: Vec::new(),
            request_time: SystemTime::UNIX_EPOCH,
            response_time: SystemTime::UNIX_EPOCH,
            length: Some(LENGTH),
            held: std::iter::once(0..LENGTH).collect(),
        }
    }

    #[tokio::test]
    async fn a_head_that_changes_while_the_body_is_on_its_way_to_the_disk_comes_behind_it() {
        let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::<Metrics>::default());
        let written = Arc::clone(&metrics);
        let disk = Disk::open(folder.path(), 1 << 28, Arc::clone(&metrics)).unwrap();
        let memory = Memory::new(1 << 28, Some(Arc::clone(&disk)), metrics);
        let key = Key::of(&"http://a/".parse().unwrap(), &HeaderMap::new(), "");
        let store = Store { stored: numbered(&key, "1"), into: None, offset: 0 };
        let writer = memory.begin(store, &Variants::default(), 0).unwrap();
        let body = vec![7; LENGTH as usize];
        assert!(writer.finish(true, &body, None));
        let found = memory.get(&key, || Urgency::Urgent).await;
        // It is on its way still: nobody has been told that it is there.
        assert!(memory.inner().saving[&key].handed);
        for number in ["2", "3", "4"] {
            memory.update(&found, 0, numbered(&key, number));
        }
        assert!(memory.inner().saving[&key].again, "the body is not begun anew");
        memory.flush().await;
        let (_, kept) = disk.load(&key, Urgency::Urgent).await;
        assert!(kept[0].0.headers["x-number"] == "4" && kept[0].1.concat() == body, "{:?}", kept[0].0);
        assert_eq!(written.disk_written.load(Ordering::Relaxed), 1, "the body was written once");
    }

    #[tokio::test]
    async fn a_disk_that_takes_nothing_does_not_hold_up_the_end() {
        let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::<Metrics>::default());
        let disk = Disk::open(folder.path(), 1 << 28, Arc::clone(&metrics)).unwrap();
        let memory = Memory::new(1 << 28, Some(disk), metrics);
        let key = Key::of(&"http://a/".parse().unwrap(), &HeaderMap::new(), "");
        memory.inner().saving.insert(key, Saving { turn: 0, handed: true, again: false });
        assert!(!memory.close(Duration::from_millis(1)).await);
        memory.inner().saving.clear();
        assert!(memory.close(Duration::MAX).await);
    }
}
