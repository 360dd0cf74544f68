//! Files as packing needs them: mapped for reading, written beside their target, dressed as the original, renamed.
//! A reader of the target sees the old file or the new one, whole, whenever this process or the machine stops.

use crate::canvas::Canvas;
use model::{Error, Exit, Result};
use os::file::{attributes, directory_of, set_times, sync_directory_of};
use rustix::fs::{FallocateFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::on(Exit::Machine, what, path).because(cause.into())
}

/// A file in memory, read when it is looked at.
pub struct Mapping {
    start: *mut std::ffi::c_void,
    len: usize,
}

impl Mapping {
    /// Maps all of a file. Should another process cut the file short meanwhile, reading it ends this process by SIGBUS;
    /// nothing is half-written then.
    pub fn of(file: &File, path: &Path) -> Result<Self> {
        let len = file.metadata().map_err(|cause| failed("cannot look at", path, cause))?.len() as usize;
        if len == 0 {
            return Ok(Self { start: std::ptr::null_mut(), len });
        }
        let (prot, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, 0) };
        Ok(Self { start: start.map_err(|cause| failed("cannot map", path, cause))?, len })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `start` begins a readable mapping of `len` bytes that lives as long as `self`. It is private: what others
        // write to the file meanwhile may show, which parsers of hostile bytes take as bytes.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: this is the mapping that was made, and no slice of it outlives `self`. A failure leaves it mapped.
            let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
        }
    }
}

/// Whether a new file must get everything that the original has, or what the user may give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dress {
    Exactly,
    AsAllowed,
}

/// A file that is being written under another name, beside its target.
pub struct Fresh {
    pub file: File,
    pub path: PathBuf,
    is_placed: bool,
}

impl Fresh {
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        // The caller knows the directory; the name is one for a moment.
        let file = file.map_err(|cause| failed("cannot create a file in", directory_of(&path), cause))?;
        Ok(Self { file, path, is_placed: false })
    }

    /// Writes the pieces; what is zero stays a hole where the file system can.
    pub fn paint(&self, canvas: &Canvas<'_>) -> Result<()> {
        let write = || {
            self.file.set_len(canvas.len())?;
            canvas.pieces().iter().try_for_each(|piece| self.file.write_all_at(&piece.bytes, piece.at))
        };
        write().map_err(|cause| failed("cannot write", &self.path, cause))
    }

    /// Gives the blocks of a stretch of zeros back to the file system.
    pub fn punch(&self, range: &Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, mode, range.start, range.end - range.start).map_err(|cause| {
            failed("cannot punch a hole into", &self.path, cause)
                .hint("pack with `--no-shrink` and without `--punch-holes` here")
        })
    }

    /// Gives the file the owner, mode, extended attributes (access lists and capabilities among them) and times of the
    /// original, and waits until it is on the disk.
    pub fn dress(&self, original: &File, about: &Metadata, how: Dress) -> Result<()> {
        let bear = |result: io::Result<()>, what: &str| match result {
            Err(cause) if how == Dress::Exactly => Err(failed(what, &self.path, cause)),
            _ => Ok(()),
        };
        let own = self.file.metadata().map_err(|cause| failed("cannot look at", &self.path, cause))?;
        if (own.uid(), own.gid()) != (about.uid(), about.gid()) {
            bear(std::os::unix::fs::fchown(&self.file, Some(about.uid()), Some(about.gid())), "cannot give away")?;
        }
        // After the owner, because a change of owner takes rights away.
        let mode = fs::Permissions::from_mode(about.mode() & 0o7777);
        self.file.set_permissions(mode).map_err(|cause| failed("cannot set the mode of", &self.path, cause))?;
        for (name, value) in attributes(original) {
            let set = rustix::fs::fsetxattr(&self.file, name.as_c_str(), &value, XattrFlags::empty());
            bear(set.map_err(io::Error::from), "cannot set the extended attributes of")?;
        }
        set_times(&self.file, about).map_err(|cause| failed("cannot set the times of", &self.path, cause))?;
        self.file.sync_all().map_err(|cause| failed("cannot write", &self.path, cause))
    }

    /// Takes the place of the target.
    pub fn place(mut self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).map_err(|cause| failed("cannot replace", target, cause))?;
        self.is_placed = true;
        sync_directory(target)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_placed {
            // Nothing depends on it; a name that stays is found by its journal entry.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Waits until the names in the directory of a file are on the disk.
pub fn sync_directory(file: &Path) -> Result<()> {
    sync_directory_of(file).map_err(|cause| failed("cannot write the directory", directory_of(file), cause))
}

/// A copy of a file in another place; shares its blocks where the file system can.
pub fn copy(from: &File, about: &Metadata, to: &Path) -> Result<()> {
    let mut fresh = Fresh::create(to.to_path_buf())?;
    match rustix::fs::ioctl_ficlone(&fresh.file, from) {
        Ok(()) => {}
        Err(Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
            return Err(failed("cannot copy to", to, io::Error::last_os_error()));
        }
        Err(_) => {
            // Shares its offset with `from`, which nobody else uses.
            let mut source = from.try_clone().map_err(|cause| failed("cannot read for", to, cause))?;
            let copied = io::Seek::rewind(&mut source).and_then(|()| io::copy(&mut source, &mut &fresh.file));
            copied.map_err(|cause| failed("cannot copy to", to, cause))?;
        }
    }
    fresh.dress(from, about, Dress::AsAllowed)?;
    fresh.is_placed = true;
    Ok(())
}
