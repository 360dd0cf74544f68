//! Reads files: one in detail, or every ELF file below some directories, with several threads.
//!
//! A file is read piece by piece, not mapped: one that is cut off meanwhile (a linker at work) costs an error for this
//! file and not the program, and nothing comes into memory that is not needed.

use crate::report::{FileReport, LeftOut, Skipped, Survey, Surveyed, Unreadable};
use crate::{Depth, analyze, sources};
use elf::{Image, Miss};
use model::{Error, Exit, Result};
use object::ReadCache;
use os::file::open_regular;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
    let file = open_regular(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))?;
    let cache = ReadCache::new(file);
    let bad = |miss: Miss| Error::on(Exit::Data, "cannot look into", path).because(miss);
    let image = Image::of(&cache).map_err(bad)?;
    let mut report = analyze(&image, Depth::Detail).map_err(bad)?;
    sources::add(&image, path, &mut report);
    Ok(report)
}

/// Looks at every ELF file at and below the paths; of a directory on its own file system only. Symbolic links are
/// followed where they are named in `paths`, not inside of directories. Ends early when [`os::interrupt`] says so.
pub fn survey(paths: &[PathBuf], progress: &(dyn Fn(Progress) + Sync)) -> Survey {
    let look = |file| {
        let cache = ReadCache::new(file);
        Image::of(&cache).and_then(|image| analyze(&image, Depth::Survey))
    };
    let (looked, mut left_out) = each(paths, progress, look);
    let mut files = Vec::new();
    for (path, outcome) in looked {
        match outcome {
            Ok(report) => files.push(Surveyed { path, report }),
            Err(miss) => left_out.unreadable.push(Unreadable { path, reason: miss.to_string() }),
        }
    }
    Survey { files, left_out }
}

/// Names every ELF file at and below the paths, as [`survey`] finds them, and looks into none.
pub fn list(paths: &[PathBuf]) -> (Vec<PathBuf>, LeftOut) {
    let (files, left_out) = each(paths, &|_| {}, |_| ());
    (files.into_iter().map(|(path, ())| path).collect(), left_out)
}

/// Opens every file at and below the paths, with several threads, and hands the ELF files to `work`. What it returns is
/// in the order of the paths.
fn each<T: Send>(
    paths: &[PathBuf],
    progress: &(dyn Fn(Progress) + Sync),
    work: impl Fn(File) -> T + Sync,
) -> (Vec<(PathBuf, T)>, LeftOut) {
    let walked = os::walk::files(paths);
    let unreadable = |(path, error): (PathBuf, io::Error)| Unreadable { path, reason: error.to_string() };
    let mut left_out = LeftOut {
        unreadable: walked.unreadable.into_iter().map(unreadable).collect(),
        skipped: Skipped {
            not_elf: 0,
            symlinks: walked.symlinks,
            hard_links: walked.hard_links,
            special: walked.special,
            mount_points: walked.mount_points,
        },
        interrupted: false,
    };
    let (done, of) = (AtomicU64::new(0), walked.files.len() as u64);
    let worked = walked.files.into_par_iter().map(|path| {
        if os::interrupt::requested() {
            return (path, Outcome::NotLookedAt);
        }
        let outcome = match open_regular(&path).and_then(|file| Ok(is_elf(&file)?.then_some(file))) {
            Ok(Some(file)) => Outcome::Elf(work(file)),
            Ok(None) => Outcome::NotElf,
            Err(error) => Outcome::Unreadable(error.to_string()),
        };
        progress(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, of });
        (path, outcome)
    });
    let mut elf_files = Vec::new();
    for (path, outcome) in os::threads::with_threads(|| worked.collect::<Vec<_>>()) {
        match outcome {
            Outcome::Elf(value) => elf_files.push((path, value)),
            Outcome::NotElf => left_out.skipped.not_elf += 1,
            Outcome::Unreadable(reason) => left_out.unreadable.push(Unreadable { path, reason }),
            Outcome::NotLookedAt => {}
        }
    }
    // Also the listing ends early.
    left_out.interrupted = os::interrupt::requested();
    (elf_files, left_out)
}

enum Outcome<T> {
    Elf(T),
    NotElf,
    Unreadable(String),
    NotLookedAt,
}

fn is_elf(file: &File) -> io::Result<bool> {
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) => Ok(magic == object::elf::ELFMAG),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
