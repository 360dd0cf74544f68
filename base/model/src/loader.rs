//! The loader's share of a start: the nouns of `measure/cpu` that the recording keeps.
//!
//! Times are nanoseconds since the call of exec, on the program's own clock: what watching cost is taken out.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run in which the loader was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderRun {
    /// The programs that the first process executed, one after the other.
    pub starts: Vec<LoaderStart>,
    /// What watching cost.
    pub cost: Cost,
}

/// One program that was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderStart {
    /// Its file.
    pub program: PathBuf,
    /// Why nothing is known of it: it is static, of 32 bits, has another loader than glibc's. `None`: it was seen.
    pub because: Option<String>,
    /// From the call of exec to the first instruction of the loader. `None`: not seen.
    pub exec: Option<Nanos>,
    /// From exec to main. `None`: main was not reached, or is not known.
    pub before_main: Option<Nanos>,
    /// What follows exec, one behind the other.
    pub phases: Vec<LoaderPhase>,
    /// Files that the loader opened, in its order, then those that it relocated besides: the program, the loader.
    pub objects: Vec<LoaderObject>,
    /// Initialisers in the order in which they began.
    pub initialisers: Vec<InitialiserRow>,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
}

/// What the loader did for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderPhase {
    /// What.
    pub phase: PhaseKind,
    /// When it began.
    pub from: Nanos,
    /// How long it took.
    pub took: Nanos,
}

/// The phases between exec and main, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// The loader relocates itself and reads its environment.
    Bootstrap,
    /// Libraries are found, opened and mapped.
    Map,
    /// Versions are checked, thread-local storage is laid out.
    Prepare,
    /// Objects are relocated, and protected.
    Relocate,
    /// What the loader does after the last object is protected.
    Finish,
    /// Initialisers of libraries run.
    Initialise,
    /// From the program's entry to main, with its own initialisers.
    Enter,
}

/// A file that the loader opened or relocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderObject {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// It is an object of the program; if not, a table of the loader's or a file that did not fit.
    pub is_object: bool,
    /// Looking for it, opening, mapping. `None`: the kernel mapped it.
    pub mapped: Option<Nanos>,
    /// Relocation, protection included. `None`: it was not relocated, or not seen alone.
    pub relocated: Option<Nanos>,
    /// Of that, protection.
    pub protected: Option<Nanos>,
    /// What its file asks for; all 0 where `relocated` is `None`.
    pub relative: u64,
    /// Symbols that are looked up when it is loaded.
    pub symbolic: u64,
    /// Calls of other objects.
    pub calls: u64,
    /// Functions that choose functions (IFUNC).
    pub irelative: u64,
    /// Thread-local data.
    pub thread_local: u64,
    /// Data that are copied into the program.
    pub copies: u64,
    /// All `calls` are looked up when it is loaded.
    pub bound_at_once: bool,
}

/// A function that ran before main, or when a library was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialiserRow {
    /// The object in whose tables it is.
    pub object: PathBuf,
    /// Its address as the file has it.
    pub address: u64,
    /// Which table.
    pub table: Table,
    /// Its place in the table.
    pub place: u32,
    /// Its function; `None`: nothing names it.
    pub function: Option<String>,
    /// `file:line`, where debug data tell.
    pub source: Option<String>,
    /// Thread that ran it.
    pub tid: u32,
    /// When it began.
    pub began: Nanos,
    /// How long it took, those within it included.
    pub took: Nanos,
    /// CPU time of its thread meanwhile. `None`: not known.
    pub cpu: Option<Nanos>,
    /// The initialiser within which it ran, by its place in the list.
    pub within: Option<u32>,
    /// It came back. If not, `took` is until the end of what was seen.
    pub returned: bool,
}

/// Tables of initialisers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// DT_PREINIT_ARRAY, of the program alone.
    PreInit,
    /// DT_INIT: one function.
    Init,
    /// DT_INIT_ARRAY.
    InitArray,
}

/// What watching cost. All of it is taken out of the times of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// How often the program was stopped.
    pub stops: u64,
    /// How long it stood still while we looked.
    pub stopped: Nanos,
    /// What stopping and going on cost besides, all together.
    pub subtracted: Nanos,
    /// How long the program waited for a CPU, after stops and because others had it, and the tracer after stops.
    pub waited: Nanos,
    /// The tracer went before all others. If not, its own waits for a CPU are in the times.
    pub first: bool,
    /// Of one breakpoint: the median of those with nothing between them.
    pub breakpoint: Nanos,
    /// Of the beginning and the end of one system call, in the same way.
    pub call: Nanos,
}
