//! The calls by which files are made, synced and named, as a trait: the kernel answers them, and a test can note them
//! to learn what a power cut at each moment would leave.

pub(crate) mod directory;
pub(crate) mod existing;

pub(crate) use directory::{make as make_directory, open as open_directory, remove};
pub(crate) use existing::Existing;

use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;

/// A name in an open directory.
#[derive(Clone, Copy, Debug)]
pub struct NameIn<'a> {
    /// The directory, opened for its names to be looked up in.
    pub directory: &'a File,
    /// The name in it, without a slash.
    pub name: &'a OsStr,
}

/// What a writer asks of a file system. Content is written to the [`File`] that [`FileSystem::create`] gives; it is
/// certain to be on the disk only after [`FileSystem::sync_file`], and names only after [`FileSystem::sync_directory`].
pub trait FileSystem {
    /// Makes a directory whose parent exists; `mode` loses what the umask takes.
    ///
    /// # Errors
    /// As mkdir(2).
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Creates an empty file that only its owner may read and write; never follows a link and never opens what exists.
    ///
    /// # Errors
    /// As open(2).
    fn create(&self, at: NameIn<'_>) -> io::Result<File>;

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As symlink(2).
    fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()>;

    /// Gives an open file one more name.
    ///
    /// # Errors
    /// As link(2).
    fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()>;

    /// Waits until the content, the owner and the mode of a file are on the disk.
    ///
    /// # Errors
    /// As fsync(2).
    fn sync_file(&self, file: &File) -> io::Result<()>;

    /// Waits until the names in a directory are on the disk.
    ///
    /// # Errors
    /// As fsync(2).
    fn sync_directory(&self, directory: &File) -> io::Result<()>;

    /// Waits until all that was written to the file system of an open file or directory is on the disk.
    ///
    /// # Errors
    /// As syncfs(2).
    fn sync_everything(&self, on: &File) -> io::Result<()>;

    /// Renames; with [`Existing::Keep`] the new name must be free, which is decided in the same step.
    ///
    /// # Errors
    /// As rename(2).
    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()>;

    /// Gives two things each the name of the other, in one step.
    ///
    /// # Errors
    /// As renameat2(2) with `RENAME_EXCHANGE`: the file system may not know it.
    fn exchange(&self, one: NameIn<'_>, other: NameIn<'_>) -> io::Result<()>;

    /// Removes the name of a file or a link.
    ///
    /// # Errors
    /// As unlink(2).
    fn remove(&self, at: NameIn<'_>) -> io::Result<()>;

    /// Sets the mode, whatever the umask.
    ///
    /// # Errors
    /// As fchmod(2).
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()>;

    /// Sets user and group.
    ///
    /// # Errors
    /// As fchown(2).
    fn set_owner(&self, file: &File, user: u32, group: u32) -> io::Result<()>;
}

/// The machine's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl FileSystem for Kernel {
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(mode).create(path)
    }

    fn create(&self, at: NameIn<'_>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(at.directory, at.name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, at.directory, at.name)?)
    }

    fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()> {
        // AT_EMPTY_PATH would need a capability.
        let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        Ok(rustix::fs::linkat(rustix::fs::CWD, own, at.directory, at.name, follow)?)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_directory(&self, directory: &File) -> io::Result<()> {
        directory.sync_all()
    }

    fn sync_everything(&self, on: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(on)?)
    }

    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()> {
        if existing == Existing::Replace {
            return Ok(rustix::fs::renameat(from.directory, from.name, to.directory, to.name)?);
        }
        match rustix::fs::renameat_with(from.directory, from.name, to.directory, to.name, RenameFlags::NOREPLACE) {
            // Some file systems (NFS among them) know only the older way to take a free name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let flags = rustix::fs::AtFlags::empty();
                rustix::fs::linkat(from.directory, from.name, to.directory, to.name, flags)?;
                self.remove(from)
            }
            renamed => Ok(renamed?),
        }
    }

    fn exchange(&self, one: NameIn<'_>, other: NameIn<'_>) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(rustix::fs::renameat_with(one.directory, one.name, other.directory, other.name, flags)?)
    }

    fn remove(&self, at: NameIn<'_>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(at.directory, at.name, rustix::fs::AtFlags::empty())?)
    }

    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        file.set_permissions(std::fs::Permissions::from_mode(mode))
    }

    fn set_owner(&self, file: &File, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(file, Some(user), Some(group))
    }
}

thread_local! {
    static IN_PLACE_OF_THE_KERNEL: RefCell<Option<Rc<dyn FileSystem>>> = const { RefCell::new(None) };
}

/// The file system that this thread writes to: the kernel's, unless [`with`] says otherwise.
pub fn current() -> Rc<dyn FileSystem> {
    IN_PLACE_OF_THE_KERNEL.with_borrow(|other| other.clone().unwrap_or_else(|| Rc::new(Kernel)))
}

/// Runs `work` with all that it writes in this thread going through another file system. For tests.
pub fn with<T>(other: Rc<dyn FileSystem>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Rc<dyn FileSystem>>);
    impl Drop for Back {
        fn drop(&mut self) {
            IN_PLACE_OF_THE_KERNEL.set(self.0.take());
        }
    }
    let _back = Back(IN_PLACE_OF_THE_KERNEL.replace(Some(other)));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_really_asked_to_sync() {
        let (pipe, _other) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        // There is no disk below a pipe, and nothing may be done with what was only looked up.
        let errors = [Kernel.sync_file(&pipe), Kernel.sync_directory(&pipe)].map(|synced| synced.unwrap_err().kind());
        assert_eq!(errors, [io::ErrorKind::InvalidInput; 2]);
        let looked_up = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let error = Kernel.sync_everything(&looked_up.into()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
