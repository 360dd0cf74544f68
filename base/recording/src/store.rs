//! The file itself: who may put one where, and how it gets there in one step.
//!
//! A new recording is made beside its target under another name, complete with schema and header, and then renamed. So
//! nobody ever sees half a header, and an old recording stays until the new one can take its place. Three dangers are
//! met here:
//! - a *hot journal* that a killed writer left would be played back into the wrong file if only the file were replaced:
//!   it is rolled back into its own file first;
//! - two writers on one name would share one journal name: the writer holds a lock on its file as long as it lives;
//! - a file that is not ours is never touched.

use crate::failure::{self, Failure, Kind, kind_of};
use crate::nouns::Replace;
use crate::regular::only_regular_files;
use model::{Error, Exit, Result};
use os::replace::{Existing, Fresh};
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another thaw that is inside a transaction on the same recording.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first eight bytes of every rollback journal of SQLite.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

const CANNOT_CREATE: &str = "cannot create the recording";
const CANNOT_ADD: &str = "cannot add to the recording";

/// The name of a file that SQLite keeps beside a database.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Rolls back what a killed writer did not finish. The file must be a recording.
pub(crate) fn roll_back(path: &Path) -> Result<()> {
    only_regular_files();
    let attempt = || -> std::result::Result<(), Failure> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | NO_MUTEX)?;
        connection.busy_timeout(PATIENCE)?;
        // The first read finds the hot journal and plays it back.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(())
    };
    attempt().map_err(|failure| failure::unrecoverable(path, failure))
}

const NO_MUTEX: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// Opens a recording for reading. A hot journal is an error of SQLite here, `SQLITE_READONLY_ROLLBACK`.
pub(crate) fn connect_to_read(path: &Path) -> std::result::Result<Connection, Failure> {
    only_regular_files();
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Opens a recording for writing; it must exist.
pub(crate) fn connect_to_write(path: &Path) -> std::result::Result<Connection, Failure> {
    only_regular_files();
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | NO_MUTEX)?;
    // A run that was made is worth waiting for a reader to end its query.
    connection.busy_timeout(PATIENCE * 6)?;
    // DELETE leaves one file behind, and EXTRA also syncs the directory after the journal is gone: when a run is
    // reported as written, it is.
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    Ok(connection)
}

/// The right to write to a file, held until it is dropped or the process ends, however it ends.
///
/// It is a lock of the open file description on a byte far behind those that SQLite locks, so it bothers neither
/// readers nor SQLite. Where a file system has no such locks, everybody gets the right.
pub(crate) struct Claim {
    file: File,
}

impl Claim {
    const BYTE: i64 = 0x7468_6177_0000_0000;

    /// `None`: another process, or another writer of this one, has it.
    pub fn take(path: &Path) -> std::io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        match Self::set(&file, libc::F_WRLCK) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
            _ => Ok(Some(Self { file })),
        }
    }

    fn set(file: &File, kind: libc::c_int) -> std::io::Result<()> {
        // SAFETY: flock is a plain structure of integers, for which all zeros is a value (l_pid must be 0).
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = Self::BYTE;
        lock.l_len = 1;
        // SAFETY: the descriptor is open, and the command reads one flock, which lives until the call returns.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Whether the claimed file still has this name.
    fn is_at(&self, path: &Path) -> bool {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(mine), Ok(there)) => identity(mine) == identity(there),
            _ => false,
        }
    }
}

impl Drop for Claim {
    /// Closing would not do: a child that was forked and has not yet called exec holds the same open file.
    fn drop(&mut self) {
        Self::set(&self.file, libc::F_UNLCK).ok();
    }
}

/// A name that a recording may be put under.
pub(crate) struct Place {
    target: PathBuf,
    /// The recording that is there now and will be replaced; claimed, so that nobody writes to it.
    old: Option<Claim>,
}

impl Place {
    /// Decides whether a recording may be put at `path`, and clears the way without changing any file's content.
    pub fn take(path: &Path, replace: Replace) -> Result<Self> {
        let target = resolve(path)?;
        let meta = match std::fs::metadata(&target) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                clear_leftovers(&target)?;
                return Ok(Self { target, old: None });
            }
            Err(error) => return Err(Error::on(Exit::Usage, CANNOT_CREATE, path).because(error)),
        };
        if !meta.is_file() {
            return Err(Error::on(Exit::Usage, CANNOT_CREATE, path)
                .because("something that is not a regular file is there")
                .hint("choose another name with `-o FILE`"));
        }
        if replace == Replace::Never {
            let hint = match kind_of(&target) {
                Ok(Kind::Recording) => "replace it with `--force`, or choose another name with `-o FILE`",
                _ => "choose another name with `-o FILE`: it is not a recording, and thaw replaces nothing else",
            };
            return Err(Error::on(Exit::Usage, CANNOT_CREATE, path).because("the file exists").hint(hint));
        }
        let old = claim_recording(&target)?;
        Ok(Self { target, old: Some(old) })
    }

    /// The file's real name: absolute, symbolic links followed.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A file that will get this name. Only its owner may read it: what a program reads and writes is nobody else's
    /// business.
    pub fn fresh(&self) -> Result<Fresh> {
        Fresh::beside(&self.target, Existing::forced(self.old.is_some())).map_err(|error| {
            let hint = error.hint.clone().unwrap_or("choose a directory that you can write to with `-o FILE`".into());
            Error { exit: Exit::Usage, what: CANNOT_CREATE.to_owned(), ..error }.hint(hint)
        })
    }
}

/// Claims a recording that is there, to add to it, after undoing what its killed writer left.
pub(crate) fn claim(path: &Path) -> Result<(PathBuf, Claim)> {
    let target = resolve(path)?;
    if !target.is_file() {
        return Err(Error::on(Exit::Usage, CANNOT_ADD, path)
            .because("it is not there, or not a regular file")
            .hint("make one with `thaw record -o FILE -- PROGRAM`"));
    }
    let claim = claim_recording(&target).map_err(|error| Error { what: CANNOT_ADD.to_owned(), ..error })?;
    Ok((target, claim))
}

/// Follows symbolic links as far as files exist, so that the target of a link is replaced and not the link.
fn resolve(path: &Path) -> Result<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    let error = || Error::on(Exit::Usage, CANNOT_CREATE, path);
    if path.symlink_metadata().is_ok() {
        return Err(error()
            .because("a symbolic link that leads nowhere is there")
            .hint("remove the link, or choose another name with `-o FILE`"));
    }
    let absolute = std::path::absolute(path).map_err(|cause| error().because(cause))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(error().because("it is not the name of a file").hint("give a file name with `-o FILE`"));
    };
    let parent = parent.canonicalize().map_err(|cause| {
        error().because(cause).hint(format!("the directory must exist: mkdir -p '{}'", model::shown(parent)))
    })?;
    Ok(parent.join(name))
}

/// Claims an existing recording that is to be replaced, after undoing what its killed writer left.
fn claim_recording(target: &Path) -> Result<Claim> {
    let refuse =
        |cause: &str, hint: String| Error::on(Exit::Usage, "will not replace", target).because(cause).hint(hint);
    let kind = kind_of(target).map_err(|error| Error::on(Exit::Usage, CANNOT_CREATE, target).because(error))?;
    if kind != Kind::Recording {
        return Err(refuse("the file is not a thaw recording", "choose another name with `-o FILE`".into()));
    }
    let claim = Claim::take(target).map_err(|error| Error::on(Exit::Usage, CANNOT_CREATE, target).because(error))?;
    let Some(claim) = claim.filter(|claim| claim.is_at(target)) else {
        return Err(refuse(
            "another `thaw record` is writing to it",
            "wait for it, or choose another name with `-o FILE`".into(),
        ));
    };
    if sidecar(target, "-journal").exists() {
        roll_back(target).map_err(|error| {
            let shown = model::shown(target);
            error.hint(format!("remove it together with its journal: rm '{shown}' '{shown}-journal'"))
        })?;
    }
    refuse_log(target)?;
    Ok(claim)
}

/// A write-ahead log is never ours, and SQLite would play it into a new file of the same name.
fn refuse_log(target: &Path) -> Result<()> {
    let log = sidecar(target, "-wal");
    if !log.exists() {
        return Ok(());
    }
    Err(Error::on(Exit::Usage, CANNOT_CREATE, target)
        .because(format!("'{}' of another database is in the way", model::shown(&log)))
        .hint("choose another name with `-o FILE`, or move that file away"))
}

/// Where no database is, a journal belongs to one that was removed, and SQLite would play it into a new file.
fn clear_leftovers(target: &Path) -> Result<()> {
    refuse_log(target)?;
    let journal = sidecar(target, "-journal");
    let refuse = |error: std::io::Error| Error::on(Exit::Usage, CANNOT_CREATE, target).because(error);
    // Somebody may put a pipe there, and opening it would wait for ever.
    let file = match os::file::open_regular(&journal) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let hint = "choose another name with `-o FILE`, or move that file away";
            return Err(refuse(error).hint(format!("'{}' is in the way: {hint}", model::shown(&journal))));
        }
    };
    let mut start = Vec::new();
    file.take(8).read_to_end(&mut start).map_err(refuse)?;
    // SQLite writes zeros over the magic of a journal that is no longer needed.
    if start.is_empty() || start == JOURNAL_MAGIC || start == [0; 8] {
        return std::fs::remove_file(&journal).map_err(refuse);
    }
    Err(Error::on(Exit::Usage, CANNOT_CREATE, target)
        .because(format!("'{}' is in the way, and thaw did not write it", model::shown(&journal)))
        .hint("choose another name with `-o FILE`, or move that file away"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening a pipe would wait for ever.
    #[test]
    fn a_pipe_in_the_place_of_a_journal_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.thaw");
        let made = Connection::open(&path).unwrap();
        made.execute_batch("create table runs (run)").unwrap();
        drop(made);
        let journal = folder.path().join("x.thaw-journal");
        rustix::fs::mknodat(rustix::fs::CWD, &journal, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
        connect_to_write(&path).map(drop).err().unwrap();
        let read = connect_to_read(&path).and_then(|it| Ok(it.query_row("select count(*) from runs", [], |_| Ok(()))?));
        read.err().unwrap();
        roll_back(&path).unwrap_err();
        clear_leftovers(&path).unwrap_err();
        std::fs::remove_file(journal).unwrap();
        connect_to_write(&path).map(drop).ok().unwrap();
    }

    #[test]
    fn a_claim_ends_with_its_writer_though_a_child_holds_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let claim = Claim::take(file.path()).unwrap().unwrap();
        assert!(Claim::take(file.path()).unwrap().is_none(), "nobody else has it meanwhile");
        // What a child has that was forked and has not yet called exec.
        let child = claim.file.try_clone().unwrap();
        drop(claim);
        assert!(Claim::take(file.path()).unwrap().is_some());
        drop(child);
    }

    #[test]
    fn a_claim_is_of_a_file_and_not_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "").unwrap();
        std::fs::write(&other, "").unwrap();
        let claim = Claim::take(&path).unwrap().unwrap();
        assert!(claim.is_at(&path) && !claim.is_at(&other));
        std::fs::rename(&other, &path).unwrap();
        assert!(!claim.is_at(&path) && !claim.is_at(&other), "another file has its name, and none the other one");
    }
}
