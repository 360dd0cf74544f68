//! What stores do to a disk, behind one small trait: so that tests can record and replay it, fail it, slow it down.

use rustix::fs::{self, Advice, AtFlags, Mode, OFlags};
use rustix::io::ReadWriteFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Which file bears a name, and its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its number: another file of this name has another one, while this one is open.
    pub id: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A directory of files. Only the I/O thread of a store calls it, but for [`Disk::read_resident`].
pub trait Disk: Send + Sync {
    /// Takes the lock of the directory, which is made if need be, until it is dropped. `false`: another process has it.
    /// Called again, it makes and locks a directory that has been removed meanwhile.
    fn lock(&self) -> io::Result<bool>;
    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Fills `buffer` with the bytes of a file from `at` on; fewer at its end.
    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The same without the disk, whoever calls it: `true` if all of `buffer` was in memory. Nothing is read otherwise.
    fn read_resident(&self, _name: &str, _at: u64, _buffer: &mut [u8]) -> bool {
        false
    }
    /// Begins to bring bytes of a file into memory that will be read soon.
    fn will_need(&self, _name: &str, _at: u64, _len: u64) {}
    /// Writes all parts one behind the other from `at` on, into a file that is made if need be.
    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Returns when the bytes of a file, and its length, are on the medium.
    fn sync(&self, name: &str) -> io::Result<()>;
    /// Returns when all names that were made, changed and taken away are on the medium.
    fn sync_names(&self) -> io::Result<()>;
    /// Gives a file another name, in place of what bears it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Takes a file away.
    fn unlink(&self, name: &str) -> io::Result<()>;
    /// Cuts a file.
    fn truncate(&self, name: &str, len: u64) -> io::Result<()>;
    /// Which file has this name now; `None`: none. Where files have no numbers, all have the same.
    fn about(&self, name: &str) -> io::Result<Option<About>> {
        Ok(self.list()?.into_iter().find(|file| file.0 == name).map(|(_, len)| About { id: 0, len }))
    }
    /// Looks the name up again at its next use: another process may have put another file there.
    fn forget(&self, _name: &str) {}
    /// Waits until no other process has its turn, and takes it, until what is returned is dropped. A process that dies
    /// has none. On a disk that only this process has, it is always its turn.
    fn turn(&self) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }
    /// A descriptor that is readable when somebody has changed files; whoever reads it learns nothing else.
    fn watch(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

/// Bytes that one call asks the kernel to read ahead: it takes no more than the largest request of the device.
const AHEAD: u64 = 1 << 20;
/// Files kept open.
const MOST_OPEN: usize = 256;

/// A directory of the system.
pub struct Folder {
    path: PathBuf,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    folder: Option<Arc<OwnedFd>>,
    lock: Option<OwnedFd>,
    files: HashMap<String, Arc<File>>,
}

impl Folder {
    /// The directory of this path; nothing is opened yet.
    pub fn new(path: &Path) -> Folder {
        Folder { path: path.into(), inside: Mutex::default() }
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> io::Result<Arc<OwnedFd>> {
        let mut inside = self.inside();
        if let Some(folder) = &inside.folder {
            return Ok(folder.clone());
        }
        let folder = fs::open(&self.path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(inside.folder.insert(Arc::new(folder)).clone())
    }

    /// Makes the directory if it is gone, and lets go of one that its path does not lead to any more.
    fn come_back(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.path)?;
        let there = fs::stat(&self.path)?;
        let mut inside = self.inside();
        let known = inside.folder.as_ref().map(fs::fstat).transpose()?;
        if known.is_some_and(|known| (known.st_dev, known.st_ino) != (there.st_dev, there.st_ino)) {
            (inside.folder, inside.files) = (None, HashMap::new());
        }
        Ok(())
    }

    fn file(&self, name: &str, make: bool) -> io::Result<Arc<File>> {
        if let Some(file) = self.inside().files.get(name) {
            return Ok(file.clone());
        }
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | if make { OFlags::CREATE } else { OFlags::empty() };
        let folder = self.folder()?;
        let open = |access| fs::openat(&*folder, name, flags | access, Mode::RUSR | Mode::WUSR);
        let file = if make { open(OFlags::RDWR) } else { open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)) };
        let file = Arc::new(File::from(file?));
        let mut inside = self.inside();
        let mut old = HashMap::new();
        if inside.files.len() >= MOST_OPEN {
            old = std::mem::take(&mut inside.files);
        }
        inside.files.insert(name.into(), file.clone());
        drop(inside);
        // Nobody waits while they are closed.
        drop(old);
        Ok(file)
    }
}

/// Whether these bytes of a file are in memory, or on their way to it: `cachestat(2)`, of Linux 6.5. No where it does
/// not tell: on older kernels and on overlayfs.
fn in_memory(file: &File, at: u64, len: u64) -> bool {
    /// The same on every architecture; newer than the C library's tables.
    const SYS_CACHESTAT: libc::c_long = 451;
    const PAGE: u64 = 4096;
    let (range, mut counts) = ([at, len], [0_u64; 5]);
    // SAFETY: the kernel reads two u64 of `range` and writes five of `counts`; both live through the call.
    let told = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    // Larger pages make the number smaller, and the answer no.
    told == 0 && len > 0 && counts[0] > (at + len - 1) / PAGE - at / PAGE
}

impl Disk for Folder {
    fn lock(&self) -> io::Result<bool> {
        // What was open is of another directory, if this one has been removed and made again.
        drop(std::mem::take(&mut *self.inside()));
        std::fs::create_dir_all(&self.path)?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = fs::openat(&*self.folder()?, "lock", flags, Mode::RUSR | Mode::WUSR)?;
        match fs::flock(&lock, fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.inside().lock = Some(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let folder = self.folder()?;
        let mut all = Vec::new();
        for entry in fs::Dir::read_from(folder.as_fd())? {
            let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else { continue };
            let about = fs::statat(&*folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
            if fs::FileType::from_raw_mode(about.st_mode) == fs::FileType::RegularFile {
                all.push((name, about.st_size as u64));
            }
        }
        Ok(all)
    }

    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file(name, false)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn read_resident(&self, name: &str, at: u64, buffer: &mut [u8]) -> bool {
        // A file that is not open yet may have to be looked for on the disk.
        let Some(file) = self.inside().files.get(name).cloned() else { return false };
        let len = buffer.len();
        // RWF_NOWAIT by itself begins to read what is missing.
        if !in_memory(&file, at, len as u64) {
            return false;
        }
        let filled = rustix::io::preadv2(&file, &mut [IoSliceMut::new(buffer)], at, ReadWriteFlags::NOWAIT);
        filled == Ok(len)
    }

    fn will_need(&self, name: &str, at: u64, len: u64) {
        let Ok(file) = self.file(name, false) else { return };
        for from in (at..at + len).step_by(AHEAD as usize) {
            // It is advice.
            let _ = fs::fadvise(&file, from, NonZeroU64::new((at + len - from).min(AHEAD)), Advice::WillNeed);
        }
    }

    fn write(&self, name: &str, mut at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file(name, true)?;
        for parts in parts.chunks(512) {
            let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                match rustix::io::pwritev(&file, left, at) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(more) => {
                        at += more as u64;
                        IoSlice::advance_slices(&mut left, more);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.file(name, false)?.sync_data()
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(fs::fsync(&*self.folder()?)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let folder = self.folder()?;
        {
            let mut inside = self.inside();
            inside.files.remove(from);
            inside.files.remove(to);
        }
        Ok(fs::renameat(&*folder, from, &*folder, to)?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let folder = self.folder()?;
        let file = self.inside().files.remove(name);
        let gone = fs::unlinkat(&*folder, name, AtFlags::empty());
        // Whoever lets go of it last gives its blocks back: no reader may have to wait for that.
        while file.as_ref().is_some_and(|file| Arc::strong_count(file) > 1) {
            std::thread::yield_now();
        }
        Ok(gone?)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        self.file(name, false)?.set_len(len)
    }

    fn about(&self, name: &str) -> io::Result<Option<About>> {
        match fs::statat(&*self.folder()?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => Ok(Some(About { id: about.st_ino, len: about.st_size as u64 })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn forget(&self, name: &str) {
        self.inside().files.remove(name);
    }

    fn turn(&self) -> io::Result<Box<dyn Send>> {
        self.come_back()?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let turn = fs::openat(&*self.folder()?, "turn", flags, Mode::RUSR | Mode::WUSR)?;
        // A lock of an open file: gone with the process, whatever becomes of it.
        while let Err(error) = fs::flock(&turn, fs::FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        Ok(Box::new(turn))
    }

    fn watch(&self) -> io::Result<Option<OwnedFd>> {
        use fs::inotify;
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let what = inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE;
        inotify::add_watch(&fd, &self.path, what)?;
        Ok(Some(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_writes_reads_renames_and_is_locked_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/here");
        let (one, two) = (Folder::new(&path), Folder::new(&path));
        assert!(one.lock().unwrap() && !two.lock().unwrap());
        let parts: Vec<Vec<u8>> = (0..2000_u32).map(|at| at.to_le_bytes().to_vec()).collect();
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        one.write("a", 100, &slices).unwrap();
        let mut buffer = vec![0; 9000];
        assert_eq!(one.read("a", 100, &mut buffer).unwrap(), 8000);
        assert_eq!(buffer[..8000], parts.concat());
        one.sync("a").and_then(|()| one.rename("a", "b")).and_then(|()| one.sync_names()).unwrap();
        one.truncate("b", 50).unwrap();
        let mut all = one.list().unwrap();
        all.sort();
        assert_eq!(all, [("b".to_owned(), 50), ("lock".to_owned(), 0)]);
        one.unlink("b").unwrap();
        assert!(one.read("b", 0, &mut buffer).is_err() && one.read("a", 0, &mut buffer).is_err());
        drop(one);
        assert!(two.lock().unwrap());
    }

    #[test]
    fn what_is_in_memory_is_had_of_files_that_are_open_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Folder::new(folder.path());
        disk.write("a", 0, &[&[7; 9000]]).unwrap();
        if !in_memory(&disk.file("a", false).unwrap(), 0, 9000) {
            return testing::skip("the kernel does not tell what of this file system is in memory");
        }
        let mut buffer = vec![0; 5000];
        assert!(disk.read_resident("a", 4000, &mut buffer) && buffer == [7; 5000]);
        assert!(!disk.read_resident("a", 4001, &mut buffer), "it is not that long");
        let other = Folder::new(folder.path());
        assert!(!other.read_resident("a", 0, &mut buffer));
        other.will_need("a", 0, 9000);
        assert!(other.read_resident("a", 0, &mut buffer));
        disk.unlink("a").unwrap();
        assert!(!disk.read_resident("a", 0, &mut buffer));
    }

    #[test]
    fn asking_what_is_in_memory_reads_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Folder::new(folder.path());
        disk.write("a", 0, &[&[7; 9000]]).and_then(|()| disk.sync("a")).unwrap();
        let file = disk.file("a", false).unwrap();
        if !in_memory(&file, 0, 9000) {
            return testing::skip("the kernel does not tell what of this file system is in memory");
        }
        fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if in_memory(&file, 0, 9000) {
            return testing::skip("this file system keeps what it was told to drop");
        }
        let mut buffer = vec![0; 9000];
        for _ in 0..1000 {
            assert!(!disk.read_resident("a", 0, &mut buffer) && !in_memory(&file, 0, 9000));
        }
        assert_eq!(disk.read("a", 0, &mut buffer).unwrap(), 9000);
        assert!(disk.read_resident("a", 0, &mut buffer));
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("outside"), "mine").unwrap();
        std::os::unix::fs::symlink("outside", folder.path().join("link")).unwrap();
        let disk = Folder::new(folder.path());
        assert!(disk.write("link", 0, &[b"x"]).is_err());
        assert_eq!(std::fs::read(folder.path().join("outside")).unwrap(), b"mine");
    }
}
