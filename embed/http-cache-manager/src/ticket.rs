//! A store whose completions are waited for by futures of any runtime: a thread fetches them and wakes.

use bytes::Bytes;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use thaw_entrystore::{Event, Get, Key, Store, Ticket};

/// What has come of a ticket that somebody waits for.
#[derive(Default)]
struct Came {
    meta: Bytes,
    parts: Vec<Bytes>,
    /// The last event.
    end: Option<Event>,
    waker: Option<Waker>,
}

type Waiting = Mutex<HashMap<Ticket, Came>>;

/// Metadata and body of an entry.
pub type Read = (Bytes, Vec<Bytes>);

pub struct Tickets {
    store: Option<Arc<Store>>,
    waiting: Arc<Waiting>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<Ticket, Came>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tickets {
    /// # Errors
    /// The process has no file descriptor or no thread left.
    pub fn new(store: Store) -> io::Result<Tickets> {
        let store = Arc::new(store);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let waiting: Arc<Waiting> = Arc::default();
        let (their_store, their_waiting, their_stop) = (store.clone(), waiting.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("http-cache".into());
        let thread = thread.spawn(move || turn(&their_store, &their_waiting, &their_stop))?;
        Ok(Tickets { store: Some(store), waiting, stop, thread: Some(thread) })
    }

    pub fn store(&self) -> &Store {
        // It goes with this.
        self.store.as_deref().expect("a store")
    }

    /// Reads an entry. `None`: it is not there, or cannot be read.
    pub async fn read(&self, key: &Key, get: Get) -> Option<Read> {
        let came = self.wait(|store| store.get_with(key, get)).await;
        (came.end == Some(Event::End)).then_some((came.meta, came.parts))
    }

    /// Waits for the end of a change.
    pub async fn done(&self, begin: impl FnOnce(&Store) -> Ticket) -> bool {
        self.wait(begin).await.end == Some(Event::Done(true))
    }

    async fn wait(&self, begin: impl FnOnce(&Store) -> Ticket) -> Came {
        let ticket = {
            // What comes of it is looked at when it is known who waits.
            let mut waiting = lock(&self.waiting);
            let ticket = begin(self.store());
            waiting.insert(ticket, Came::default());
            ticket
        };
        let seat = Seat { tickets: self, ticket };
        poll_fn(|context| {
            let mut waiting = lock(&seat.tickets.waiting);
            match waiting.get_mut(&seat.ticket) {
                Some(came) if came.end.is_none() => {
                    came.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(waiting.remove(&seat.ticket).unwrap_or_default()),
            }
        })
        .await
    }
}

/// Whoever waits may go before its end.
struct Seat<'a> {
    tickets: &'a Tickets,
    ticket: Ticket,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if lock(&self.tickets.waiting).remove(&self.ticket).is_some() {
            self.tickets.store().cancel(self.ticket);
        }
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        // A descriptor of ours that takes a number.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The thread has let go of it: this is the last one, and waits for what is left to be written.
        self.store = None;
    }
}

fn turn(store: &Store, waiting: &Waiting, stop: &OwnedFd) {
    loop {
        let ready = store.fd();
        let mut fds = [PollFd::new(&ready, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // An interrupted wait is one turn more.
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return;
        }
        let mut woken = Vec::new();
        {
            let mut waiting = lock(waiting);
            for (ticket, event) in store.completions() {
                let Some(came) = waiting.get_mut(&ticket) else { continue };
                match event {
                    Event::Open { meta, .. } => came.meta = meta,
                    Event::Chunk { bytes, .. } => came.parts.push(bytes),
                    Event::Room(_) => {}
                    end => {
                        came.end = Some(end);
                        woken.extend(came.waker.take());
                    }
                }
            }
        }
        // A waker may run what takes the lock.
        woken.into_iter().for_each(Waker::wake);
    }
}
