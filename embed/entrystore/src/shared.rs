//! What the callers' threads and the I/O thread share: who waits for what, what is not on disk yet, what is done. All
//! of it lies behind one lock that is held for short moments and never while the disk works.

use crate::buffers::Buffers;
use crate::disk::Disk;
use crate::format::{CHUNK, MOST_META};
use crate::index::Index;
use crate::key::Key;
use crate::options::Options;
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use thaw_log::queue::{Level, Place, Queue};

/// Names what a call has begun; all that comes of it bears it. No two of a store are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Whether somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A first paint waits for it.
    Urgent,
    /// All else.
    Normal,
}

impl Urgency {
    pub(crate) fn read(self) -> Level {
        if self == Urgency::Urgent { Level::UrgentRead } else { Level::Read }
    }

    pub(crate) fn write(self) -> Level {
        if self == Urgency::Urgent { Level::UrgentWrite } else { Level::Write }
    }
}

/// What comes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read: the entry is there. First of all.
    Open {
        /// Its metadata.
        meta: Bytes,
        /// Bytes of its whole body.
        body: u64,
    },
    /// A read: bytes of the body, within the credit and at most 256 KiB, in order.
    Chunk {
        /// Where in the body they begin.
        at: u64,
        /// The bytes, checked.
        bytes: Bytes,
    },
    /// A read: all that was asked for has come. The last.
    End,
    /// A read: there is no such entry, or none that can be read. The last.
    Miss,
    /// A read: what follows cannot be read; what came is right. The last.
    Aborted,
    /// A call that changes something. The last. `true`: it is written, and outlives the process. `false`: it was
    /// dropped (no space, no directory), or there was nothing to change.
    Done(bool),
    /// A writer that was refused bytes may go on with so many.
    Room(usize),
    /// A page of a visit. The last.
    Visited {
        /// Entries, in the order of hashes.
        entries: Vec<Visited>,
        /// Where the next page begins; `None`: this is the last one.
        next: Option<u64>,
    },
}

/// An entry as a visitor sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visited {
    /// Its key.
    pub key: Key,
    /// Its metadata.
    pub meta: Bytes,
    /// Bytes of its body.
    pub body: u64,
    /// When it was written, seconds since 1970.
    pub time: u32,
    /// Its group.
    pub group: u64,
}

/// What to clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clear {
    /// All entries.
    All,
    /// All of a partition.
    Partition(Vec<u8>),
    /// All whose name begins so, in every partition: `https://site.example/`.
    Prefix(Vec<u8>),
}

impl Clear {
    pub(crate) fn wants(&self, key: &Key) -> bool {
        match self {
            Clear::All => true,
            Clear::Partition(partition) => key.partition() == partition,
            Clear::Prefix(prefix) => key.name().starts_with(prefix),
        }
    }
}

/// Where the store stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes the lock and reads the snapshot; reads wait.
    Starting,
    /// It looks for what is newer than the snapshot; reads of what it has found go on, others wait.
    Rebuilding,
    /// All is known.
    Serving,
    /// The directory cannot be used or another process has it: every read is a miss.
    Dead,
}

/// Counts since the store was opened, but for what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads answered from memory.
    pub memory_hits: u64,
    /// Reads answered from disk.
    pub disk_hits: u64,
    /// Misses.
    pub misses: u64,
    /// Reads that ended before their end, or found a record that is not right.
    pub broken: u64,
    /// Entries written.
    pub stored: u64,
    /// Changes dropped.
    pub dropped: u64,
    /// Entries evicted.
    pub evicted: u64,
    /// Bytes that eviction moved to the head of the log.
    pub evacuated: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of files now.
    pub disk: u64,
}

/// A read, as its caller sees it.
pub(crate) struct Reading {
    pub key: Key,
    pub level: Level,
    /// Bytes that the caller may still be handed.
    pub credit: u64,
    /// Checked bytes that wait for credit; they begin at `at` of the body.
    pub held: Bytes,
    pub at: u64,
    /// Where the range ends; before the entry is open, what was asked for.
    pub end: u64,
    pub open: bool,
    /// It stands in the queue, or the I/O thread has it.
    pub busy: bool,
    /// The I/O thread keeps a segment for it.
    pub disk: bool,
    pub place: Place,
}

/// What is to become of a key.
#[derive(Clone)]
pub(crate) enum Op {
    Put {
        meta: Bytes,
        body: Bytes,
        group: u64,
        pinned: bool,
    },
    Meta(Bytes),
    Remove,
    /// A large entry, finished by its writer, not yet by the I/O thread.
    Stream,
}

/// The latest change of a key that is not on disk yet; older ones that were not begun are part of it.
pub(crate) struct Fresh {
    pub job: u64,
    /// Who waits: also those whose change this one replaced.
    pub tickets: Vec<u64>,
    pub op: Op,
    /// Bytes in memory.
    pub cost: usize,
}

/// A body that comes in parts.
pub(crate) struct Stream {
    pub key: Key,
    pub meta: Bytes,
    pub group: u64,
    pub pinned: bool,
    pub level: Level,
    pub parts: VecDeque<Bytes>,
    pub buffered: usize,
    pub total: u64,
    /// It has become too long for memory: the I/O thread has, or will have it.
    pub spilled: bool,
    pub busy: bool,
    pub finished: bool,
    pub failed: bool,
    /// Its writer was dropped.
    pub left: bool,
    pub wants_room: bool,
}

/// What the I/O thread is asked for, besides reads and writers.
pub(crate) enum Job {
    /// The change of a key in [`State::fresh`].
    Change(Key),
    Clear(Clear),
    Visit {
        wanted: Clear,
        from: u64,
        most: usize,
    },
    Flush,
}

/// Bytes that a large body is written in.
const PART: usize = 1 << 20;
/// Bytes of a writer that may wait for the disk.
pub(crate) const MOST_BUFFERED: usize = 2 << 20;
/// Uses noted between two turns of the I/O thread; so many wake it.
const MOST_TOUCHED: usize = 4 << 10;

pub(crate) struct State {
    pub phase: Phase,
    pub seed: u64,
    pub queue: Queue,
    pub jobs: HashMap<u64, Job>,
    pub reads: HashMap<u64, Reading>,
    pub fresh: HashMap<Key, Fresh>,
    pub streams: HashMap<u64, Stream>,
    pub pool: Pool,
    pub done: VecDeque<(Ticket, Event)>,
    /// There is an event, and the descriptor is not readable yet.
    pub untold: bool,
    /// The descriptor is readable.
    pub told: bool,
    /// Clearings under way: nothing on disk that they want is served.
    pub clears: Vec<(u64, Clear)>,
    pub touched: Vec<u64>,
    /// What waits for the end of the start.
    pub parked: Vec<(Level, u64)>,
    /// Bytes of changes in memory.
    pub pending: usize,
    pub most_pending: usize,
    pub most_body: u64,
    /// Bytes up to which a body shares a segment with others, and stays in memory until it is finished.
    pub small: usize,
    pub counts: Counts,
    pub closing: bool,
    /// Who waits for the end.
    pub closers: Vec<u64>,
    pub next: u64,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Only the I/O thread changes it, so that a larger copy can be made while others read.
    index: RwLock<Index>,
    pub wake: Condvar,
    pub fd: OwnedFd,
    pub disk: Arc<dyn Disk>,
    pub buffers: Buffers,
}

/// The lock as a caller's thread holds it.
pub(crate) struct Entered<'s> {
    shared: &'s Shared,
    state: MutexGuard<'s, State>,
}

impl Deref for Entered<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.shared.signal(&mut self.state);
    }
}

impl Shared {
    pub fn new(fd: OwnedFd, options: &Options) -> Shared {
        let state = State {
            phase: Phase::Starting,
            seed: 0,
            queue: Queue::default(),
            jobs: HashMap::new(),
            reads: HashMap::new(),
            fresh: HashMap::new(),
            streams: HashMap::new(),
            pool: Pool::new(options.memory),
            done: VecDeque::new(),
            untold: false,
            told: false,
            clears: Vec::new(),
            touched: Vec::new(),
            parked: Vec::new(),
            pending: 0,
            most_pending: options.pending,
            most_body: options.budget / 8,
            small: options.segment as usize / 8,
            counts: Counts::default(),
            closing: false,
            closers: Vec::new(),
            next: 16,
        };
        let (index, wake) = (RwLock::default(), Condvar::new());
        let (disk, buffers) = (options.disk.clone(), Buffers::default());
        Shared { state: Mutex::new(state), index, wake, fd, disk, buffers }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock for a caller's thread: what it is told makes the descriptor readable before it goes on.
    pub fn enter(&self) -> Entered<'_> {
        Entered { shared: self, state: self.lock() }
    }

    /// Makes the descriptor readable if events wait of which it does not tell yet.
    pub fn signal(&self, state: &mut State) {
        if std::mem::take(&mut state.untold) {
            // It can fail only when the count is at its end: then the descriptor is readable already.
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
            state.told = true;
        }
    }

    /// Hands an event over. The first one that waits is one to signal.
    pub fn tell(&self, state: &mut State, id: u64, event: Event) {
        state.untold |= state.done.is_empty();
        state.done.push_back((Ticket(id), event));
    }

    /// Puts a job into its level; during the start it waits.
    pub fn line(&self, state: &mut State, level: Level, id: u64) {
        match state.phase {
            Phase::Starting | Phase::Rebuilding => state.parked.push((level, id)),
            Phase::Serving => {
                state.queue.line(level, id);
                self.wake.notify_one();
            }
            Phase::Dead => self.refuse(state, id),
        }
    }

    /// Ends what a store that cannot be used is asked for.
    pub fn refuse(&self, state: &mut State, id: u64) {
        if let Some(reading) = state.reads.remove(&id) {
            if reading.open {
                return self.tell(state, id, Event::Aborted);
            }
            state.counts.misses += 1;
            return self.tell(state, id, Event::Miss);
        }
        if let Some(stream) = state.streams.get_mut(&id) {
            stream.failed = true;
            stream.parts.clear();
            state.pending -= std::mem::take(&mut stream.buffered);
            if std::mem::take(&mut stream.wants_room) {
                self.tell(state, id, Event::Room(MOST_BUFFERED));
            }
            let Some(stream) = state.streams.get(&id).filter(|stream| stream.finished) else { return };
            let key = stream.key.clone();
            state.streams.remove(&id);
            return self.changed(state, &key, id, false);
        }
        match state.jobs.remove(&id) {
            Some(Job::Change(key)) => self.changed(state, &key, id, false),
            Some(Job::Visit { .. }) => self.tell(state, id, Event::Visited { entries: Vec::new(), next: None }),
            Some(Job::Clear(_)) => {
                state.clears.retain(|(job, _)| *job != id);
                self.tell(state, id, Event::Done(false));
            }
            Some(Job::Flush) => self.tell(state, id, Event::Done(false)),
            None => {}
        }
    }

    /// Ends a change that nobody has begun to write.
    fn changed(&self, state: &mut State, key: &Key, id: u64, good: bool) {
        let Some(fresh) = state.fresh.get(key).filter(|fresh| fresh.job == id) else { return };
        state.pending -= fresh.cost;
        let Some(fresh) = state.fresh.remove(key) else { return };
        state.pool.remove(key);
        state.counts.dropped += u64::from(!good);
        for ticket in fresh.tickets {
            self.tell(state, ticket, Event::Done(good));
        }
    }

    /// Begins a change of a key in place of the one that waits, if one does.
    pub fn change(&self, state: &mut State, key: &Key, id: u64, op: Op) {
        let cost = match &op {
            Op::Put { meta, body, .. } => meta.len() + body.len(),
            Op::Meta(meta) => meta.len(),
            _ => 0,
        } + key.bytes().len();
        let mut tickets = vec![id];
        if let Some(old) = state.fresh.remove(key) {
            state.jobs.remove(&old.job);
            state.pending -= old.cost;
            tickets.extend(old.tickets);
        }
        state.pending += cost;
        if !matches!(op, Op::Stream) {
            state.jobs.insert(id, Job::Change(key.clone()));
        }
        state.fresh.insert(key.clone(), Fresh { job: id, tickets, op, cost });
    }

    /// A whole entry from memory.
    pub fn put(&self, state: &mut State, key: &Key, id: u64, op: Op, level: Level) {
        let Op::Put { meta, body, group, pinned } = &op else { return };
        if meta.len() > MOST_META || body.len() as u64 > state.most_body || state.phase == Phase::Dead {
            return self.drop_put(state, key, id, level);
        }
        if state.pending + body.len() > state.most_pending {
            return self.drop_put(state, key, id, level);
        }
        state.pool.put(key, meta.clone(), Some(body.clone()), body.len() as u64);
        if body.len() <= state.small {
            self.change(state, key, id, op);
            return self.line(state, level, id);
        }
        let cut = |at: usize| body.slice(at..body.len().min(at + PART));
        let parts = (0..body.len()).step_by(PART).map(cut).collect();
        let stream = Stream {
            key: key.clone(),
            meta: meta.clone(),
            group: *group,
            pinned: *pinned,
            level,
            parts,
            buffered: body.len(),
            total: body.len() as u64,
            spilled: true,
            busy: true,
            finished: true,
            failed: false,
            left: false,
            wants_room: false,
        };
        state.pending += body.len();
        state.streams.insert(id, stream);
        self.change(state, key, id, Op::Stream);
        self.line(state, level, id);
    }

    /// An entry that is not kept: what was under its key is not true any more.
    pub fn drop_put(&self, state: &mut State, key: &Key, id: u64, level: Level) {
        state.counts.dropped += 1;
        state.pool.remove(key);
        self.tell(state, id, Event::Done(false));
        if state.phase != Phase::Dead {
            let remove = state.ticket();
            self.change(state, key, remove, Op::Remove);
            if let Some(fresh) = state.fresh.get_mut(key) {
                fresh.tickets.retain(|ticket| *ticket != remove);
            }
            self.line(state, level, remove);
        }
    }

    /// Answers a read, or puts it where it will be.
    pub fn look(&self, state: &mut State, id: u64) {
        let Some(reading) = state.reads.get(&id) else { return };
        let key = reading.key.clone();
        let fresh = match state.fresh.get(&key).map(|fresh| &fresh.op) {
            Some(Op::Remove) => return self.miss(state, id),
            Some(Op::Put { meta, body, .. }) => Some((meta.clone(), Some(body.clone()), body.len() as u64)),
            Some(Op::Meta(_) | Op::Stream) | None => None,
        };
        let whole = fresh.or_else(|| state.pool.get(&key));
        let known = matches!(state.phase, Phase::Serving | Phase::Rebuilding);
        let hash = if known { key.hash(state.seed) } else { 0 };
        if let Some((meta, body, length)) = whole {
            let Some(reading) = state.reads.get_mut(&id) else { return };
            if body.is_some() || reading.end <= reading.at {
                state.counts.memory_hits += 1;
                if known {
                    self.touch(state, hash);
                }
                return self.open(state, id, meta, body, length);
            }
        }
        let slot = if known { self.index().get(hash) } else { None };
        let cleared = state.clears.iter().any(|(_, clear)| clear.wants(&key));
        match (state.phase, slot) {
            (Phase::Dead, _) => self.miss(state, id),
            (Phase::Serving, None) => self.miss(state, id),
            (Phase::Serving | Phase::Rebuilding, Some(_)) if cleared => self.miss(state, id),
            (Phase::Serving | Phase::Rebuilding, Some(slot)) => {
                self.touch(state, hash);
                let Some(reading) = state.reads.get_mut(&id) else { return };
                (reading.busy, reading.place) = (true, (slot.segment, slot.offset));
                state.queue.place(reading.level, reading.place, id);
                self.wake.notify_one();
            }
            (Phase::Starting | Phase::Rebuilding, _) => {
                let level = state.reads.get(&id).map_or(Level::Read, |reading| reading.level);
                state.parked.push((level, id));
            }
        }
    }

    /// Opens a read; what it wants of a body that is here is held for it.
    pub fn open(&self, state: &mut State, id: u64, meta: Bytes, body: Option<Bytes>, length: u64) {
        let Some(reading) = state.reads.get_mut(&id) else { return };
        let (at, end) = (reading.at.min(length), reading.end.min(length));
        (reading.at, reading.end) = (at, end.max(at));
        (reading.open, reading.busy) = (true, false);
        let wanted = body.filter(|_| end > at).map(|body| body.slice(at as usize..end as usize));
        reading.held = wanted.unwrap_or_default();
        self.tell(state, id, Event::Open { meta, body: length });
        self.feed(state, id);
    }

    /// Notes a use.
    pub fn touch(&self, state: &mut State, hash: u64) {
        if state.touched.len() < MOST_TOUCHED {
            state.touched.push(hash);
        } else {
            self.wake.notify_one();
        }
    }

    fn miss(&self, state: &mut State, id: u64) {
        state.counts.misses += 1;
        state.reads.remove(&id);
        self.tell(state, id, Event::Miss);
    }

    /// Ends a read; the I/O thread is told to let go of its segment.
    pub fn let_go(&self, state: &mut State, id: u64) -> bool {
        let Some(reading) = state.reads.remove(&id) else { return false };
        state.queue.take(id);
        if reading.disk {
            state.queue.line(Level::Manage, id);
            self.wake.notify_one();
        }
        true
    }

    /// Hands over what is held, as far as the credit goes; with credit left, asks the I/O thread for more.
    pub fn feed(&self, state: &mut State, id: u64) {
        loop {
            let Some(reading) = state.reads.get_mut(&id).filter(|reading| reading.open) else { return };
            if reading.at >= reading.end {
                self.let_go(state, id);
                return self.tell(state, id, Event::End);
            }
            let now = reading.credit.min(reading.held.len() as u64).min(CHUNK as u64);
            if now == 0 {
                if reading.credit > 0 && !reading.busy {
                    reading.busy = true;
                    state.queue.place(reading.level, reading.place, id);
                    self.wake.notify_one();
                }
                return;
            }
            let (at, bytes) = (reading.at, reading.held.split_to(now as usize));
            reading.credit -= now;
            reading.at += now;
            self.tell(state, id, Event::Chunk { at, bytes });
        }
    }
}

impl State {
    pub fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
