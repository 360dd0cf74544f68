//! Records of what was changed on purpose and stays: one JSON file for each in thaw's state directory, written before
//! the first change and removed when it is taken back. Not for what must not outlive its process: that is the
//! [`crate::journal`].

use crate::filesystem;
use crate::hold::journal::state_dir;
use crate::replace::{self, Existing, Rights, write_whole};
use model::{Error, Exit, Result};
use rustix::fs::FlockOperation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The records of one kind.
#[derive(Clone, Debug)]
pub struct Records {
    directory: PathBuf,
}

impl Records {
    /// Of this kind, which is the name of their directory; nothing is made yet.
    ///
    /// # Errors
    /// There is no state directory.
    pub fn of(kind: &str) -> Result<Self> {
        Ok(Self { directory: state_dir()?.join(kind) })
    }

    /// The place of another file that belongs to a record.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// Writes one down. On the disk when this returns.
    ///
    /// # Errors
    /// The state directory cannot be written; what is to be written is no JSON.
    pub fn write<T: Serialize>(&self, name: &str, record: &T) -> Result<()> {
        let cannot = |cause: io::Error| {
            Error::on(Exit::Machine, "cannot write down what will be changed in", &self.directory).because(cause).hint(
                "nothing is changed that could not be undone: set THAW_STATE_DIR to a directory that you can write",
            )
        };
        let made = replace::make_directory(&self.directory, 0o755);
        let mut bytes = serde_json::to_vec_pretty(record).map_err(|cause| cannot(cause.into()))?;
        bytes.push(b'\n');
        made.map_err(cannot)?;
        write_whole(&self.path(name), &bytes, Rights::Private, Existing::Replace)
    }

    /// Waits until nobody else changes what these records stand for; until the lock is dropped nobody else does.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn lock(&self) -> Result<File> {
        let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot lock", &self.directory).because(cause);
        replace::make_directory(&self.directory, 0o755).map_err(cannot)?;
        let directory = File::open(&self.directory).map_err(cannot)?;
        rustix::fs::flock(&directory, FlockOperation::LockExclusive).map_err(|cause| cannot(cause.into()))?;
        Ok(directory)
    }

    /// The same without waiting; `None`: somebody changes something just now.
    ///
    /// # Errors
    /// The directory cannot be opened, although it is there.
    pub fn try_lock(&self) -> Result<Option<File>> {
        let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot lock", &self.directory).because(cause);
        let directory = match File::open(&self.directory) {
            // Without records nobody has begun anything.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            directory => directory.map_err(cannot)?,
        };
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(directory)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(cause) => Err(cannot(cause.into())),
        }
    }

    /// Whether there is one of this name, readable or not.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The one of this name; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read, or is damaged or of another version of thaw.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path(name);
        match self.has(name) {
            true => read(&path).map(Some),
            false => Ok(None),
        }
    }

    /// All of them by name, and an error for each that cannot be read: what it stands for is not forgotten.
    ///
    /// # Errors
    /// The directory is there and cannot be listed.
    pub fn list<T: DeserializeOwned>(&self) -> Result<(Vec<T>, Vec<Error>)> {
        let unreadable = |cause: io::Error| {
            Error::on(Exit::Machine, "cannot list what is changed in", &self.directory).because(cause)
        };
        let entries = match fs::read_dir(&self.directory) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
            entries => entries.map_err(unreadable)?,
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
        paths.sort();
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for path in &paths {
            match read(path) {
                Ok(record) => known.push(record),
                Err(error) => unknown.push(error),
            }
        }
        Ok((known, unknown))
    }

    /// Forgets the one of this name, when everything is as it was.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self, name: &str) -> Result<()> {
        remove(&self.path(name))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path)
        .map_err(|cause| Error::on(Exit::Machine, "cannot read what was changed from", path).because(cause))?;
    serde_json::from_slice(&bytes).map_err(|cause| {
        Error::on(Exit::Data, "cannot read what was changed from", path)
            .because(cause)
            .hint("it is damaged or of another version of thaw")
    })
}

/// Removes a file, if it is there, and waits until its name is off the disk.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    filesystem::remove(path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", path).because(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_listed_and_forgotten_and_damaged_ones_are_told() {
        let home = tempfile::tempdir().unwrap();
        let records = Records { directory: home.path().join("state/kind") };
        assert_eq!(records.read::<String>("a").unwrap(), None);
        assert!(records.list::<String>().unwrap().0.is_empty());
        records.write("b", &"second").unwrap();
        records.write("a", &"first").unwrap();
        fs::write(records.beside("b.original"), "no record").unwrap();
        fs::write(records.beside("c.json"), "dear diary").unwrap();
        assert_eq!(records.read::<String>("b").unwrap().as_deref(), Some("second"));
        let (known, unknown) = records.list::<String>().unwrap();
        assert_eq!(known, ["first", "second"]);
        assert!(unknown.len() == 1 && unknown[0].to_string().contains("c.json"), "{unknown:?}");
        assert_eq!(records.read::<String>("c").unwrap_err().exit, Exit::Data);
        records.forget("a").unwrap();
        records.forget("a").unwrap();
        assert!(!records.has("a") && records.has("b") && records.beside("b.original").exists());
    }

    #[test]
    fn where_nothing_can_be_written_down_nothing_is_to_be_changed() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let error = Records { directory: home.path().join("file/kind") }.write("a", &1).unwrap_err();
        assert!(error.exit == Exit::Machine && error.hint.is_some(), "{error}");
    }
}
