//! The one thread that writes: all batches that wait go to the disk with one sync, then each gets its answer.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::segment::{Open, Store};
use ping::Day;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// How often segments are looked at that may be old enough.
const LOOK: Duration = Duration::from_millis(500);
/// Seconds between two attempts to seal what the disk did not take.
const BETWEEN_TRIES: u64 = 2;
/// Ids that are remembered at most, in each of two halves.
const MOST_IDS: usize = 1 << 20;
/// Bytes that go to the disk with one sync.
const MOST_AT_ONCE: usize = 8 << 20;

/// When a segment is sealed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At so many bytes.
    pub bytes: u64,
    /// At so many seconds.
    pub seconds: u64,
    /// How long an id is remembered at least, seconds, if not too many come.
    pub window: u64,
}

/// What was done with a batch: accepted, duplicates; or the disk did not take it.
pub type Kept = Result<(u64, u64), io::ErrorKind>;

/// A batch that waits, and who waits for it.
#[derive(Debug)]
pub struct Job {
    /// What is to be kept.
    pub batch: Batch,
    /// Gets the answer.
    pub done: oneshot::Sender<Kept>,
}

/// Ids seen lately, in two halves: the older one is forgotten when the newer is full or old.
#[derive(Debug, Default)]
struct Seen {
    new: HashSet<u128>,
    old: HashSet<u128>,
    since: u64,
}

impl Seen {
    fn insert(&mut self, id: u128) -> bool {
        !self.old.contains(&id) && self.new.insert(id)
    }

    fn turn(&mut self, now: u64, window: u64) {
        if self.new.len() >= MOST_IDS || now.saturating_sub(self.since) >= window {
            self.old = std::mem::take(&mut self.new);
            self.since = now;
        }
    }
}

/// The thread's state.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    limits: Limits,
    counters: Arc<Counters>,
    open: Option<Open>,
    /// Closed and not sealed yet.
    waiting: Vec<PathBuf>,
    /// When that is tried again, seconds since 1970.
    again: u64,
    seen: Seen,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Writer {
    /// Seals what was left open, and is ready.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn new(store: Store, limits: Limits, counters: Arc<Counters>) -> io::Result<Self> {
        let waiting = store.left()?;
        let seen = Seen { since: now(), ..Seen::default() };
        let mut writer = Self { store, limits, counters, open: None, waiting, again: 0, seen };
        writer.seal_waiting();
        Ok(writer)
    }

    /// The programs that have sealed segments of a day.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn programs(&self, day: Day) -> io::Result<Vec<String>> {
        self.store.programs(day)
    }

    /// Writes until nobody can send any more; then seals.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(LOOK) {
                Ok(first) => {
                    let mut bytes: usize = first.batch.lines.iter().map(|(_, line)| line.len()).sum();
                    let mut all = vec![first];
                    while bytes < MOST_AT_ONCE {
                        let Ok(next) = jobs.try_recv() else { break };
                        bytes += next.batch.lines.iter().map(|(_, line)| line.len()).sum::<usize>();
                        all.push(next);
                    }
                    self.keep(all);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.seal_if_due();
        }
        self.close();
        self.seal_waiting();
    }

    fn keep(&mut self, jobs: Vec<Job>) {
        self.seen.turn(now(), self.limits.window);
        let mut lines = Vec::new();
        let mut fresh = Vec::new();
        let mut counts = Vec::new();
        for job in &jobs {
            let before = fresh.len();
            for (id, line) in &job.batch.lines {
                if self.seen.insert(*id) {
                    fresh.push(*id);
                    lines.extend_from_slice(line.as_bytes());
                }
            }
            let accepted = (fresh.len() - before) as u64;
            counts.push((accepted, job.batch.lines.len() as u64 - accepted));
        }
        let done = if lines.is_empty() { Ok(()) } else { self.append(&lines) };
        if done.is_err() {
            // It may be sent again.
            for id in &fresh {
                self.seen.new.remove(id);
            }
            self.counters.disk_failures.fetch_add(1, Relaxed);
        }
        for (job, (accepted, duplicates)) in jobs.into_iter().zip(counts) {
            if done.is_ok() {
                self.counters.accepted.fetch_add(accepted, Relaxed);
                self.counters.duplicates.fetch_add(duplicates, Relaxed);
            }
            // Who has gone away sends it again.
            let _ = job.done.send(done.as_ref().map(|()| (accepted, duplicates)).map_err(io::Error::kind));
        }
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            self.open = Some(self.store.begin(now())?);
        }
        let Some(open) = &mut self.open else { return Err(io::Error::other("no segment")) };
        open.append(lines)?;
        self.counters.syncs.fetch_add(1, Relaxed);
        self.counters.bytes.fetch_add(lines.len() as u64, Relaxed);
        Ok(())
    }

    fn seal_if_due(&mut self) {
        let now = now();
        let is_due = self.open.as_ref().is_some_and(|open| {
            let is_old = now.saturating_sub(open.since) >= self.limits.seconds || now / 86_400 != open.since / 86_400;
            open.bytes() >= self.limits.bytes || is_old
        });
        if is_due {
            self.close();
        }
        if now >= self.again {
            self.seal_waiting();
        }
    }

    fn close(&mut self) {
        let Some(open) = &mut self.open else { return };
        match open.close() {
            Ok(path) => {
                self.waiting.push(path);
                self.open = None;
            }
            Err(_) => {
                self.counters.disk_failures.fetch_add(1, Relaxed);
            }
        }
    }

    /// What cannot be sealed now stays, whole, and its turn comes again.
    fn seal_waiting(&mut self) {
        let mut stay = Vec::new();
        for path in std::mem::take(&mut self.waiting) {
            match self.store.seal(&path) {
                Ok(ids) => {
                    for id in ids {
                        self.seen.insert(id);
                    }
                    self.counters.segments.fetch_add(1, Relaxed);
                    self.counters.last_seal.store(now(), Relaxed);
                }
                Err(_) => {
                    self.counters.disk_failures.fetch_add(1, Relaxed);
                    self.again = now() + BETWEEN_TRIES;
                    stay.push(path);
                }
            }
        }
        self.waiting = stay;
    }
}
