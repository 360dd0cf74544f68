//! Names for inode numbers: from the kernel by handle, from what the engine heard, or by walking a mount.

use super::{Name, Pace};
use crate::{
    handle::open_inode,
    raw::{Inode, RawTrace},
};
use model::Nanos;
use os::{
    cache::open_quietly,
    handle::{path_of_inode, paths_by_walk},
    mounts::{Backing, Mount, Mounts},
    spawn::monotonic_ns,
};
use rustix::fs::OFlags;
use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::File,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirEntryExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
};

/// Names that are looked at, at most, on a file system that is another machine's or another process's: each may cost it
/// a request.
pub(super) const MOST_ENTRIES: usize = 20_000;

/// The clock that stamps new files ticks this coarsely (a jiffy, at most 10 ms).
const TICK: u64 = 10_000_000;

/// Names of all inodes that have one. `touched` says when each was last touched, `beneath` names files of overlays'
/// layers.
pub(super) fn find(
    raw: &RawTrace,
    beneath: &[(Inode, PathBuf)],
    touched: &HashMap<Inode, Nanos>,
    mounts: &Mounts,
    pace: &mut Pace<'_>,
) -> HashMap<Inode, Name> {
    let mut finder = Finder {
        touched,
        heard: beneath.iter().chain(&raw.names).map(|(inode, path)| (*inode, path.as_path())).collect(),
        began: (raw.t0_monotonic_ns > 0)
            .then(|| unix_ns().saturating_sub(monotonic_ns().saturating_sub(raw.t0_monotonic_ns))),
        names: HashMap::new(),
    };
    let mut by_device: HashMap<u64, HashSet<u64>> = HashMap::new();
    for inode in touched.keys() {
        by_device.entry(inode.dev).or_default().insert(inode.ino);
    }
    for (dev, numbers) in by_device {
        finder.find_on(dev, numbers, mounts.of_dev(dev), pace);
    }
    finder.names
}

/// Names that are being found.
struct Finder<'a> {
    touched: &'a HashMap<Inode, Nanos>,
    heard: HashMap<Inode, &'a Path>,
    /// When the trace began, nanoseconds since 1970, if that is known.
    began: Option<u64>,
    names: HashMap<Inode, Name>,
}

impl Finder<'_> {
    /// The inodes of one device: by handle, by what the engine heard, by looking around.
    fn find_on(&mut self, dev: u64, mut missing: HashSet<u64>, mount: Option<&Mount>, pace: &mut Pace<'_>) {
        let by_handle = mount.map(|mount| by_handle(mount, &missing, pace)).unwrap_or_default();
        let handles_work = !by_handle.is_empty();
        for (ino, name) in by_handle {
            let inode = Inode { dev, ino };
            if !self.is_reused(inode, name.path()) {
                missing.remove(&ino);
                self.names.insert(inode, name);
            }
        }
        let unheard = self.take_heard(dev, &mut missing);
        if pace.stopped {
            return;
        }
        if let Some(mount) = mount.filter(|mount| matches!(mount.backing(), Backing::Remote | Backing::Stacked)) {
            for (ino, path) in self.look_around(mount, dev, missing, pace) {
                self.names.insert(Inode { dev, ino }, Name::Path(path));
            }
            return;
        }
        // Memory forgets nothing that still exists.
        let walkable = |mount: &&Mount| matches!(mount.backing(), Backing::Disk | Backing::Volume);
        let Some(mount) = mount.filter(walkable) else { return };
        if handles_work {
            missing.retain(|ino| !pace.stopped && is_linked(mount, *ino));
        }
        let mut found = self.beside(dev, &missing);
        let unfound: HashSet<u64> = unheard.into_iter().filter(|ino| !found.contains_key(ino)).collect();
        if !handles_work && !unfound.is_empty() {
            found.extend(paths_by_walk(&mount.point, &unfound));
        }
        for (ino, path) in found {
            let inode = Inode { dev, ino };
            if !self.is_reused(inode, &path) {
                self.names.insert(inode, Name::Path(path));
            }
        }
    }

    /// Takes the names that the engine heard. Those that lead elsewhere now stay missing: the file may have got
    /// another name. Returns what was never heard of.
    fn take_heard(&mut self, dev: u64, missing: &mut HashSet<u64>) -> HashSet<u64> {
        let mut unheard = HashSet::new();
        for ino in missing.clone() {
            let inode = Inode { dev, ino };
            match self.heard.get(&inode).map(|path| as_heard(path, inode)) {
                None => {
                    unheard.insert(ino);
                }
                Some(Name::Path(path)) => {
                    missing.remove(&ino);
                    let reused = self.is_reused(inode, &path);
                    self.names.insert(inode, if reused { Name::Deleted(path) } else { Name::Path(path) });
                }
                Some(gone) => {
                    self.names.insert(inode, gone);
                }
            }
        }
        unheard
    }

    /// Whether a number was given to a new file after its last touch: then the file of the trace is gone.
    fn is_reused(&self, inode: Inode, path: &Path) -> bool {
        let last = self.touched.get(&inode).map_or(0, |at| at.0);
        self.began.zip(born(path)).is_some_and(|(began, born)| born > began + last + TICK)
    }

    /// Looks for files of another machine's or process's file system: first where named ones lie, then from its mount
    /// point on, and not for ever. What a directory says of numbers need not be what a file says, so each entry is
    /// asked.
    fn look_around(
        &self,
        mount: &Mount,
        dev: u64,
        mut missing: HashSet<u64>,
        pace: &mut Pace<'_>,
    ) -> HashMap<u64, PathBuf> {
        use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
        let mut found = HashMap::new();
        // `Name`s of this device, and what programs mapped of it.
        let known = self.names.iter().filter(|(inode, _)| inode.dev == dev).map(|(_, name)| name.path());
        let near: HashSet<PathBuf> = known.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        let mut waiting = std::collections::VecDeque::from_iter(near);
        waiting.push_back(mount.point.clone());
        let mut seen: HashSet<PathBuf> = HashSet::new();
        let mut left = MOST_ENTRIES;
        // What the server said last will do: nothing is asked of it that the kernel knows.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        while let Some(directory) = waiting.pop_front().filter(|_| !missing.is_empty()) {
            if !seen.insert(directory.clone()) {
                continue;
            }
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                if left == 0 || !pace.goes_on() {
                    return found;
                }
                let path = entry.path();
                let wanted = StatxFlags::INO | StatxFlags::TYPE;
                let Ok(stat) = statx(CWD, &path, flags, wanted) else { continue };
                if rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor) != dev {
                    continue;
                }
                if FileType::from_raw_mode(stat.stx_mode.into()).is_dir() {
                    waiting.push_back(path);
                } else if missing.remove(&stat.stx_ino) {
                    found.insert(stat.stx_ino, path);
                }
            }
        }
        found
    }

    /// Looks for files in the directories where named ones lie.
    fn beside(&self, dev: u64, missing: &HashSet<u64>) -> HashMap<u64, PathBuf> {
        let mut found = HashMap::new();
        if missing.is_empty() {
            return found;
        }
        let known = self.names.iter().filter(|(inode, _)| inode.dev == dev);
        let directories: HashSet<&Path> = known.filter_map(|(_, name)| name.path().parent()).collect();
        let entries = directories.into_iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
        for entry in entries.flatten() {
            if missing.contains(&entry.ino()) && entry.metadata().is_ok_and(|metadata| metadata.dev() == dev) {
                found.insert(entry.ino(), entry.path());
            }
        }
        found
    }
}

/// Whether a file still has a name somewhere: its dentry has only left the cache.
fn is_linked(mount: &Mount, ino: u64) -> bool {
    let Ok(directory) = File::open(&mount.point) else { return false };
    let file = open_inode(directory.as_fd(), ino, OFlags::PATH);
    file.and_then(|file| rustix::fs::fstat(&file).ok()).is_some_and(|stat| stat.st_nlink > 0)
}

/// Nanoseconds since 1970.
fn unix_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}

/// When a file was made, nanoseconds since 1970, if its file system remembers.
fn born(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME).ok()?;
    let known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let seconds = u64::try_from(found.stx_btime.tv_sec).ok().filter(|_| known)?;
    Some(seconds * 1_000_000_000 + u64::from(found.stx_btime.tv_nsec))
}

/// Asks the kernel for each.
fn by_handle(mount: &Mount, numbers: &HashSet<u64>, pace: &mut Pace<'_>) -> HashMap<u64, Name> {
    let Ok(directory) = File::open(&mount.point) else { return HashMap::new() };
    let name = |ino: &u64| Some((*ino, path_of_inode(directory.as_fd(), *ino)?));
    numbers.iter().take_while(|_| pace.goes_on()).filter_map(name).collect()
}

/// A name from the time of the run: if it leads to something else now, the file is gone.
fn as_heard(path: &Path, inode: Inode) -> Name {
    // The kernel names a file that was deleted before it was mapped so.
    if let Some(gone) = path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        return Name::Deleted(PathBuf::from(OsStr::from_bytes(gone)));
    }
    match path.symlink_metadata() {
        Ok(found) if Inode { dev: found.dev(), ino: found.ino() } == inode => Name::Path(path.to_owned()),
        _ => Name::Deleted(path.to_owned()),
    }
}

/// Opens a file that has no name, or none that is known, to see where it lies.
pub(super) fn open_nameless(mount: &Mount, inode: Inode) -> Option<File> {
    let directory = File::open(&mount.point).ok()?;
    let what = open_inode(directory.as_fd(), inode.ino, OFlags::PATH)?;
    let stat = rustix::fs::fstat(&what).ok()?;
    // Opening anything but a regular file could have effects.
    let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME;
    (regular && stat.st_dev == inode.dev).then(|| open_inode(directory.as_fd(), inode.ino, flags))?.map(File::from)
}

/// Opens a file if the path still leads to it.
pub(super) fn open_as(path: &Path, inode: Inode) -> Option<File> {
    let file = open_quietly(path).ok()?;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
    // btrfs shows another device number for each subvolume: there the inode number must do.
    (metadata.ino() == inode.ino).then_some(file)
}
