//! `file:PATH`: the path came to be (by creation or by a rename). Woken by inotify on its directory; while that does
//! not exist either, on the nearest one above it.

use super::{Fired, Probe, View};
use model::{Error, Exit, Result};
use os::spawn::{Launch, monotonic_ns};
use rustix::event::PollFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// See the file.
pub(super) struct File {
    path: PathBuf,
    /// As the user typed it: the milestone's name.
    typed: PathBuf,
    inotify: Option<OwnedFd>,
    watched: PathBuf,
}

impl File {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { typed: path.clone(), path, inotify: None, watched: PathBuf::new() }
    }

    fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Watches the deepest directory above the path that exists.
    fn watch(&mut self) -> Result<()> {
        let Some(inotify) = &self.inotify else { return Ok(()) };
        loop {
            let Some(above) = self.path.ancestors().skip(1).find(|above| above.is_dir()) else {
                return Err(self.error("there is no directory above it"));
            };
            if above == self.watched {
                return Ok(());
            }
            let above = above.to_owned();
            let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
            inotify::add_watch(inotify, &above, flags).map_err(|error| {
                let hint = "more inotify watches: sysctl fs.inotify.max_user_watches";
                self.error("it cannot be watched").because(std::io::Error::from(error)).hint(hint)
            })?;
            // A directory below may have been made before the watch was there: look again.
            self.watched = above;
        }
    }

    fn error(&self, cause: &str) -> Error {
        Error::on(Exit::Usage, "--ready cannot wait for the file", &self.path).because(cause)
    }
}

impl Probe for File {
    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        if self.path.is_relative() {
            let base = launch.cwd.clone().or_else(|| std::env::current_dir().ok());
            self.path = base.unwrap_or_else(|| PathBuf::from("/")).join(&self.path);
        }
        if self.exists() {
            let hint = "remove it, or let --restore DIR put its directory back before every run";
            return Err(self.error("it exists before the program is started").hint(hint));
        }
        let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let made = made.map_err(|error| self.error("no inotify").because(std::io::Error::from(error)))?;
        self.inotify = Some(made);
        self.watched = PathBuf::new();
        self.watch()
    }

    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        self.inotify.iter().map(|inotify| (inotify.as_fd(), PollFlags::IN)).collect()
    }

    fn look(&mut self, _view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        let Some(inotify) = &self.inotify else { return Ok(()) };
        let at_ns = monotonic_ns();
        // What happened does not matter, only what is there now.
        let mut events = [0u8; 4096];
        while rustix::io::read(inotify, &mut events).is_ok_and(|n| n > 0) {}
        if !self.exists() {
            self.watch()?;
        }
        if self.exists() {
            self.inotify = None;
            fired.push(Fired { name: format!("file:{}", self.typed.display()), at_ns });
        }
        Ok(())
    }
}
