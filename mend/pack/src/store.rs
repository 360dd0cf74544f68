//! The originals of files that were packed in place, kept below thaw's state directory so that each can be put back
//! byte for byte, together with what thaw needs to know whether the file is still the one that it wrote.
//!
//! ```text
//! STATE/packed/PATH-TIME-PID/original        the original: a hard link where that is possible, else a copy
//! STATE/packed/PATH-TIME-PID/manifest.json   whose it is; written last: an entry without it was never finished
//! ```
//!
//! PATH is a checksum of the path, so that a file's entries are found without reading all.

use crate::files::{Mapping, copy, failed};
use crate::report::{Installed, Restored, Standing};
use model::{Bytes, Error, Exit, Result};
use os::filesystem::{NameIn, current};
use os::records::remove;
use os::replace::{Existing, Fresh, Rights, make_private_directory, move_in_place_of, open_directory, write_whole};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file was, by length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    len: u64,
    crc32: u32,
}

impl Sum {
    pub fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len() as u64, crc32: crc32fast::hash(bytes) }
    }
}

/// What is written down about an original.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    /// The path's bytes: it need not be UTF-8.
    path: Vec<u8>,
    /// The debug file that was kept in step, if there is one; it is restored too.
    companion: Option<Vec<u8>>,
    original: Sum,
    packed: Sum,
    packed_unix_ns: u64,
}

/// The store of one state directory.
pub struct Store {
    directory: PathBuf,
}

/// A kept original and what is known of its packed form.
pub struct Kept {
    directory: PathBuf,
    manifest: Manifest,
}

impl Store {
    /// thaw's own; nothing is created yet.
    pub fn open() -> Result<Self> {
        Ok(Self { directory: os::journal::state_dir()?.join("packed") })
    }

    /// Nobody else changes the store, or a file whose original it keeps, as long as this lives.
    pub fn lock(&self) -> Result<File> {
        let made = make_private_directory(&self.directory);
        let locked = made.and_then(|()| File::open(&self.directory)).and_then(|directory| {
            rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
            Ok(directory)
        });
        locked.map_err(|cause| {
            failed("cannot keep originals in", &self.directory, cause).hint(
                "thaw packs nothing in place that it could not put back: set THAW_STATE_DIR to a directory that you \
                     can write",
            )
        })
    }

    /// Keeps the original of a file that is about to be packed. On the disk when this returns.
    pub fn keep(
        &self,
        path: &Path,
        companion: Option<&Path>,
        original: (&File, &Metadata),
        sums: (Sum, Sum),
    ) -> Result<Kept> {
        let now = os::machine::now_unix_ns();
        let directory = self.directory.join(format!("{}{now:020}-{}", prefix(path), std::process::id()));
        let create = |cause| failed("cannot keep the original in", &directory, cause);
        make_private_directory(&directory).map_err(create)?;
        let (file, about) = original;
        let kept = directory.join("original");
        // What has rights of its own must not stay startable under another name.
        let attributes = os::file::all_attributes(file).map_err(create)?;
        let capable = attributes.iter().any(|(name, _)| name.as_bytes() == b"security.capability");
        let may_link = about.mode() & 0o6000 == 0 && !capable;
        let link = || {
            let opened = open_directory(&directory)?;
            current().add_name(file, NameIn { directory: &opened, name: "original".as_ref() })?;
            current().sync_directory(&opened)
        };
        if !may_link || link().is_err() {
            copy(file, about, Fresh::beside(&kept, Existing::Keep)?)?;
        }
        let manifest = Manifest {
            path: path.as_os_str().as_bytes().to_vec(),
            companion: companion.map(|path| path.as_os_str().as_bytes().to_vec()),
            original: sums.0,
            packed: sums.1,
            packed_unix_ns: now,
        };
        let text = serde_json::to_vec(&manifest).map_err(|cause| create(cause.into()))?;
        write_whole(&directory.join("manifest.json"), &text, Rights::Private, Existing::Keep)?;
        Ok(Kept { directory, manifest })
    }

    /// The directories of entries that begin like this; finished or not.
    fn directories(&self, prefix: &str) -> Result<Vec<PathBuf>> {
        let names = || -> io::Result<Vec<PathBuf>> {
            let entries = match fs::read_dir(&self.directory) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
            let ours = names.into_iter().filter(|name| name.as_bytes().starts_with(prefix.as_bytes()));
            Ok(ours.map(|name| self.directory.join(name)).collect())
        };
        names().map_err(|cause| failed("cannot read the kept originals in", &self.directory, cause))
    }

    /// Finished entries that begin like this, the oldest first.
    fn entries(&self, prefix: &str) -> Result<Vec<Kept>> {
        let mut all = Vec::new();
        for directory in self.directories(prefix)? {
            match fs::read(directory.join("manifest.json")) {
                Ok(text) => {
                    let manifest = serde_json::from_slice(&text).map_err(|cause| {
                        Error::on(Exit::Data, "cannot read what is known about a kept original", &directory)
                            .because(cause)
                            .hint("it was written by another version of thaw, or damaged; the original is in there")
                    })?;
                    all.push(Kept { directory, manifest });
                }
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => {
                    return Err(failed("cannot read what is known about a kept original in", &directory, cause));
                }
            }
        }
        all.sort_by_key(|kept| kept.manifest.packed_unix_ns);
        Ok(all)
    }

    /// Finished entries of a path, the oldest first.
    pub fn of(&self, path: &Path) -> Result<Vec<Kept>> {
        Ok(self.entries(&prefix(path))?.into_iter().filter(|kept| kept.path() == path).collect())
    }

    /// What was packed in place.
    pub fn installed(&self) -> Result<Vec<Installed>> {
        let all = self.entries("")?;
        Ok(all
            .iter()
            .map(|kept| Installed {
                path: kept.path(),
                size_before: Bytes(kept.manifest.original.len),
                size_after: Bytes(kept.manifest.packed.len),
                packed_unix_ns: kept.manifest.packed_unix_ns,
                standing: kept.standing(),
                original: kept.original(),
            })
            .collect())
    }

    /// Removes what is kept for a path without need, because packing was cut short and the file is the original.
    pub fn tidy(&self, path: &Path) -> Result<()> {
        if self.directories(&prefix(path))?.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for directory in self.directories(&prefix(path))? {
            if !directory.join("manifest.json").exists() {
                forget_unfinished(&directory)?;
            }
        }
        let needless = |kept: &Kept| kept.standing() == Standing::Original;
        self.of(path)?.into_iter().filter(needless).try_for_each(Kept::forget)
    }

    /// Puts the original of a path back, and that of its debug file.
    pub fn restore(&self, path: &Path) -> Result<Restored> {
        let _lock = self.lock()?;
        let kept = self.of(path)?.pop().ok_or_else(|| {
            Error::on(Exit::No, "there is no kept original of", path).hint(
                "`thaw doctor` lists what was packed in place; a copy made with `-o` keeps its original where it is",
            )
        })?;
        let companion = kept.manifest.companion.clone().map(|path| PathBuf::from(OsString::from_vec(path)));
        let restored = kept.restore()?;
        if let Some(debug) = companion.map(|path| self.of(&path)).transpose()?.and_then(|mut all| all.pop()) {
            debug.restore()?;
        }
        Ok(restored)
    }
}

/// Removes an entry that was never finished. Off the disk when this returns.
fn forget_unfinished(directory: &Path) -> Result<()> {
    let cannot = |cause: io::Error| failed("cannot remove", directory, cause);
    for entry in fs::read_dir(directory).map_err(cannot)? {
        remove(&entry.map_err(cannot)?.path())?;
    }
    fs::remove_dir(directory).map_err(cannot)
}

/// How the names of a path's entries begin.
fn prefix(path: &Path) -> String {
    format!("{:08x}-", crc32fast::hash(path.as_os_str().as_bytes()))
}

impl Kept {
    fn path(&self) -> PathBuf {
        OsString::from_vec(self.manifest.path.clone()).into()
    }

    fn original(&self) -> PathBuf {
        self.directory.join("original")
    }

    /// What the file of this path is now.
    pub fn standing(&self) -> Standing {
        let path = self.path();
        let Ok(len) = path.symlink_metadata().map(|about| about.len()) else { return Standing::Gone };
        let Manifest { original, packed, .. } = self.manifest;
        if len != original.len && len != packed.len {
            return Standing::Changed;
        }
        let sum = os::file::open_real(&path)
            .ok()
            .and_then(|file| Mapping::of(&file, &path).ok())
            .map(|bytes| Sum::of(&bytes));
        match sum {
            Some(sum) if sum == packed => Standing::Packed,
            Some(sum) if sum == original => Standing::Original,
            _ => Standing::Changed,
        }
    }

    /// Puts the original back, unless it is there, and forgets it.
    fn restore(self) -> Result<Restored> {
        let path = self.path();
        let size_packed = Bytes(self.manifest.packed.len);
        let size = Bytes(self.manifest.original.len);
        match self.standing() {
            Standing::Packed => self.put_back(&path)?,
            Standing::Original => {}
            standing @ (Standing::Changed | Standing::Gone) => {
                let what = if standing == Standing::Gone { "is gone" } else { "was changed since it was packed" };
                let what = format!("the original is not put back, because the file {what}:");
                let hint = format!("the original is kept as {}", self.original().display());
                return Err(Error::on(Exit::Data, what, &path).hint(hint));
            }
        }
        self.forget()?;
        Ok(Restored { path, size_packed, size })
    }

    fn put_back(&self, path: &Path) -> Result<()> {
        let kept = self.original();
        let file = File::open(&kept).map_err(|cause| failed("cannot open the kept original", &kept, cause))?;
        if Sum::of(&Mapping::of(&file, &kept)?) != self.manifest.original {
            return Err(Error::on(Exit::Data, "the kept original is damaged:", &kept));
        }
        let about = file.metadata().map_err(|cause| failed("cannot look at", &kept, cause))?;
        // A link to the very file goes back by one rename; a copy on another file system is copied.
        if about.nlink() == 1 && move_in_place_of(&kept, path).is_ok() {
            return Ok(());
        }
        copy(&file, &about, Fresh::in_place_of(path)?)
    }

    /// Drops what is kept.
    pub fn forget(self) -> Result<()> {
        // The manifest last: without it the entry is an unfinished one, with it and no original it is still told apart.
        // Each on the disk before the next: after a power cut no original is there that nobody knows.
        ["original", "manifest.json"].iter().try_for_each(|name| remove(&self.directory.join(name)))?;
        fs::remove_dir(&self.directory).map_err(|cause| failed("cannot remove", &self.directory, cause))
    }
}
