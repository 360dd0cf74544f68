//! What areas and tables have in common: one holds an area in memory, and tells the I/O thread of its changes.

use crate::cell::{Cell, Stage};
use crate::engine::Job;
use crate::error::Error;
use crate::feed::Feed;
use crate::shared::{Cells, Shared};
use crate::text::Text;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_log::clerk::Clerk;
use thaw_log::queue::Level;

/// Where the areas of a storage are.
pub enum Home {
    /// In files.
    Disk(Arc<Shared>),
    /// In memory alone.
    Memory {
        /// The news.
        feed: Feed,
        /// The areas.
        cells: Mutex<Cells>,
    },
}

/// What handles hold of their storage.
pub struct Inner {
    /// Where its areas are.
    pub home: Home,
    /// The thread; none when it is closed, and in memory.
    pub clerk: Mutex<Option<Clerk<Job>>>,
}

impl Inner {
    /// What the program is told.
    pub fn feed(&self) -> &Feed {
        match &self.home {
            Home::Disk(shared) => &shared.feed,
            Home::Memory { feed, .. } => feed,
        }
    }

    /// The areas in memory, or on their way to it.
    pub fn cells(&self) -> MutexGuard<'_, Cells> {
        match &self.home {
            Home::Disk(shared) => shared.cells(),
            Home::Memory { cells, .. } => cells.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Gives the thread a job; 0: there is none.
    pub fn give(&self, level: Level, job: Job) -> u64 {
        let clerk = self.clerk.lock().unwrap_or_else(PoisonError::into_inner);
        clerk.as_ref().map_or(0, |clerk| clerk.give(level, job))
    }
}

/// A hold on an area.
pub struct Handle {
    /// The area.
    pub cell: Arc<Cell>,
    /// Its storage; none of session storage.
    pub owner: Option<Arc<Inner>>,
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        self.cell.handles.fetch_add(1, Ordering::SeqCst);
        Handle { cell: self.cell.clone(), owner: self.owner.clone() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.cell.handles.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(owner) = &self.owner
        {
            owner.give(Level::Evict, Job::Loose(self.cell.id));
        }
    }
}

impl Handle {
    /// It is read before others.
    pub fn hurry(&self) {
        let Stage::Waits(job) = self.cell.lock().stage else { return };
        let Some(owner) = &self.owner else { return };
        let clerk = owner.clerk.lock().unwrap_or_else(PoisonError::into_inner);
        // Under way, it need not be faster.
        clerk.as_ref().map(|clerk| clerk.raise(job, Level::UrgentRead));
    }

    /// Waits until it can be used, and has it read before others.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn wait(&self) -> Result<(), Error> {
        self.hurry();
        self.cell.wait()
    }

    /// Tells the thread that there are changes.
    pub fn tell(&self, changed: bool) {
        if changed && let Some(owner) = &self.owner {
            owner.give(Level::Manage, Job::Dirty(self.cell.id));
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn get(&self, key: &[u8]) -> Result<Option<Text>, Error> {
        Ok(self.cell.ready()?.map.get(key).cloned().map(Text))
    }

    /// The key at a place.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn key(&self, at: usize) -> Result<Option<Text>, Error> {
        Ok(self.cell.ready()?.map.key(at).cloned().map(Text))
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn clear(&self) -> Result<(), Error> {
        let (tell, map, pending) = self.cell.clear()?;
        self.tell(tell);
        if let Some(owner) = &self.owner
            && matches!(owner.home, Home::Disk(_))
            && !map.is_empty()
        {
            owner.give(Level::Evict, Job::LetGo(map, pending));
        }
        Ok(())
    }
}
