//! Reads files: one in detail, or every ELF file below some directories, with several threads.
//!
//! A file is read piece by piece, not mapped: one that is cut off meanwhile (a linker at work) costs an error for this file
//! and not the program, and nothing comes into memory that is not needed.

use crate::report::{FileReport, Skipped, Survey, Surveyed, Unreadable};
use crate::{Depth, analyze, sources};
use elf::{Image, Miss};
use model::{Error, Exit, Result};
use object::ReadCache;
use std::collections::HashSet;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How far a survey is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Files looked at.
    pub done: u64,
    /// Files to look at.
    pub of: u64,
}

/// Everything about one file, with the source file of each initializer where debug data tell.
///
/// # Errors
/// It cannot be read ([`Exit::Machine`]), or is not an ELF file that makes sense ([`Exit::Data`]).
pub fn look(path: &Path) -> Result<FileReport> {
    let file = open(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))?;
    let cache = ReadCache::new(file);
    let bad = |miss: Miss| Error::on(Exit::Data, "cannot look into", path).because(miss);
    let image = Image::of(&cache).map_err(bad)?;
    let mut report = analyze(&image, Depth::Detail).map_err(bad)?;
    sources::add(&image, path, &mut report);
    Ok(report)
}

/// Looks at every ELF file at and below the paths; of a directory on its own file system only. Symbolic links are followed
/// where they are named in `paths`, not inside of directories. Ends early when [`os::interrupt`] says so.
pub fn survey(paths: &[PathBuf], progress: &(dyn Fn(Progress) + Sync)) -> Survey {
    let mut list = List::default();
    for path in paths {
        list.named(path);
    }
    let List { files, mut unreadable, mut skipped, .. } = list;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
    let work = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(path) = files.get(index)
            && !os::interrupt::requested()
        {
            let outcome = surveyed(path);
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((index, outcome));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { done: done as u64, of: files.len() as u64 });
        }
    };
    // Two at least: while one waits for the disk, another can work on what is cached.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 16));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Threads finish in any order; the answer does not show it.
    outcomes.sort_by_key(|(index, _)| *index);
    let mut found = Survey { interrupted: outcomes.len() < files.len(), ..Survey::default() };
    for (index, outcome) in outcomes {
        let path = files[index].clone();
        match outcome {
            Outcome::Elf(report) => found.files.push(Surveyed { path, report: *report }),
            Outcome::NotElf => skipped.not_elf += 1,
            Outcome::Unreadable(reason) => unreadable.push(Unreadable { path, reason }),
        }
    }
    (found.unreadable, found.skipped) = (unreadable, skipped);
    found
}

enum Outcome {
    Elf(Box<FileReport>),
    NotElf,
    Unreadable(String),
}

fn surveyed(path: &Path) -> Outcome {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) => return Outcome::Unreadable(error.to_string()),
    };
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) if magic == object::elf::ELFMAG => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Outcome::Unreadable(error.to_string()),
        _ => return Outcome::NotElf,
    }
    let cache = ReadCache::new(file);
    match Image::of(&cache).and_then(|image| analyze(&image, Depth::Survey)) {
        Ok(report) => Outcome::Elf(Box::new(report)),
        Err(miss) => Outcome::Unreadable(miss.to_string()),
    }
}

/// Opens a regular file. What became a pipe since it was listed must not make us wait.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()? {
        metadata if metadata.is_file() => Ok(file),
        metadata if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// Regular files to look at, each once.
#[derive(Default)]
struct List {
    files: Vec<PathBuf>,
    /// (device, inode) of files and directories.
    seen: HashSet<(u64, u64)>,
    unreadable: Vec<Unreadable>,
    skipped: Skipped,
}

impl List {
    /// A path that the user gave.
    fn named(&mut self, path: &Path) {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => self.directory(path.to_owned(), &metadata),
            Ok(metadata) => self.file(path.to_owned(), metadata.file_type(), (metadata.dev(), metadata.ino())),
            Err(error) => self.trouble(path, &error),
        }
    }

    fn trouble(&mut self, path: &Path, error: &io::Error) {
        self.unreadable.push(Unreadable { path: path.to_owned(), reason: error.to_string() });
    }

    fn file(&mut self, path: PathBuf, kind: FileType, key: (u64, u64)) {
        if kind.is_file() {
            match self.seen.insert(key) {
                true => self.files.push(path),
                false => self.skipped.hard_links += 1,
            }
        } else if kind.is_symlink() {
            self.skipped.symlinks += 1;
        } else {
            debug_assert!(kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device());
            self.skipped.special += 1;
        }
    }

    /// A directory and all below it, by name.
    fn directory(&mut self, path: PathBuf, metadata: &Metadata) {
        let dev = metadata.dev();
        let mut waiting = vec![(path, metadata.ino())];
        while let Some((path, ino)) = waiting.pop() {
            // A directory may be mounted into itself.
            if os::interrupt::requested() || !self.seen.insert((dev, ino)) {
                continue;
            }
            let entries = std::fs::read_dir(&path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            let mut entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    self.trouble(&path, &error);
                    continue;
                }
            };
            entries.sort_by_key(std::fs::DirEntry::file_name);
            let mut below = Vec::new();
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => match entry.metadata() {
                        Ok(metadata) if metadata.dev() == dev => below.push((entry.path(), metadata.ino())),
                        Ok(_) => self.skipped.mount_points += 1,
                        Err(error) => self.trouble(&entry.path(), &error),
                    },
                    Ok(kind) => self.file(entry.path(), kind, (dev, entry.ino())),
                    Err(error) => self.trouble(&entry.path(), &error),
                }
            }
            waiting.extend(below.into_iter().rev());
        }
    }
}
