//! Evicts files and directories, and says of each file that stayed why.
//!
//! Any user may ask the kernel to forget a file that he can read; what he may not always do is look whether
//! it worked. Such files are reported as [`Why::Unverified`], never as evicted and never as resident.

use super::change::evict;
use super::holders::{Mapper, Target, scan};
use super::look::{Residency, open_quietly, whole};
use super::walk::{Met, Seen, Trouble, Visitor, Walk, lock, visit};
use crate::block::mounts::{self, Backing, Mount, Mounts};
use model::{Bytes, PAGE, Warning, WarningKind};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Why a file, or a part of it, is still in the page cache, or why nobody can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Why {
    /// Processes have it mapped, so its pages stay.
    Mapped {
        /// Which ones; those that locked it come first, then by number.
        holders: Vec<Mapper>,
    },
    /// It is written to all the time, or its disk does not take the data.
    Dirty {
        /// How much is dirty or under writeback.
        bytes: Bytes,
    },
    /// It lives in memory only: there is no disk that it could be read from again.
    MemoryFileSystem {
        /// The name of the file system: `tmpfs`, `ramfs`.
        kind: String,
    },
    /// Evicted on request, but the kernel does not tell this user whether it worked.
    Unverified,
    /// This user may not open it.
    NoPermission,
    /// It was deleted meanwhile, or never existed.
    Vanished,
    /// It is not a regular file or a directory.
    NotAFile {
        /// `symbolic link`, `FIFO`, `socket`, `device`, `file of the kernel`
        kind: String,
    },
    /// Nobody that we can see maps it: the kernel uses it, or a process that we may not look into maps it.
    InUse {
        /// Processes whose mappings we may not read.
        unseen_processes: u64,
    },
    /// A system call failed.
    Failed {
        /// What the kernel answered, for people.
        error: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapped { holders } => {
                let shown: Vec<_> = holders.iter().take(3).map(ToString::to_string).collect();
                write!(out, "{}", shown.join(", "))?;
                match holders.len() {
                    0..=3 => Ok(()),
                    many => write!(out, " and {} more", many - 3),
                }
            }
            Self::Dirty { bytes } => write!(out, "{bytes} not yet written to disk"),
            Self::MemoryFileSystem { kind } => write!(out, "{kind}: lives in memory only"),
            Self::Unverified => {
                out.write_str("evicted on request, but only its owner or a writer may look whether it worked")
            }
            Self::NoPermission => out.write_str("no permission to open it"),
            Self::Vanished => out.write_str("no such file, or it was deleted meanwhile"),
            Self::NotAFile { kind } => write!(out, "{kind}, not a file"),
            Self::InUse { unseen_processes: 0 } => out.write_str("in use by the kernel"),
            Self::InUse { unseen_processes } => {
                write!(
                    out,
                    "in use by the kernel or by one of {unseen_processes} processes that this user may not look into"
                )
            }
            Self::Failed { error } => out.write_str(error),
        }
    }
}

/// A file that was not (provably) evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Which file kept pages, as it was met on the walk.
    pub path: PathBuf,
    /// What is still resident, if known.
    pub resident: Option<Bytes>,
    /// What keeps them in memory.
    pub why: Why,
}

/// What was passed over without being opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Symbolic links (not followed).
    pub symlinks: u64,
    /// FIFOs, sockets and device nodes.
    pub special: u64,
    /// Further names of files already seen.
    pub hard_links: u64,
    /// Directories on which another file system is mounted.
    pub mount_points: Vec<PathBuf>,
}

/// What [`flush`] evicted and what stayed, summed over all files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlushReport {
    /// Regular files looked at.
    pub files: u64,
    /// Resident before, of the files that we may look into.
    pub before: Bytes,
    /// Resident after, of the same files.
    pub after: Bytes,
    /// Files that stayed, wholly or in part, or of which nobody can tell, and paths that could not be
    /// dealt with; the largest first, then by path.
    pub kept: Vec<Kept>,
    /// What was passed over.
    pub skipped: Skipped,
    /// Things worth saying about whole file systems.
    pub warnings: Vec<Warning>,
    /// The walk was interrupted: not everything was evicted.
    pub interrupted: bool,
}

impl FlushReport {
    /// Bytes that left the cache.
    pub fn evicted(&self) -> Bytes {
        self.before - self.after
    }
}

/// Evicts the files at and below the paths, staying on the file system of each path. Symbolic links are not
/// followed.
pub fn flush(paths: &[PathBuf]) -> FlushReport {
    flush_with(paths, &Walk::default())
}

/// [`flush`], on the file systems that `walk` names; it counts the files that are visited.
pub fn flush_with(paths: &[PathBuf], walk: &Walk) -> FlushReport {
    let _span = tracing::info_span!("flush").entered();
    let flusher = Flusher::default();
    let interrupted = visit(paths, walk, &flusher);
    let mut work = flusher.work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.stubborn.retain_mut(|file| stays(&mut work.report, file));
    explain(&mut work.report, &work.stubborn);
    work.report.warnings = about_file_systems(&work.by_backing);
    work.report.interrupted = interrupted;
    work.report.kept.sort_by(|left, right| {
        let size = |kept: &Kept| std::cmp::Reverse(kept.resident.unwrap_or_default());
        size(left).cmp(&size(right)).then_with(|| left.path.cmp(&right.path))
    });
    work.report.skipped.mount_points.sort();
    work.report
}

/// A file that did not go, or of which we are not told whether it went.
struct Stubborn {
    path: PathBuf,
    dev: u64,
    ino: u64,
    size: u64,
    backing: Backing,
    /// After the last attempt; `None`: not told.
    after: Option<Residency>,
}

impl Stubborn {
    fn new(seen: &Seen, after: Option<Residency>) -> Self {
        let stat = &seen.stat;
        Self { path: seen.path(), dev: stat.st_dev, ino: stat.st_ino, size: seen.size(), backing: seen.backing, after }
    }

    fn target(&self) -> Target<'_> {
        Target { path: &self.path, dev: self.dev, ino: self.ino, backing: self.backing }
    }
}

#[derive(Default)]
struct Work {
    report: FlushReport,
    stubborn: Vec<Stubborn>,
    /// Files of file systems about which something has to be said; with one file as the example.
    by_backing: BTreeMap<&'static str, (Backing, PathBuf, u64)>,
}

#[derive(Default)]
struct Flusher {
    work: Mutex<Work>,
}

impl Visitor for Flusher {
    fn file(&self, seen: &Seen) {
        let result = attempt(seen);
        let mut work = lock(&self.work);
        work.report.files += 1;
        if matches!(seen.backing, Backing::Memory | Backing::Remote) {
            let word = if seen.backing == Backing::Memory { "memory" } else { "remote" };
            work.by_backing.entry(word).or_insert_with(|| (seen.backing, seen.path(), 0)).2 += 1;
        }
        match result {
            Ok(Some((before, after))) => {
                work.report.before += before.resident_bytes();
                work.report.after += after.resident_bytes();
                match after.resident {
                    0 => {}
                    _ if seen.backing == Backing::Memory => work.report.kept.push(Kept {
                        path: seen.path(),
                        resident: Some(after.resident_bytes()),
                        why: Why::MemoryFileSystem { kind: memory_kind(seen) },
                    }),
                    _ => work.stubborn.push(Stubborn::new(seen, Some(after))),
                }
            }
            Ok(None) if seen.size() == 0 => {}
            Ok(None) => work.stubborn.push(Stubborn::new(seen, None)),
            Err(error) => {
                work.report.kept.push(Kept { path: seen.path(), resident: None, why: failed(&error) });
            }
        }
    }

    fn trouble(&self, path: PathBuf, trouble: Trouble) {
        let mut work = lock(&self.work);
        let skipped = &mut work.report.skipped;
        let why = match trouble {
            Trouble::HardLink => return skipped.hard_links += 1,
            Trouble::MountPoint => return skipped.mount_points.push(path),
            // It was a file or directory when it was listed and a link when it was opened.
            Trouble::Error(Errno::LOOP) => return skipped.symlinks += 1,
            Trouble::Special(FileType::Symlink, Met::Entry) => return skipped.symlinks += 1,
            Trouble::Special(_, Met::Entry) => return skipped.special += 1,
            Trouble::Special(kind, Met::Named) => Why::NotAFile { kind: name_of(kind).to_owned() },
            Trouble::Kernel => Why::NotAFile { kind: "file of the kernel".to_owned() },
            Trouble::Error(error) => failed(&error.into()),
        };
        work.report.kept.push(Kept { path, resident: None, why });
    }
}

/// Evicts a file; residency before and after, or `None` where we are not told.
fn attempt(seen: &Seen) -> io::Result<Option<(Residency, Residency)>> {
    let before = whole(&seen.file, seen.size())?;
    if let Some(before) = before
        && (before.resident == 0 || seen.backing == Backing::Memory)
    {
        return Ok(Some((before, before)));
    }
    evict(&seen.file)?;
    Ok(before.zip(whole(&seen.file, seen.size())?))
}

/// Tries a file once more, now that everything else has gone. `true`: it still stays, or nobody can tell.
fn stays(report: &mut FlushReport, file: &mut Stubborn) -> bool {
    let Some(before) = file.after else { return true };
    report.after = report.after - before.resident_bytes();
    match again(file) {
        Ok(after) => {
            report.after += after.resident_bytes();
            file.after = Some(after);
            after.resident > 0
        }
        Err(error) => {
            report.kept.push(Kept { path: file.path.clone(), resident: None, why: failed(&error) });
            false
        }
    }
}

fn again(file: &Stubborn) -> io::Result<Residency> {
    let open = open_quietly(&file.path)?;
    evict(&open)?;
    whole(&open, file.size)?.ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

/// Finds out why the rest stays.
fn explain(report: &mut FlushReport, stubborn: &[Stubborn]) {
    if stubborn.is_empty() {
        return;
    }
    let targets: Vec<Target> = stubborn.iter().map(Stubborn::target).collect();
    let (mut holders, unseen_processes) = scan(&targets);
    for file in stubborn {
        let why = match (holders.remove(file.path.as_path()), file.after) {
            (Some(mut holders), _) => {
                holders.sort_by_key(|holder| (std::cmp::Reverse(holder.how), holder.pid));
                Why::Mapped { holders }
            }
            (None, None) => Why::Unverified,
            (None, Some(after)) if after.dirty > 0 => Why::Dirty { bytes: Bytes(after.dirty * PAGE) },
            (None, Some(_)) => Why::InUse { unseen_processes },
        };
        report.kept.push(Kept {
            path: file.path.clone(),
            resident: file.after.map(|after| after.resident_bytes()),
            why,
        });
    }
}

fn failed(error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::NotFound => Why::Vanished,
        io::ErrorKind::PermissionDenied => Why::NoPermission,
        _ => Why::Failed { error: error.to_string() },
    }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "special file",
    }
}

fn memory_kind(seen: &Seen) -> String {
    let magic = rustix::fs::fstatfs(&seen.file).map_or(0, |found| found.f_type as u64);
    mounts::name_of_magic(magic).to_owned()
}

/// What has to be said once, not once per file.
fn about_file_systems(by_backing: &BTreeMap<&'static str, (Backing, PathBuf, u64)>) -> Vec<Warning> {
    let mounts = if by_backing.is_empty() { Mounts::default() } else { Mounts::load().unwrap_or_default() };
    let mut warnings = Vec::new();
    for (backing, example, files) in by_backing.values() {
        let mount = mounts.of_path(example);
        let kind = mount.map_or("a file system", |mount: &Mount| mount.fstype.as_str());
        let example = model::shown(example);
        warnings.push(if *backing == Backing::Memory {
            let text =
                format!("{files} files live in memory only ({kind}, for example '{example}') and cannot be evicted");
            Warning::new(WarningKind::StaysResident, text).hint("put the program and its profile on a disk")
        } else {
            let text = format!(
                "{files} files come from a server or another process ({kind}, for example '{example}'): \
                 only this machine's copy was evicted, the other side keeps its own"
            );
            Warning::new(WarningKind::Note, text)
        });
    }
    warnings
}
