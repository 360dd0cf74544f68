//! What the tracer saw, on its way from the process that traces to thaw. Paths may hold any bytes: they travel as
//! `OsString`.

use model::StartsFrom;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// All of it. Times are CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Files whose code was mapped.
    pub files: Vec<SeenFile>,
    /// First calls, in their order.
    pub calls: Vec<Call>,
    /// Functions whose calls were counted, called or not.
    pub counted: Vec<SeenCount>,
    /// Programs and libraries in which these were looked for.
    pub looked: u64,
    /// How many functions each pattern has found.
    pub found: Vec<u64>,
    /// Processes, in the order of their start.
    pub processes: Vec<SeenProcess>,
    /// The first function of which a copy was run with our trap still in it.
    pub copied: Option<Copied>,
    /// Stops that were handled.
    pub stops: u64,
    /// Bytes of code that were read and written to plant.
    pub planted_bytes: u64,
    /// How long planting took, reading the files' tables included.
    pub planting_ns: u64,
    /// What was not seen and why, one sentence each.
    pub notes: Vec<String>,
}

/// A file whose code was mapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenFile {
    /// As its process named it.
    pub path: OsString,
    /// Where it could be opened when it was mapped.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Its size.
    pub size: u64,
    /// Functions that were watched; none: its code has no starts that are known.
    pub functions: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Where their starts were taken from.
    pub from: StartsFrom,
}

/// The first call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Index into [`Seen::files`].
    pub file: u32,
    /// Where the function begins in the file.
    pub offset: u64,
    /// How long it is; 0: not known.
    pub len: u64,
    /// When.
    pub at_ns: u64,
    /// The thread.
    pub tid: i32,
}

/// A function whose calls were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCount {
    /// Index into [`Seen::files`].
    pub file: u32,
    /// Where the function begins in the file.
    pub offset: u64,
    /// Its name as people type it.
    pub name: String,
    /// As the linker knows it.
    pub symbol: String,
    /// How often it was called.
    pub calls: u64,
    /// How many of them stopped for the tracer.
    pub stops: u64,
    /// Why they did, if there is a reason in the function itself.
    pub because: Option<String>,
    /// A jump of its own leads to its begin and counts as a call.
    pub loops: bool,
    /// It chooses the function that others call by its name.
    pub chooses: bool,
    /// Threads that called it.
    pub threads: u64,
    /// The first call.
    pub first_ns: Option<u64>,
    /// The last one.
    pub last_ns: Option<u64>,
    /// Who called it how often, the most frequent first.
    pub callers: Vec<SeenCaller>,
    /// Calls of which neither caller nor thread is known.
    pub others: u64,
    /// The first calls one by one.
    pub noted: Vec<SeenCall>,
}

/// Where a call returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenPlace {
    /// Index into [`Seen::files`]; `None`: in no file.
    pub file: Option<u32>,
    /// Offset in the file, or an address.
    pub at: u64,
}

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCaller {
    /// Behind the call.
    pub place: SeenPlace,
    /// How many calls.
    pub calls: u64,
}

/// A call that was noted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCall {
    /// When.
    pub at_ns: u64,
    /// The thread.
    pub tid: i32,
    /// Behind the call.
    pub place: SeenPlace,
}

/// A function that a program has copied, with our trap in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Index into [`Seen::files`].
    pub file: u32,
    /// Where the function begins in the file.
    pub offset: u64,
    /// Where its copy was run.
    pub address: u64,
    /// The process.
    pub comm: String,
}

/// A process of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenProcess {
    /// Its number.
    pub pid: i32,
    /// Its parent; 0: not known.
    pub parent: i32,
    /// Its last name.
    pub comm: String,
    /// What it executed last.
    pub exe: Option<OsString>,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: Option<u64>,
}
