//! What an engine saw, before anything is interpreted: inode numbers instead of paths, pages
//! instead of causes. Times are nanoseconds since just before exec.

use model::{Bytes, DiskOffset, Nanos, TraceInfo};
use std::path::PathBuf;

/// A file as the kernel numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Device of the file system, packed by `makedev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// Pages of a file, in page numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First page.
    pub first: u64,
    /// How many, at least one.
    pub pages: u64,
}

impl Span {
    /// `first` up to and including `last`.
    pub fn to_last(first: u64, last: u64) -> Self {
        Self { first, pages: last.saturating_sub(first).saturating_add(1) }
    }
    /// One behind the last page.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.pages)
    }
    /// Whether both share a page.
    pub fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }
}

/// Pages that came into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFill {
    /// When.
    pub at: Nanos,
    /// Process in whose context it happened.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub inode: Inode,
    /// Which pages; more than one for a large folio.
    pub span: Span,
}

/// A `read`-like call that got pages from the cache. The kernel says so after they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRead {
    /// When.
    pub at: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub inode: Inode,
    /// The pages that were asked for.
    pub span: Span,
}

/// A page fault. The kernel says so before it looks for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFault {
    /// When.
    pub at: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub inode: Inode,
    /// The page, or the range that was mapped around it.
    pub span: Span,
    /// `true`: pages that were in the cache were mapped around the one that was touched;
    /// `false`: exactly this page was asked for.
    pub around: bool,
}

/// A request to a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// When it was issued.
    pub start: Nanos,
    /// When it was done, if that was seen.
    pub done: Option<Nanos>,
    /// In whose context it was made, if that was a process of the tree.
    pub pid: Option<u32>,
    /// Thread in whose context it was made.
    pub tid: u32,
    /// Name of that thread.
    pub comm: String,
    /// The whole disk, packed by `makedev`.
    pub dev: u64,
    /// Where on it.
    pub disk: DiskOffset,
    /// How much.
    pub len: Bytes,
    /// The kernel's flags: `R`, `RA`, `RM`, `WS`, `FWFS`.
    pub flags: String,
}

impl RawBlock {
    /// Whether it reads. The flags begin with `F` where the device's cache is flushed first, then the
    /// operation follows.
    pub fn is_read(&self) -> bool {
        self.flags.starts_with('R') || self.flags.starts_with("FR")
    }
    /// Whether the file system marked it as metadata.
    pub fn is_metadata(&self) -> bool {
        self.flags.contains('M')
    }
}

/// A stacked device (LVM, dm-crypt, RAID) passed a range on to a device below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRemap {
    /// When.
    pub at: Nanos,
    /// The device below.
    pub dev: u64,
    /// Where on the device below.
    pub disk: DiskOffset,
    /// How much.
    pub len: Bytes,
    /// The device above.
    pub old_dev: u64,
    /// Where on the device above.
    pub old_disk: DiskOffset,
}

/// A file mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMmap {
    /// When.
    pub at: Nanos,
    /// Process.
    pub pid: u32,
    /// Of which file.
    pub inode: Inode,
    /// Its name at that time.
    pub path: PathBuf,
    /// From which byte of the file.
    pub offset: u64,
    /// How many bytes.
    pub len: Bytes,
    /// Whether it is executable.
    pub exec: bool,
}

/// An fsync or fdatasync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSync {
    /// When.
    pub at: Nanos,
    /// When it returned, if that was seen.
    pub done: Option<Nanos>,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file, if the file system tells.
    pub inode: Option<Inode>,
}

/// A read or write past the page cache, as the file system begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDirect {
    /// When.
    pub at: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub inode: Inode,
    /// From which byte.
    pub offset: u64,
    /// How much is asked for.
    pub len: Bytes,
    /// Whether it writes.
    pub write: bool,
}

/// A thread of the tree was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawWake {
    /// When.
    pub at: Nanos,
    /// Process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that woke it; `None`: an interrupt did.
    pub by: Option<u32>,
}

/// A process of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawProcess {
    /// Its number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Last name it had.
    pub comm: String,
    /// What it executed last, if seen.
    pub exe: Option<PathBuf>,
    /// When it began.
    pub start: Nanos,
    /// When it ended, if it did.
    pub end: Option<Nanos>,
}

/// A file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawOpen {
    /// Its number, if known.
    pub inode: Option<Inode>,
    /// Its name at that time, if known.
    pub path: Option<PathBuf>,
    /// How often, at least.
    pub count: u64,
}

/// Which kinds of events an engine can see at all: an empty list means nothing if it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sees {
    /// Reads and faults, so that causes can be told.
    pub asks: bool,
    /// Block requests.
    pub blocks: bool,
}

impl Default for Sees {
    fn default() -> Self {
        Self { asks: true, blocks: true }
    }
}

/// Everything that an engine saw of one run. Each list is sorted by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawTrace {
    /// How it was taken.
    pub info: TraceInfo,
    /// What it could see.
    pub sees: Sees,
    /// The moment just before exec, CLOCK_MONOTONIC; all times count from it.
    pub t0_monotonic_ns: u64,
    /// Page-cache fills of the process tree.
    pub fills: Vec<RawFill>,
    /// `read`-path ranges of the process tree.
    pub reads: Vec<RawRead>,
    /// Faults of the process tree.
    pub faults: Vec<RawFault>,
    /// Block requests of the whole machine.
    pub blocks: Vec<RawBlock>,
    /// Ranges that stacked devices passed on, of the whole machine.
    pub remaps: Vec<RawRemap>,
    /// Processes of the tree.
    pub processes: Vec<RawProcess>,
    /// Mappings of the process tree.
    pub mmaps: Vec<RawMmap>,
    /// Opened files of the process tree.
    pub opens: Vec<RawOpen>,
    /// fsyncs of the process tree.
    pub syncs: Vec<RawSync>,
    /// Reads and writes past the page cache of the process tree.
    pub direct: Vec<RawDirect>,
    /// Wake-ups of threads of the process tree, if they were asked for.
    pub wakes: Vec<RawWake>,
    /// Names of files as the engine came to know them; of several for one file, the last counts.
    pub names: Vec<(Inode, PathBuf)>,
}
