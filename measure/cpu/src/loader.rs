//! The loader's share of a start, exactly: from exec to main, which phase took how long, for programs for x86-64 that
//! glibc's dynamic loader starts. In a run of its own, not the timed one.
//!
//! The program is traced (ptrace). While the loader works, each of its system calls stops it: what is opened, mapped,
//! closed and protected are the boundaries between objects, and they are the same for every version of glibc, with or
//! without symbols, where places in its code are not. Breakpoints stand at what is fixed by ABI: `_dl_debug_state`, the
//! program's entry, `__libc_start_main`, main, and each function of DT_PREINIT_ARRAY, DT_INIT and DT_INIT_ARRAY, read
//! from memory once it is relocated. After the loader is done no system call stops the program any more.
//!
//! Times are on the program's own clock: it stands still while the program is stopped and while it waits for a CPU
//! (each stop gives its CPU away), and what a stop costs besides is measured in the same run, on the same program, by
//! stops with nothing between them, and subtracted ([`Cost`]). Both CPUs are kept awake meanwhile, without which it
//! would be 10 or 50 µs by what the host of a virtual machine did before.
//!
//! Look-up of symbols is not told apart from the rest of relocation: one takes less than a microsecond, and the stops
//! around it take more than ten, with more doubt about each than there is to measure. Nor are functions that choose
//! functions (IFUNC), for the same reason.
//!
//! Other ways were left out: probes in the loader (SDT) are in the glibc of some distributions only, and say no more
//! than its system calls do; an LD_AUDIT library sees objects but no initialisers, makes the loader do more than it
//! does alone, and needs a guest of its own; LD_DEBUG=statistics knows totals only (they are the check of the tests);
//! uprobes need root, and functions that have symbols.

#[cfg(target_arch = "x86_64")]
mod attached;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
mod kept;
#[cfg(target_arch = "x86_64")]
mod objects;
#[cfg(target_arch = "x86_64")]
mod phases;
#[cfg(target_arch = "x86_64")]
mod points;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod session;
mod statistics;
#[cfg(target_arch = "x86_64")]
mod watch;

#[cfg(target_arch = "x86_64")]
pub use attached::Attached;
#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::Attached;
pub use model::loader::{Cost, PhaseKind, Table};
pub use statistics::Statistics;
#[cfg(target_arch = "x86_64")]
pub use watch::{Until, watch};

use model::Nanos;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run that was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The programs that the first process executed, one after the other: a script that ends with exec, then what it
    /// executes.
    pub starts: Vec<Start>,
    /// What watching cost, all of them together.
    pub cost: Cost,
    /// The watch ended because of its limit of time.
    pub timed_out: bool,
    /// The exit code, if the program ended by itself.
    pub code: Option<i32>,
}

/// What became of one exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// It was seen.
    Loaded(Box<Loaded>),
    /// It cannot be seen this way.
    Unknown {
        /// The file that was executed.
        program: PathBuf,
        /// Why not: it is static, of 32 bits, has another loader than glibc's, runs with other rights.
        because: String,
    },
}

/// One start by glibc's loader. Times that begin something are since the call of exec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The file that was executed.
    pub program: PathBuf,
    /// From the call of exec to the first instruction of the loader. `None`: the call was not seen.
    pub exec: Option<Nanos>,
    /// What follows exec, one behind the other without a gap, as far as it came.
    pub phases: Vec<Phase>,
    /// Files that the loader opened and mapped, in its order, with what it took to find them.
    pub mapped: Vec<Mapped>,
    /// Objects in the order in which they were relocated.
    pub relocated: Vec<Relocated>,
    /// Initialisers in the order in which they began, those of libraries that were loaded later too.
    pub initialisers: Vec<Initialiser>,
    /// From exec to the first instruction of main, initialisers included. `None`: main was not reached, or is not
    /// known.
    pub before_main: Option<Nanos>,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
}

/// What the loader did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// What.
    pub kind: PhaseKind,
    /// When it began.
    pub began: Nanos,
    /// How long it took.
    pub took: Nanos,
}

/// A file that the loader opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Since the file before it: looking for it, opening, reading its head, mapping.
    pub took: Nanos,
    /// It is an object of the program; if not, a table of the loader's (ld.so.cache) or a file that did not fit.
    pub is_object: bool,
}

/// An object that was relocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocated {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Since the object before it was protected, its own protection included.
    pub took: Nanos,
    /// Of that, protection: the call of mprotect.
    pub protecting: Nanos,
    /// What its file asks for.
    pub relocations: Relocations,
}

/// Relocations of a file by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocations {
    /// The load bias is added; RELR counted one by one.
    pub relative: u64,
    /// The address of a symbol is looked up when the file is loaded.
    pub symbolic: u64,
    /// Calls of other objects: looked up when the file is loaded if it is bound at once, else when first called.
    pub calls: u64,
    /// A function of the file is called that says which function to use (IFUNC).
    pub indirect: u64,
    /// Thread-local data.
    pub thread_local: u64,
    /// Data of a library are copied into the program.
    pub copies: u64,
    /// All symbols of `calls` are looked up when the file is loaded.
    pub bound_at_once: bool,
}

/// A function that runs before main, or when a library is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialiser {
    /// The object in whose tables it is.
    pub object: PathBuf,
    /// Its address as the file has it.
    pub address: u64,
    /// Which table.
    pub table: Table,
    /// Its place in the table.
    pub place: u32,
    /// Thread that ran it.
    pub tid: u32,
    /// When it began.
    pub began: Nanos,
    /// How long it took, others that ran within it (a library that it loaded) included.
    pub took: Nanos,
    /// CPU time of its thread meanwhile. `None`: the kernel does not count it.
    pub cpu: Option<Nanos>,
    /// The initialiser within which it ran, by its place in [`Loaded::initialisers`].
    pub within: Option<u32>,
    /// It came back. If not, `took` is until the end of what was seen, and `cpu` is unknown.
    pub returned: bool,
}
