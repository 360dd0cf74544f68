//! What a traced start says: the room's public result, as JSON, the terminal and the viewer show it.

use model::{Bytes, Cause, FileKind, Nanos, Owner, OwnerRule, TraceInfo, Warning};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of [`Report`]'s shape; it grows when a field changes its meaning or goes.
pub const REPORT_VERSION: u32 = 2;

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "IoReport"))]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// How the trace was taken.
    pub info: TraceInfo,
    /// The sums.
    pub totals: Totals,
    /// Files in the order of their first touch: line `n` is file `n` of the trace. Lines behind those hold what
    /// requests without a known file cost, so that the lines' waiting times sum up to the total.
    pub files: Vec<FileReport>,
    /// By cause, the most bytes first.
    pub by_cause: Vec<CauseReport>,
    /// By owner, the program first.
    pub by_owner: Vec<OwnerReport>,
    /// Processes by start.
    pub processes: Vec<ProcessReport>,
    /// Files in more than one piece on disk, the most pieces first.
    pub fragmented: Vec<FragmentReport>,
    /// Files that were synced, the longest first.
    pub synced: Vec<SyncReport>,
    /// Files that were opened [`OFTEN`] times or more, the most often opened first.
    pub opened_often: Vec<OpenReport>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// From how many opens on a file is listed in [`Report::opened_often`].
pub const OFTEN: u64 = 10;

/// The sums over the program's process tree. Requests of others are only counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Totals {
    /// Bytes that came into the page cache.
    pub filled: Bytes,
    /// Bytes that read requests brought.
    pub read_from_disk: Bytes,
    /// Read requests.
    pub requests: u64,
    /// Those for metadata.
    pub metadata_requests: u64,
    /// Read requests that did not begin where the one before (of the program, on the same disk) ended.
    pub seeks: u64,
    /// Distance of all seeks together.
    pub seek_distance: Bytes,
    /// Time in which at least one read request was in flight, from the page-cache fill until done.
    pub waiting: Nanos,
    /// Read requests that could not be attributed to a file or to metadata.
    pub unattributed_requests: u64,
    /// Share (0..1) of the read requests that were attributed; 1 if there were none.
    pub attributed_share: f64,
    /// Write requests of the tree.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written: Bytes,
    /// Requests of other processes meanwhile.
    pub others_requests: u64,
    /// Read requests of the tree whose end was not seen.
    pub unfinished_requests: u64,
    /// Bytes that a start needs, in whole pages, of the files that came into the cache and of which that is known,
    /// without the file systems' metadata; `None`: no run without read-ahead told.
    pub needed: Option<Bytes>,
    /// Bytes that came into the cache of these files: what `needed` is a share of.
    pub needed_of: Option<Bytes>,
    /// Files of which the need is unknown because other processes map them.
    pub need_unknown_files: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct FileReport {
    /// Its path; bytes that are not UTF-8 are shown as U+FFFD.
    pub path: String,
    /// Whose it is.
    pub owner: Owner,
    /// How that is known; `None`: the recording does not tell.
    pub owned_by: Option<OwnedBy>,
    /// What it is.
    pub kind: FileKind,
    /// When it was first touched.
    pub first_touch_ns: Option<Nanos>,
    /// Bytes that came into the cache.
    pub filled: Bytes,
    /// Its size.
    pub size: Bytes,
    /// Bytes that were asked for by reads and faults, in whole pages, at least.
    pub asked: Bytes,
    /// Bytes that a start needs of it, in whole pages, from a run without read-ahead; `None`: there was none, it is
    /// metadata or lies in memory, or it is unknown because of `held_by`.
    pub needed: Option<Bytes>,
    /// Other processes map it, so that its pages may have been in memory before: what a start needs of it is unknown.
    pub held_by: Option<HeldBy>,
    /// Read requests.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes_from_disk: Bytes,
    /// Bytes that reads past the page cache (`O_DIRECT`) asked for; none of them came into the cache.
    pub direct: Bytes,
    /// Its fair share of the time in which requests were in flight.
    pub waiting: Nanos,
    /// Pieces on disk, if the file system tells.
    pub extents: Option<u32>,
    /// How often it was opened, at least; `None` if the engine saw none or cannot know.
    pub opens: Option<u64>,
    /// How often it was synced.
    pub syncs: u64,
    /// Its ELF sections that were filled or waited for, by place.
    pub sections: Vec<SectionReport>,
}

/// Who maps a file beside the traced program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct HeldBy {
    /// How many processes.
    pub processes: u32,
    /// One of them, number and name: `1 systemd`.
    pub example: String,
}

/// How it is known whose a file is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnedBy {
    /// By which rule.
    pub rule: OwnerRule,
    /// The package or directory that the rule found.
    pub what: Option<String>,
    /// Why that package is the program's.
    pub because: Option<String>,
}

/// One ELF section of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct SectionReport {
    /// `.text`
    pub name: String,
    /// Its size in the file.
    pub size: Bytes,
    /// Bytes of it that came into the cache.
    pub filled: Bytes,
    /// Bytes of it that a start needs, as [`FileReport::needed`].
    pub needed: Option<Bytes>,
    /// Its part of the file's waiting time, by bytes of each request.
    pub waiting: Nanos,
}

/// Fills of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct CauseReport {
    /// Why.
    pub cause: Cause,
    /// How much.
    pub filled: Bytes,
}

/// Files of one owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerReport {
    /// Whose.
    pub owner: Owner,
    /// Number of files.
    pub files: u64,
    /// Bytes that came into the cache.
    pub filled: Bytes,
    /// Read requests.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes_from_disk: Bytes,
    /// Share of the waiting time.
    pub waiting: Nanos,
    /// How that is known, the most bytes first; empty where the recording does not tell.
    pub rules: Vec<RuleReport>,
}

/// Files of one owner that the same rule gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct RuleReport {
    /// The rule, and what it found.
    pub by: OwnedBy,
    /// Number of files.
    pub files: u64,
    /// Bytes that came into the cache.
    pub filled: Bytes,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct ProcessReport {
    /// Its number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its name.
    pub comm: String,
    /// What it executed last.
    pub exe: Option<PathBuf>,
    /// When it began.
    pub start_ns: Nanos,
    /// When it ended, if it did.
    pub end_ns: Option<Nanos>,
    /// Bytes that it brought into the cache.
    pub filled: Bytes,
    /// Read requests on its behalf.
    pub requests: u64,
    /// Its fair share of the time in which requests were in flight.
    pub waiting: Nanos,
}

/// A file in pieces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct FragmentReport {
    /// Its path.
    pub path: String,
    /// Pieces on disk.
    pub extents: u32,
    /// Its size.
    pub size: Bytes,
}

/// A file that was synced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct SyncReport {
    /// Its path.
    pub path: String,
    /// How often.
    pub count: u64,
    /// How long all syncs took together.
    pub took: Nanos,
}

/// A file that was opened often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OpenReport {
    /// Its path.
    pub path: String,
    /// How often, at least.
    pub count: u64,
}
