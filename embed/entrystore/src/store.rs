//! The store as its callers see it. No call waits for the disk: each puts a job into the queue, or answers at once from
//! memory and index, and what comes of it is fetched with [`Store::completions`] when [`Store::fd`] is readable.

use crate::direct;
use crate::engine;
use crate::format::MOST_META;
use crate::key::Key;
use crate::options::Options;
use crate::shared::{
    Clear, Counts, Event, Job, MOST_BUFFERED, Op, Phase, Reading, Shared, State, Stream, Ticket, Urgency,
};
use bytes::Bytes;
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// What of an entry is read, and how.
#[derive(Clone, Debug)]
pub struct Get {
    /// Whether somebody waits.
    pub urgency: Urgency,
    /// Bytes of the body; what lies behind its end is left out. An empty one: the metadata alone.
    pub range: Range<u64>,
    /// Bytes of the body that may be handed over before [`Store::more`] is called.
    pub credit: u64,
}

impl Default for Get {
    /// All of it, at once, and nobody waits.
    fn default() -> Get {
        Get { urgency: Urgency::Normal, range: 0..u64::MAX, credit: u64::MAX }
    }
}

/// What belongs to an entry that is written, besides its key and body.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// Metadata, at most 1 MiB.
    pub meta: Bytes,
    /// Entries of one group that are written at about the same time lie side by side; 0: none.
    pub group: u64,
    /// Never evicted.
    pub pinned: bool,
    /// Somebody waits for it.
    pub urgent: bool,
}

impl Put {
    fn urgency(&self) -> Urgency {
        if self.urgent { Urgency::Urgent } else { Urgency::Normal }
    }
}

/// A store of entries. Dropping it writes and commits what is left, and waits for that: the one call that does.
pub struct Store {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens a store: starts its thread, which does the rest. A directory that cannot be used, or that another process
    /// uses, is no error: every read is a miss then, and writes are dropped ([`Phase::Dead`]).
    ///
    /// # Errors
    /// The process has no file descriptor or no thread left.
    pub fn open(options: Options) -> io::Result<Store> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared::new(fd, &options));
        let theirs = shared.clone();
        let name = std::thread::Builder::new().name("entrystore".into());
        let thread = name.spawn(move || engine::run(&theirs, &options))?;
        Ok(Store { shared, thread: Some(thread) })
    }

    /// Readable while completions wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }

    /// All that has come since the last call. Events of one ticket are in order.
    pub fn completions(&self) -> VecDeque<(Ticket, Event)> {
        let mut state = self.shared.enter();
        state.untold = false;
        if std::mem::take(&mut state.told) {
            let _ = rustix::io::read(&self.shared.fd, &mut [0; 8]);
        }
        std::mem::take(&mut state.done)
    }

    /// Reads an entry. Nothing of its body comes before [`Store::more`] asks for it.
    pub fn get(&self, key: &Key, urgency: Urgency) -> Ticket {
        self.get_with(key, Get { urgency, credit: 0, ..Get::default() })
    }

    /// Reads an entry, or part of it: [`Event::Miss`], or [`Event::Open`], chunks, and [`Event::End`].
    pub fn get_with(&self, key: &Key, get: Get) -> Ticket {
        let body = get.range.end > get.range.start;
        let (mut state, found) = direct::read(&self.shared, key, body);
        let id = state.ticket();
        let reading = Reading {
            key: key.clone(),
            level: get.urgency.read(),
            credit: get.credit,
            held: Bytes::new(),
            at: get.range.start,
            end: get.range.end,
            open: false,
            busy: false,
            disk: false,
            place: (0, 0),
        };
        state.reads.insert(id, reading);
        match found {
            Some(found) => direct::answer(&self.shared, &mut state, id, key, found),
            None => self.shared.look(&mut state, id),
        }
        Ticket(id)
    }

    /// Lets a read hand over so many bytes more.
    pub fn more(&self, ticket: Ticket, bytes: u64) {
        let mut state = self.shared.enter();
        if let Some(reading) = state.reads.get_mut(&ticket.0) {
            reading.credit = reading.credit.saturating_add(bytes);
            self.shared.feed(&mut state, ticket.0);
        }
    }

    /// Gives a read another urgency. `false`: it has ended.
    pub fn raise(&self, ticket: Ticket, urgency: Urgency) -> bool {
        let mut state = self.shared.enter();
        let Some(reading) = state.reads.get_mut(&ticket.0) else { return false };
        reading.level = urgency.read();
        state.queue.raise(ticket.0, urgency.read());
        true
    }

    /// Ends a read: no event of it comes any more. `false`: it had ended before.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let mut state = self.shared.enter();
        state.done.retain(|(other, _)| *other != ticket);
        state.parked.retain(|(_, id)| *id != ticket.0);
        self.shared.let_go(&mut state, ticket.0)
    }

    /// Writes an entry. Reads see it from now on, but a large one, of more than an eighth of a segment, when it is
    /// done, unless it is in memory. [`Event::Done`]: it outlives the process; after [`Store::flush`], the machine. A
    /// body of more than an eighth of the budget is dropped.
    pub fn put(&self, key: &Key, put: Put, body: Bytes) -> Ticket {
        let mut state = self.shared.enter();
        let (id, level) = (state.ticket(), put.urgency().write());
        let op = Op::Put { meta: put.meta, body, group: put.group, pinned: put.pinned };
        self.shared.put(&mut state, key, id, op, level);
        Ticket(id)
    }

    /// Begins to write an entry whose body comes bit by bit. Reads see it when it is finished and done.
    pub fn write(&self, key: &Key, put: Put) -> Writer {
        let mut state = self.shared.enter();
        let id = state.ticket();
        let failed = put.meta.len() > MOST_META || state.phase == Phase::Dead;
        let stream = Stream {
            key: key.clone(),
            level: put.urgency().write(),
            meta: put.meta,
            group: put.group,
            pinned: put.pinned,
            parts: VecDeque::new(),
            buffered: 0,
            total: 0,
            spilled: false,
            busy: false,
            finished: false,
            failed,
            left: false,
            wants_room: false,
        };
        state.streams.insert(id, stream);
        Writer { shared: self.shared.clone(), id, finished: false }
    }

    /// Gives an entry other metadata and keeps its body. `Done(false)`: there is no such entry, or it is a large one
    /// that is not done yet.
    pub fn update_meta(&self, key: &Key, meta: Bytes) -> Ticket {
        let mut state = self.shared.enter();
        let id = state.ticket();
        let op = match state.fresh.get(key).map(|fresh| &fresh.op) {
            Some(Op::Put { body, group, pinned, .. }) => {
                Some(Op::Put { meta: meta.clone(), body: body.clone(), group: *group, pinned: *pinned })
            }
            Some(Op::Meta(_)) | None => Some(Op::Meta(meta.clone())),
            Some(Op::Remove | Op::Stream) => None,
        };
        let Some(op) = op.filter(|_| meta.len() <= MOST_META && state.phase != Phase::Dead) else {
            self.shared.tell(&mut state, id, Event::Done(false));
            return Ticket(id);
        };
        if let Some((_, Some(body), length)) = state.pool.get(key) {
            state.pool.put(key, meta, Some(body), length);
        } else {
            state.pool.remove(key);
        }
        self.shared.change(&mut state, key, id, op);
        self.shared.line(&mut state, Urgency::Normal.write(), id);
        Ticket(id)
    }

    /// Takes an entry away: reads miss it from now on.
    pub fn remove(&self, key: &Key) -> Ticket {
        let mut state = self.shared.enter();
        let id = state.ticket();
        state.pool.remove(key);
        self.shared.change(&mut state, key, id, Op::Remove);
        self.shared.line(&mut state, Urgency::Normal.write(), id);
        Ticket(id)
    }

    /// Takes many entries away: reads miss them from now on. Done when none of them can come back.
    pub fn clear(&self, what: Clear) -> Ticket {
        let mut state = self.shared.enter();
        let id = state.ticket();
        state.pool.retain(|key| !what.wants(key));
        let waiting: Vec<Key> = state.fresh.keys().filter(|key| what.wants(key)).cloned().collect();
        for key in waiting {
            let remove = state.ticket();
            self.shared.change(&mut state, &key, remove, Op::Remove);
            self.shared.line(&mut state, Urgency::Normal.write(), remove);
        }
        state.clears.push((id, what.clone()));
        state.jobs.insert(id, Job::Clear(what));
        self.shared.line(&mut state, thaw_log::queue::Level::Manage, id);
        Ticket(id)
    }

    /// Done when all changes before it are on the medium. `Done(false)`: the disk failed.
    pub fn flush(&self) -> Ticket {
        self.manage(Job::Flush)
    }

    /// Ends the store as dropping it does, for those who share it: when nothing waits any more, all is committed and
    /// the index written, so that the next start reads that alone; from then on every read is a miss. `Done(false)`:
    /// the disk failed, or it had ended before.
    pub fn close(&self) -> Ticket {
        let mut state = self.shared.enter();
        let id = state.ticket();
        if state.phase == Phase::Dead {
            self.shared.tell(&mut state, id, Event::Done(false));
        } else {
            state.closing = true;
            state.closers.push(id);
            self.shared.wake.notify_one();
        }
        Ticket(id)
    }

    /// At most so many entries that are on disk, from a place on: 0, then what the last page named.
    pub fn visit(&self, wanted: Clear, from: u64, most: usize) -> Ticket {
        self.manage(Job::Visit { wanted, from, most: most.max(1) })
    }

    fn manage(&self, job: Job) -> Ticket {
        let mut state = self.shared.enter();
        let id = state.ticket();
        state.jobs.insert(id, job);
        self.shared.line(&mut state, thaw_log::queue::Level::Manage, id);
        Ticket(id)
    }

    /// What it holds and has done.
    pub fn stats(&self) -> Stats {
        let (entries, index) = {
            let index = self.shared.index();
            (index.len() as u64, index.bytes() as u64)
        };
        let state = self.shared.enter();
        let memory = state.pool.bytes() as u64;
        Stats { counts: state.counts, entries, index, memory, pending: state.pending as u64, phase: state.phase }
    }

    /// Another limit for the entries in memory, bytes.
    pub fn set_memory(&self, bytes: usize) {
        self.shared.enter().pool.set_limit(bytes);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.enter().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a store holds and has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Counts since it was opened.
    pub counts: Counts,
    /// Entries on disk.
    pub entries: u64,
    /// Bytes of the index in memory.
    pub index: u64,
    /// Bytes of entries in memory.
    pub memory: u64,
    /// Bytes of changes that wait for the disk.
    pub pending: u64,
    /// Where it stands.
    pub phase: Phase,
}

/// Writes the body of one entry. Dropped before it is finished, it leaves nothing behind.
pub struct Writer {
    shared: Arc<Shared>,
    id: u64,
    finished: bool,
}

impl Writer {
    /// What its events bear.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.id)
    }

    /// Bytes it takes now: never over 2 MiB.
    pub fn room(&self) -> usize {
        let state = self.shared.enter();
        state.streams.get(&self.id).map_or(MOST_BUFFERED, |stream| MOST_BUFFERED - stream.buffered)
    }

    /// The next bytes of the body. A store that drops the entry takes them too; [`Event::Done`] tells.
    ///
    /// # Errors
    /// There is no room: the bytes come back, and [`Event::Room`] will say when to go on.
    pub fn push(&mut self, bytes: Bytes) -> Result<(), Bytes> {
        let mut guard = self.shared.enter();
        let state: &mut State = &mut guard;
        let Some(stream) = state.streams.get_mut(&self.id).filter(|stream| !stream.failed) else { return Ok(()) };
        if stream.buffered + bytes.len() > MOST_BUFFERED {
            stream.wants_room = true;
            return Err(bytes);
        }
        stream.buffered += bytes.len();
        stream.total += bytes.len() as u64;
        state.pending += bytes.len();
        if !bytes.is_empty() {
            stream.parts.push_back(bytes);
        }
        stream.spilled |= stream.total > state.small as u64;
        if stream.spilled && !stream.busy {
            stream.busy = true;
            let level = stream.level;
            self.shared.line(state, level, self.id);
        }
        Ok(())
    }

    /// The body is whole.
    pub fn finish(mut self) -> Ticket {
        self.finished = true;
        let mut guard = self.shared.enter();
        let state: &mut State = &mut guard;
        let ticket = Ticket(self.id);
        let Some(stream) = state.streams.get_mut(&self.id) else { return ticket };
        let (key, level) = (stream.key.clone(), stream.level);
        if stream.failed {
            if !stream.busy {
                state.pending -= stream.buffered;
                state.streams.remove(&self.id);
            } else {
                stream.finished = true;
            }
            self.shared.drop_put(state, &key, self.id, level);
            return ticket;
        }
        if stream.spilled {
            stream.finished = true;
            let idle = !std::mem::replace(&mut stream.busy, true);
            self.shared.change(state, &key, self.id, Op::Stream);
            if idle {
                self.shared.line(state, level, self.id);
            }
            return ticket;
        }
        let Some(stream) = state.streams.remove(&self.id) else { return ticket };
        state.pending -= stream.buffered;
        let mut parts = stream.parts;
        let body = if parts.len() == 1 {
            parts.pop_front().unwrap_or_default()
        } else {
            parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>().into()
        };
        let op = Op::Put { meta: stream.meta, body, group: stream.group, pinned: stream.pinned };
        self.shared.put(state, &key, self.id, op, level);
        ticket
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut guard = self.shared.enter();
        let state: &mut State = &mut guard;
        let Some(stream) = state.streams.get_mut(&self.id) else { return };
        (stream.failed, stream.left, stream.wants_room) = (true, true, false);
        stream.parts.clear();
        state.pending -= std::mem::take(&mut stream.buffered);
        if !stream.spilled {
            state.streams.remove(&self.id);
        } else if !std::mem::replace(&mut stream.busy, true) {
            let level = stream.level;
            self.shared.line(state, level, self.id);
        }
    }
}
