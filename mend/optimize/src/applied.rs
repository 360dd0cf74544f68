//! What `--apply` changed in the system: written down before the first change, kept until `--undo`, listed by `thaw
//! doctor`.
//!
//! One file per copy below thaw's state directory, and beside it the originals of archives and of caches
//! ([`crate::kept`]). How a packed file is put back is known to `pack`, and how a launcher is taken away to `preload`;
//! here stands which of them belong together.

use crate::environment::Variable;
use crate::manifest::{Identity, SCHEMA};
use model::{Error, Exit, Result, shown};
use os::records::{Records, remove};
use serde::{Deserialize, Serialize};
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
    /// Files of caches.
    #[serde(default)]
    pub caches: Vec<AppliedCache>,
    /// What the program is to be started with, if that is something.
    #[serde(default)]
    pub environment: Option<AppliedEnvironment>,
    /// The preload manifest, if there is one.
    pub preload: Option<AppliedPreload>,
}

/// A file of a cache that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedCache {
    /// Where.
    pub path: PathBuf,
    /// What it was; `None`: it was not there.
    pub before: Option<Identity>,
    /// What it is to become.
    pub after: Identity,
    /// Where its original is kept, if there was one.
    pub original: Option<PathBuf>,
}

/// Variables that the program is to be started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedEnvironment {
    /// A file that has them, a line each, as `EnvironmentFile=` of systemd takes it.
    pub file: PathBuf,
    /// What they are.
    pub variables: Vec<Variable>,
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
        standing(&self.path, Some(self.before), self.after)
    }
}

impl AppliedCache {
    /// What the file is now. One that was not there and is gone is as it was.
    pub fn standing(&self) -> Standing {
        standing(&self.path, self.before, self.after)
    }
}

fn standing(path: &Path, before: Option<Identity>, after: Identity) -> Standing {
    match Identity::of(path) {
        Ok(now) if now == after => Standing::Applied,
        Ok(now) if Some(now) == before => Standing::Original,
        Ok(_) => Standing::Changed,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && before.is_none() => Standing::Original,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Standing::Gone,
        Err(_) => Standing::Changed,
    }
}

fn records() -> Result<Records> {
    Records::of("optimized")
}

/// The name of what belongs to a copy, without ending.
fn key(directory: &Path) -> String {
    format!("{:08x}", crc32fast::hash(directory.as_os_str().as_bytes()))
}

/// Where the originals of the archives of an applied copy are kept: that of the archive with this number.
///
/// # Errors
/// There is no state directory.
pub fn kept_original(directory: &Path, number: usize) -> Result<PathBuf> {
    Ok(records()?.beside(&format!("{}.{number}.original", key(directory))))
}

/// The file with the variables that the program of an applied copy is to be started with.
///
/// # Errors
/// There is no state directory.
pub fn environment_file(directory: &Path) -> Result<PathBuf> {
    Ok(records()?.beside(&(key(directory) + ".environment")))
}

/// Where the preload manifest of an applied copy is kept.
///
/// # Errors
/// There is no state directory.
pub fn preload_manifest(directory: &Path) -> Result<PathBuf> {
    Ok(records()?.beside(&(key(directory) + ".preload")))
}

impl Applied {
    /// Every file that is written, and what it is now.
    pub fn standings(&self) -> impl Iterator<Item = (&Path, Standing)> {
        let files = self.files().map(|file| (&*file.path, file.standing()));
        files.chain(self.caches.iter().map(|cache| (&*cache.path, cache.standing())))
    }

    /// Files that are replaced.
    pub fn files(&self) -> impl Iterator<Item = &AppliedFile> {
        self.packed.iter().chain(self.reordered.iter().map(|archive| &archive.file))
    }

    /// Writes it down. On the disk when this returns.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn write(&self) -> Result<()> {
        records()?.write(&key(&self.directory), self)
    }

    /// What was applied from this copy; `None`: nothing.
    ///
    /// # Errors
    /// The record is damaged, of another version of thaw, or of another copy whose name has the same checksum.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let Some(applied) = records()?.read::<Self>(&key(directory))? else { return Ok(None) };
        let damaged =
            |cause: String| Error::on(Exit::Data, "cannot read what was applied from", directory).because(cause);
        match applied.schema == SCHEMA {
            true if applied.directory == directory => Ok(Some(applied)),
            true => Err(damaged(format!("the record is of {}", shown(&applied.directory)))),
            false => Err(damaged(format!("it is of the version {:?}", applied.schema))),
        }
    }

    /// Forgets it, when everything is as it was.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn forget(&self) -> Result<()> {
        // The record last: as long as it is there, `--undo` can be repeated.
        self.reordered.iter().try_for_each(|archive| remove(&archive.original))?;
        self.caches.iter().filter_map(|cache| cache.original.as_ref()).try_for_each(|original| remove(original))?;
        self.environment.iter().try_for_each(|environment| remove(&environment.file))?;
        self.preload.iter().try_for_each(|preload| remove(&preload.manifest))?;
        records()?.forget(&key(&self.directory))
    }
}

/// Everything that is applied, and an error for each record of it that cannot be read.
///
/// # Errors
/// The records are there and cannot be listed.
pub fn list() -> Result<(Vec<Applied>, Vec<Error>)> {
    records()?.list()
}
