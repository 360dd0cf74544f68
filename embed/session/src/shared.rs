//! What callers and the I/O thread share. Nobody holds the lock while the disk is asked for something.

use crate::files::Missing;
use crate::item::Id;
use crate::tree::Tree;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thaw_log::bell::Bell;

/// What was asked for; events bear it.
pub type Ticket = u64;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What is visible is there, and changes may come.
    Ready {
        /// Which file it is from; `None`: there was none.
        from: Option<String>,
        /// How many items there were when the visible ones were written last.
        count: u32,
    },
    /// More items are there.
    More(Vec<Id>),
    /// All items are there.
    Loaded(Missing),
    /// The payload of an item, empty if it has none; or why it cannot be had.
    Payload(Id, Result<Arc<[u8]>, String>),
    /// What a ticket stands for is done; or why not.
    Done(Ticket, Result<(), String>),
    /// Saving does not work from now on: the reason. It is tried again and again.
    Failing(String),
    /// Saving works again; all is saved.
    Resumed,
    /// Another process has the session: nothing is loaded nor will be saved. The reason in words.
    Refused(String),
}

/// How saving goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// All that was changed before this moment is on the medium. `None`: nothing was saved by this process yet.
    pub durable: Option<SystemTime>,
    /// The first change that is not, if there is one.
    pub unsaved_since: Option<SystemTime>,
    /// Since when saving has not worked.
    pub failing_since: Option<SystemTime>,
    /// Why.
    pub reason: Option<String>,
}

/// How an end is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The session goes on as after a crash.
    #[default]
    Crash,
    /// What is for crashes only goes.
    Clean,
    /// Nothing more is done.
    Abandon,
}

/// What is shared.
pub struct Inside {
    /// The items.
    pub tree: Tree,
    /// Calls may change it.
    pub ready: bool,
    /// The first change that is not saved.
    pub dirty: Option<Instant>,
    /// How saving goes.
    pub health: Health,
    /// How long a change may wait.
    pub delay: Duration,
    /// The machine runs on battery.
    pub battery: bool,
    /// The last ticket.
    pub ticket: Ticket,
    /// How to end.
    pub end: End,
    /// What came of that.
    pub ended: Result<(), String>,
}

/// The shared part.
pub struct Shared {
    inside: Mutex<Inside>,
    /// The events.
    pub bell: Bell<Event>,
}

impl Shared {
    /// The shared part of an empty session that is not loaded yet.
    pub fn new(bell: Bell<Event>, delay: Duration) -> Shared {
        let inside = Inside {
            tree: Tree::new(true),
            ready: false,
            dirty: None,
            health: Health::default(),
            delay,
            battery: false,
            ticket: 0,
            end: End::Crash,
            ended: Ok(()),
        };
        Shared { inside: Mutex::new(inside), bell }
    }

    /// Its content.
    pub fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
