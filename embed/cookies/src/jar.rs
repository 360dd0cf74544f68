//! The jar: the calls, none of which waits for the disk, and the few for simple programs that do.

use crate::cookie::{Context, Cookie, Place};
use crate::desk::{Job, Shared, Writer};
use crate::error::Wrong;
use crate::options::Options;
use crate::state::{News, State, Ticket};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use thaw_log::clerk::Clerk;
use thaw_log::disk::{Disk, Folder};
use thaw_log::queue::Level;

/// What a jar has for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// These, in the order in which they are sent.
    Cookies(Vec<Cookie>),
    /// It is not known yet: [`News::Loaded`] says when.
    NotLoadedYet,
}

/// What became of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is in the jar, and will be on the disk.
    Now,
    /// Its site is not loaded yet: it is stored then, unless another cookie is in its way ([`News::Refused`]).
    Later,
}

/// A jar. Dropped, it writes what is left and ends its thread.
pub struct Jar {
    shared: Arc<Shared>,
    clerk: Clerk<Job>,
}

impl Jar {
    /// Opens a jar, which begins to load. A file that cannot be read is told in the news, not here.
    ///
    /// # Errors
    /// The process has too many threads or descriptors.
    pub fn open(options: Options) -> io::Result<Jar> {
        let folder = Folder::new(&options.path);
        Jar::on(Arc::new(folder), options)
    }

    /// The same on a disk of the caller's.
    ///
    /// # Errors
    /// The process has too many threads or descriptors.
    pub fn on(disk: Arc<dyn Disk>, options: Options) -> io::Result<Jar> {
        let shared = Arc::new(Shared::new(&options)?);
        let clerk = Clerk::new("cookies", Writer::new(disk, shared.clone(), options))?;
        // Before what is asked for: it says where that is. The rest comes when nobody asks.
        clerk.give(Level::UrgentRead, Job::Start);
        clerk.give(Level::Index, Job::Rest(0));
        Ok(Jar { shared, clerk })
    }

    /// Stores what a `Set-Cookie` header says. `now_us`: microseconds since 1970, as everywhere; the jar has no clock
    /// of its own.
    ///
    /// # Errors
    /// The header is to be ignored, or the URL has no cookies.
    pub fn set(&self, header: &[u8], url: &str, now_us: u64, context: &Context) -> Result<Stored, Wrong> {
        let place = Place::of(url, context)?;
        let mut state = self.shared.lock();
        let cookie = state.read(header, &place, context, now_us)?;
        let host = place.host.clone();
        let first = !state.is_loaded(&host) && state.ask(&host, false);
        let stored = state.insert(cookie, Some((place, context.clone())))?;
        self.after(&host, first.then_some(Level::Read), &state);
        drop(state);
        self.clerk.wake();
        Ok(if stored { Stored::Now } else { Stored::Later })
    }

    /// Puts a cookie in as it is, by no rule but the limits: from another jar.
    pub fn put(&self, cookie: Cookie) -> Stored {
        let mut state = self.shared.lock();
        let host = cookie.domain.clone();
        let first = !state.is_loaded(&host) && state.ask(&host, false);
        let stored = state.insert(cookie, None);
        self.after(&host, first.then_some(Level::Read), &state);
        drop(state);
        self.clerk.wake();
        // Without a place there is no rule that refuses it.
        if stored == Ok(false) { Stored::Later } else { Stored::Now }
    }

    /// The cookies for a URL. If they are not loaded yet, they are before all that nobody has asked for.
    ///
    /// # Errors
    /// The URL has no cookies.
    pub fn cookies(&self, url: &str, now_us: u64, context: &Context) -> Result<Lookup, Wrong> {
        let place = Place::of(url, context)?;
        let mut state = self.shared.lock();
        if state.is_loaded(&place.host) {
            return Ok(Lookup::Cookies(state.going(&place, context, now_us)));
        }
        let first = state.ask(&place.host, true);
        self.after(&place.host, first.then_some(Level::UrgentRead), &state);
        Ok(Lookup::NotLoadedYet)
    }

    fn after(&self, host: &str, level: Option<Level>, state: &State) {
        if let Some(level) = level {
            self.clerk.give(level, Job::Site(state.site_of(host)));
        }
    }

    /// All cookies that have not expired, sorted; `None`: not all are loaded yet ([`News::Whole`]).
    pub fn all(&self) -> Option<Vec<Cookie>> {
        let state = self.shared.lock();
        state.is_whole().then(|| state.all())
    }

    /// Forgets a host and those below it, in memory at once; when it is done ([`News::Done`]) no byte of theirs is in a
    /// file of the jar, nor in what was put aside of damaged ones: these go.
    pub fn forget(&self, host: &str) -> Ticket {
        let ticket = self.shared.lock().forget(&host.to_ascii_lowercase());
        self.clerk.wake();
        ticket
    }

    /// The same with all cookies that were made at this time or later.
    pub fn forget_since(&self, since_us: u64) -> Ticket {
        let ticket = self.shared.lock().forget_since(since_us);
        self.clerk.wake();
        ticket
    }

    /// Writes what has changed now; when it is done, it survives a power cut.
    pub fn flush(&self) -> Ticket {
        let ticket = self.shared.lock().ticket();
        self.clerk.wake();
        ticket
    }

    /// What has happened since the last call. The jar's descriptor is readable while there is something.
    pub fn news(&self) -> VecDeque<News> {
        self.shared.bell.take()
    }

    /// Waits until the cookies of a URL are loaded: for simple programs.
    ///
    /// # Errors
    /// The URL has no cookies.
    pub fn wait(&self, url: &str, context: &Context) -> Result<(), Wrong> {
        let place = Place::of(url, context)?;
        let mut state = self.shared.lock();
        if !state.is_loaded(&place.host) {
            let first = state.ask(&place.host, true);
            self.after(&place.host, first.then_some(Level::UrgentRead), &state);
        }
        while !state.is_loaded(&place.host) {
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// Waits until all cookies are.
    pub fn wait_whole(&self) {
        let mut state = self.shared.lock();
        while !state.is_whole() {
            state = self.shared.wait(state);
        }
    }

    /// Waits for the end of a request, once.
    ///
    /// # Errors
    /// What the disk did not do. Changes are tried again.
    pub fn wait_for(&self, ticket: Ticket) -> Result<(), String> {
        let mut state = self.shared.lock();
        loop {
            if let Some(how) = state.ended(ticket) {
                return how;
            }
            state = self.shared.wait(state);
        }
    }
}

impl AsFd for Jar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}
