//! Walks directories with several threads and shows each regular file once, already open.
//!
//! Symbolic links are not followed; FIFOs, sockets and devices are not opened; a file with several names is
//! shown under the first one that is met. What kernel file systems (`/proc`, `/sys`) show is not files.

use super::look::{open_at, whole};
use crate::block::mounts::Backing;
use model::Bytes;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Whether a walk may leave the file system of its starting point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystems {
    /// Stay on the file system of each path given. (A btrfs subvolume counts as another one.)
    #[default]
    One,
    /// Enter whatever is mounted below.
    All,
}

/// How far a walk through directories goes, and where it counts.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// Whether to cross mount points.
    pub file_systems: FileSystems,
    /// Counts the files visited, for a progress display.
    pub visited: Arc<AtomicU64>,
}

/// A file with pages in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentFile {
    /// Path as it was met on the walk.
    pub path: PathBuf,
    /// Length of the file, resident or not.
    pub size: Bytes,
    /// How much of it is resident (whole pages).
    pub resident: Bytes,
}

/// What is resident below some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentReport {
    /// Files with resident pages, sorted by path.
    pub files: Vec<ResidentFile>,
    /// Regular files looked at.
    pub looked_at: u64,
    /// Regular files and directories that this user may not look into; something in them may be resident or not.
    pub unknown: u64,
    /// The walk was interrupted: the list is not complete.
    pub interrupted: bool,
}

/// Files with resident bytes at or below the paths, staying on the file system of each path. Changes nothing
/// but the caches of directories and inodes.
pub fn list_resident(paths: &[PathBuf]) -> ResidentReport {
    list_resident_with(paths, &Walk::default())
}

/// [`list_resident`], on the file systems that `walk` names; it counts the files that are visited.
pub fn list_resident_with(paths: &[PathBuf], walk: &Walk) -> ResidentReport {
    let _span = tracing::info_span!("list resident").entered();
    #[derive(Default)]
    struct List {
        files: Mutex<Vec<ResidentFile>>,
        looked_at: AtomicU64,
        unknown: AtomicU64,
    }
    impl Visitor for List {
        fn file(&self, seen: &Seen) {
            self.looked_at.fetch_add(1, Ordering::Relaxed);
            match whole(&seen.file, seen.size()) {
                Ok(Some(found)) if found.resident > 0 => lock(&self.files).push(ResidentFile {
                    path: seen.path(),
                    size: Bytes(seen.size()),
                    resident: found.resident_bytes(),
                }),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => drop(self.unknown.fetch_add(1, Ordering::Relaxed)),
            }
        }
        fn trouble(&self, _: PathBuf, trouble: Trouble) {
            if matches!(trouble, Trouble::Error(error) if error != Errno::NOENT) {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let list = List::default();
    let interrupted = visit(paths, walk, &list);
    let mut files = list.files.into_inner().unwrap_or_else(PoisonError::into_inner);
    files.sort_by(|left, right| left.path.cmp(&right.path));
    ResidentReport { files, looked_at: list.looked_at.into_inner(), unknown: list.unknown.into_inner(), interrupted }
}

/// A regular file, open for reading.
pub(super) struct Seen<'a> {
    pub(super) file: File,
    pub(super) stat: Stat,
    pub(super) backing: Backing,
    /// Empty: `name` is the path.
    directory: &'a Path,
    name: &'a OsStr,
}

impl Seen<'_> {
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }
    pub(super) fn size(&self) -> u64 {
        self.stat.st_size as u64
    }
}

/// Why a path is not shown as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It could not be opened or read.
    Error(Errno),
    /// Not a regular file, and how the walk came to it.
    Special(FileType, Met),
    /// Another name of a file already seen.
    HardLink,
    /// Another file system is mounted here.
    MountPoint,
    /// A file system that the kernel makes up.
    Kernel,
}

/// How the walk came to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// The user named it.
    Named,
    /// It is an entry of a directory.
    Entry,
}

/// What is done with the files; called from several threads.
pub(super) trait Visitor: Sync {
    fn file(&self, seen: &Seen);
    fn trouble(&self, path: PathBuf, trouble: Trouble);
}

/// A poisoned lock only means that another thread panicked; the counts in it are still good.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows all files at and below `paths`. `true`: interrupted before the end.
pub(super) fn visit(paths: &[PathBuf], walk: &Walk, visitor: &dyn Visitor) -> bool {
    let walker = Walker {
        walk,
        visitor,
        queue: Mutex::default(),
        changed: Condvar::new(),
        seen: Mutex::default(),
        backings: Mutex::default(),
        named_files: AtomicBool::new(false),
        interrupted: AtomicBool::new(false),
    };
    for path in paths {
        walker.named(path);
    }
    // Two at least: while one waits for the disk, another can look at what is cached.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
    std::thread::scope(|scope| {
        let start = || std::thread::Builder::new().spawn_scoped(scope, || walker.work());
        // Where no more threads can be started, fewer do the same, if need be this one.
        if (0..threads).map_while(|_| start().ok()).count() == 0 {
            walker.work();
        }
    });
    walker.interrupted.into_inner()
}

/// A directory that waits for its turn.
struct Waiting {
    path: PathBuf,
    /// Device to stay on.
    dev: u64,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Threads that are inside a directory and may still find others.
    working: u32,
}

struct Walker<'a> {
    walk: &'a Walk,
    visitor: &'a dyn Visitor,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// (device, inode) of directories, of files with several names, and of files that the user named.
    seen: Mutex<HashSet<(u64, u64)>>,
    /// What each device's file system rests on.
    backings: Mutex<HashMap<u64, Backing>>,
    named_files: AtomicBool,
    interrupted: AtomicBool,
}

impl Walker<'_> {
    /// A path that the user gave.
    fn named(&self, path: &Path) {
        let stat = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return self.visitor.trouble(path.to_owned(), Trouble::Error(error)),
        };
        if self.backing(stat.st_dev, || rustix::fs::statfs(path)) == Backing::Kernel {
            return self.visitor.trouble(path.to_owned(), Trouble::Kernel);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.push(path.to_owned(), stat.st_dev),
            FileType::RegularFile => {
                self.named_files.store(true, Ordering::Relaxed);
                self.open(CWD, Path::new(""), path.as_os_str(), Met::Named);
            }
            other => self.visitor.trouble(path.to_owned(), Trouble::Special(other, Met::Named)),
        }
    }

    fn push(&self, path: PathBuf, dev: u64) {
        lock(&self.queue).waiting.push(Waiting { path, dev });
        self.changed.notify_one();
    }

    /// Takes directories until none is left and nobody can find more.
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let next = loop {
                if let Some(next) = queue.waiting.pop() {
                    queue.working += 1;
                    break next;
                }
                if queue.working == 0 {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            let _busy = Busy(self);
            if crate::interrupt::requested() {
                self.interrupted.store(true, Ordering::Relaxed);
            } else if let Err(error) = self.directory(&next) {
                self.visitor.trouble(next.path, Trouble::Error(error));
            }
        }
    }

    /// Shows the files of one directory and queues its directories.
    fn directory(&self, directory: &Waiting) -> Result<(), Errno> {
        let fd = open_directory(&directory.path)?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_dev != directory.dev && self.walk.file_systems == FileSystems::One {
            self.visitor.trouble(directory.path.clone(), Trouble::MountPoint);
            return Ok(());
        }
        if self.backing(stat.st_dev, || rustix::fs::fstatfs(&fd)) == Backing::Kernel {
            self.visitor.trouble(directory.path.clone(), Trouble::Kernel);
            return Ok(());
        }
        if !lock(&self.seen).insert((stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        let mut buffer = Vec::with_capacity(1 << 16);
        let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.entry(&fd, &directory.path, directory.dev, entry.file_name(), entry.file_type());
            }
        }
        Ok(())
    }

    fn entry(&self, fd: &OwnedFd, directory: &Path, dev: u64, name: &CStr, kind: FileType) {
        let os_name = OsStr::from_bytes(name.to_bytes());
        let kind = match kind {
            // Asked for before it is opened: opening would make an automounter mount it.
            FileType::Directory | FileType::Unknown => match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    let path = directory.join(os_name);
                    return match self.walk.file_systems {
                        FileSystems::One if stat.st_dev != dev => self.visitor.trouble(path, Trouble::MountPoint),
                        _ => self.push(path, stat.st_dev),
                    };
                }
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(error) => return self.visitor.trouble(directory.join(os_name), Trouble::Error(error)),
            },
            known => known,
        };
        match kind {
            FileType::RegularFile => self.open(fd, directory, os_name, Met::Entry),
            other => self.visitor.trouble(directory.join(os_name), Trouble::Special(other, Met::Entry)),
        }
    }

    /// Opens what was a regular file a moment ago, and shows it unless it was seen under another name.
    fn open(&self, fd: impl AsFd, directory: &Path, name: &OsStr, met: Met) {
        let opened = open_at(fd, name).and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let (stat, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.visitor.trouble(directory.join(name), Trouble::Error(error)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return self.visitor.trouble(directory.join(name), Trouble::Special(kind, met));
        }
        let has_names = stat.st_nlink > 1 || met == Met::Named;
        if has_names || self.named_files.load(Ordering::Relaxed) {
            let mut seen = lock(&self.seen);
            let known = if has_names {
                !seen.insert((stat.st_dev, stat.st_ino))
            } else {
                seen.contains(&(stat.st_dev, stat.st_ino))
            };
            if known {
                drop(seen);
                return self.visitor.trouble(directory.join(name), Trouble::HardLink);
            }
        }
        let backing = self.backing(stat.st_dev, || rustix::fs::fstatfs(&file));
        self.walk.visited.fetch_add(1, Ordering::Relaxed);
        self.visitor.file(&Seen { file, stat, backing, directory, name });
    }

    /// What a device's file system rests on; asked once per device.
    fn backing(&self, dev: u64, ask: impl FnOnce() -> Result<rustix::fs::StatFs, Errno>) -> Backing {
        *lock(&self.backings)
            .entry(dev)
            .or_insert_with(|| ask().map_or(Backing::Disk, |found| Backing::of_magic(found.f_type as u64)))
    }
}

/// A thread that is inside a directory; also a panic ends that, or the others would wait for ever.
struct Busy<'a>(&'a Walker<'a>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(&self.0.queue).working -= 1;
        self.0.changed.notify_all();
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    }
}
