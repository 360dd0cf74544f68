//! A file that is written beside its target and takes its name when it is whole. A kill or a power cut leaves the target as it was, and at most
//! a name that `thaw doctor --mend` removes.

use model::{Error, Exit, Result};
use os::file::{attributes, check_replaceable, directory_of, name_beside, set_times};
use os::journal::{self, Undo};
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A new file. Dropped before it is placed, it is removed.
pub struct Fresh {
    pub file: File,
    pub path: PathBuf,
    /// Names are looked up in here: nobody who may change the directories above can lead the new file elsewhere.
    directory: File,
    target: OsString,
    /// Removes the file; the last to go.
    _entry: journal::Entry,
}

/// Nothing can be made beside a target. The hidden name would tell nobody what is wrong.
pub fn no_place(target: &Path, cause: io::Error) -> Error {
    let missing = cause.kind() == io::ErrorKind::NotFound;
    let exit = if missing { Exit::Usage } else { Exit::Machine };
    let error = Error::on(exit, "cannot write to", target).because(cause);
    match missing {
        true => error.hint(format!("the directory must exist: mkdir -p '{}'", model::shown(directory_of(target)))),
        false => error,
    }
}

impl Fresh {
    /// Creates one in the directory of `target`, open for reading and writing, for its owner alone.
    pub fn beside(target: &Path) -> Result<Self> {
        let cannot = |cause: io::Error| no_place(target, cause);
        check_replaceable(target).map_err(cannot)?;
        let name = target.file_name().ok_or_else(|| cannot(io::ErrorKind::IsADirectory.into()))?;
        let path = std::path::absolute(name_beside(target)).map_err(cannot)?;
        let directory = File::open(directory_of(&path)).map_err(cannot)?;
        let mut made = None;
        let entry = journal::hold(Undo::RemoveTree { path: path.clone() }, || {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let own = path.file_name().unwrap_or_default();
            let opened = rustix::fs::openat(&directory, own, flags, Mode::RUSR | Mode::WUSR);
            made = Some(File::from(opened.map_err(|cause| cannot(cause.into()))?));
            Ok(())
        })?;
        let file = made.ok_or_else(|| Error::bug("the journal made no change"))?;
        Ok(Self { file, path, directory, target: name.to_owned(), _entry: entry })
    }

    /// What was written, as a reader will see it.
    pub fn content(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|cause| self.failed("cannot read again", cause))?;
        Ok(bytes)
    }

    /// An error about this file.
    pub fn failed(&self, what: &str, cause: impl Into<io::Error>) -> Error {
        Error::on(Exit::Machine, what, &self.path).because(cause.into())
    }

    /// Gives it mode, owner, extended attributes (access lists among them) and times of another file, as far as the user may, and waits
    /// until it is on the disk.
    pub fn dress(&self, like: &File) -> Result<()> {
        let about = like.metadata().map_err(|cause| self.failed("cannot look at the original of", cause))?;
        // Only root may give files away; the mode of the owner's copy is then still right.
        let _ = std::os::unix::fs::fchown(&self.file, Some(about.uid()), Some(about.gid()));
        let owner = self.file.metadata().map_err(|cause| self.failed("cannot look at", cause))?;
        let same_owner = (owner.uid(), owner.gid()) == (about.uid(), about.gid());
        // Rights of their own do not go to another owner.
        let mode = about.mode() & if same_owner { 0o7777 } else { 0o777 };
        let set = self.file.set_permissions(fs::Permissions::from_mode(mode));
        set.map_err(|cause| self.failed("cannot set the mode of", cause))?;
        for (name, value) in attributes(like) {
            // Some belong to the system; they come by themselves.
            let _ = rustix::fs::fsetxattr(&self.file, name.as_c_str(), &value, XattrFlags::empty());
        }
        set_times(&self.file, &about).map_err(|cause| self.failed("cannot set the times of", cause))?;
        self.file.sync_all().map_err(|cause| self.failed("cannot write", cause))
    }

    /// Takes the name of the target.
    pub fn place(self) -> Result<()> {
        let own = self.path.file_name().unwrap_or_default();
        let placed = rustix::fs::renameat(&self.directory, own, &self.directory, &self.target);
        placed.map_err(io::Error::from).and_then(|()| self.directory.sync_all()).map_err(|cause| {
            Error::on(Exit::Machine, "cannot replace", &self.path.with_file_name(&self.target)).because(cause)
        })
    }
}
