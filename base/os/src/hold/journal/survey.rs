//! What is in a journal: what is held now, what dead processes left, and what is not obeyed.

use super::Journal;
use super::entry::{boot_id, forget, look, open_entry};
use super::trust::{Refused, distrust, what_to_type};
use super::undo::{Hand, Undo};
use model::{Error, Exit, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a dead process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The file of the entry.
    pub entry: PathBuf,
    /// The number of the process that left it.
    pub pid: u32,
    /// When it was written, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// How to mend it.
    pub undo: Undo,
    /// `true`: the machine was rebooted since and the change is gone by itself; mending only forgets it.
    pub forgotten_by_reboot: bool,
}

/// What an entry says of a setting of the whole machine.
#[derive(Debug)]
pub(crate) struct Held {
    /// The number of the process that holds it.
    pub(crate) pid: u32,
    /// Whether that one lives.
    pub(crate) alive: bool,
    /// The file of the entry that says so.
    pub(crate) file: PathBuf,
    /// The file of the setting.
    pub(crate) path: PathBuf,
    /// The value that it is held at.
    pub(crate) value: String,
    /// What it was before the first held it.
    pub(crate) before: String,
    /// Who holds it: a command line.
    pub(crate) command: String,
    /// For one run, beside what is held for the whole recording.
    pub(crate) for_a_run: bool,
}

/// Lets `hand` undo one leftover, and forgets it.
///
/// # Errors
/// Undoing failed (the entry stays), or another thaw is mending it right now.
pub(crate) fn mend(leftover: &Leftover, hand: Hand) -> Result<()> {
    let Ok(file) = open_entry(&leftover.entry) else { return Ok(()) };
    let mut tries = 0;
    while let Err(cause) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        // Somebody who only looks holds the lock for an instant.
        tries += 1;
        if tries == 100 {
            return Err(Error::on(Exit::Machine, "cannot mend what is in use", &leftover.entry)
                .because(io::Error::from(cause))
                .hint("another thaw is mending it: wait for it"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if !leftover.entry.exists() {
        return Ok(());
    }
    if !leftover.forgotten_by_reboot {
        hand(&leftover.undo, &leftover.entry)?;
    }
    forget(&leftover.entry)
}

impl Journal {
    /// Files of entries by time, those half written too. Of a directory that is not to be believed, why.
    fn entries(&self) -> Result<std::result::Result<Vec<PathBuf>, Refused>> {
        let unreadable =
            |cause: io::Error| Error::on(Exit::Machine, "cannot read the journal in", &self.directory).because(cause);
        if let Some(why) = distrust(&self.directory) {
            return Ok(Err(self.refused(&self.directory, why)));
        }
        let entries = match fs::read_dir(&self.directory) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Ok(Vec::new())),
            entries => entries.map_err(unreadable)?,
        };
        let mut paths =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        paths.sort();
        Ok(Ok(paths))
    }

    fn refused(&self, path: &Path, why: String) -> Refused {
        Refused { path: path.to_owned(), why, hint: what_to_type(path, &self.directory) }
    }

    /// What dead processes left here, the newest first: the order in which to mend it.
    ///
    /// # Errors
    /// The journal is there and cannot be read.
    pub fn leftovers(&self) -> Result<Vec<Leftover>> {
        self.survey().map(|(leftovers, _)| leftovers)
    }

    /// What dead processes left here, the newest first, and what is not obeyed.
    ///
    /// # Errors
    /// The journal is there and cannot be read.
    pub fn survey(&self) -> Result<(Vec<Leftover>, Vec<Refused>)> {
        let paths = match self.entries()? {
            Ok(paths) => paths,
            // Of another user's directory that is empty nobody wants to hear.
            Err(_) if fs::read_dir(&self.directory).is_ok_and(|mut inside| inside.next().is_none()) => {
                return Ok((Vec::new(), Vec::new()));
            }
            Err(refused) => return Ok((Vec::new(), vec![refused])),
        };
        let boot = boot_id();
        let (mut leftovers, mut refused) = (Vec::new(), Vec::new());
        for path in paths.iter().rev() {
            match distrust(path) {
                Some(why) => refused.push(self.refused(path, why)),
                None => leftovers.extend(leftover(path, &boot)),
            }
        }
        Ok((leftovers, refused))
    }

    /// Entries about settings of the machine, the oldest first, of this boot.
    ///
    /// # Errors
    /// The journal is there and cannot be read, or is not to be believed.
    pub(crate) fn held(&self) -> Result<Vec<Held>> {
        let paths = self.entries()?.map_err(|refused| {
            let error = Error::on(Exit::Machine, "cannot believe the journal in", &refused.path);
            error.because(refused.why).hint(refused.hint)
        })?;
        let boot = boot_id();
        let complete = paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        Ok(complete.filter(|path| distrust(path).is_none()).filter_map(|path| held(path, &boot)).collect())
    }
}

fn held(file: PathBuf, boot: &str) -> Option<Held> {
    let (stored, alive) = look(&file, boot)?;
    match stored.undo {
        Undo::LetGo { path, value, before, command, for_a_run } if stored.boot_id == boot => {
            Some(Held { pid: stored.pid, alive, file, path, value, before, command, for_a_run })
        }
        _ => None,
    }
}

/// The entry as a leftover, unless its owner lives (or it is gone meanwhile).
fn leftover(path: &Path, boot: &str) -> Option<Leftover> {
    let (stored, alive) = look(path, boot)?;
    if alive {
        return None;
    }
    Some(Leftover {
        entry: path.to_path_buf(),
        pid: stored.pid,
        created_unix_ns: stored.created_unix_ns,
        forgotten_by_reboot: stored.boot_id != boot && stored.undo.is_volatile(),
        undo: stored.undo,
    })
}
