//! One start while an engine of the room `touch` looks. `thaw record` uses it too, for the start that says what is
//! needed.

use super::sink::Recorder;
use crate::plan::RecordPlan;
use bench::conduct::{Host, Prepared, Sink, Tracer, Verdict};
use bench::record::Lab;
use model::{CacheState, Error, Exit, Result, RunKind, TraceRows, Warning};
use std::time::Duration;
use touch::Trace;

/// Which start.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its number in the lab.
    pub program: u32,
    /// What is started in its place, by its number in the lab: the same program inside another one.
    pub inside: Option<u32>,
    /// Its number in the recording.
    pub variant: u32,
    /// In which state it starts.
    pub state: CacheState,
    /// Why.
    pub kind: RunKind,
}

/// Lends a tracer of the room `io` to the room `touch`.
pub struct FillTracer<'a> {
    engine: &'a mut dyn io::Engine,
    /// Doubts about names and places of files.
    pub warnings: Vec<Warning>,
}

impl<'a> FillTracer<'a> {
    /// A tracer with this engine.
    pub fn new(engine: &'a mut dyn io::Engine) -> Self {
        Self { engine, warnings: Vec::new() }
    }
}

impl Trace for FillTracer<'_> {
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.engine.attach(pid)
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows> {
        let raw = self.engine.stop(t0_monotonic_ns)?;
        let resolved = io::resolve(&raw);
        self.warnings = resolved.warnings.clone();
        Ok(io::attribute(&raw, &resolved))
    }
}

/// Lends a trace of the room `touch` to the room `bench`.
pub struct Watching<'a> {
    /// It.
    pub trace: &'a mut dyn Trace,
    /// What it saw; known after the start.
    pub rows: Option<TraceRows>,
}

impl Tracer for Watching<'_> {
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.trace.attach(pid)
    }

    fn detach(&mut self, t0_ns: u64) -> Result<()> {
        self.rows = Some(self.trace.stop(t0_ns)?);
        Ok(())
    }
}

/// Starts the program once and stores what was seen. `what` names the start for people.
///
/// # Errors
/// The state cannot be reached; the program fails; the trace fails; the disk is full.
pub fn watch(
    plan: &RecordPlan,
    lab: &mut Lab,
    recorder: &mut Recorder,
    place: Place,
    what: &str,
    trace: &mut dyn Trace,
) -> Result<()> {
    let prepared = prepare(plan, lab, recorder, place)?;
    let mut watching = Watching { trace: &mut *trace, rows: None };
    let outcome = {
        let mut tick = |time| recorder.note(what, time);
        tick(Duration::ZERO);
        let started = place.inside.unwrap_or(place.program);
        lab.start(started, place.state, place.kind, Some(&mut watching), &mut tick)?
    };
    let mut row = outcome.row;
    row.variant = place.variant;
    row.own_resident_share = prepared.own_share;
    row.system_resident_share = prepared.system_share;
    row.id = recorder.run(&row, &outcome.milestones, &prepared.residency)?;
    let traces_itself = watching.rows.as_ref().is_some_and(calls_ptrace);
    // Of a program inside another one, what it touched until it failed is worth keeping: the next try takes as long.
    let kept = watching.rows.filter(|_| row.accepted || place.inside.is_some());
    let is_kept = kept.is_some();
    if let Some(rows) = kept {
        recorder.touched(row.id, place.program, rows)?;
    }
    if row.accepted {
        return Ok(());
    }
    let doubt = trace.doubt();
    let mut because = row.rejected_because.unwrap_or_else(|| "it failed".into());
    if let Some(seen) = doubt.as_ref().and_then(|doubt| doubt.because.as_deref()) {
        because = format!("{because}; {seen}");
    }
    let error = Error::new(Exit::Target, "the watched start did not get ready:", lab.name(place.program))
        .because(bench::conduct::with_tail(because, &outcome.output_tail));
    Err(match is_kept {
        true => error.hint(format!(
            "what it touched until then is in the recording (`thaw query`, run {}); if it only takes longer: --timeout",
            row.id.0
        )),
        false if traces_itself => error.hint(
            "it calls ptrace, and a program whose functions are watched cannot trace others: --engine page (as root), \
             or probe",
        ),
        false => error.hint(doubt.map_or_else(|| "if it only takes longer: --timeout".into(), |doubt| doubt.hint)),
    })
}

/// A cold start without read-ahead, which is put back afterwards.
///
/// # Errors
/// No root; a state that cannot be reached; a program that fails.
pub fn exact_pages(
    plan: &RecordPlan,
    lab: &mut Lab,
    recorder: &mut Recorder,
    place: Place,
    tracer: FillTracer<'_>,
) -> Result<()> {
    let mut engine = touch::Pages(tracer);
    let watched = lab
        .without_read_ahead()
        .and_then(|()| watch(plan, lab, recorder, place, "a cold start without read-ahead", &mut engine));
    lab.with_read_ahead()?;
    watched?;
    recorder.warn_all(engine.0.warnings)
}

/// Whether a function of this name was seen called: only the engine that traces by itself knows functions.
fn calls_ptrace(rows: &TraceRows) -> bool {
    rows.touches.iter().any(|touch| touch.name.as_deref() == Some("ptrace"))
}

/// Brings the caches into the state; waits for others to let go of what they hold, as other runs do.
///
/// # Errors
/// The state cannot be reached; the program does not start.
pub fn prepare(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder, place: Place) -> Result<Prepared> {
    prepare_telling(plan, lab, &mut |what, time| recorder.note(what, time), place)
}

/// The same without a recording; `tell` hears what is going on, and for how long.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_telling(
    plan: &RecordPlan,
    lab: &mut Lab,
    tell: &mut dyn FnMut(&str, Duration),
    place: Place,
) -> Result<Prepared> {
    let mut attempt = 1;
    loop {
        let mut tick = |time| tell(&format!("preparing a {} start", place.state), time);
        let prepared = lab.prepare(place.program, place.state, &mut tick)?;
        match prepared.verdict {
            Verdict::InState | Verdict::Unproven => return Ok(prepared),
            Verdict::NotInState(why) | Verdict::NeedsWarmUp(why) if attempt >= plan.schedule.max_attempts => {
                return Err(Error::new(Exit::Machine, "the cache state cannot be reached:", place.state).because(why));
            }
            Verdict::NeedsWarmUp(_) => {
                let mut tick = |time| tell("unmeasured start", time);
                let outcome = lab.start(place.program, place.state, RunKind::Warmup, None, &mut tick)?;
                if !outcome.row.accepted {
                    let because = outcome.row.rejected_because.unwrap_or_else(|| "it failed".into());
                    return Err(Error::new(Exit::Target, "no start worked of", lab.name(place.program))
                        .because(bench::conduct::with_tail(because, &outcome.output_tail))
                        .hint("run the same command by hand; if it only takes longer, raise --timeout"));
                }
            }
            Verdict::NotInState(_) => lab.wait(plan.schedule.patience * attempt, &mut tick)?,
        }
        attempt += 1;
    }
}
