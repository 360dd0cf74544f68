//! Has the files of a manifest read, so that a program that starts next finds them in memory.
//!
//! Metadata first, since opening files needs it; then all files are opened in the order of their inodes, those that changed are left
//! out, those that are in memory already too; then everything is asked for before the program starts. That is faster than reading
//! beside the program, whose own requests would wait among ours.

use crate::identity::{self, Stale};
use crate::manifest::{FileIndex, Kind, Manifest, Read};
use crate::memory::{Short, budget};
use crate::uring::{self, Call};
use model::{Bytes, FileOffset};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The call that asks for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// `readahead(2)`
    ReadAhead,
    /// `posix_fadvise(2)` with WILLNEED.
    Fadvise,
    /// The same by io_uring.
    IoUring,
}

/// How much is asked for before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Everything.
    All,
    /// What is used first, up to this much; a process of its own asks for the rest.
    FirstPart(Bytes),
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaleFile {
    /// Its path.
    pub path: String,
    /// Why.
    #[serde(flatten)]
    pub why: Stale,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Files in the manifest.
    pub files: usize,
    /// Of those, left out.
    pub stale: Vec<StaleFile>,
    /// Devices that this user may not read, which is usual: their metadata is left out.
    pub refused: usize,
    /// Bytes in the manifest.
    pub bytes: Bytes,
    /// Bytes of files that were in memory as far as they are needed.
    pub resident: Bytes,
    /// Bytes that are asked for.
    pub asked: Bytes,
    /// Calls for them.
    pub calls: usize,
    /// Why not everything is asked for.
    pub short: Option<Short>,
}

impl Report {
    /// No file is as planned for: the manifest is of another machine, or of before an upgrade.
    pub fn nothing_fits(&self) -> bool {
        !self.stale.is_empty() && self.stale.len() + self.refused == self.files
    }

    fn count(&mut self, calls: &[Call]) {
        self.calls += calls.len();
        self.asked += Bytes(calls.iter().fold(0, |sum, call| sum.saturating_add(call.2)));
    }
}

/// Everything that can be done before the reads are asked for: what is in the way, and what is to be read.
pub struct Prepared<'a> {
    /// What was found, and what will be asked for.
    pub report: Report,
    engine: Engine,
    first: Vec<Call>,
    rest: Vec<Call>,
    /// The calls name files by number: they must stay open.
    _opened: Opened<'a>,
}

/// Has metadata read, opens the files, and finds out what is not in memory. Never fails: what cannot be read is in the report, and the
/// program will read it itself.
pub fn prepare(manifest: &Manifest, engine: Engine, when: When) -> Prepared<'_> {
    let bytes = manifest.bytes();
    let (room, short) = budget(bytes);
    let (reads, _) = first_ones(manifest.reads.clone(), room);
    let (metadata, data): (Vec<Read>, Vec<Read>) =
        reads.into_iter().partition(|read| manifest.file(read).kind == Kind::Device);
    let mut report = Report { files: manifest.files.len(), bytes, short, ..Report::default() };
    let mut opened = Opened::new(manifest);
    opened.open(|kind| kind == Kind::Device, &metadata, &mut report);
    let calls = opened.calls(&metadata);
    report.count(&calls);
    // Its error is seen again with the data.
    let _ = ask(&calls, engine);
    opened.open(|kind| kind != Kind::Device, &data, &mut report);
    let (first, rest) = match when {
        When::All => (data, Vec::new()),
        When::FirstPart(first) => first_ones(data, first),
    };
    let (first, rest) = (opened.calls(&first), opened.calls(&rest));
    report.count(&first);
    report.count(&rest);
    Prepared { report, engine, first, rest, _opened: opened }
}

impl Prepared<'_> {
    /// Asks for the reads. Code of thaw that is not in memory yet would be read behind all of them: call nothing new after this.
    ///
    /// # Errors
    /// The engine does not work here, and another one took its place.
    pub fn ask(&self) -> io::Result<()> {
        // The code that comes after the last call is in memory after this.
        let _ = ask(&[], self.engine);
        ask(&self.first, self.engine)?;
        if self.rest.is_empty() || detached(|| ask(&self.rest, self.engine)) {
            return Ok(());
        }
        // Without a second process the first one asks for the rest too.
        ask(&self.rest, self.engine)
    }
}

fn ask(calls: &[Call], engine: Engine) -> io::Result<()> {
    let outcome = match engine {
        Engine::ReadAhead => calls.iter().try_for_each(|call| read_ahead(*call)),
        Engine::Fadvise => calls.iter().try_for_each(|call| fadvise(*call)),
        Engine::IoUring => uring::ask(calls),
    };
    if outcome.is_err() {
        for call in calls {
            // One read that fails must not keep the others from being made.
            let _ = fadvise(*call);
        }
    }
    outcome
}

/// Which files are stale and how much is in memory, without reading anything.
pub fn look(manifest: &Manifest) -> Report {
    let mut report = Report { files: manifest.files.len(), bytes: manifest.bytes(), ..Report::default() };
    Opened::new(manifest).open(|_| true, &manifest.reads, &mut report);
    report
}

/// Splits reads into those that are used first and fit into so many bytes, and the others, both in their order.
fn first_ones(reads: Vec<Read>, room: Bytes) -> (Vec<Read>, Vec<Read>) {
    let mut by_rank: Vec<(u32, u64)> = reads.iter().map(|read| (read.rank, read.len.0)).collect();
    by_rank.sort_unstable();
    let mut sum = 0_u64;
    let cut = by_rank.iter().find_map(|(rank, len)| {
        sum = sum.saturating_add(*len);
        (sum > room.0).then_some(*rank)
    });
    match cut {
        Some(cut) => reads.into_iter().partition(|read| read.rank < cut),
        None => (reads, Vec::new()),
    }
}

/// Files that are open, fit, and are not in memory yet.
struct Opened<'a> {
    manifest: &'a Manifest,
    files: Vec<Option<File>>,
    _allowed: MoreFiles,
}

impl<'a> Opened<'a> {
    fn new(manifest: &'a Manifest) -> Self {
        let _allowed = MoreFiles::allow(manifest.files.len() as u64);
        Self { manifest, files: manifest.files.iter().map(|_| None).collect(), _allowed }
    }

    /// Opens the files of these kinds and closes those again that are in memory as far as `reads` goes.
    fn open(&mut self, wanted: impl Fn(Kind) -> bool, reads: &[Read], report: &mut Report) {
        let mut ranges: Vec<Vec<(FileOffset, Bytes)>> = vec![Vec::new(); self.files.len()];
        for read in reads {
            ranges[read.file.0 as usize].push((read.offset, read.len));
        }
        for ((entry, file), ranges) in self.manifest.files.iter().zip(&mut self.files).zip(ranges) {
            if !wanted(entry.kind) {
                continue;
            }
            match identity::open(entry) {
                Err(Stale::Forbidden) if entry.kind == Kind::Device => report.refused += 1,
                Err(why) => report.stale.push(StaleFile { path: entry.shown(), why }),
                Ok(opened) => match os::cache::residency_of(&opened, &ranges) {
                    Ok(residency) if residency.resident == residency.pages => {
                        report.resident += ranges.iter().map(|(_, len)| *len).sum();
                    }
                    // Where the kernel does not tell, asking for what is there costs little.
                    _ => *file = Some(opened),
                },
            }
        }
    }

    fn calls(&self, reads: &[Read]) -> Vec<Call> {
        let file = |index: FileIndex| self.files[index.0 as usize].as_ref();
        reads.iter().filter_map(|read| Some((file(read.file)?.as_raw_fd(), read.offset.0, read.len.0))).collect()
    }
}

fn read_ahead((fd, offset, len): Call) -> io::Result<()> {
    // SAFETY: takes numbers only; the file is open as long as its `Opened` lives.
    match unsafe { libc::readahead(fd, offset as libc::off64_t, len as usize) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn fadvise((fd, offset, len): Call) -> io::Result<()> {
    // SAFETY: as in `read_ahead`.
    match unsafe { libc::posix_fadvise64(fd, offset as libc::off64_t, len as libc::off64_t, libc::POSIX_FADV_WILLNEED) }
    {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Runs `work` in a process that the program to come has nothing to do with: not its child, not in its session, without its files.
/// `false`: there is no such process, and the work is still to do.
fn detached<T>(work: impl FnOnce() -> T) -> bool {
    // SAFETY: this process has one thread, so that its child may do whatever it might. The child ends by `_exit`, so that nothing
    // of the parent is run twice.
    unsafe {
        let child = libc::fork();
        if child < 0 {
            return false;
        }
        if child == 0 {
            // The program must not find a child that it did not start: the child's child is init's.
            let grandchild = libc::fork();
            if grandchild == 0 {
                libc::setsid();
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                for fd in 0..3 {
                    libc::dup2(null, fd);
                }
                work();
            }
            libc::_exit(i32::from(grandchild < 0));
        }
        let mut status = 0;
        while libc::waitpid(child, &mut status, 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Holds the limit on open files at what many files need; the program gets the old one.
struct MoreFiles(Option<Rlimit>);

impl MoreFiles {
    fn allow(files: u64) -> Self {
        /// For what is open already.
        const OTHERS: u64 = 64;
        let before = getrlimit(Resource::Nofile);
        if before.current.is_none_or(|current| current >= files.saturating_add(OTHERS)) {
            return Self(None);
        }
        let raised = Rlimit { current: before.maximum, ..before };
        Self(setrlimit(Resource::Nofile, raised).is_ok().then_some(before))
    }
}

impl Drop for MoreFiles {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // Lowering to what it was is always allowed.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

#[cfg(test)]
mod tests;
