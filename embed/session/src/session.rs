//! The calls of a session. None waits for the disk but [`Session::close`], and dropping it.

use crate::counted::{Counted, Counts};
use crate::desk::{Desk, Forget, Job};
use crate::error::Error;
use crate::item::{Id, Item, Payload};
use crate::shared::{End, Event, Health, Inside, Shared, Ticket, now_ms};
use crate::tree::{Edit, New, Place};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use thaw_log::bell::Bell;
use thaw_log::clerk::Clerk;
use thaw_log::disk::{Disk, Folder};
use thaw_log::queue::Level;

/// How a session is to be kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of the application: the file that another version has left is kept.
    pub version: String,
    /// How long a change may wait until it is saved.
    pub delay: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { version: "1".into(), delay: Duration::from_secs(1) }
    }
}

/// A session. Many threads may use it at once.
pub struct Session {
    shared: Arc<Shared>,
    disk: Arc<Counted>,
    clerk: Option<Clerk<Job>>,
}

impl Session {
    /// Opens the session in a directory, which is made if need be. What comes of it are events.
    ///
    /// # Errors
    /// The version is no name of a file; the process has no thread or descriptor left.
    pub fn open(path: &Path, options: &Options) -> Result<Session, Error> {
        Session::open_on(Arc::new(Folder::new(path)), options)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// As with [`Session::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Session, Error> {
        let good = |letter: u8| letter.is_ascii_alphanumeric() || b".-_".contains(&letter);
        if !(1..=32).contains(&options.version.len()) || !options.version.bytes().all(good) {
            return Err(Error::Version(options.version.clone()));
        }
        let system = |error: std::io::Error| Error::System(error.to_string());
        let bell = Bell::new().map_err(system)?;
        let shared = Arc::new(Shared::new(bell, options.delay));
        let disk = Arc::new(Counted::new(disk));
        let desk = Desk::new(disk.clone(), shared.clone(), options.version.clone());
        let clerk = Clerk::new("thaw-session", desk).map_err(system)?;
        clerk.give(Level::UrgentRead, Job::Start);
        Ok(Session { shared, disk, clerk: Some(clerk) })
    }

    fn give(&self, level: Level, job: Job) {
        if let Some(clerk) = &self.clerk {
            clerk.give(level, job);
        }
    }

    /// Does something to the tree, and sees to it that it will be saved.
    fn edit<T>(&self, work: impl FnOnce(&mut Inside) -> Result<T, Error>) -> Result<T, Error> {
        let mut inside = self.shared.lock();
        if !inside.ready {
            return Err(Error::NotReady);
        }
        let done = work(&mut inside)?;
        let first = inside.dirty.is_none() && !inside.tree.marks.is_empty();
        if first {
            inside.dirty = Some(Instant::now());
            inside.health.unsaved_since = Some(SystemTime::now());
        }
        drop(inside);
        if first && let Some(clerk) = &self.clerk {
            clerk.wake();
        }
        Ok(done)
    }

    /// Makes an item. Its number is its own for ever.
    ///
    /// # Errors
    /// There is no such parent or sibling; a text is too long; nothing is loaded yet.
    pub fn insert(&self, parent: Id, place: Place, new: &New) -> Result<Id, Error> {
        self.edit(|inside| inside.tree.insert(parent, place, new, now_ms()))
    }

    /// Changes an item. `false`: it is so already.
    ///
    /// # Errors
    /// There is no such item; a text is too long; nothing is loaded yet.
    pub fn change(&self, id: Id, edit: &Edit) -> Result<bool, Error> {
        self.edit(|inside| inside.tree.change(id, edit, now_ms()))
    }

    /// Moves an item with all below.
    ///
    /// # Errors
    /// There is no such item, parent or sibling; it would lie in itself; nothing is loaded yet.
    pub fn move_to(&self, id: Id, parent: Id, place: Place) -> Result<(), Error> {
        self.edit(|inside| inside.tree.move_to(id, parent, place, now_ms()))
    }

    /// Removes an item with all below, that too which is not loaded yet. How many of them were.
    ///
    /// # Errors
    /// There is no such item; nothing is loaded yet.
    pub fn remove(&self, id: Id) -> Result<usize, Error> {
        self.edit(|inside| inside.tree.remove(id))
    }

    /// An item, if it is loaded.
    pub fn get(&self, id: Id) -> Option<Item> {
        self.shared.lock().tree.items.get(&id).cloned()
    }

    /// The items in another one, in their order, as far as they are loaded.
    pub fn children(&self, parent: Id) -> Vec<Id> {
        self.shared.lock().tree.children(parent).collect()
    }

    /// How many items are loaded.
    pub fn len(&self) -> usize {
        self.shared.lock().tree.items.len()
    }

    /// None is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Brings the payload of an item: an event. One that is urgent goes before the rest of the session.
    ///
    /// # Errors
    /// There is no such item.
    pub fn want(&self, id: Id, urgent: bool) -> Result<(), Error> {
        let payload = self.get(id).ok_or(Error::NoItem(id))?.payload;
        match payload {
            Payload::None => self.shared.bell.ring([Event::Payload(id, Ok(Vec::new().into()))]),
            Payload::Here(bytes) => self.shared.bell.ring([Event::Payload(id, Ok(bytes))]),
            Payload::There(_) => self.give(if urgent { Level::UrgentRead } else { Level::Read }, Job::Want(id)),
        }
        Ok(())
    }

    fn ticket(&self, level: Level, job: impl FnOnce(Ticket) -> Job) -> Ticket {
        let mut inside = self.shared.lock();
        inside.ticket += 1;
        let ticket = inside.ticket;
        drop(inside);
        self.give(level, job(ticket));
        ticket
    }

    /// Saves now: an event tells when all that was changed before is on the medium.
    pub fn flush(&self) -> Ticket {
        self.ticket(Level::UrgentWrite, Job::Flush)
    }

    /// Removes all items of an origin with all below, and their bytes out of all files: an event tells when. What was
    /// set aside because it could not be read is removed too.
    pub fn forget(&self, origin: &str) -> Ticket {
        self.ticket(Level::Write, |ticket| Job::Forget(ticket, Forget::Origin(origin.into())))
    }

    /// The same of all items that were changed at this moment or later, in milliseconds since 1970.
    pub fn forget_since(&self, since_ms: u64) -> Ticket {
        self.ticket(Level::Write, |ticket| Job::Forget(ticket, Forget::Since(since_ms)))
    }

    /// What has happened since the last call.
    pub fn events(&self) -> VecDeque<Event> {
        self.shared.bell.take()
    }

    /// The first of that.
    pub fn next_event(&self) -> Option<Event> {
        self.shared.bell.next()
    }

    /// How saving goes: since when it has not worked, and up to when all is on the medium.
    pub fn last_durable(&self) -> Health {
        self.shared.lock().health.clone()
    }

    /// What was read and written in all, and in the last hour.
    pub fn counts(&self) -> (Counts, Counts) {
        self.disk.counts()
    }

    /// How long a change may wait until it is saved.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
        self.wake();
    }

    /// On battery changes wait five times as long.
    pub fn on_battery(&self, battery: bool) {
        self.shared.lock().battery = battery;
        self.wake();
    }

    fn wake(&self) {
        if let Some(clerk) = &self.clerk {
            clerk.wake();
        }
    }

    fn end(&mut self, end: End) -> Result<(), Error> {
        self.shared.lock().end = end;
        drop(self.clerk.take());
        self.shared.lock().ended.clone().map_err(Error::NotSaved)
    }

    /// Ends it: all is saved when it returns. `clean`: what is for crashes only is gone, from all files; otherwise the
    /// session goes on as after a crash, as it does when it is dropped.
    ///
    /// # Errors
    /// It could not be saved.
    pub fn close(mut self, clean: bool) -> Result<(), Error> {
        self.end(if clean { End::Clean } else { End::Crash })
    }

    /// Ends it as if the process had been killed: what waits is not saved.
    pub fn abandon(mut self) {
        // Nothing is done.
        let _ = self.end(End::Abandon);
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}
