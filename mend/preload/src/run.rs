//! Has the files of a manifest read, so that a program that starts next finds them in memory.
//!
//! Metadata first, since opening files needs it; then all files are opened in the order of their inodes, those that
//! changed are left out, those that are in memory already too; then the reads are asked for, and the program starts.
//!
//! Asking for everything before the program starts is best where the disk has an arm: what the program reads by itself
//! would move it. Elsewhere a request that no manifest knows (a file with a new name, a page that only this start
//! touches) would wait behind all of ours, and the program with it, whose work then comes after the reading instead of
//! beside it. So a process of its own asks for a window at a time, in the order of first use, as fast as the disk
//! delivers.

use crate::identity::{self, Stale};
use crate::manifest::{About, FileIndex, Kind, Manifest, Read};
use crate::memory::{Short, budget, is_stalled};
use crate::plan::Order;
use crate::uring::{self, Call};
use model::{Bytes, FileOffset, shown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

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

/// How much is asked for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Everything, before the program starts.
    All,
    /// So much, and no more than [`CALLS_AT_ONCE`] calls: the first before the program starts, the rest by a process of
    /// its own as the disk delivers, until the program ends.
    Of(Bytes),
}

/// More calls are not under way at once, however small they are: a disk of 200 requests a second has done as many in
/// 160 ms.
pub const CALLS_AT_ONCE: usize = 32;

/// What a program waits at most for our reads when it needs something that no manifest knows: 4 MiB take 130 ms from a
/// disk of 2010, and are enough to keep a fast one busy.
const USUAL: Bytes = Bytes(4 << 20);

impl Window {
    /// What is best in this order, with or without a program that starts beside the reading: nobody waits beside it, or
    /// everybody for one arm, or the program for its own reads.
    pub fn usual(order: Order, with_program: bool) -> Self {
        if with_program && order == Order::FirstUse { Self::Of(USUAL) } else { Self::All }
    }

    /// How many of these calls fit into it, one at least.
    fn fits(self, calls: &[Call]) -> usize {
        let Self::Of(Bytes(room)) = self else { return calls.len() };
        let mut sum = 0_u64;
        let beyond = |call: &Call| {
            sum = sum.saturating_add(call.2);
            sum > room
        };
        calls.iter().take(CALLS_AT_ONCE).position(beyond).unwrap_or(CALLS_AT_ONCE).max(1).min(calls.len())
    }
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaleFile {
    /// Where the file is, as the manifest names it.
    pub path: String,
    /// Why nothing of it is read.
    #[serde(flatten)]
    pub why: Stale,
}

/// What was found, and what was asked for.
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
    /// How many calls ask for these.
    pub calls: usize,
    /// Why not everything is asked for.
    pub short: Option<Short>,
}

impl Report {
    /// No file is as planned for: the manifest is of another machine, or of before an upgrade.
    pub fn nothing_fits(&self) -> bool {
        !self.stale.is_empty() && self.stale.len() + self.refused == self.files
    }

    /// What does not fit, and what to do.
    pub fn misfit(&self, about: &About, manifest: &Path) -> Option<(String, String)> {
        const AGAIN: &str = "record the start again, then `thaw preload make`";
        let stale = self.stale.len();
        if stale == 0 {
            return None;
        }
        if !self.nothing_fits() {
            let text = format!("{stale} of {} files {} not read", self.files, if stale == 1 { "is" } else { "are" });
            return Some((text, format!("`thaw preload status {}` says why; {AGAIN}", shown(manifest))));
        }
        let host = os::machine::host();
        let text = if about.host == host {
            "no file of it is as it was when the manifest was made: everything was upgraded?".to_owned()
        } else {
            format!("no file of it is as it was: the manifest was made on {}, this is {host}", about.host)
        };
        Some((text, AGAIN.to_owned()))
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
    window: Window,
    calls: Vec<Call>,
    /// The calls name files by number: they must stay open.
    opened: Opened<'a>,
}

/// Has metadata read, opens the files, and finds out what is not in memory. Never fails: what cannot be read is in the
/// report, and the program will read it itself.
pub fn prepare(manifest: &Manifest, engine: Engine, window: Window) -> Prepared<'_> {
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
    let calls = opened.calls(&data);
    report.count(&calls);
    Prepared { report, engine, window, calls, opened }
}

impl Prepared<'_> {
    /// Asks for the reads. Code of thaw that is not in memory yet would be read behind all of them: call nothing new
    /// after this.
    ///
    /// # Errors
    /// The engine does not work here, and another one took its place.
    pub fn ask(&mut self) -> io::Result<()> {
        let outcome = self.ask_all();
        // Nothing is dropped by the program that takes our place.
        self.opened.limit.give_back();
        outcome
    }

    fn ask_all(&self) -> io::Result<()> {
        // The code that comes after the last call is in memory after this.
        let _ = ask(&[], self.engine);
        let (first, rest) = self.calls.split_at(self.window.fits(&self.calls));
        ask(first, self.engine)?;
        if rest.is_empty() || detached(&self.calls, |program| self.follow(first.len(), program)) {
            return Ok(());
        }
        // Without a second process this one asks for the rest too.
        ask(rest, self.engine)
    }

    /// Asks for the calls from `asked` on, as earlier ones are done; ends with the program, or when others wait for
    /// memory.
    fn follow(&self, mut asked: usize, program: RawFd) {
        let mut done = 0;
        while asked < self.calls.len() && !has_ended(program) {
            // A look takes longer than most reads take from memory.
            if done % CALLS_AT_ONCE == 0 && is_stalled() {
                return;
            }
            wait_for(self.calls[done]);
            done += 1;
            let more = (done + self.window.fits(&self.calls[done..])).max(asked);
            let _ = ask(&self.calls[asked..more], self.engine);
            asked = more;
        }
    }
}

/// Returns when the last byte of a read is in memory: reading it waits for the read that is under way.
fn wait_for((fd, offset, len): Call) {
    let mut byte = 0_u8;
    // SAFETY: one byte is written to `byte`; the file is open as long as its `Opened` lives. A failure means there is
    // nothing to wait for.
    unsafe { libc::pread64(fd, (&raw mut byte).cast(), 1, (offset + len.saturating_sub(1)) as libc::off64_t) };
}

/// Whether the process of a pidfd has ended; without a pidfd nobody knows, and the reads are few.
fn has_ended(program: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: program, events: libc::POLLIN, revents: 0 };
    // SAFETY: one `pollfd` is read and written; it does not wait. A negative number in it is left out by the kernel.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
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
    if reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.len.0)) <= room.0 {
        return (reads, Vec::new());
    }
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
    limit: MoreFiles,
}

impl<'a> Opened<'a> {
    fn new(manifest: &'a Manifest) -> Self {
        let limit = MoreFiles::allow(manifest.files.len() as u64);
        Self { manifest, files: manifest.files.iter().map(|_| None).collect(), limit }
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
                Ok(opened) => {
                    // Where the kernel does not tell, asking for what is there costs little.
                    if os::cache::all_resident(&opened, &ranges).unwrap_or(false) {
                        report.resident += ranges.iter().map(|(_, len)| *len).sum();
                    } else {
                        *file = Some(opened);
                    }
                }
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

/// Runs `work` in a process that the program to come has nothing to do with: not its child, not in its session, with
/// none of its files but those of `calls`. It gets a pidfd of the program. `false`: there is no such process, and the
/// work is still to do.
fn detached(calls: &[Call], work: impl FnOnce(RawFd)) -> bool {
    let mut kept: Vec<RawFd> = calls.iter().map(|call| call.0).collect();
    // SAFETY: this process has one thread, so that its child may do whatever it might. The child ends by `_exit`, so
    // that nothing of the parent is run twice. The calls take numbers, or memory that lives here.
    unsafe {
        let program = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as RawFd;
        kept.push(program);
        kept.sort_unstable();
        kept.dedup();
        let child = libc::fork();
        if child == 0 {
            // The program must not find a child that it did not start: the child's child is init's.
            let grandchild = libc::fork();
            if grandchild == 0 {
                libc::setsid();
                let _ = libc::chdir(c"/".as_ptr());
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                for fd in 0..3 {
                    libc::dup2(null, fd);
                }
                // Whoever reads from a pipe waits until nobody has its other end.
                let mut next = 3;
                for fd in kept.into_iter().filter(|fd| *fd >= 3) {
                    if next < fd {
                        libc::syscall(libc::SYS_close_range, next, fd - 1, 0);
                    }
                    next = fd + 1;
                }
                libc::syscall(libc::SYS_close_range, next, libc::c_uint::MAX, 0);
                // A bug of ours must not come back from here: the program would be started twice.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(program)));
            }
            libc::_exit(i32::from(grandchild < 0));
        }
        if program >= 0 {
            libc::close(program);
        }
        let mut status = 0;
        while child > 0
            && libc::waitpid(child, &mut status, 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        child > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
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

    fn give_back(&mut self) {
        if let Some(before) = self.0.take() {
            // Lowering to what it was is always allowed.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

impl Drop for MoreFiles {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests;
