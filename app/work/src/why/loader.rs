//! The loader's share of a start, as a document.

use crate::record::loader::UNKNOWN;
use model::loader::{Cost, InitialiserRow, LoaderObject, LoaderStart, PhaseKind, Table};
use model::{Nanos, Result, RunId, Warning, shown};
use recording::Reader;
use serde::Serialize;

/// What the loader did in a start of a program in which it was watched.
#[derive(Debug, Serialize)]
pub struct LoaderShare {
    /// The program's name.
    pub variant_name: String,
    /// The run: hot, and in none of the other figures.
    pub run: RunId,
    /// The programs that were executed, one after the other.
    pub programs: Vec<LoadedProgram>,
    /// What watching cost; none of it is in the times.
    pub cost: LoaderCost,
    /// The rows that this was made of.
    #[serde(skip)]
    pub rows: Vec<LoaderStart>,
    /// The same of the cost.
    #[serde(skip)]
    pub measured: Cost,
}

/// One program that was executed. Times that begin something are since the call of exec.
#[derive(Debug, Serialize)]
pub struct LoadedProgram {
    /// Its file.
    pub program: String,
    /// Why nothing is known of it.
    pub because: Option<String>,
    /// From the call of exec to the loader's first instruction.
    pub exec_ns: Option<u64>,
    /// From exec to main.
    pub before_main_ns: Option<u64>,
    /// What the loader did, by time.
    pub phases: Vec<LoadedPhase>,
    /// Files that it mapped or relocated: those that took longest first.
    pub objects: Vec<LoadedObject>,
    /// Initialisers, in the order in which they began.
    pub initialisers: Vec<LoadedInitialiser>,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
}

/// What the loader did for a while.
#[derive(Debug, Serialize)]
pub struct LoadedPhase {
    /// What.
    pub phase: PhaseKind,
    /// When it began.
    pub from_ns: u64,
    /// How long it took.
    pub took_ns: u64,
}

/// A file that was mapped or relocated.
#[derive(Debug, Serialize)]
pub struct LoadedObject {
    /// Its path.
    pub path: String,
    /// Whether it is an object of the program, not a table of the loader's.
    pub is_object: bool,
    /// Finding, opening and mapping it; `None`: the kernel did.
    pub mapped_ns: Option<u64>,
    /// Relocating and protecting it.
    pub relocated_ns: Option<u64>,
    /// Of that, protecting.
    pub protected_ns: Option<u64>,
    /// Relative relocations.
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
    /// Whether all `calls` are looked up when it is loaded.
    pub bound_at_once: bool,
}

impl LoadedObject {
    /// Mapping and relocation, in nanoseconds.
    pub fn took_ns(&self) -> u64 {
        self.mapped_ns.unwrap_or(0) + self.relocated_ns.unwrap_or(0)
    }
}

/// A function that ran before main, or when a library was loaded.
#[derive(Debug, Serialize)]
pub struct LoadedInitialiser {
    /// Path of its object.
    pub object: String,
    /// Its address as the file has it.
    pub address: u64,
    /// Which table lists it.
    pub table: Table,
    /// Its function; `None`: nothing names it.
    pub function: Option<String>,
    /// `file:line`
    pub source: Option<String>,
    /// When it began.
    pub began_ns: u64,
    /// How long it took, those within it included.
    pub took_ns: u64,
    /// CPU time of its thread meanwhile; `None`: not known.
    pub cpu_ns: Option<u64>,
    /// The initialiser within which it ran, by its place in the list.
    pub within: Option<u32>,
    /// Whether it came back.
    pub returned: bool,
}

/// What watching cost.
#[derive(Debug, Serialize)]
pub struct LoaderCost {
    /// How often the program was stopped.
    pub stops: u64,
    /// How long it stood still meanwhile.
    pub stopped_ns: u64,
    /// What stops cost besides.
    pub subtracted_ns: u64,
    /// How long it waited for a CPU.
    pub waited_ns: u64,
    /// Whether the tracer went before all others; if not, its own waits for a CPU are in the times.
    pub goes_first: bool,
    /// What one breakpoint costs.
    pub breakpoint_ns: u64,
    /// What the two stops of a system call cost.
    pub call_ns: u64,
}

/// The loader's shares in a recording, by its variants' names; and why some are missing.
pub(super) fn shares(reader: &Reader, name: impl Fn(RunId) -> Option<String>) -> Result<Vec<LoaderShare>> {
    let mut shares = Vec::new();
    for run in reader.loader_runs()? {
        let (Some(rows), Some(variant_name)) = (reader.loader(run)?, name(run)) else { continue };
        shares.push(LoaderShare {
            variant_name,
            run,
            programs: rows.starts.iter().map(program).collect(),
            cost: cost(rows.cost),
            rows: rows.starts,
            measured: rows.cost,
        });
    }
    Ok(shares)
}

/// Why the loader's share is not known of some variants.
pub(super) fn failures(reader: &Reader) -> Result<impl Iterator<Item = Warning>> {
    Ok(reader.warnings()?.into_iter().filter(|warning| warning.text.starts_with(UNKNOWN)))
}

fn cost(cost: Cost) -> LoaderCost {
    LoaderCost {
        stops: cost.stops,
        stopped_ns: cost.stopped.0,
        subtracted_ns: cost.subtracted.0,
        waited_ns: cost.waited.0,
        goes_first: cost.first,
        breakpoint_ns: cost.breakpoint.0,
        call_ns: cost.call.0,
    }
}

fn ns(time: Option<Nanos>) -> Option<u64> {
    time.map(|time| time.0)
}

fn program(start: &LoaderStart) -> LoadedProgram {
    let mut objects: Vec<LoadedObject> = start.objects.iter().map(object).collect();
    objects.sort_by_key(|object| std::cmp::Reverse(object.took_ns()));
    let phase = |phase: &model::loader::LoaderPhase| LoadedPhase {
        phase: phase.phase,
        from_ns: phase.from.0,
        took_ns: phase.took.0,
    };
    LoadedProgram {
        program: shown(&start.program),
        because: start.because.clone(),
        exec_ns: ns(start.exec),
        before_main_ns: ns(start.before_main),
        phases: start.phases.iter().map(phase).collect(),
        objects,
        initialisers: start.initialisers.iter().map(initialiser).collect(),
        cannot: start.cannot.clone(),
    }
}

fn object(row: &LoaderObject) -> LoadedObject {
    LoadedObject {
        path: shown(&row.path),
        is_object: row.is_object,
        mapped_ns: ns(row.mapped),
        relocated_ns: ns(row.relocated),
        protected_ns: ns(row.protected),
        relative: row.relative,
        symbolic: row.symbolic,
        calls: row.calls,
        irelative: row.irelative,
        thread_local: row.thread_local,
        copies: row.copies,
        bound_at_once: row.bound_at_once,
    }
}

fn initialiser(row: &InitialiserRow) -> LoadedInitialiser {
    LoadedInitialiser {
        object: shown(&row.object),
        address: row.address,
        table: row.table,
        function: row.function.clone(),
        source: row.source.clone(),
        began_ns: row.began.0,
        took_ns: row.took.0,
        cpu_ns: ns(row.cpu),
        within: row.within,
        returned: row.returned,
    }
}
