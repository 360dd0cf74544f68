//! One start of the program, and what was measured of it.

use crate::{Bytes, CacheState, Nanos};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Number of a run inside its recording, from 1, in the order taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(transparent)]
pub struct RunId(pub i64);

impl RunId {
    /// What belongs to no run of its recording: events that were imported.
    pub const OF_NO_START: Self = Self(0);
}

/// Why a run was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Measured, never traced.
    Timed,
    /// Traced; its times are used only to state the tracer's overhead.
    Trace,
    /// Made only to fill the caches.
    Warmup,
    /// Made to see what a start touches, or what its loader does: without read-ahead, or with breakpoints. Its times
    /// say nothing.
    Touch,
}

impl RunKind {
    /// The word in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Trace => "trace",
            Self::Warmup => "warmup",
            Self::Touch => "touch",
        }
    }
}

/// One run. Counts are of the whole process tree; `None` is "this machine could not tell".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Number in the recording; the writer gives it.
    pub id: RunId,
    /// Index of the variant (0 unless several programs are compared in one recording).
    pub variant: u32,
    /// The state that the run claims.
    pub state: CacheState,
    /// Why it was made.
    pub kind: RunKind,
    /// Random block it belongs to, from 0.
    pub block: u32,
    /// 1 for the first try of this cell of the block, 2 for its repetition, ...
    pub attempt: u32,
    /// `false`: not counted, for the reason in `rejected_because`.
    pub accepted: bool,
    /// Why it does not count: not in its state, failed, not ready in time.
    pub rejected_because: Option<String>,
    /// When it started, nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// From just before exec until the first `--ready` probe fired. `None`: it never got ready.
    pub wall_ns: Option<Nanos>,
    /// From just before exec until the program's first process ended.
    pub exit_ns: Option<Nanos>,
    /// CPU time in user mode, until the tree was gone.
    pub user_ns: Nanos,
    /// CPU time in the kernel, until the tree was gone.
    pub system_ns: Nanos,
    /// Largest resident set of a single process of the tree.
    pub max_rss: Bytes,
    /// Page faults served without the disk.
    pub minor_faults: u64,
    /// Page faults that waited for the disk.
    pub major_faults: u64,
    /// Bytes read from block devices by the run's cgroup.
    pub read_bytes: Option<Bytes>,
    /// Read requests to block devices by the run's cgroup.
    pub read_requests: Option<u64>,
    /// Bytes written to block devices by the run's cgroup.
    pub written_bytes: Option<Bytes>,
    /// Instructions retired in user mode and kernel.
    pub instructions: Option<u64>,
    /// CPU cycles.
    pub cycles: Option<u64>,
    /// Exit code of the first process, if it ended by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended the first process.
    pub exit_signal: Option<i32>,
    /// CPU time that others used during the run, as a share of all CPUs (0..1).
    pub others_cpu_share: Option<f64>,
    /// Share of the run in which others waited for the disk (PSI io "some" outside the run's cgroup, 0..1).
    pub others_io_pressure: Option<f64>,
    /// Before the run: share (0..1) of the program's own needed bytes that were resident.
    pub own_resident_share: Option<f64>,
    /// Before the run: share (0..1) of the system's needed bytes that were resident.
    pub system_resident_share: Option<f64>,
}

/// A readiness probe that fired in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Milestone {
    /// Its name, as on the command line: `line:Started`, `beacon:paint`, `exit`.
    pub name: String,
    /// Time since just before exec.
    pub at_ns: Nanos,
}

/// What was resident of one file before a run, of the ranges that a start needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResidencyRow {
    /// The file, or the block device for its metadata.
    pub path: PathBuf,
    /// Bytes that a start needs of it.
    pub needed: Bytes,
    /// How many of these were resident.
    pub resident: Bytes,
}
