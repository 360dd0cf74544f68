//! A store for those who wait: tests, and programs that have nothing else to do.

use crate::key::Key;
use crate::shared::{Clear, Event, Ticket};
use crate::store::{Get, Put, Store};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};
use std::collections::{HashMap, VecDeque};

/// A store whose calls wait for what they began. Other tickets' events are kept for [`Blocking::wait`].
pub struct Blocking {
    store: Store,
    came: HashMap<Ticket, VecDeque<Event>>,
}

impl Blocking {
    /// Waits for this store.
    pub fn new(store: Store) -> Blocking {
        Blocking { store, came: HashMap::new() }
    }

    /// The store, for calls that do not wait.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The next event of a ticket. It waits for ever if none will come.
    pub fn wait(&mut self, ticket: Ticket) -> Event {
        loop {
            if let Some(events) = self.came.get_mut(&ticket) {
                let event = events.pop_front();
                if events.is_empty() {
                    self.came.remove(&ticket);
                }
                if let Some(event) = event {
                    return event;
                }
            }
            // An interrupted wait is one turn more.
            let _ = rustix::event::poll(&mut [PollFd::new(&self.store.fd(), PollFlags::IN)], None);
            for (ticket, event) in self.store.completions() {
                self.came.entry(ticket).or_default().push_back(event);
            }
        }
    }

    /// Waits for the end of a change. Whether it was done.
    pub fn done(&mut self, ticket: Ticket) -> bool {
        loop {
            if let Event::Done(done) = self.wait(ticket) {
                return done;
            }
        }
    }

    /// Metadata and body of an entry. `None`: it is not there, or cannot be read.
    pub fn get(&mut self, key: &Key) -> Option<(Bytes, Bytes)> {
        self.get_with(key, Get::default())
    }

    /// Metadata of an entry, and of its body what is asked for; the credit has to suffice.
    pub fn get_with(&mut self, key: &Key, get: Get) -> Option<(Bytes, Bytes)> {
        let ticket = self.store.get_with(key, get);
        let Event::Open { meta, .. } = self.wait(ticket) else { return None };
        let mut parts: Vec<Bytes> = Vec::new();
        loop {
            match self.wait(ticket) {
                Event::Chunk { bytes, .. } => parts.push(bytes),
                Event::End if parts.len() == 1 => return Some((meta, parts.pop()?)),
                Event::End => return Some((meta, parts.concat().into())),
                _ => return None,
            }
        }
    }

    /// Writes an entry. `false`: it was dropped.
    pub fn put(&mut self, key: &Key, put: Put, body: Bytes) -> bool {
        let ticket = self.store.put(key, put, body);
        self.done(ticket)
    }

    /// Gives an entry other metadata. `false`: there is none, or it was dropped.
    pub fn update_meta(&mut self, key: &Key, meta: Bytes) -> bool {
        let ticket = self.store.update_meta(key, meta);
        self.done(ticket)
    }

    /// Takes an entry away.
    pub fn remove(&mut self, key: &Key) -> bool {
        let ticket = self.store.remove(key);
        self.done(ticket)
    }

    /// Takes many entries away.
    pub fn clear(&mut self, what: Clear) -> bool {
        let ticket = self.store.clear(what);
        self.done(ticket)
    }

    /// Ends the store: the next start reads the index alone. `false`: the disk failed, or it had ended before.
    pub fn close(&mut self) -> bool {
        let ticket = self.store.close();
        self.done(ticket)
    }

    /// All changes so far are on the medium. `false`: the disk failed.
    pub fn flush(&mut self) -> bool {
        let ticket = self.store.flush();
        self.done(ticket)
    }
}
