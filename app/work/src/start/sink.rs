//! Between the rooms: the tracer of one becomes the eyes of another, and everything measured goes into the recording.

use super::disk::DiskFiles;
use super::events::Shared;
use super::stage::Stage;
use super::timing::{CpuTracer, Taken};
use crate::facts;
use crate::progress::Tell;
use bench::conduct::{Progress as Now, Sink, Tracer};
use io::{Engine, Ownership, RawTrace};
use model::cpu::Trace;
use model::loader::LoaderRun;
use model::{Milestone, Need, ResidencyRow, Result, RunId, RunKind, RunRow, TraceRows, Warning};
use os::packages::Packages;
use recording::{Fact, Writer};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// What the tracer saw last, on its way to the recorder.
type Seen = Rc<RefCell<Option<Sight>>>;

/// What was seen of a start.
pub struct Sight {
    read: RawTrace,
    /// Where its time went, where that was asked for.
    time: Option<Taken>,
}

/// Takes down where the time goes, for who starts and for who stores.
pub type Timing = Rc<RefCell<CpuTracer>>;

/// Lends `io`'s engine to `bench`.
pub struct EngineTracer {
    engine: Box<dyn Engine>,
    seen: Seen,
    events: Option<Shared>,
    timing: Option<Timing>,
}

impl EngineTracer {
    /// The tracer, and where it leaves what it saw.
    pub fn new(engine: Box<dyn Engine>, events: Option<Shared>, timing: Option<Timing>) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { engine, seen: seen.clone(), events, timing }, seen)
    }

    /// The engine itself.
    pub fn engine(&mut self) -> &mut dyn Engine {
        self.engine.as_mut()
    }
}

impl Tracer for EngineTracer {
    fn looks_first(&mut self) -> bool {
        self.engine.looks_first()
    }

    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        self.events.iter().map(|events| events.borrow_mut().prepare()).collect()
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        self.seen.replace(None);
        self.engine.attach(pid)?;
        self.timing.as_ref().map_or(Ok(()), |timing| timing.borrow_mut().attach(pid))
    }

    fn detach(&mut self, t0_ns: u64) -> Result<()> {
        // The clock first: what else is done now would be in it.
        let time = self.timing.as_ref().map(|timing| timing.borrow_mut().stop(t0_ns)).transpose();
        let read = self.engine.stop(t0_ns)?;
        self.seen.replace(Some(Sight { read, time: time? }));
        Ok(())
    }
}

/// Stores what is measured and says what is going on.
pub struct Recorder {
    writer: Writer,
    seen: Seen,
    ownership: Vec<Ownership>,
    packages: Option<Rc<RefCell<Packages>>>,
    names: Vec<String>,
    /// Files of the simulated disk, if there is one.
    disk: Option<DiskFiles>,
    events: Option<Shared>,
    timing: Option<Timing>,
    progress: Box<dyn Tell>,
    binaries: HashSet<PathBuf>,
    counted: u32,
}

impl Recorder {
    /// A recorder into this file.
    pub fn new(writer: Writer, seen: Seen, stage: &Stage, progress: Box<dyn Tell>) -> Self {
        Self {
            writer,
            seen,
            ownership: stage.ownership.clone(),
            packages: stage.packages.clone(),
            names: stage.programs.iter().map(|program| program.name.clone()).collect(),
            disk: None,
            events: None,
            timing: None,
            progress,
            binaries: HashSet::new(),
            counted: 0,
        }
    }

    /// The programs run from this disk: its files are called by the names of their originals.
    pub fn on_disk(&mut self, files: DiskFiles) {
        self.disk = Some(files);
    }

    /// What tells of the traced starts.
    pub fn listen_to(&mut self, events: Option<Shared>) {
        self.events = events;
    }

    /// What gives names to where the time of traced starts went.
    pub fn name_with(&mut self, timing: Option<Timing>) {
        self.timing = timing;
    }

    /// Stores where the time of a traced start went.
    fn timed(&mut self, run: RunId, row: &RunRow, taken: Option<Taken>) -> Result<()> {
        let (Some(timing), Some(taken), Some(ready)) = (&self.timing, taken, row.wall_ns) else { return Ok(()) };
        self.progress.note("giving names to where the time went", Duration::ZERO);
        let trace: Trace = timing.borrow().name(taken, ready);
        self.writer.add_cpu(run, &trace)
    }

    /// Stores what the program told of a traced start.
    fn told(&mut self, run: RunId, row: &RunRow, t0_ns: u64) -> Result<()> {
        let Some(events) = &self.events else { return Ok(()) };
        let (rows, warnings) = events.borrow_mut().take(row, t0_ns);
        rows.map_or(Ok(()), |rows| self.writer.add_events(run, &rows))?;
        warnings.into_iter().try_for_each(|warning| self.writer.add_warning(&warning.run(run)))
    }

    /// Timed and traced runs that count so far.
    pub fn counted(&self) -> u32 {
        self.counted
    }

    /// Stores what is known only after the runs.
    ///
    /// # Errors
    /// The disk is full.
    pub fn add_facts(&mut self, facts: &[Fact]) -> Result<()> {
        self.writer.add_facts(facts)
    }

    /// Ends the recording: what could not be put back is a warning in it.
    ///
    /// # Errors
    /// The disk is full.
    pub fn end(mut self, stays: &[Warning], finished: bool) -> Result<()> {
        self.progress.done();
        for warning in stays {
            self.writer.add_warning(warning)?;
        }
        if finished { self.writer.finish() } else { Ok(()) }
    }

    /// Stores what a watched run touched.
    ///
    /// # Errors
    /// The disk is full.
    pub fn touched(&mut self, run: RunId, program: u32, mut rows: TraceRows) -> Result<()> {
        self.progress.note("storing what was touched", Duration::ZERO);
        if let Some(disk) = &self.disk {
            disk.name_originals(&mut rows);
        }
        self.assign(program, &mut rows);
        self.writer.add_trace(run, &rows)?;
        self.add_binaries(&rows)
    }

    /// Stores what the loader of a watched run did.
    ///
    /// # Errors
    /// The disk is full.
    pub fn loaded(&mut self, run: RunId, mut rows: LoaderRun) -> Result<()> {
        if let Some(disk) = &self.disk {
            disk.name_originals_of_loader(&mut rows);
        }
        self.writer.add_loader(run, &rows)
    }

    /// Says whose the files are.
    fn assign(&self, program: u32, rows: &mut TraceRows) {
        if let Some(ownership) = self.ownership.get(program as usize) {
            let mut packages = self.packages.as_ref().map(|packages| packages.borrow_mut());
            ownership.assign(rows, packages.as_deref_mut());
        }
    }

    /// Stores doubts.
    ///
    /// # Errors
    /// The disk is full.
    pub fn warn_all(&mut self, warnings: Vec<Warning>) -> Result<()> {
        warnings.iter().try_for_each(|warning| self.writer.add_warning(warning))
    }

    /// Says what is going on outside the schedule.
    pub fn note(&mut self, what: &str, in_step: Duration) {
        self.progress.note(what, in_step);
    }

    /// Remembers the binaries that a trace saw, each once.
    fn add_binaries(&mut self, rows: &TraceRows) -> Result<()> {
        let _span = tracing::info_span!("binaries").entered();
        let executed = rows.processes.iter().filter_map(|process| process.exe.clone()).map(|exe| (exe, None));
        let elf = rows
            .files
            .iter()
            .filter(|file| file.build_id.is_some())
            .map(|file| (file.path.clone(), file.build_id.clone()));
        for (path, build_id) in elf.chain(executed).collect::<Vec<_>>() {
            if self.binaries.insert(path.clone())
                && let Some(binary) = facts::binary(&path, build_id)
            {
                self.writer.add_binary(&binary)?;
            }
        }
        Ok(())
    }
}

impl Sink for Recorder {
    fn run(&mut self, run: &RunRow, milestones: &[Milestone], residency: &[ResidencyRow]) -> Result<RunId> {
        let id = self.writer.add_run(run, milestones, residency)?;
        if run.accepted && matches!(run.kind, RunKind::Timed | RunKind::Trace) {
            self.counted += 1;
        }
        Ok(id)
    }

    fn traced(&mut self, run: RunId, row: &RunRow) -> Result<Option<Vec<Need>>> {
        let Some(Sight { read: raw, time }) = self.seen.take() else { return Ok(None) };
        self.progress.note("reading the trace", Duration::ZERO);
        let progress = &mut self.progress;
        let resolved = io::resolve_with(&raw, &mut |done, of| {
            progress.files(done, of, "of the trace named");
            if os::interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let mut rows = io::attribute(&raw, &resolved);
        if let Some(disk) = &self.disk {
            disk.name_originals(&mut rows);
        }
        self.assign(row.variant, &mut rows);
        let missing = self.disk.as_mut().and_then(|disk| disk.missing(&rows));
        missing.map_or(Ok(()), |warning| self.writer.add_warning(&warning.run(run)))?;
        self.writer.add_trace(run, &rows)?;
        self.told(run, row, raw.t0_monotonic_ns)?;
        self.timed(run, row, time)?;
        self.add_binaries(&rows)?;
        for warning in &resolved.warnings {
            self.writer.add_warning(&warning.clone().run(run))?;
        }
        Ok(Some(io::needs(&rows)))
    }

    fn warning(&mut self, warning: Warning) -> Result<()> {
        self.writer.add_warning(&warning)
    }

    fn progress(&mut self, progress: &Now) {
        self.progress.show(progress, &self.names);
    }
}
