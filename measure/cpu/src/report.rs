//! What the analysis of a start says. Values only.

use crate::callers::Caller;
use crate::path::{Doing, Ran};
use crate::phase::Phase;
use crate::trace::Thread;
use crate::waits::Kind;
use serde::{Deserialize, Serialize};

/// Whose the milliseconds of a start are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Of this form; see [`Report::VERSION`].
    pub version: u32,
    /// From exec to ready, in nanoseconds.
    pub ready_ns: u64,
    /// The share of it that has an owner who is known, 0 to 1.
    pub explained_share: f64,
    /// Who owns it: longest first. Their times add up to `ready_ns`.
    pub owners: Vec<Owner>,
    /// The owners that run, by object, and for the kernel by what it was asked for: longest first.
    pub objects: Vec<ObjectRow>,
    /// Threads that waited for each other on the path: longest first. The time itself belongs to `owners`.
    pub links: Vec<LinkRow>,
    /// What held up the first thread and the other threads of the path, whether the path runs through these waits or
    /// not: the first thread's first, then longest first.
    pub blocked: Vec<BlockedRow>,
    /// The path, by time.
    pub steps: Vec<StepRow>,
    /// All threads of the tree and those of the path, by their beginning.
    pub threads: Vec<Lane>,
    /// What ran beside the path, longest first.
    pub off_path: Vec<OffPath>,
    /// How long the path waited for a CPU that a thread of the tree itself had, in nanoseconds.
    pub competes_ns: u64,
    /// What has no owner, longest first.
    pub unexplained: Vec<Unexplained>,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
    /// Records that were lost of where threads were and of what became of them.
    pub lost: u64,
    /// Records that were lost, or that the kernel does not tell, of who ran where and who woke whom.
    pub lost_switches: u64,
    /// CPU time that thaw's threads had meanwhile, which read what the kernel took down, in nanoseconds. What the
    /// kernel did for that is in the program's time.
    pub own_ns: u64,
}

impl Report {
    /// Of the form of [`Report`].
    pub const VERSION: u32 = 1;
}

/// A thread by all its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadName {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
}

impl ThreadName {
    /// Of a thread.
    pub fn of(thread: &Thread) -> Self {
        Self { name: thread.name.clone(), pid: thread.pid, tid: thread.tid }
    }
}

/// How a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// By what the kernel wrote down of each change.
    Measured,
    /// By samples: it has an interval.
    Sampled,
    /// By rules: how long is measured, whose it is is concluded.
    Inferred,
    /// It is not.
    Unknown,
}

/// What an owner does with its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "does")]
pub enum Does {
    /// The program runs a function.
    User {
        /// The object's path; empty: code made at run time.
        object: String,
        /// Its function; `None`: nothing names it.
        function: Option<String>,
        /// The source file of the function, where debug data tell.
        source: Option<String>,
        /// Of functions of the C library, the loader and the vdso: the function of the program that called.
        caller: Option<Caller>,
    },
    /// The kernel works for it.
    Kernel {
        /// On this system call, or `page fault`, `interrupt`; `None`: nothing tells.
        request: Option<String>,
        /// The function of the program that asked for it.
        caller: Option<Caller>,
    },
    /// It runs, and no sample says where.
    Runs,
    /// It waits for a CPU that a thread of the tree had, nobody, or nobody who is known.
    Cpu {
        /// Who had it.
        ran: Ran,
        /// The name of that; empty: nobody, or not known.
        name: String,
    },
    /// It waits for a CPU that other programs had: [`Owner::takers`].
    CpuOfOthers,
    /// It waits.
    Waits {
        /// What for.
        kind: Kind,
        /// In this system call.
        call: Option<String>,
        /// In this function of the kernel, where no rule knows what for.
        function: Option<String>,
        /// Called by these functions of the program, innermost first; for a disk and for locks of the kernel, which
        /// nobody waits for on purpose, by the innermost alone.
        callers: Vec<Caller>,
    },
    /// Another program, whom a thread of the tree waits for.
    Other {
        /// What it does.
        doing: Doing,
    },
    /// The one who waited for the sign of readiness, which had been given: thaw itself.
    Notices,
    /// Nobody that is known.
    Unexplained {
        /// Why.
        why: String,
    },
}

impl Does {
    /// By what two times are of the same owner: samples of one function lie in many of its lines.
    pub(crate) fn key(&self) -> Self {
        let mut key = self.clone();
        if let Self::User { caller: Some(caller), .. } | Self::Kernel { caller: Some(caller), .. } = &mut key {
            caller.source = None;
        }
        key
    }
}

/// Who took a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taker {
    /// The name of its thread.
    pub name: String,
    /// How long, in nanoseconds.
    pub ns: u64,
}

/// Who owns time of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// What it does.
    pub what: Does,
    /// The thread that does it.
    pub thread: ThreadName,
    /// In which part of the start; `None`: nothing tells, or there is none, as of other threads than the first.
    pub phase: Option<Phase>,
    /// Of [`Does::CpuOfOthers`]: who had the CPU, longest first.
    pub takers: Vec<Taker>,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// Of the whole, 0 to 1.
    pub share: f64,
    /// In how many pieces.
    pub pieces: u64,
    /// So many samples say so.
    pub samples: u64,
    /// How long at least, at 95 %; `None`: it is not known by samples.
    pub low_ns: Option<u64>,
    /// How long at most.
    pub high_ns: Option<u64>,
    /// How it is known: as the piece that is known least.
    pub confidence: Confidence,
    /// For people.
    pub text: String,
}

/// What runs on the path, by object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectRow {
    /// The object's path, or `[kernel] read`, or empty for code that no object holds.
    pub object: String,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// Of the whole path, 0 to 1.
    pub share: f64,
    /// So many samples say so.
    pub samples: u64,
}

/// A thread waited on the path for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// What for.
    pub kind: Kind,
    /// Who.
    pub woken: ThreadName,
    /// For whom.
    pub waker: ThreadName,
    /// Whether the path had been on the waiting thread before: what it waits for, it may have asked for. If not, it had
    /// nothing to do yet, and its wait is no loss.
    pub was_met: bool,
    /// How often.
    pub count: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// For people.
    pub text: String,
}

/// Who ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum EndedBy {
    /// A thread of the tree.
    Thread {
        /// Its name.
        name: String,
        /// Whether it is of another process than the one that waits.
        of_other_process: bool,
    },
    /// Another program, or a thread of the kernel's that works for others.
    Program {
        /// The name of its thread.
        name: String,
    },
    /// An interrupt: time was up, a device was done. For a disk also what the kernel's threads do after it.
    Interrupt,
    /// Nobody until ready.
    Nobody,
}

/// Waits of a thread of the tree for the same, all over its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedRow {
    /// Who waits.
    pub thread: ThreadName,
    /// Whether it is the first thread of the program.
    pub is_first: bool,
    /// What for.
    pub kind: Kind,
    /// Whether the lock is a condition.
    pub is_condition: bool,
    /// In this system call.
    pub call: Option<String>,
    /// Called by these functions of the program, innermost first.
    pub callers: Vec<Caller>,
    /// Who ended it.
    pub ended: EndedBy,
    /// How often.
    pub count: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// For how much of it the path to ready lay on other threads: less of that would have made the start faster.
    pub path_elsewhere_ns: u64,
    /// How long of it the one who ended it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long of it that one waited itself.
    pub waited_ns: u64,
    /// How long of it that one had no CPU.
    pub lacked_cpu_ns: u64,
    /// For people.
    pub text: String,
}

/// A piece of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// On whose thread it lies.
    pub tid: u32,
    /// What is done.
    pub state: LaneState,
    /// For a wait for a CPU: who had it.
    pub ran: Option<Ran>,
    /// What the thread of the step behind waited for when this one woke it.
    pub link: Option<Kind>,
}

/// What a thread does in a piece of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// It runs.
    Runs,
    /// It could.
    LacksCpu,
    /// It waits.
    Waits(Kind),
    /// Not known.
    Unknown,
}

/// A piece of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanePiece {
    /// From then on.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// What the thread does, of a merged piece for the longest.
    pub state: LaneState,
}

/// A thread in a waterfall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Who.
    pub thread: ThreadName,
    /// Whether it is of the tree.
    pub of_tree: bool,
    /// The thread that made it.
    pub made_by: Option<u32>,
    /// From its beginning to its end, side by side.
    pub pieces: Vec<LanePiece>,
    /// Whether `pieces` were merged because they were too many.
    pub is_merged: bool,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long it had no CPU.
    pub lacked_cpu_ns: u64,
    /// How long it waited.
    pub waited_ns: u64,
    /// For how long nothing is known.
    pub unknown_ns: u64,
    /// How much of it lies on the path.
    pub path_ns: u64,
}

/// What a thread ran beside the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffPath {
    /// Who.
    pub thread: ThreadName,
    /// How long it ran, in nanoseconds; of samples where changes were not recorded.
    pub ran_ns: u64,
    /// How many of its samples lie there.
    pub samples: u64,
    /// How long the path waited for a CPU that it had.
    pub competes_ns: u64,
    /// How it is known.
    pub confidence: Confidence,
}

/// Time without an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unexplained {
    /// Why.
    pub why: String,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// In how many pieces.
    pub pieces: u64,
}
