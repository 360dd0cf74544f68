//! What a recorder took down, as addresses: nothing is interpreted.
//!
//! Times are nanoseconds since just before exec ([`model::Nanos`]); what came before is dropped. Thread number 0 is the
//! idle task of a CPU.

use model::Nanos;
use os::roots::Roots;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One start as it was taken down.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// The process that was started.
    pub root: u32,
    /// Processes and threads that began, were named, executed or ended, by time.
    pub tasks: Vec<RawTask>,
    /// Mappings of code, by time.
    pub mappings: Vec<RawMapping>,
    /// Which thread a CPU went over to: of the whole machine, by time. Empty: not allowed here.
    pub switches: Vec<RawSwitch>,
    /// Who made whom runnable: of the whole machine, by time. Empty: not allowed here.
    pub wakes: Vec<RawWake>,
    /// Where threads of the tree were, by time.
    pub samples: Vec<RawSample>,
    /// Pieces of stacks of threads, one behind the other; [`UserState::stack`] points into them.
    pub stacks: Vec<u8>,
    /// So far apart are the ticks of a clock, of a CPU or of one thread: for so much CPU time a sample stands.
    pub tick: Nanos,
    /// Records that were lost of what threads were at and of what became of them: a function may be missing, no moment.
    pub lost: u64,
    /// Records that were lost, or that the kernel does not tell, of who ran where and who woke whom.
    pub lost_switches: u64,
    /// CPU time that the threads of the recorder had until it was stopped. What the kernel does to take down is done in
    /// the name of whom it takes down, and not known apart.
    pub own: Nanos,
    /// Root directories that processes had beside thaw's own: what they mapped is there.
    pub roots: Arc<Roots>,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
}

/// Something that became of a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTask {
    /// When.
    pub at: Nanos,
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// What became of it.
    pub what: What,
}

/// What became of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It began, made by this thread of this process; the same process: it is a thread of it.
    Began {
        /// Who made it.
        parent_pid: u32,
        /// Its thread that did.
        parent_tid: u32,
    },
    /// It has this name from now on.
    Named(String),
    /// Its process executes another program from now on: all its mappings are gone.
    Executed,
    /// It ended.
    Ended,
}

/// Code that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMapping {
    /// When.
    pub at: Nanos,
    /// Into which process.
    pub pid: u32,
    /// Where.
    pub addresses: Range<u64>,
    /// From where in the file.
    pub offset: u64,
    /// Device of the file, packed by `makedev`.
    pub dev: u64,
    /// Its inode number; 0: no file.
    pub ino: u64,
    /// Its path as the process saw it; `[vdso]`, `//anon` are none.
    pub path: PathBuf,
}

/// A CPU went over to another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSwitch {
    /// When.
    pub at: Nanos,
    /// Which CPU.
    pub cpu: u32,
    /// Which thread it left.
    pub from: u32,
    /// The name of that.
    pub from_name: String,
    /// The state in which it was left, as the kernel writes it: 0 it could go on, 1 S, 2 D, 16 and 32 it ended.
    pub state: u64,
    /// Which thread it went over to.
    pub to: u32,
    /// The name of that.
    pub to_name: String,
}

/// A thread was made runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawWake {
    /// When.
    pub at: Nanos,
    /// On which CPU this was done.
    pub cpu: u32,
    /// The thread that the CPU ran then.
    pub by: u32,
    /// Whether that thread did it, or an interrupt above it.
    pub context: Context,
    /// Who was woken.
    pub woken: u32,
    /// Whether it is a thread that has never run.
    pub new: bool,
}

/// In whose name the kernel works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The thread's.
    Thread,
    /// An interrupt's, hard or soft.
    Interrupt,
}

/// Why a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// The clock of the CPU, or of the thread's CPU time, ticked.
    Clock,
    /// The thread leaves its CPU.
    Leaves,
    /// The thread wakes another one, with this number, or an interrupt above it does.
    Wakes(u32),
}

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// When.
    pub at: Nanos,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// Why it was taken.
    pub tick: Tick,
    /// Return addresses in the kernel, innermost first; empty: it was in the program.
    pub kernel: Vec<u64>,
    /// What the program's registers and stack were, where they could be taken.
    pub user: Option<UserState>,
}

/// Registers that unwinding begins with, and a piece of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// `rip`
    pub ip: u64,
    /// `rsp`
    pub sp: u64,
    /// `rbp`
    pub bp: u64,
    /// `rbx`: the loader's way from a first call to the function finds its frame by it.
    pub bx: u64,
    /// Where in [`Raw::stacks`] the bytes from `sp` on are.
    pub stack: Range<usize>,
}

/// Bits of `common_flags` of a tracepoint: in which context it was hit.
#[derive(Clone, Copy, Debug)]
pub struct Flags;

impl Flags {
    /// Within a hard interrupt.
    pub const HARD: u64 = 0x08;
    /// Within a soft interrupt.
    pub const SOFT: u64 = 0x10;
}
