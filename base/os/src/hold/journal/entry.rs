//! One entry: a change that is in force, and what is on the disk about it.

use super::undo::{Hand, Undo};
use crate::file::directory_of;
use crate::filesystem::{NameIn, current, open_directory};
use crate::proc::stat::start_ticks;
use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// An entry as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) boot_id: String,
    pub(super) pid: u32,
    pub(super) pid_start_ticks: u64,
    pub(super) created_unix_ns: u64,
    pub(super) undo: Undo,
}

/// A change that is in force; dropping it undoes it. If undoing fails, the entry stays for `thaw doctor`.
#[derive(Debug)]
pub struct Entry {
    pub(super) file: PathBuf,
    undo: Undo,
    hand: Hand,
    /// Holds the lock that says "the owner lives".
    _lock: File,
    done: bool,
}

impl Entry {
    /// Of an entry that is on the disk, and locked.
    pub(super) fn new(file: PathBuf, undo: Undo, hand: Hand, lock: File) -> Self {
        Self { file, undo, hand, _lock: lock, done: false }
    }

    /// Undoes the change and says whether that worked (dropping cannot).
    ///
    /// # Errors
    /// Undoing failed; the entry stays for `thaw doctor`.
    pub fn undo(mut self) -> Result<()> {
        self.perform()
    }

    /// Forgets the change without undoing it: it was not made, or is to stay.
    ///
    /// # Errors
    /// The entry cannot be removed; it stays for `thaw doctor`.
    pub fn forget(mut self) -> Result<()> {
        self.done = true;
        forget(&self.file)
    }

    /// Leaves the change to `thaw doctor`, because it cannot be undone now.
    pub fn leave(mut self) {
        self.done = true;
    }

    /// What it will do.
    pub fn plan(&self) -> &Undo {
        &self.undo
    }

    pub(super) fn perform(&mut self) -> Result<()> {
        self.done = true;
        (self.hand)(&self.undo, &self.file)?;
        forget(&self.file)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.done {
            // The entry stays on disk when this fails, and `thaw doctor` reports it.
            let _ = self.perform();
        }
    }
}

/// Nothing waits for this to be on the disk: undoing twice does no harm.
pub(super) fn forget(entry: &Path) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Machine, "cannot remove the journal entry", entry).because(cause);
    let directory = open_directory(directory_of(entry)).map_err(cannot)?;
    let name = entry.file_name().unwrap_or_default();
    match current().remove(NameIn { directory: &directory, name }) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cannot(cause)),
        _ => Ok(()),
    }
}

/// An entry's file, not through a link: whoever could put one there could have any file locked or read.
pub(super) fn open_entry(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// What an entry says, and whether whoever wrote it lives.
pub(super) fn look(path: &Path, boot: &str) -> Option<(Stored, bool)> {
    let file = open_entry(path).ok()?;
    let lock = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared);
    if path.extension().is_some_and(|extension| extension == "new") {
        if lock.is_ok() {
            // Its owner died while writing it: nothing was changed yet.
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let text = fs::read(path).ok()?;
    let stored = serde_json::from_slice::<Stored>(&text).unwrap_or(Stored {
        boot_id: boot.to_owned(),
        pid: 0,
        pid_start_ticks: 0,
        created_unix_ns: 0,
        undo: Undo::Unknown,
    });
    let owner_runs = || start_ticks(stored.pid).is_some_and(|ticks| ticks == stored.pid_start_ticks);
    let alive = match lock {
        Err(rustix::io::Errno::WOULDBLOCK) => true,
        // Where locks do not work the process id alone decides.
        Err(_) => stored.boot_id == boot && owner_runs(),
        Ok(()) => false,
    };
    Some((stored, alive))
}

/// Differs after each boot.
pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_end().to_owned()
}
