//! What callers and the I/O thread share: the areas, the news, the counts.

use crate::cell::{Cell, Changed};
use crate::place::Place;
use crate::text::Text;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_log::bell::Bell;
use thaw_log::disk::Disk;

/// What a program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// This area or table can be used.
    Loaded(Arc<Place>),
    /// It cannot be read; this is tried again, and told once.
    Unreadable(Arc<Place>, String),
    /// Another process has changed a key.
    Changed {
        /// Where.
        place: Arc<Place>,
        /// The key; of a table, its bytes.
        key: Text,
        /// What it had here.
        old: Option<Text>,
        /// What it has now; `None`: it is gone.
        new: Option<Text>,
    },
    /// All that was done before this flush was asked for is on the medium.
    Flushed(u64),
    /// A part of a file was not readable. What is before it is loaded, the rest is kept under this name.
    Damaged(Arc<Place>, String),
    /// What was changed here cannot be written. It stays in memory and is tried again; told once.
    Trouble(Arc<Place>, String),
    /// It has been written.
    Recovered(Arc<Place>),
}

/// What was done so far.
#[derive(Default)]
pub struct Counts {
    /// Syncs of files, with those of files that were written anew.
    pub syncs: AtomicU64,
    /// How often changes of an area were given to the kernel.
    pub batches: AtomicU64,
    /// Bytes that were given to the kernel.
    pub written: AtomicU64,
    /// Files that were written anew.
    pub rewritten: AtomicU64,
    /// Areas that were read.
    pub loaded: AtomicU64,
    /// Areas that nobody held and that are in memory no more.
    pub unloaded: AtomicU64,
    /// How often the files were looked at for changes of other processes.
    pub looks: AtomicU64,
}

/// Areas by their places.
pub type Cells = HashMap<Arc<Place>, Arc<Cell>>;

/// What is shared.
pub struct Shared {
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// The news.
    pub bell: Bell<News>,
    /// All areas that are in memory, or on their way to it.
    pub cells: Mutex<Cells>,
    /// What was done.
    pub counts: Counts,
    /// What could not be written at the end.
    pub unsaved: Mutex<Vec<(Arc<Place>, String)>>,
}

impl Shared {
    /// The areas.
    pub fn cells(&self) -> MutexGuard<'_, Cells> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts.
    pub fn count(&self, which: impl Fn(&Counts) -> &AtomicU64, more: u64) {
        which(&self.counts).fetch_add(more, Ordering::Relaxed);
    }

    /// Tells changes of others.
    pub fn tell(&self, place: &Arc<Place>, changed: Vec<Changed>) {
        self.bell.ring(changed.into_iter().map(|Changed { key, old, new }| News::Changed {
            place: place.clone(),
            key: Text(key),
            old: old.map(Text),
            new: new.map(Text),
        }));
    }

    /// Takes the news.
    pub fn news(&self) -> VecDeque<News> {
        self.bell.take()
    }
}
