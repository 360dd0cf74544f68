//! What the store does to a disk, behind one small trait: so that tests can record and replay it,
//! fail it, slow it down.

use rustix::fs::{self, AtFlags, Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A directory of files. Only the I/O thread of a store calls it.
pub trait Disk: Send + Sync {
    /// Takes the lock of the directory, which is made if need be, until it is dropped. `false`: another process has it.
    fn lock(&self) -> io::Result<bool>;
    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Fills `buffer` with the bytes of a file from `at` on; fewer at its end.
    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
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
}

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
        if inside.files.len() >= MOST_OPEN {
            inside.files.clear();
        }
        inside.files.insert(name.into(), file.clone());
        Ok(file)
    }
}

impl Disk for Folder {
    fn lock(&self) -> io::Result<bool> {
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
        let mut inside = self.inside();
        inside.files.remove(from);
        inside.files.remove(to);
        Ok(fs::renameat(&*folder, from, &*folder, to)?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let folder = self.folder()?;
        self.inside().files.remove(name);
        Ok(fs::unlinkat(&*folder, name, AtFlags::empty())?)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        self.file(name, false)?.set_len(len)
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
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("outside"), "mine").unwrap();
        std::os::unix::fs::symlink("outside", folder.path().join("link")).unwrap();
        let disk = Folder::new(folder.path());
        assert!(disk.write("link", 0, &[b"x"]).is_err());
        assert_eq!(std::fs::read(folder.path().join("outside")).unwrap(), b"mine");
    }
}
