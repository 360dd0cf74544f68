//! A file that is written beside its target and takes its name when it is whole. A kill or a power cut leaves the target as it was, and at most
//! a name that `thaw doctor --mend` removes.

use model::{Error, Exit, Result};
use os::file::{attributes, name_beside, set_times, sync_directory_of};
use os::journal::{self, Undo};
use rustix::fs::XattrFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A new file. Dropped before it is placed, it is removed.
pub struct Fresh {
    pub file: File,
    pub path: PathBuf,
    /// Removes the file; the last to go.
    _entry: journal::Entry,
}

impl Fresh {
    /// Creates one in the directory of `target`, open for reading and writing, for its owner alone.
    pub fn beside(target: &Path) -> Result<Self> {
        let path = std::path::absolute(name_beside(target))
            .map_err(|cause| Error::on(Exit::Machine, "cannot write to", target).because(cause))?;
        let mut made = None;
        let entry = journal::hold(Undo::RemoveTree { path: path.clone() }, || {
            let open = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
            let file = open.map_err(|cause| Error::on(Exit::Machine, "cannot create", &path).because(cause))?;
            made = Some(file);
            Ok(())
        })?;
        let file = made.ok_or_else(|| Error::bug("the journal made no change"))?;
        Ok(Self { file, path, _entry: entry })
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
    pub fn place(self, target: &Path) -> Result<()> {
        let replace = |cause: io::Error| Error::on(Exit::Machine, "cannot replace", target).because(cause);
        fs::rename(&self.path, target).map_err(replace)?;
        sync_directory_of(target).map_err(replace)
    }
}
