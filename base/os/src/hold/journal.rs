//! Guards that survive `kill -9`: how to undo a change is on disk before anything is changed.
//!
//! Every guard is one small JSON file in `/var/lib/thaw/journal` (root), `$XDG_STATE_HOME/thaw/journal`
//! (others), or `$THAW_STATE_DIR/journal`. Its owner holds a lock on the file as long as it lives, so that `thaw
//! doctor` can tell a guard in use from one that a killed thaw left behind. Settings of the whole machine have a
//! journal of their own below `/run/thaw` ([`crate::settings`]). Only entries that nobody but this user can have
//! written are obeyed: an entry says what to remove and what to write. Not a general
//! transaction log: an entry undoes one change, and undoing it twice must do no harm.
//!
//! The journal knows entries and files. How a change is undone comes with it as a [`Hand`]; [`super::mend`] knows them
//! all.

mod directory;
mod entry;
mod paths;
mod survey;
#[cfg(test)]
mod tests;
mod trust;
mod undo;

pub use directory::{machine_dir, state_dir};
pub use entry::Entry;
pub use survey::Leftover;
pub(crate) use survey::{Held, mend};
pub use trust::Refused;
pub(crate) use trust::distrust;
pub(crate) use undo::Hand;
pub use undo::Undo;

use crate::filesystem::{Existing, NameIn, current, make_directory, open_directory};
use crate::proc::stat::start_ticks;
use entry::{Stored, boot_id};
use model::{Error, Exit, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A journal in one directory. The program uses the one of its state
/// directory, through [`crate::journal::hold`], [`crate::journal::leftovers`] and [`crate::journal::mend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    directory: PathBuf,
}

impl Journal {
    /// The journal of this state directory; nothing is created yet.
    pub fn at(state_dir: &Path) -> Self {
        Self { directory: state_dir.join("journal") }
    }

    /// The journal of this process's user.
    ///
    /// # Errors
    /// There is no state directory.
    pub(crate) fn own() -> Result<Self> {
        Ok(Self::at(&state_dir()?))
    }

    /// The journal of settings of the whole machine.
    pub(crate) fn machine() -> Self {
        Self::at(&machine_dir())
    }

    /// Writes down how to undo a change, makes it, and returns its guard. If the change fails, it is undone as far as
    /// it went and its error is returned. `hand` undoes it.
    ///
    /// # Errors
    /// The journal cannot be written (then nothing was changed), or the change's own error.
    pub(crate) fn hold(&self, undo: Undo, hand: Hand, change: impl FnOnce() -> Result<()>) -> Result<Entry> {
        let undo = self.to_the_first(undo);
        let (file, lock) = self.write(&undo).map_err(|cause| {
            Error::on(Exit::Machine, "cannot write the journal in", &self.directory).because(cause).hint(
                "thaw changes nothing that it could not put back: set THAW_STATE_DIR to a directory that you can write",
            )
        })?;
        let mut entry = Entry::new(file, undo, hand, lock);
        match change() {
            Ok(()) => Ok(entry),
            Err(error) => {
                // The error of the change says more than a second one; a failed undo stays on disk.
                let _ = entry.perform();
                Err(error)
            }
        }
    }

    /// What a setting was before any thaw changed it: the value that is there now may be that of another one, which
    /// lives or was killed.
    fn to_the_first(&self, undo: Undo) -> Undo {
        let Undo::WriteFile { path, .. } = &undo else { return undo };
        let mut entries: Vec<_> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|entry| entry.extension().is_some_and(|extension| extension == "json"))
            .collect();
        entries.sort();
        let boot = boot_id();
        let of_others = |entry: &PathBuf| {
            let stored: Stored = serde_json::from_slice(&fs::read(entry).ok()?).ok()?;
            // Changes of one process lie in one another: the inner one goes back to the outer one's.
            let same = matches!(&stored.undo, Undo::WriteFile { path: other, .. } if other == path);
            (same && stored.boot_id == boot && stored.pid != std::process::id()).then_some(stored.undo)
        };
        entries.iter().find_map(of_others).unwrap_or(undo)
    }

    /// The entry under its final name, locked, and safe on disk.
    fn write(&self, undo: &Undo) -> io::Result<(PathBuf, File)> {
        static SEQUENCE: AtomicU64 = AtomicU64::new(0);
        self.make_directory()?;
        let pid = std::process::id();
        let created_unix_ns = crate::machine::now_unix_ns();
        let stored = Stored {
            boot_id: boot_id(),
            pid,
            pid_start_ticks: start_ticks(pid).unwrap_or(0),
            created_unix_ns,
            undo: undo.clone(),
        };
        // Fixed width, so that names sort by time.
        let name = format!("{created_unix_ns:020}-{:06}-{pid}.json", SEQUENCE.fetch_add(1, Ordering::Relaxed));
        let (system, directory) = (current(), open_directory(&self.directory)?);
        let fresh = format!("{name}.new");
        let at = |name| NameIn { directory: &directory, name: OsStr::new(name) };
        let mut file = system.create(at(&fresh))?;
        if self.readable() != 0 {
            system.set_mode(&file, 0o600 | (self.readable() & 0o44))?;
        }
        let written = (|| {
            // Where locks do not work (some network file systems) the process id alone decides.
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
            file.write_all(&serde_json::to_vec(&stored)?)?;
            system.sync_file(&file)?;
            system.rename(at(&fresh), at(&name), Existing::Keep)?;
            system.sync_directory(&directory)
        })();
        if let Err(cause) = written {
            let _ = system.remove(at(&fresh));
            let _ = system.remove(at(&name));
            return Err(cause);
        }
        Ok((self.directory.join(&name), file))
    }

    /// Who holds the machine's settings, everybody may know.
    fn readable(&self) -> u32 {
        if *self == Self::machine() { 0o055 } else { 0 }
    }

    /// Only its owner has anything to do in it. One that an older version or a generous umask left open to others is
    /// closed.
    fn make_directory(&self) -> io::Result<()> {
        let private = 0o700 | self.readable();
        if let Some(above) = self.directory.parent() {
            make_directory(above, 0o755)?;
        }
        make_directory(&self.directory, private)?;
        let about = self.directory.symlink_metadata()?;
        if about.is_dir() && about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 != 0 {
            fs::set_permissions(&self.directory, fs::Permissions::from_mode(private))?;
        }
        distrust(&self.directory).map_or(Ok(()), |why| Err(io::Error::other(why)))
    }
}
