//! What `--apply` changed in the system: written down before the first change, kept until `--undo`, listed by `thaw doctor`.
//!
//! One file per copy below thaw's state directory, and beside it the originals of archives ([`crate::kept`]). How a packed file is put back is known
//! to `pack`, and how a launcher is taken away to `preload`; here stands which of them belong together.

use crate::manifest::{Identity, SCHEMA};
use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// [`SCHEMA`] of the thaw that did it.
    pub schema: String,
    /// The directory of the copy that was applied; it may be gone.
    pub directory: PathBuf,
    /// The program's directory.
    pub root: PathBuf,
    /// When, nanoseconds since 1970.
    pub made_unix_ns: u64,
    /// Files that are packed in place.
    pub packed: Vec<AppliedFile>,
    /// Archives in the order of their use.
    #[serde(default)]
    pub reordered: Vec<Reordered>,
    /// The preload manifest, if there is one.
    pub preload: Option<AppliedPreload>,
}

/// A file that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFile {
    /// Where.
    pub path: PathBuf,
    /// What it was.
    pub before: Identity,
    /// What it is to become.
    pub after: Identity,
}

/// An archive that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reordered {
    /// Where, and what it was and is to become.
    #[serde(flatten)]
    pub file: AppliedFile,
    /// Where its original is kept.
    pub original: PathBuf,
}

/// How the program is started with its preload manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedPreload {
    /// The manifest's file.
    pub manifest: PathBuf,
    /// The desktop entry that starts the program with it.
    pub desktop: Option<String>,
    /// For all users.
    pub system: bool,
}

/// What is left of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// As it was written.
    Applied,
    /// The original: it was not changed yet, or was put back.
    Original,
    /// Something else, say after an upgrade.
    Changed,
    /// It is gone.
    Gone,
}

impl AppliedFile {
    /// What the file is now.
    pub fn standing(&self) -> Standing {
        match Identity::of(&self.path) {
            Ok(now) if now == self.after => Standing::Applied,
            Ok(now) if now == self.before => Standing::Original,
            Ok(_) => Standing::Changed,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Standing::Gone,
            Err(_) => Standing::Changed,
        }
    }
}

fn records() -> Result<PathBuf> {
    Ok(os::journal::state_dir()?.join("optimized"))
}

/// The name of what belongs to a copy, without ending.
fn key(directory: &Path) -> String {
    format!("{:08x}", crc32fast::hash(directory.as_os_str().as_bytes()))
}

fn record_of(directory: &Path) -> Result<PathBuf> {
    Ok(records()?.join(key(directory) + ".json"))
}

/// Where the originals of the archives of an applied copy are kept: that of the archive with this number.
///
/// # Errors
/// There is no state directory.
pub fn kept_original(directory: &Path, number: usize) -> Result<PathBuf> {
    Ok(records()?.join(format!("{}.{number}.original", key(directory))))
}

/// Where the preload manifest of an applied copy is kept.
///
/// # Errors
/// There is no state directory.
pub fn preload_manifest(directory: &Path) -> Result<PathBuf> {
    Ok(records()?.join(key(directory) + ".preload"))
}

impl Applied {
    /// Files that are replaced.
    pub fn files(&self) -> impl Iterator<Item = &AppliedFile> {
        self.packed.iter().chain(self.reordered.iter().map(|archive| &archive.file))
    }

    /// Writes it down. On the disk when this returns.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn write(&self) -> Result<()> {
        let directory = records()?;
        fs::create_dir_all(&directory).map_err(|cause| {
            Error::on(Exit::Machine, "cannot write down what will be changed in", &directory).because(cause).hint(
                "nothing is changed that could not be undone: set THAW_STATE_DIR to a directory that you can write",
            )
        })?;
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|cause| Error::on(Exit::Usage, "cannot name what lies in", &self.root).because(cause))?;
        bytes.push(b'\n');
        os::file::write_whole(&record_of(&self.directory)?, &bytes)
    }

    /// What was applied from this copy.
    ///
    /// # Errors
    /// Nothing was, or the record is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = record_of(directory)?;
        let bytes = fs::read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => {
                Error::on(Exit::Usage, "thaw has not applied", directory).hint("`thaw doctor` lists what is applied")
            }
            _ => Error::on(Exit::Machine, "cannot read", &path).because(cause),
        })?;
        let damaged = |cause: String| Error::on(Exit::Data, "cannot read what was applied from", &path).because(cause);
        let applied: Self = serde_json::from_slice(&bytes).map_err(|cause| damaged(cause.to_string()))?;
        match applied.schema == SCHEMA {
            true => Ok(applied),
            false => Err(damaged(format!("it is of the version {:?}", applied.schema))),
        }
    }

    /// Whether something was applied from this copy.
    ///
    /// # Errors
    /// There is no state directory.
    pub fn is_there(directory: &Path) -> Result<bool> {
        Ok(record_of(directory)?.exists())
    }

    /// Forgets it, when everything is as it was.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn forget(&self) -> Result<()> {
        let gone = |path: PathBuf| match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(Error::on(Exit::Machine, "cannot remove", &path).because(cause))
            }
            _ => Ok(()),
        };
        // The record last: as long as it is there, `--undo` can be repeated.
        self.reordered.iter().try_for_each(|archive| gone(archive.original.clone()))?;
        self.preload.iter().try_for_each(|preload| gone(preload.manifest.clone()))?;
        gone(record_of(&self.directory)?)
    }
}

/// Everything that is applied. A record that cannot be read is left out: it is of another version of thaw.
///
/// # Errors
/// The records are there and cannot be listed.
pub fn list() -> Result<Vec<Applied>> {
    let directory = records()?;
    let unreadable =
        |cause: io::Error| Error::on(Exit::Machine, "cannot list what is applied in", &directory).because(cause);
    let entries = match fs::read_dir(&directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
    paths.sort();
    let records = paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    Ok(records.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect())
}
