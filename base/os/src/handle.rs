//! From an inode number, which is all that a kernel trace names, to a path.
//!
//! The kernel opens an inode by a *file handle*; for ext2/3/4 and f2fs such a handle can be made by hand from
//! the inode number (generation 0 means "whichever"). The path is then that of the dentry which the kernel still
//! has in its cache; so ask during or right after the run. XFS and btrfs insist on the generation: for them, and
//! for inodes whose dentry has left the cache, there is [`paths_by_walk`].

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file's name, or the last one it had.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InodeName {
    /// The file has this path now.
    Path(PathBuf),
    /// The file is deleted but still open or mapped; this was its last path.
    Deleted(PathBuf),
}

impl InodeName {
    /// The path, present or past.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Deleted(path) => path,
        }
    }
}

/// What the kernel opens an inode by: its number, and which of the files it is that had this number. (`struct
/// file_handle`, with room for the longest identifier.)
#[repr(C)]
pub struct Handle {
    len: u32,
    kind: i32,
    id: [u8; libc::MAX_HANDLE_SZ as usize],
}

impl Handle {
    /// Of what is at a path; links are not followed.
    ///
    /// # Errors
    /// As name_to_handle_at(2): EOPNOTSUPP where the file system has none.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let mut handle = Self { len: libc::MAX_HANDLE_SZ as u32, kind: 0, id: [0; libc::MAX_HANDLE_SZ as usize] };
        let (at, mut mount) = ((&raw mut handle).cast(), 0);
        // SAFETY: the name ends with a zero; the handle has the room that it says.
        match unsafe { libc::name_to_handle_at(libc::AT_FDCWD, name.as_ptr(), at, &raw mut mount, 0) } {
            0 => Ok(handle),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// From its kind and its identifier; `None`: no identifier is as long, or as short.
    pub fn new(kind: i32, id: &[u8]) -> Option<Self> {
        let mut handle = Self { len: id.len() as u32, kind, id: [0; libc::MAX_HANDLE_SZ as usize] };
        handle.id.get_mut(..id.len())?.copy_from_slice(id);
        (!id.is_empty()).then_some(handle)
    }

    /// Its kind and its identifier.
    pub fn parts(&self) -> (i32, &[u8]) {
        (self.kind, &self.id[..self.len as usize])
    }

    /// Opens the inode, only to look at it, links too. `mount` is any open file or directory of the file system, not
    /// opened with `O_PATH`.
    ///
    /// # Errors
    /// As open_by_handle_at(2): ESTALE where the inode is gone, EPERM without CAP_DAC_READ_SEARCH.
    pub fn open(&self, mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the handle has the bytes that it says and lives through the call, which only reads it.
        let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw const *self).cast_mut().cast(), flags) };
        match fd {
            // SAFETY: a descriptor that was just opened and that nobody else knows.
            0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The path of an inode of the file system that `mount` is on. `mount` is any open file or directory of it, but
/// not opened with `O_PATH`; paths are told as seen through that mount. About 20 µs.
///
/// `None`: no CAP_DAC_READ_SEARCH, no such inode, a file system that wants more than the number, or a path that
/// does not lead to this inode (its dentry has left the cache, it lies outside a bind mount, another mount hides
/// it). A path is never guessed: it was checked to lead to the inode.
pub fn path_of_inode(mount: BorrowedFd<'_>, ino: u64) -> Option<InodeName> {
    let file = open_inode(mount, ino)?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if stat.st_ino != ino {
        return None;
    }
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    if stat.st_nlink == 0 {
        let name = link.as_os_str().as_bytes().strip_suffix(b" (deleted)")?;
        return (name != b"/").then(|| InodeName::Deleted(PathBuf::from(std::ffi::OsStr::from_bytes(name))));
    }
    let there = link.symlink_metadata().ok()?;
    (there.dev() == stat.st_dev && there.ino() == stat.st_ino).then_some(InodeName::Path(link))
}

fn open_inode(mount: BorrowedFd<'_>, ino: u64) -> Option<OwnedFd> {
    const FILEID_INO32_GEN: i32 = 1;
    let generation = [0; 4];
    let id = [u32::try_from(ino).ok()?.to_ne_bytes(), generation].concat();
    Handle::new(FILEID_INO32_GEN, &id)?.open(mount).ok()
}

/// The paths of inodes by walking a mount: slow (a million entries take seconds, and their directories come into
/// the cache), but it works on every file system, long after the run, and without rights beyond reading the
/// directories. Of several names of a file, any. Does not leave the file system. Stops when all are found.
pub fn paths_by_walk(mount_point: &Path, inodes: &HashSet<u64>) -> HashMap<u64, PathBuf> {
    let mut found = HashMap::new();
    let Ok(top) = mount_point.symlink_metadata() else { return found };
    if inodes.contains(&top.ino()) {
        found.insert(top.ino(), mount_point.to_owned());
    }
    let mut waiting = vec![mount_point.to_owned()];
    while let Some(directory) = waiting.pop() {
        if found.len() == inodes.len() || crate::interrupt::requested() {
            break;
        }
        // A directory that cannot be read, or that vanished, only means that its files are not found.
        let _ = look_into(&directory, top.dev(), inodes, &mut found, &mut waiting);
    }
    found
}

fn look_into(
    directory: &Path,
    dev: u64,
    inodes: &HashSet<u64>,
    found: &mut HashMap<u64, PathBuf>,
    waiting: &mut Vec<PathBuf>,
) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::empty())?;
    if rustix::fs::fstat(&fd)?.st_dev != dev {
        return Ok(());
    }
    let mut buffer = Vec::with_capacity(1 << 16);
    let mut entries = RawDir::new(fd.as_fd(), buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let path = || directory.join(std::ffi::OsString::from_vec(name.to_vec()));
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            _ => false,
        };
        if inodes.contains(&entry.ino()) {
            // Where something is mounted, the entry still has the number of the directory below the mount.
            let path = path();
            if path.symlink_metadata().is_ok_and(|stat| stat.ino() == entry.ino() && stat.dev() == dev) {
                found.entry(entry.ino()).or_insert(path);
            }
        }
        if is_directory {
            waiting.push(path());
        }
    }
    Ok(())
}
