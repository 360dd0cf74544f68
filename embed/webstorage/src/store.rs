//! A storage: its areas and tables, what it tells, and its end. No call waits for the disk, but those that say so.

use crate::area::{Area, Table};
use crate::cell::{Cell, Stage};
use crate::engine::{Engine, Job, Ticket, Times};
use crate::error::Error;
use crate::feed::{Feed, Most, News};
use crate::handle::{Handle, Home, Inner};
use crate::place::Place;
use crate::shared::{Counts, Shared};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thaw_log::clerk::Clerk;
use thaw_log::disk::{Disk, Folder};
use thaw_log::queue::Level;

/// How a storage works.
#[derive(Clone, Debug)]
pub struct Options {
    /// A change is given to the kernel after this. 50 ms.
    pub write: Duration,
    /// And is on the medium after this. 1 s.
    pub sync: Duration,
    /// Bytes of an area: two for each UTF-16 unit of its keys and values. 10 MiB, which is 5 Mi units.
    pub quota: u64,
    /// Bytes of a table: those of its keys and values. 64 MiB.
    pub table_quota: u64,
    /// Bytes of areas that stay in memory though nobody holds them. 20 MB.
    pub memory: u64,
    /// Changes of other processes that wait to be taken, at most; then [`News::Missed`] comes. 10,000.
    pub changes: usize,
    /// Bytes of their keys and values, at most. 8 MB.
    pub change_bytes: u64,
    /// The first wait after the disk failed; each is twice as long as the one before, and 30 s at most. 100 ms.
    pub retry: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            write: Duration::from_millis(50),
            sync: Duration::from_secs(1),
            quota: 10 << 20,
            table_quota: 64 << 20,
            memory: 20_000_000,
            changes: 10_000,
            change_bytes: 8_000_000,
            retry: Duration::from_millis(100),
        }
    }
}

impl Options {
    fn most(&self) -> Most {
        Most { changes: self.changes, bytes: self.change_bytes }
    }
}

/// How much somebody waits for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It will be needed.
    Ahead,
    /// Somebody waits: it is read before all that nobody waits for.
    Urgent,
}

/// What a storage has and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Areas and tables in memory, or on their way to it.
    pub areas: u64,
    /// Bytes of their keys and values, as they are kept.
    pub bytes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// How often changes of an area were given to the kernel.
    pub batches: u64,
    /// Bytes that were given to the kernel, with those of compacted files.
    pub written: u64,
    /// Files that were written anew: new ones, compacted ones, those of which a write or sync failed.
    pub rewritten: u64,
    /// Areas that were read.
    pub loaded: u64,
    /// Areas that left the memory, which nobody held.
    pub unloaded: u64,
    /// How often the files were looked at for changes of other processes.
    pub looks: u64,
    /// Changes of other processes that were not taken from the news yet.
    pub changes: u64,
    /// Bytes of their keys and values.
    pub change_bytes: u64,
}

/// Areas that went into a file could not be written at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved(pub Vec<(Arc<Place>, String)>);

impl std::fmt::Display for Unsaved {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(place, why)| format!("{place}: {why}")).collect();
        write!(out, "storage was not written: {}", all.join("; "))
    }
}

impl std::error::Error for Unsaved {}

/// A storage: a directory of areas. Dropped with the last of its areas, it writes what is to be written.
#[derive(Clone)]
pub struct Storage {
    pub(crate) inner: Arc<Inner>,
    options: Arc<Options>,
    last: Arc<AtomicU64>,
    last_ticket: Arc<AtomicU64>,
}

impl Storage {
    /// In this directory, which is made if need be. Nothing is read yet, and what is wrong with it is news later.
    ///
    /// # Errors
    /// The process has too many threads or descriptors.
    pub fn open(path: &Path, options: Options) -> Result<Storage, Error> {
        Storage::on(Arc::new(Folder::new(path)), options)
    }

    /// On any disk, for tests.
    ///
    /// # Errors
    /// As with [`Storage::open`].
    pub fn on(disk: Arc<dyn Disk>, options: Options) -> Result<Storage, Error> {
        let start = || -> io::Result<_> {
            let (cells, counts, unsaved) = Default::default();
            let shared = Arc::new(Shared { disk, feed: Feed::new(options.most())?, cells, counts, unsaved });
            let Options { write, sync, retry, memory, .. } = options;
            let engine = Engine::new(shared.clone(), Times { write, sync, retry, memory });
            Ok((shared, Clerk::new("webstorage", engine)?))
        };
        let (shared, clerk) = start().map_err(|error| Error::System(error.to_string()))?;
        Ok(Storage::of(options, Home::Disk(shared), Some(clerk)))
    }

    /// In memory: nothing comes to a disk, no thread is started, areas are empty and can be used at once.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn private(options: Options) -> Result<Storage, Error> {
        let feed = Feed::new(options.most()).map_err(|error| Error::System(error.to_string()))?;
        Ok(Storage::of(options, Home::Memory { feed, cells: Mutex::default() }, None))
    }

    fn of(options: Options, home: Home, clerk: Option<Clerk<Job>>) -> Storage {
        let inner = Arc::new(Inner { home, clerk: Mutex::new(clerk) });
        Storage { inner, options: Arc::new(options), last: Arc::default(), last_ticket: Arc::default() }
    }

    /// The local storage of an origin (`https://example.org`) under a site (may be empty). It is read if it is not in
    /// memory; asked for urgently, before all others.
    ///
    /// # Errors
    /// It is no origin.
    pub fn area(&self, partition: &str, origin: &str, urgency: Urgency) -> Result<Area, Error> {
        let place = Place::area(partition, origin).ok_or_else(|| Error::NoOrigin(format!("{partition} {origin}")))?;
        Ok(Area(self.handle(place, self.options.quota, urgency)))
    }

    /// A table of bytes by its name, the same way.
    ///
    /// # Errors
    /// It is no name.
    pub fn table(&self, partition: &str, name: &str, urgency: Urgency) -> Result<Table, Error> {
        let place = Place::table(partition, name).ok_or_else(|| Error::NoOrigin(format!("{partition} {name}")))?;
        Ok(Table(self.handle(place, self.options.table_quota, urgency)))
    }

    fn handle(&self, place: Place, quota: u64, urgency: Urgency) -> Handle {
        let inner = &self.inner;
        let mut cells = inner.cells();
        let owner = Some(inner.clone());
        if let Some(cell) = cells.get(&place) {
            cell.handles.fetch_add(1, Ordering::SeqCst);
            let handle = Handle { cell: cell.clone(), owner };
            drop(cells);
            if urgency == Urgency::Urgent {
                handle.hurry();
            }
            return handle;
        }
        let place = Arc::new(place);
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let cell = Arc::new(Cell::new(place.clone(), id, quota, matches!(inner.home, Home::Memory { .. })));
        cells.insert(place.clone(), cell.clone());
        match &inner.home {
            Home::Memory { feed, .. } => feed.ring([News::Loaded(place)]),
            // The areas stay locked: nobody asks for it to be faster before its job is known.
            Home::Disk(_) => {
                let level = if urgency == Urgency::Urgent { Level::UrgentRead } else { Level::Read };
                match inner.give(level, Job::Load(cell.clone())) {
                    0 => cell.enter(Stage::Closed),
                    job => {
                        if let Stage::Waits(known) = &mut cell.lock().stage {
                            *known = job;
                        }
                    }
                }
            }
        }
        Handle { cell, owner }
    }

    /// What has come since this was asked last.
    pub fn news(&self) -> VecDeque<News> {
        self.inner.feed().take()
    }

    /// The first of that alone; the descriptor stays readable while there is more.
    pub fn next_news(&self) -> Option<News> {
        self.inner.feed().next()
    }

    /// Asks for all that was changed until now to come to the medium at once; [`News::Flushed`] with this number comes
    /// when it has. While the disk fails it does not come.
    pub fn flush(&self) -> u64 {
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        if let Home::Memory { feed, .. } = &self.inner.home {
            feed.ring([News::Flushed(ticket)]);
        } else {
            self.inner.give(Level::Manage, Job::Flush(Ticket::News(ticket)));
        }
        ticket
    }

    /// The same, and waits, for as long as the disk fails too. `false`: the storage was closed.
    pub fn flush_and_wait(&self) -> bool {
        if matches!(self.inner.home, Home::Memory { .. }) {
            return true;
        }
        let (say, said) = std::sync::mpsc::channel();
        self.inner.give(Level::Manage, Job::Flush(Ticket::Thread(say)));
        said.recv().is_ok()
    }

    /// What it has and did.
    pub fn stats(&self) -> Stats {
        let cells = self.inner.cells();
        let (areas, bytes) = (cells.len() as u64, cells.values().map(|cell| cell.lock().live).sum());
        drop(cells);
        let (changes, change_bytes) = self.inner.feed().waits();
        let has = Stats { areas, bytes, changes, change_bytes, ..Stats::default() };
        let Home::Disk(shared) = &self.inner.home else { return has };
        let had = |which: fn(&Counts) -> &AtomicU64| which(&shared.counts).load(Ordering::Relaxed);
        Stats {
            syncs: had(|counts| &counts.syncs),
            batches: had(|counts| &counts.batches),
            written: had(|counts| &counts.written),
            rewritten: had(|counts| &counts.rewritten),
            loaded: had(|counts| &counts.loaded),
            unloaded: had(|counts| &counts.unloaded),
            looks: had(|counts| &counts.looks),
            ..has
        }
    }

    /// Writes and syncs what is to be written, and ends the thread: it waits for the disk. Calls to areas are refused
    /// from then on.
    ///
    /// # Errors
    /// What could not be written.
    pub fn close(&self) -> Result<(), Unsaved> {
        let clerk = self.inner.clerk.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(clerk);
        let Home::Disk(shared) = &self.inner.home else { return Ok(()) };
        let unsaved = std::mem::take(&mut *shared.unsaved.lock().unwrap_or_else(PoisonError::into_inner));
        if unsaved.is_empty() { Ok(()) } else { Err(Unsaved(unsaved)) }
    }
}

impl AsFd for Storage {
    /// Readable while there are news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.feed().as_fd()
    }
}
