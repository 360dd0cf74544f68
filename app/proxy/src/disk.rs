//! Stored responses on disk, behind those in memory: all whole variants of a key are one entry of
//! `thaw_entrystore`, packed as `thaw_httpcache` says. Nobody waits for a write.

use crate::metrics::{Metrics, count};
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_entrystore::{Event, Get, Key as Name, Options, Phase, Put, Stats, Store, Ticket, Urgency};
pub use thaw_httpcache::packed::Variant;
use thaw_httpcache::packed::{self, number, pack, unpack};
use thaw_httpcache::{Key, Stored};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// Variants as the bytes of an entry.
pub struct Packed {
    /// Another one for each entry; not 0.
    pub number: u64,
    meta: Bytes,
    body: Bytes,
}

impl Packed {
    /// Copies all bytes of these variants.
    pub fn of(variants: &[Variant]) -> Self {
        let number = RandomState::new().hash_one(variants.len()).max(1);
        let (meta, body) = pack(number, variants);
        Self { number, meta, body }
    }
}

struct Waiting {
    meta: Bytes,
    parts: Vec<Bytes>,
    tell: oneshot::Sender<Option<(Bytes, Vec<Bytes>)>>,
}

/// The store's descriptor, as tokio wants it.
struct Ready(Arc<Store>);

impl AsRawFd for Ready {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }
}

/// The responses on disk.
pub struct Disk {
    store: Arc<Store>,
    waiting: Arc<Mutex<HashMap<Ticket, Waiting>>>,
    telling: Arc<Mutex<HashMap<Ticket, oneshot::Sender<bool>>>>,
    metrics: Arc<Metrics>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Opens a directory, made when it is missing, that holds `budget` bytes. To be called on a runtime. One that
    /// cannot be used or is another process's is no error: nothing is found there then, and nothing kept.
    ///
    /// # Errors
    /// The process has no descriptor or no thread left.
    pub fn open(path: &Path, budget: u64, metrics: Arc<Metrics>) -> io::Result<Arc<Self>> {
        // What was read is in the proxy's own memory.
        let store = Arc::new(Store::open(Options { budget, memory: 0, ..Options::new(path) })?);
        let own = Arc::clone(&metrics);
        let disk = Arc::new(Self { store, waiting: Arc::default(), telling: Arc::default(), metrics: own });
        // SAFETY: the descriptor is the same and open as long as the store that `Ready` holds.
        let ready = unsafe { AsyncFd::register(Ready(Arc::clone(&disk.store))) }?;
        let (waiting, telling) = (Arc::clone(&disk.waiting), Arc::clone(&disk.telling));
        tokio::spawn(async move {
            while let Ok(mut guard) = ready.readable().await {
                guard.clear_ready();
                for (ticket, event) in ready.get_ref().0.completions() {
                    came(&mut lock(&waiting), &telling, ticket, event);
                }
                tell(&ready.get_ref().0.stats(), &metrics);
            }
        });
        Ok(disk)
    }

    /// Whether it is known that the directory cannot be used.
    pub fn is_dead(&self) -> bool {
        self.store.stats().phase == Phase::Dead
    }

    /// The number of a key's entry and its variants; none where there are none, or they cannot be read. `urgency`: who
    /// waits for them.
    pub async fn load(&self, key: &Key, urgency: Urgency) -> (u64, Vec<Variant>) {
        const NONE: (u64, Vec<Variant>) = (0, Vec::new());
        let Some(name) = name(key) else { return NONE };
        if urgency == Urgency::Urgent {
            count(&self.metrics.disk_urgent);
        }
        let answer = {
            // What comes of it is looked at when it is known who waits.
            let mut waiting = lock(&self.waiting);
            let ticket = self.store.get_with(&name, Get { urgency, ..Get::default() });
            let (tell, answer) = oneshot::channel();
            waiting.insert(ticket, Waiting { meta: Bytes::new(), parts: Vec::new(), tell });
            answer
        };
        let Ok(Some((meta, parts))) = answer.await else { return NONE };
        // The buffers that it was read into are the store's, and larger.
        let parts = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
        let number = number(&meta).unwrap_or_default();
        let found = unpack(meta, parts).filter(|all| all.iter().all(|(stored, _)| stored.key == *key));
        found.map_or_else(
            || {
                self.store.remove(&name);
                NONE
            },
            |all| (number, all),
        )
    }

    /// Keeps these variants of a key and no others. Entries of one group lie side by side. The answer comes when they
    /// are written, or dropped.
    pub fn save(&self, key: &Key, packed: Packed, group: u64) -> oneshot::Receiver<bool> {
        let Some(name) = name(key) else { return oneshot::channel().1 };
        let put = Put { meta: packed.meta, group, ..Put::default() };
        self.told(|store| store.put(&name, put, packed.body))
    }

    /// The answer to a call of the store. It cannot come before it is known who waits for it.
    fn told(&self, call: impl FnOnce(&Store) -> Ticket) -> oneshot::Receiver<bool> {
        let mut telling = lock(&self.telling);
        let (tell, answer) = oneshot::channel();
        telling.insert(call(&self.store), tell);
        answer
    }

    /// Gives the variants of the entry with this number other heads; their bytes stay. The answer is `false` where that
    /// cannot be: the entry is not there any more.
    pub fn update<'a>(
        &self,
        key: &Key,
        number: u64,
        heads: impl IntoIterator<Item = &'a Stored>,
    ) -> oneshot::Receiver<bool> {
        match (name(key), packed::meta(number, heads)) {
            (Some(name), Some(meta)) => self.told(|store| store.update_meta(&name, meta)),
            _ => oneshot::channel().1,
        }
    }

    /// Takes all of a key away.
    pub fn remove(&self, key: &Key) {
        if let Some(name) = name(key) {
            self.store.remove(&name);
        }
    }

    /// Waits until all that was kept is on the medium. `false`: the disk failed.
    pub async fn flush(&self) -> bool {
        self.told(Store::flush).await.unwrap_or(false)
    }

    /// Ends it: waits until all that was kept is on the medium with an index that tells where, which is all that the
    /// next start reads. From then on nothing is found there. `false`: the disk failed, or had ended before.
    pub async fn close(&self) -> bool {
        self.told(Store::close).await.unwrap_or(false)
    }
}

/// An event of the store.
fn came(
    waiting: &mut HashMap<Ticket, Waiting>,
    telling: &Mutex<HashMap<Ticket, oneshot::Sender<bool>>>,
    ticket: Ticket,
    event: Event,
) {
    if let (Event::Open { meta, .. }, Some(of)) = (&event, waiting.get_mut(&ticket)) {
        of.meta = meta.clone();
    }
    match event {
        Event::Chunk { bytes, .. } => {
            if let Some(of) = waiting.get_mut(&ticket) {
                of.parts.push(bytes);
            }
        }
        Event::End | Event::Miss | Event::Aborted => {
            if let Some(Waiting { meta, parts, tell }) = waiting.remove(&ticket) {
                let _ = tell.send((event == Event::End).then_some((meta, parts)));
            }
        }
        Event::Done(done) => {
            if let Some(tell) = lock(telling).remove(&ticket) {
                let _ = tell.send(done);
            }
        }
        Event::Open { .. } | Event::Room(_) | Event::Visited { .. } => {}
    }
}

fn tell(stats: &Stats, metrics: &Metrics) {
    for (gauge, value) in [
        (&metrics.disk_entries, stats.entries),
        (&metrics.disk_bytes, stats.counts.disk),
        (&metrics.disk_hits, stats.counts.disk_hits),
        (&metrics.disk_written, stats.counts.stored),
        (&metrics.disk_dropped, stats.counts.dropped),
        (&metrics.disk_broken, stats.counts.broken),
    ] {
        gauge.store(value, Ordering::Relaxed);
    }
}

/// `None`: it is too long for the store.
fn name(key: &Key) -> Option<Name> {
    Name::new(b"", &key.to_bytes())
}
