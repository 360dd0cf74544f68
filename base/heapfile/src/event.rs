//! What a recording says: process images, and the events in them.

mod brief;
mod sample;

pub use brief::{Brief, Deed};
pub(crate) use sample::count;
pub use sample::{SAMPLE_MAX, variance, variance_of};

use crate::form::{Form, form};
use crate::stack::StackId;
use heap_wire::map;
use model::{Bytes, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;

/// A process image of a recording: index into [`Reader::processes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub usize);

/// A thread, by the number that the kernel gave it. The same number may be given again after a thread's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// An address of a block. Never followed: it is of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer(pub u64);

/// How a process image came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// exec: it begins with an empty heap.
    Exec,
    /// fork: the parent's blocks are there too; they are not in this stream.
    Fork,
    /// The recorder came later: what was allocated before is not known.
    Attach,
}

/// Why a process is not recorded to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The file could not grow; error number.
    Space(u32),
    /// The file reached RLIMIT_FSIZE.
    SizeLimit,
    /// A part of the file could not be mapped; error number.
    Map(u32),
    /// The program closed the file, and it could not be opened again.
    Closed,
    /// The recorder was killed, or had ended before the process.
    Left,
    /// The recorder stood still, and the stream was as far ahead of it as it may be.
    Behind,
}

/// One process image: from exec or fork to exec or the end.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its place among the processes of the recording.
    pub id: ProcessId,
    /// The process's number, in its own namespace.
    pub pid: u32,
    /// The number of its parent process.
    pub ppid: u32,
    /// The stream's file.
    pub file: PathBuf,
    /// Whether exec, fork or attaching began it.
    pub origin: Origin,
    /// The image that it was forked from.
    pub parent: Option<ProcessId>,
    /// The program.
    pub exe: PathBuf,
    /// The words that it was started with; cut after 1024 bytes.
    pub cmdline: Vec<OsString>,
    /// The object that holds the allocator; empty: the program itself.
    pub allocator: PathBuf,
    /// When its recording began, since the recording's beginning.
    pub start: Nanos,
    /// Depth limit: a cut stack has at least so many frames.
    pub depth: u32,
    /// Whether frees have stacks.
    pub free_stacks: bool,
    /// How the allocator was hooked: `preload`, `got`, `detour`, `pool`.
    pub tiers: Vec<&'static str>,
    /// Functions that were hooked inside of objects.
    pub detours: u32,
    /// Of these, those of allocators that the program brings under other names (`_rjem_malloc`); may be cut.
    pub inside: Vec<String>,
    /// Mean bytes between sampled allocations; 0: all are recorded.
    pub sample_bytes: u64,
    /// Events that are not in the stream.
    pub lost: u64,
    /// Why and since when events are lost.
    pub stopped: Option<Stopped>,
    /// What the recorder itself doubted: why nothing, or not all, may be seen.
    pub doubt: String,
    /// Time that setting up took in the process.
    pub setup: Nanos,
    /// Whether usable sizes are told.
    pub(crate) tells_usable: bool,
    /// Times of events are right to this; 0: exact.
    pub resolution: Nanos,
    /// Time stamp counter when it began.
    pub start_ticks: u64,
}

/// Which function made a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// `malloc`; also `operator new` that calls it.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `realloc`, `reallocarray`: the block that it replaces; `None`: it was called with a null pointer.
    Realloc(Option<Pointer>),
    /// `memalign` and its family, with the alignment.
    Aligned(u64),
    /// `operator new` of an allocator that does not call `malloc`.
    New,
    /// A pool of the program.
    Pool,
}

/// Memory that is no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapFlags(pub u8);

impl MapFlags {
    /// No file behind it.
    pub fn anonymous(self) -> bool {
        self.0 & map::ANONYMOUS != 0
    }
    /// Shared with other processes.
    pub fn shared(self) -> bool {
        self.0 & map::SHARED != 0
    }
    /// Made by `mremap` of a mapping that went away right before.
    pub fn remapped(self) -> bool {
        self.0 & map::REMAP != 0
    }
    /// `brk` or `sbrk`.
    pub fn is_break(self) -> bool {
        self.0 & map::BREAK != 0
    }
    /// PROT_READ, PROT_WRITE, PROT_EXEC.
    pub fn protection(self) -> u8 {
        self.0 & 7
    }
}

/// What happened, without when and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block was made.
    Alloc {
        /// First address of the block.
        ptr: Pointer,
        /// Bytes that the program asked for.
        size: u64,
        /// The function of the allocator.
        maker: Maker,
        /// Bytes that the allocator gave; `None`: not known (pools; allocators that do not tell; recordings of older
        /// versions).
        usable: Option<Bytes>,
        /// How many blocks like this one it stands for: 1, but more in a sampled recording.
        count: u64,
    },
    /// A block is about to be given back, or to be replaced by `realloc` (then `Alloc` with `Realloc`, or `Restored`,
    /// or nothing follows in the same thread).
    Free {
        /// First address of the block.
        ptr: Pointer,
        /// Which function gave it back.
        by: Freer,
    },
    /// `realloc` failed: the block of the last `Free` by `Realloc` of this thread is still there.
    Restored {
        /// First address of the block.
        ptr: Pointer,
    },
    /// Memory that is no heap came.
    Map {
        /// First address of the mapping.
        at: Pointer,
        /// Length, bytes.
        size: u64,
        /// What is mapped, and how.
        flags: MapFlags,
    },
    /// Memory that is no heap goes; maybe a part of a mapping, or several.
    Unmap {
        /// First address of the mapping.
        at: Pointer,
        /// Length, bytes.
        size: u64,
    },
    /// `fork` is about to be called.
    Fork,
    /// The thread begins, here in its stream.
    ThreadBegins,
    /// The thread has a (new) name: see [`Events::thread_name`].
    ThreadNamed,
}

/// Why a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freer {
    /// `free`, `operator delete`.
    Free,
    /// `realloc`.
    Realloc,
    /// A pool of the program.
    Pool,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the process began.
    pub at: Nanos,
    /// The time stamp counter: the exact order, across processes too.
    pub ticks: u64,
    /// The thread that did it.
    pub thread: ThreadId,
    /// The stack of the call; `None`: none was taken (frees, unless asked for).
    pub stack: Option<StackId>,
    /// What it did.
    pub what: What,
}

impl Process {
    /// Whether its events were added up while it ran, and are not there any more.
    pub fn is_summed(&self) -> bool {
        form(&self.file) == Some(Form::Sums)
    }
}
