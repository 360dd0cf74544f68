//! What a recording tells about the program to optimise: its directory, how it was started, what its start read.

use crate::plan::{Plans, RecordPlan};
use crate::recorded::{self, Loaded};
use bench::record::Program;
use model::{Bytes, CacheState, Error, Exit, Nanos, ProcessRow, Result, TraceRows, shown};
use optimize::files::{self, Candidate};
use os::replace::Existing;
use recording::Reader;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is wished for.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The program's own directory, if it is not the one where its executable was installed.
    pub root: Option<PathBuf>,
    /// Which of the recorded programs; `None`: the first.
    pub variant: Option<String>,
    /// A command line to compare what it prints, instead of the recorded program.
    pub check: Option<String>,
    /// The state to measure in; `None`: as the recording was made.
    pub state: Option<CacheState>,
    /// Runs of each set of remedies.
    pub runs: u32,
    /// The disk to predict for and to measure on, as it is typed; `None`: that of the recording.
    pub disk: Option<String>,
    /// Read-ahead while measuring; `None`: as in the recording.
    pub readahead: Option<Bytes>,
    /// Whether an earlier result is replaced.
    pub existing: Existing,
    /// Whether the runs are told of on stderr.
    pub runs_told: Told,
}

/// Whether the process that measures says what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It does.
    Loud,
    /// Nothing but errors.
    Quiet,
}

/// A recorded program.
pub struct Source {
    /// The recording; absolute.
    pub recording: PathBuf,
    /// Everything but the traces.
    pub loaded: Loaded,
    /// A traced start that was not hot.
    pub rows: TraceRows,
    /// A start that shows which pages are needed, if there is one.
    pub touched: Option<TraceRows>,
    /// Until it was ready.
    pub length: Nanos,
    /// The program's directory, without links. `None`: it shares its directory with others.
    pub root: Option<PathBuf>,
    /// The executable, behind launch scripts and links.
    pub program: PathBuf,
    /// What is typed to start it: that, or a script or link to it.
    pub start: PathBuf,
    /// The files that its start read and that a remedy may change.
    pub candidates: Vec<Candidate>,
    /// The program as it was recorded, placeholders unfilled.
    pub recorded: Program,
    /// How it was recorded.
    pub plan: RecordPlan,
    /// The state to measure in.
    pub state: CacheState,
    /// Name of the recorded program.
    pub variant: String,
}

impl Source {
    /// Reads it. This process is where the recording was made from now on: relative paths of its command line are meant
    /// from there.
    ///
    /// # Errors
    /// No program or no traced start in it; the program is not there any more, or is another one now.
    pub fn read(recording: &Path, wishes: &Wishes, plans: &dyn Plans) -> Result<Self> {
        let absolute = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
        let typed_root =
            wishes.root.as_deref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.to_owned()));
        let reader = Reader::open(recording)?;
        let loaded = Loaded::of(recording, &reader)?;
        let index = variant_index(recording, &loaded, wishes.variant.as_deref())?;
        let header = reader.header()?;
        let (rows, length) = trace(recording, &reader, &loaded, index)?;
        let touched = loaded.starts.needed_pages(&reader, index as u32)?;
        std::env::set_current_dir(&header.cwd).map_err(|cause| {
            Error::on(Exit::Data, "cannot go to where it was recorded:", &header.cwd)
                .because(cause)
                .hint("record it again")
        })?;
        let plan = plans.of_recording(recording, &header)?;
        let recorded = plan.programs.get(index).cloned().ok_or_else(|| no_program(recording))?;
        let executed = executed(&rows, &recorded)?;
        let program = executed.canonicalize().unwrap_or(executed);
        let root = files::root_of(&program, typed_root.as_deref())?;
        let start = started(&recorded, &program)?;
        check_same(&loaded, &program, &reader)?;
        let candidates = candidates(&rows, root.as_deref(), &recorded);
        let cold = loaded.asked.states.contains(&CacheState::Cold);
        let state = wishes.state.unwrap_or(if cold { CacheState::Cold } else { CacheState::App });
        let variant = loaded.names[index].clone();
        Ok(Self {
            recording: absolute,
            loaded,
            rows,
            touched,
            length,
            root,
            program,
            start,
            candidates,
            recorded,
            plan,
            state,
            variant,
        })
    }

    /// The disk to predict for and to measure on, as it is typed; `None`: this machine's own.
    pub fn disk(&self, wishes: &Wishes) -> Option<String> {
        let asked = &self.loaded.asked;
        let simulated = || asked.disk.as_deref().map(|name| name.strip_prefix("quick:").unwrap_or(name).to_owned());
        let limit = || {
            let parts = [
                asked.throttle_iops.map(|iops| format!("iops={iops}")),
                asked.throttle_bps.map(|bps| format!("bps={bps}")),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("throttle:{}", parts.join(",")))
        };
        wishes.disk.clone().or_else(simulated).or_else(limit)
    }

    /// Why it is that one.
    pub fn disk_because(&self, wishes: &Wishes) -> &'static str {
        match (&wishes.disk, self.disk(wishes)) {
            (Some(_), _) => "--disk names it",
            (None, Some(_)) => "the recording was made on it",
            (None, None) => "it is as fast as the disk of the recording was; starts are measured on this machine's own",
        }
    }

    /// The program's directory; of one that shares it with others, that one.
    pub fn directory(&self) -> &Path {
        let own = self.root.as_deref().filter(|root| self.program.starts_with(root));
        own.or(self.program.parent()).unwrap_or(Path::new("/"))
    }

    /// A file in answers: below the program's own directory, else in full.
    pub fn shown(&self, path: &Path) -> String {
        shown(self.root.as_deref().and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path))
    }

    /// The program's own files among those that may be changed.
    pub fn own(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|candidate| candidate.is_own)
    }
}

/// What may be changed: nothing of thaw, which the program is between fork and exec, and no directory that is made anew
/// for each recording.
fn candidates(rows: &TraceRows, root: Option<&Path>, recorded: &Program) -> Vec<Candidate> {
    let own = std::env::current_exe().ok();
    let mut candidates = files::candidates(rows, root, &recorded.restore);
    candidates.retain(|it| Some(&it.path) != own.as_ref() && it.path.is_file());
    candidates
}

fn no_program(recording: &Path) -> Error {
    Error::on(Exit::Data, "there is no program in the recording", recording)
        .hint("record one: thaw record -- PROGRAM ARGS")
}

fn variant_index(recording: &Path, loaded: &Loaded, name: Option<&str>) -> Result<usize> {
    if loaded.names.is_empty() {
        return Err(no_program(recording));
    }
    let Some(name) = name else { return Ok(0) };
    loaded.names.iter().position(|known| known == name).ok_or_else(|| {
        Error::new(Exit::Usage, "the recording has no variant", name)
            .hint(format!("it has: {}", loaded.names.join(", ")))
    })
}

fn trace(recording: &Path, reader: &Reader, loaded: &Loaded, variant: usize) -> Result<(TraceRows, Nanos)> {
    let row = loaded.starts.coldest_that_read(variant as u32).ok_or_else(|| {
        Error::on(Exit::Data, "there is no traced cold start in the recording", recording)
            .hint("thaw record --state cold -- PROGRAM (as root), or --state app")
    })?;
    let rows = reader.trace(row.id)?;
    let length = recorded::length(&rows, row);
    Ok((rows, length))
}

/// The executable that the first process was at last: behind launch scripts and links.
fn executed(rows: &TraceRows, program: &Program) -> Result<PathBuf> {
    let is_first = |process: &&ProcessRow| !rows.processes.iter().any(|other| other.pid == process.parent);
    let seen = rows.processes.iter().find(is_first).and_then(|process| process.exe.clone());
    if let Some(exe) = seen.filter(|exe| exe.is_absolute() && exe.exists()) {
        return Ok(exe);
    }
    let typed = program.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let found = os::spawn::resolve_program(typed).map_err(|error| gone(Path::new(typed)).because(error.to_string()))?;
    found.canonicalize().map_err(|cause| gone(&found).because(cause))
}

fn gone(path: &Path) -> Error {
    Error::on(Exit::Data, "the recorded program is not on this machine:", path)
        .hint("a recording is of one machine: record the program here, then `thaw optimize`")
}

/// What is typed to start the program: found by PATH, links not followed, because programs look at how they were
/// called.
fn started(recorded: &Program, executed: &Path) -> Result<PathBuf> {
    let typed = recorded.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let typed = match recorded.cwd.as_deref().filter(|_| Path::new(typed).components().count() > 1) {
        Some(cwd) => cwd.join(typed).into_os_string(),
        None => typed.to_owned(),
    };
    let found = os::spawn::resolve_program(&typed).map_err(|error| gone(executed).because(error.to_string()))?;
    std::path::absolute(&found).map_err(|cause| gone(&found).because(cause))
}

/// It is still the program that was recorded.
fn check_same(loaded: &Loaded, program: &Path, reader: &Reader) -> Result<()> {
    let binaries = reader.binaries()?;
    let Some(known) = binaries.iter().find(|binary| binary.path == program) else { return Ok(()) };
    let size = program.metadata().map_err(|cause| gone(program).because(cause))?.len();
    if size == known.size.0 {
        return Ok(());
    }
    Err(Error::on(Exit::Data, "the program is another one than in the recording:", program)
        .because(format!("it has {size} bytes now, and had {}", known.size.0))
        .hint(format!("record it again: {}", loaded.source.command_line.join(" "))))
}
