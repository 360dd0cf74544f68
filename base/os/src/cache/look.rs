//! Which pages of a file are in the page cache.
//!
//! The kernel has three answers, and each lies somewhere:
//!
//! - `cachestat(2)` refuses files that we neither own nor may write (since 6.13); on overlayfs it always says 0: the
//!   pages belong to the file below.
//! - `mincore(2)` says "all" for files that we neither own nor may write (since 5.2).
//! - `preadv2(RWF_NOWAIT)` of a byte per page starts a read of each absent page; on a disk that answers at once (zram,
//!   pmem) the byte is even there; holes are read as zeros without any disk.
//!
//! So a call is used only where it tells the truth, and where none does, the answer is an error.

use crate::block::mounts::Backing;
use model::{Bytes, FileOffset, PAGE};
use rustix::fs::{Advice, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Pages of a range of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Pages that the range covers.
    pub pages: u64,
    /// Of those, in the page cache.
    pub resident: u64,
    /// Of those, not yet on disk: dirty or under writeback. Always 0 where the kernel does not tell
    /// (overlayfs, kernels before 6.5).
    pub dirty: u64,
}

impl Residency {
    /// Resident share, 0..=1; 1 for an empty range, of which nothing is missing.
    pub fn share(&self) -> f64 {
        if self.pages == 0 { 1.0 } else { self.resident as f64 / self.pages as f64 }
    }

    /// Resident bytes, in whole pages.
    pub fn resident_bytes(&self) -> Bytes {
        Bytes(self.resident * PAGE)
    }
}

/// How a page map was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// `mincore(2)` on a mapping; changes nothing.
    Mincore,
    /// `preadv2(RWF_NOWAIT)`: the absent pages are now being read because of the question.
    Probe,
}

/// Resident ranges of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMap {
    /// Page-aligned, sorted, disjoint, not adjacent.
    pub ranges: Vec<(FileOffset, Bytes)>,
    /// How it was made.
    pub method: Method,
}

impl PageMap {
    /// Bytes in all ranges (whole pages).
    pub fn bytes(&self) -> Bytes {
        self.ranges.iter().map(|(_, len)| *len).sum()
    }

    /// `true`: making this map brought the rest of the file into the cache, so a second map would say "all".
    pub fn destructive(&self) -> bool {
        self.method == Method::Probe
    }
}

/// Opens a file in order to look at its pages: read-only, never waiting, never following a symbolic link
/// (`ELOOP`), and without leaving an access time where that is allowed.
pub fn open_quietly(path: &Path) -> io::Result<File> {
    Ok(open_at(rustix::fs::CWD, path)?)
}

/// [`open_quietly`] relative to a directory.
pub(super) fn open_at(directory: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    // O_NOATIME is refused with EPERM on files of others.
    match rustix::fs::openat(&directory, name, flags | OFlags::NOATIME, rustix::fs::Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(&directory, name, flags, rustix::fs::Mode::empty()).map(File::from),
        opened => opened.map(File::from),
    }
}

/// The same file through an open file description of our own, so that advice given to it and its position
/// are nobody else's.
fn reopen(file: &File) -> io::Result<File> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(match rustix::fs::open(link.as_str(), flags | OFlags::NOATIME, rustix::fs::Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(link.as_str(), flags, rustix::fs::Mode::empty())?.into(),
        opened => opened?.into(),
    })
}

/// Residency of a range; the range may end beyond the file, but then counts pages that cannot be resident.
/// Pages that are being read this moment count as resident. Works on block devices too (the file system's
/// metadata).
///
/// `PermissionDenied`: we neither own the file nor may write it, and the kernel does not tell others;
/// [`probe`] may still do. The answer is never a guess.
pub fn residency(file: &File, offset: FileOffset, len: Bytes) -> io::Result<Residency> {
    residency_of(file, &[(offset, len)])
}

/// Sum of [`residency`] over ranges that do not overlap.
pub fn residency_of(file: &File, ranges: &[(FileOffset, Bytes)]) -> io::Result<Residency> {
    let stacked = is_stacked(file);
    let mut sum = Residency::default();
    for (offset, len) in ranges.iter().filter(|(_, len)| len.0 > 0) {
        let end = offset.0.checked_add(len.0).ok_or(io::ErrorKind::InvalidInput)?;
        let counts = if stacked { Err(Errno::OPNOTSUPP) } else { cachestat(file, offset.0, Some(len.0)) };
        match counts {
            Ok(counts) => {
                sum.resident += counts.cached;
                sum.dirty += (counts.dirty + counts.writeback).min(counts.cached);
            }
            // A sandbox may refuse the unknown call to everybody; mincore is then still true for owners.
            Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {
                mincore(file, offset.0 / PAGE * PAGE, end, |_, run| sum.resident += run / PAGE)?;
            }
            Err(error) => return Err(error.into()),
        }
        sum.pages += end.div_ceil(PAGE) - offset.0 / PAGE;
    }
    Ok(sum)
}

/// Whether every page of these ranges is resident, with the rules of [`residency`]; asks only until one is missing.
///
/// One question for a whole file would cost more: `cachestat` walks 18 pages in the time of a call, and `mincore` two.
pub fn all_resident(file: &File, ranges: &[(FileOffset, Bytes)]) -> io::Result<bool> {
    for (asked, (offset, len)) in ranges.iter().enumerate().filter(|(_, (_, len))| len.0 > 0) {
        let pages = offset.0.saturating_add(len.0).div_ceil(PAGE) - offset.0 / PAGE;
        match cachestat(file, offset.0, Some(len.0)) {
            Ok(counts) if counts.cached == pages => {}
            // Of a file on another one nothing is counted.
            Ok(counts) if counts.cached > 0 || !is_stacked(file) => return Ok(false),
            Ok(_) | Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {
                let rest = residency_of(file, &ranges[asked..])?;
                return Ok(rest.resident == rest.pages);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Page-exact map of the first `len` bytes: by mincore where the kernel answers us truly, else by [`probe`].
/// [`PageMap::destructive`] tells which.
pub fn resident_pages(file: &File, len: Bytes) -> io::Result<PageMap> {
    let mut ranges = Ranges::default();
    match mincore(file, 0, len.0, |start, run| ranges.push(start, run)) {
        Ok(()) => Ok(PageMap { ranges: ranges.0, method: Method::Mincore }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(PageMap { ranges: probe(file, len)?, method: Method::Probe })
        }
        Err(error) => Err(error),
    }
}

/// Page-exact map of the first `len` bytes for users without any right but to read the file.
///
/// Destructive: each absent page is being read from disk afterwards, so ask once, after the run.
/// Holes count as absent: no disk is needed for them. `Unsupported`: tmpfs, overlayfs and other
/// file systems without `RWF_NOWAIT`.
pub fn probe(file: &File, len: Bytes) -> io::Result<Vec<(FileOffset, Bytes)>> {
    let own = reopen(file)?;
    // Advised so, the kernel reads the one page that was asked for, and nothing around it.
    rustix::fs::fadvise(&own, 0, None, Advice::Random)?;
    let mut pages = Vec::new();
    for (start, end) in data_ranges(&own, len.0)?.into_iter().rev() {
        // Backwards: a page that carries the read-ahead mark makes the kernel read the pages *after* it.
        for page in (start / PAGE..end.div_ceil(PAGE)).rev() {
            if is_present(&own, page * PAGE)? {
                pages.push(page);
            }
        }
    }
    let mut ranges = Ranges::default();
    pages.into_iter().rev().for_each(|page| ranges.push(page * PAGE, PAGE));
    Ok(ranges.0)
}

/// Whether the page at `offset` was in the cache before this call.
fn is_present(file: &File, offset: u64) -> io::Result<bool> {
    let before = read_by_this_thread();
    let mut byte = [0];
    loop {
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
            // A disk that answers at once: the page is there, but only because we asked. (More than a page is
            // read when the page was there and carried the read-ahead mark.)
            Ok(1) => return Ok(!matches!(read_by_this_thread() - before, 1..=PAGE)),
            Ok(_) | Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Bytes that this thread ever asked block devices for (zero on kernels without I/O accounting).
fn read_by_this_thread() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage`; all-zero is a valid value of it should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_inblock as u64 * 512
}

/// Ranges of the first `len` bytes that are not holes. Moves the file's position.
fn data_ranges(file: &File, len: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < len => start,
            Ok(_) | Err(Errno::NXIO) => break,
            // A file system that knows no holes has none.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).map_or(len, |end| end.min(len));
        ranges.push((start, end));
        at = end.max(start + 1);
    }
    Ok(ranges)
}

/// The kernel's answer to `cachestat`, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// `cachestat(2)`; `None`: to the end of the file.
fn cachestat(file: &File, offset: u64, len: Option<u64>) -> Result<Counts, Errno> {
    /// Same number on every architecture; newer than the C library's tables.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [offset, len.unwrap_or(0)];
    let mut counts = Counts::default();
    // SAFETY: the kernel reads two u64 from `range` and writes the five u64 of `counts`; both live through the call.
    let answer =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), &mut counts as *mut Counts, 0u32) };
    if answer == 0 {
        Ok(counts)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
    }
}

/// Whether any page is dirty or under writeback; `None`: we are not told.
pub(super) fn is_dirty(file: &File) -> Option<bool> {
    match cachestat(file, 0, None) {
        Ok(counts) if !is_stacked(file) => Some(counts.dirty + counts.writeback > 0),
        _ => None,
    }
}

/// Residency of a whole file of this size, as [`residency`]; `None`: we are not told.
pub(super) fn whole(file: &File, size: u64) -> io::Result<Option<Residency>> {
    match residency(file, FileOffset(0), Bytes(size)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the file's pages belong to another file below it, which `cachestat` does not see.
pub(super) fn is_stacked(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| Backing::of_magic(found.f_type as u64) == Backing::Stacked)
}

/// Calls `found(start, len)` for each resident run of pages in `start..end` (`start` page-aligned).
/// `PermissionDenied`: the kernel would say "all" to us, whatever is true.
fn mincore(file: &File, start: u64, end: u64, mut found: impl FnMut(u64, u64)) -> io::Result<()> {
    /// Keeps the answer of one call at 256 KiB.
    const WINDOW: u64 = 1 << 30;
    if !mincore_is_true(file) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut present = vec![0u8; (end.saturating_sub(start).min(WINDOW)).div_ceil(PAGE) as usize];
    let mut at = start;
    while at < end {
        let len = (end - at).min(WINDOW);
        let present = &mut present[..len.div_ceil(PAGE) as usize];
        mincore_window(file, at, len, present)?;
        let mut page = 0;
        for run in present.chunk_by(|left, right| left & 1 == right & 1) {
            if run[0] & 1 == 1 {
                found(at + page * PAGE, run.len() as u64 * PAGE);
            }
            page += run.len() as u64;
        }
        at += len;
    }
    Ok(())
}

/// One `mincore(2)` of `len` bytes from the page-aligned `start`; one byte per page in `present`.
fn mincore_window(file: &File, start: u64, len: u64, present: &mut [u8]) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let len = len as usize;
    assert!(present.len() >= len.div_ceil(PAGE as usize));
    // SAFETY: a new mapping at an address of the kernel's choice, of which no byte is ever read or written;
    // `present` holds a byte for each of its pages; it is unmapped before anybody else learns of it.
    unsafe {
        let address = mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, start)?;
        let answer = match libc::mincore(address, len, present.as_mut_ptr()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        munmap(address, len)?;
        answer
    }
}

/// Whether the kernel answers `mincore` truly for this file (rule of `can_do_mincore` in mm/mincore.c): to its
/// owner, to holders of CAP_FOWNER, and to those who may write it.
fn mincore_is_true(file: &File) -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    let owner = rustix::fs::fstat(file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    if owner || capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::FOWNER)) {
        return true;
    }
    // On overlayfs the mode bits say nothing about the file below, whose rights count.
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let write = rustix::fs::Access::WRITE_OK;
    !is_stacked(file)
        && rustix::fs::accessat(rustix::fs::CWD, link.as_str(), write, rustix::fs::AtFlags::EACCESS).is_ok()
}

/// Collects pages into ranges; they must come in rising order.
#[derive(Default)]
struct Ranges(Vec<(FileOffset, Bytes)>);

impl Ranges {
    fn push(&mut self, start: u64, len: u64) {
        match self.0.last_mut() {
            Some((offset, before)) if offset.0 + before.0 == start => before.0 += len,
            _ => self.0.push((FileOffset(start), Bytes(len))),
        }
    }
}

/// `posix_fadvise(POSIX_FADV_DONTNEED)` of the whole file.
pub(super) fn not_needed(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None::<NonZeroU64>, Advice::DontNeed)?)
}
