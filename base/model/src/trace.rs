//! What a trace says, attributed: the rows of the recording's trace tables.
//!
//! Times are nanoseconds since just before exec of the traced run. Events before it do not exist.

use crate::{Bytes, DiskOffset, FileId, FileOffset, Nanos, TouchRow, WatchedRow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who a file belongs to; decides what the `boot` and `app` states keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The program under test: its directories, its profile.
    App,
    /// The system: other programs use it too.
    System,
}

/// How it is known whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum OwnerRule {
    /// It is the program's file.
    Program,
    /// The program's arguments name it, or a directory above it.
    Argument,
    /// `--own` names a directory above it.
    Option,
    /// The preset of the program names a directory above it.
    Preset,
    /// It lies in a directory that is put back before each run.
    Restored,
    /// The package database knows its package.
    Package,
    /// It lies below the directory of an executable that ran, and no package lists it.
    Directory,
    /// It lies in the user's home.
    Home,
    /// It lies in a directory for temporary files.
    Temporary,
    /// It is the file system's metadata: everybody's.
    Metadata,
    /// No rule says that it is the program's.
    Other,
    /// Its name is not known.
    Unknown,
}

/// How it is known whose a file of a trace is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRow {
    /// Which file.
    pub file: FileId,
    /// By which rule.
    pub rule: OwnerRule,
    /// The package or the directory that the rule found.
    pub what: Option<String>,
    /// Why that package is the program's: `built from emacs, as emacs-nox is`.
    pub because: Option<String>,
}

/// A file that other processes mapped while a start was traced: its pages may have been in memory already, so what the
/// start needs of it cannot be known from what came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRow {
    /// Which file.
    pub file: FileId,
    /// How many other processes mapped it.
    pub processes: u32,
    /// One of them: `libc.so.6` is mapped by `1 systemd`.
    pub example: String,
}

/// A read or write that went past the page cache (`O_DIRECT`), as the file system began it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectRow {
    /// When.
    pub at_ns: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub file: FileId,
    /// From where.
    pub offset: FileOffset,
    /// How much was asked for.
    pub len: Bytes,
    /// `true`: a write.
    pub write: bool,
}

/// A file system that files of a trace are on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemRow {
    /// Its device number, packed by `makedev`: [`FileRow::dev`] of its files.
    pub dev: u64,
    /// `ext4`, `fuse.sshfs`
    pub kind: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// What it was mounted from: `/dev/vda`, `host:/directory`.
    pub source: String,
    /// Reading it makes requests to a block device of this machine.
    pub on_disk: bool,
}

/// What kind of thing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file on a disk.
    Regular,
    /// The block device itself: the file system's metadata.
    Metadata,
    /// Memory only: tmpfs, memfd, shm. Its fills cost no disk.
    Memory,
    /// Deleted, or its name could not be found.
    Unnamed,
}

/// A file that the traced start touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path; for metadata the block device; for an unnamed one `dev:ino`.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Whose it is.
    pub owner: Owner,
    /// `st_dev` as the kernel's major:minor packed by `makedev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size when the trace was resolved.
    pub size: Bytes,
    /// Number of extents on disk, if the file system tells.
    pub extents: Option<u32>,
    /// GNU build-id in hex, of ELF files that have one.
    pub build_id: Option<String>,
}

/// Why a page came into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// A `read`-like call asked for this very page.
    Read,
    /// A page fault asked for this very page.
    Fault,
    /// Nobody asked for it at that moment: read-ahead around an asked page.
    ReadAhead,
    /// File-system metadata.
    Metadata,
    /// The program wrote it: no disk read.
    Write,
    /// The trace does not tell.
    Unknown,
}

impl Cause {
    /// The word in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Fault => "fault",
            Self::ReadAhead => "readahead",
            Self::Metadata => "metadata",
            Self::Write => "write",
            Self::Unknown => "unknown",
        }
    }
}

/// Pages that came into the page cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FillRow {
    /// When.
    pub at_ns: Nanos,
    /// Process that asked (also for read-ahead, which runs in the asker's context).
    pub pid: u32,
    /// Thread that asked.
    pub tid: u32,
    /// Of which file.
    pub file: FileId,
    /// From where.
    pub offset: FileOffset,
    /// How much.
    pub len: Bytes,
    /// Why.
    pub cause: Cause,
}

/// A range that a `read`-like call asked the page cache for (hits too).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRow {
    /// When.
    pub at_ns: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub file: FileId,
    /// From where, rounded to pages.
    pub offset: FileOffset,
    /// How much, rounded to pages.
    pub len: Bytes,
}

/// A page fault on a file mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultRow {
    /// When.
    pub at_ns: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Of which file.
    pub file: FileId,
    /// From where.
    pub offset: FileOffset,
    /// How much was mapped: one page, or the fault-around range.
    pub len: Bytes,
    /// `true`: the page was not there when asked for; `false`: mapped around from the cache.
    pub missed: bool,
}

/// What a block request was for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Served {
    /// A range of a file, starting at this offset.
    File(FileId, FileOffset),
    /// File-system metadata (or its journal).
    Metadata,
    /// Could not be told.
    Unknown,
}

/// A request to a block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockRow {
    /// When it was issued.
    pub start_ns: Nanos,
    /// When it was done; `None` if that was not seen.
    pub done_ns: Option<Nanos>,
    /// Process on whose behalf (the one that filled the pages), if known.
    pub pid: Option<u32>,
    /// Device, packed by `makedev`.
    pub dev: u64,
    /// Where on the device.
    pub disk: DiskOffset,
    /// How much.
    pub len: Bytes,
    /// `true`: a write.
    pub write: bool,
    /// What it served.
    pub served: Served,
    /// The kernel's flags, e.g. `RA`, `RM`, `WFS`.
    pub flags: String,
}

/// A process of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Last name it had.
    pub comm: String,
    /// What it executed last, if seen.
    pub exe: Option<PathBuf>,
    /// When it began.
    pub start_ns: Nanos,
    /// When it ended, if it did within the trace.
    pub end_ns: Option<Nanos>,
}

/// Dynamic relocations of a file whose code was mapped: what the loader works through, or may have to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelocationRow {
    /// Which file.
    pub file: FileId,
    /// Entries of all its tables; of packed ones (RELR) the words that they stand for.
    pub entries: u64,
}

/// A file mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MmapRow {
    /// When.
    pub at_ns: Nanos,
    /// Process.
    pub pid: u32,
    /// Of which file.
    pub file: FileId,
    /// From where in the file.
    pub offset: FileOffset,
    /// How much.
    pub len: Bytes,
    /// `true`: executable.
    pub exec: bool,
}

/// How often a file was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRow {
    /// Which file.
    pub path: PathBuf,
    /// How often, at least.
    pub count: u64,
}

/// An fsync or fdatasync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncRow {
    /// When.
    pub at_ns: Nanos,
    /// Process.
    pub pid: u32,
    /// Of which file.
    pub file: FileId,
    /// How long it took, if the end was seen.
    pub took_ns: Option<Nanos>,
}

/// A thread of the program was woken: what it had slept for was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeRow {
    /// When.
    pub at_ns: Nanos,
    /// Process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that woke it; `None`: an interrupt did, of a device, the network or a timer.
    pub by_tid: Option<u32>,
}

/// An ELF section of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionRow {
    /// Which file.
    pub file: FileId,
    /// `.text`
    pub name: String,
    /// Where in the file.
    pub offset: FileOffset,
    /// How much of the file.
    pub len: Bytes,
}

/// A piece of a file that is contiguous on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtentRow {
    /// Which file.
    pub file: FileId,
    /// Where in the file.
    pub offset: FileOffset,
    /// Where on the device.
    pub disk: DiskOffset,
    /// How long.
    pub len: Bytes,
}

/// How a trace was taken and how much to trust it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct TraceInfo {
    /// `perf`, `tracefs` or `probe`.
    pub engine: String,
    /// Records received.
    pub records: u64,
    /// Records that the kernel could not deliver.
    pub lost: u64,
    /// Bytes that the engine moved.
    pub bytes: Bytes,
    /// What this engine cannot know, one sentence each.
    pub cannot: Vec<String>,
}

/// Everything that one traced run says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRows {
    /// How it was taken.
    pub info: TraceInfo,
    /// Files in the order of their first touch; [`FileId`] points here.
    pub files: Vec<FileRow>,
    /// ELF sections of those files.
    pub sections: Vec<SectionRow>,
    /// Extents of those files.
    pub extents: Vec<ExtentRow>,
    /// Page-cache fills by time.
    pub fills: Vec<FillRow>,
    /// `read`-path ranges by time.
    pub reads: Vec<ReadRow>,
    /// Faults by time.
    pub faults: Vec<FaultRow>,
    /// Block requests by issue time.
    pub blocks: Vec<BlockRow>,
    /// Processes by start.
    pub processes: Vec<ProcessRow>,
    /// Mappings by time.
    pub mmaps: Vec<MmapRow>,
    /// Opens by file.
    pub opens: Vec<OpenRow>,
    /// fsyncs by time.
    pub syncs: Vec<SyncRow>,
    /// What was touched, by order; only of runs of kind [`crate::RunKind::Touch`].
    pub touches: Vec<TouchRow>,
    /// Files whose functions were watched.
    pub watched: Vec<WatchedRow>,
    /// How it is known whose the files are; one row for each file, none in recordings of schema version 2.
    pub owners: Vec<OwnerRow>,
    /// Files that other processes mapped meanwhile.
    pub held: Vec<HeldRow>,
    /// Reads and writes past the page cache by time.
    pub direct: Vec<DirectRow>,
    /// File systems of those files.
    pub file_systems: Vec<FileSystemRow>,
    /// Who woke whom, by time; only where that was asked for.
    pub wakes: Vec<WakeRow>,
    /// Relocations of the files whose code was mapped, by file.
    pub relocations: Vec<RelocationRow>,
}

/// Takes in those rows of a trace of which there are most, one by one. Files that they point to are known before.
///
/// All reads come first, then all faults, each in the order of the trace; then requests, in theirs, with the fills
/// between them: before a request come the fills until the first that is later than its issue.
pub trait Flow {
    /// A page-cache fill.
    fn fill(&mut self, fill: &FillRow);
    /// A `read`-path range.
    fn read(&mut self, read: &ReadRow);
    /// A fault.
    fn fault(&mut self, fault: &FaultRow);
    /// A block request.
    fn block(&mut self, block: &BlockRow);
}

impl TraceRows {
    /// Hands over fills, reads, faults and requests.
    pub fn flow(&self, into: &mut dyn Flow) {
        self.reads.iter().for_each(|read| into.read(read));
        self.faults.iter().for_each(|fault| into.fault(fault));
        let mut fills = self.fills.iter().peekable();
        for block in &self.blocks {
            while let Some(fill) = fills.next_if(|fill| fill.at_ns <= block.start_ns) {
                into.fill(fill);
            }
            into.block(block);
        }
        fills.for_each(|fill| into.fill(fill));
    }
}

/// What a start needs of one file: the ranges that the traced cold start brought into the cache.
/// The cache states are prepared and proven with these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The file, or the block device for its metadata.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Whose it is.
    pub owner: Owner,
    /// Page-aligned ranges, sorted, disjoint.
    pub ranges: Vec<(FileOffset, Bytes)>,
}

impl Need {
    /// Bytes in all ranges.
    pub fn bytes(&self) -> Bytes {
        self.ranges.iter().map(|(_, len)| *len).sum()
    }
}
