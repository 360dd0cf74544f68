//! Databases of a profile, read from a copy: opening one, even to read, can change it and its neighbours, and a browser
//! may hold locks on it.

use crate::values::Error;
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What belongs to a database: the log of changes, and the old pages of a change under way.
const NEIGHBOURS: [&str; 2] = ["-wal", "-journal"];
/// How often it is copied again because it was written meanwhile.
const TRIES: usize = 20;

/// A database's copy, in a directory that nobody else may read. Dropped, it is gone.
pub(crate) struct Copy {
    folder: PathBuf,
    /// `None`: it is closed, so that its files can go.
    connection: Option<Connection>,
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// What tells whether a file was written: its number, length and time.
type Written = Option<(u64, u64, i64, i64)>;

fn state(path: &Path) -> io::Result<Written> {
    match fs::metadata(path) {
        Ok(about) => Ok(Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn states(path: &Path) -> io::Result<Vec<Written>> {
    let neighbours = NEIGHBOURS.iter().map(|end| state(&beside(path, end)));
    std::iter::once(state(path)).chain(neighbours).collect()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    match File::open(from) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    File::options().write(true).create_new(true).mode(0o600).open(to)?.write_all(&bytes)
}

fn folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thaw-profiles-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Another one's, or left by a process of this number that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

impl Copy {
    /// Copies a database with what belongs to it, and opens the copy.
    pub fn of(path: &Path) -> Result<Copy, Error> {
        let wrong = |error: io::Error| Error::new(path, format!("it cannot be copied: {error}"));
        for _ in 0..TRIES {
            let before = states(path).map_err(wrong)?;
            if before[0].is_none() {
                return Err(Error::new(path, "there is no such file"));
            }
            let mut made = Copy { folder: folder().map_err(wrong)?, connection: None };
            let file = made.folder.join("copy");
            copy(path, &file).map_err(wrong)?;
            for end in NEIGHBOURS {
                copy(&beside(path, end), &beside(&file, end)).map_err(wrong)?;
            }
            // Parts of two states would be a third one that never was.
            if states(path).map_err(wrong)? != before {
                continue;
            }
            // To write, since the log of changes is worked in; it is a copy.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&file, flags);
            made.connection = Some(connection.map_err(|error| Error::new(path, error))?);
            return Ok(made);
        }
        Err(Error::new(path, "it is written all the time, so that no copy of it is one state"))
    }

    /// The open copy.
    pub fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("it is open until it is dropped")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        drop(self.connection.take());
        // Nothing is left to do about it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &Path) -> i64 {
        let copy = Copy::of(path).unwrap();
        copy.connection().query_row("SELECT count(*) FROM t", [], |line| line.get(0)).unwrap()
    }

    /// Names, bytes and times of all files.
    fn listing(folder: &Path) -> Vec<(PathBuf, Vec<u8>, i64, i64)> {
        let mut all: Vec<_> = { fs::read_dir(folder).unwrap() }
            .map(|entry| {
                let path = entry.unwrap().path();
                let about = fs::metadata(&path).unwrap();
                (path.clone(), fs::read(&path).unwrap(), about.mtime(), about.mtime_nsec())
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_database_in_use_is_read_as_it_is_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        let base = Connection::open(&path).unwrap();
        base.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (x);").unwrap();
        base.execute_batch("INSERT INTO t VALUES (1); PRAGMA locking_mode=EXCLUSIVE; INSERT INTO t VALUES (2);")
            .unwrap();
        let before = listing(folder.path());
        assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0, "it is all in the log");
        assert_eq!(count(&path), 2);
        assert!(before == listing(folder.path()), "something has changed");
    }

    #[test]
    fn half_a_change_is_not_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        let mut base = Connection::open(&path).unwrap();
        base.execute_batch("CREATE TABLE t (x)").unwrap();
        for _ in 0..50 {
            base.execute_batch("INSERT INTO t VALUES (zeroblob(9000))").unwrap();
        }
        let old = |path: &Path| -> i64 {
            let copy = Copy::of(path).unwrap();
            let sql = "SELECT count(*) FROM t WHERE x = zeroblob(9000)";
            copy.connection().query_row(sql, [], |line| line.get(0)).unwrap()
        };
        let whole = fs::read(&path).unwrap();
        base.execute_batch("PRAGMA cache_size=1; PRAGMA cache_spill=1").unwrap();
        let change = base.transaction().unwrap();
        change.execute_batch("UPDATE t SET x = randomblob(9000)").unwrap();
        assert!(fs::read(&path).unwrap() != whole, "it has begun to write over the old pages");
        let before = listing(folder.path());
        assert_eq!(old(&path), 50);
        assert!(before == listing(folder.path()), "something has changed");
        change.commit().unwrap();
        assert_eq!((old(&path), count(&path)), (0, 50));
    }

    #[test]
    fn the_copy_is_nobody_elses_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        assert!(Copy::of(&path).err().unwrap().to_string().ends_with("base: there is no such file"));
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        let copy = Copy::of(&path).unwrap();
        let made = copy.folder.clone();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(made.join("copy")).unwrap().mode() & 0o777, 0o600);
        drop(copy);
        assert!(!made.exists());
    }
}
