//! What callers and the I/O thread share: the areas, the news, the counts.

use crate::cell::Cell;
use crate::feed::Feed;
use crate::place::Place;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_log::disk::Disk;

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
    pub feed: Feed,
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
}
