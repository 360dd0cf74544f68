//! A recording: guards, warm-up, then learning, random blocks, the answer.
//!
//! The order is chosen so that a mistake costs nothing: what can be checked is checked before anything runs, and the
//! recording is made only when the program is known to start.

pub mod loader;
pub mod more;
mod needed;

use crate::facts;
use crate::plan::RecordPlan;
use crate::progress::Tell;
use crate::recorded;
use crate::report::ReportDocument;
use crate::start::disk::RunDisk;
use crate::start::events::Events;
use crate::start::head::{check_states, hand_over, header, open_engine, open_timing, warm_up, write_head};
use crate::start::sink::{EngineTracer, Recorder};
use crate::start::stage::Stage;
use crate::words::units::plural;
use bench::conduct::{End, Summary, conduct};
use bench::record::Lab;
use model::{Error, Exit, Result, Warning};
use recording::{Replace, Writer};
use std::path::Path;
use std::time::Duration;

/// What was recorded.
pub struct Recorded {
    /// What the recording says.
    pub document: ReportDocument,
    /// [`Exit::Interrupted`], or [`Exit::Machine`] where not all that was asked for was reached.
    pub exit: Exit,
}

/// Records.
///
/// # Errors
/// Everything that can go wrong with a program, a machine or a disk. What was finished is in the recording, and the
/// machine is as it was found.
pub fn run(plan: &RecordPlan, mut progress: Box<dyn Tell>) -> Result<Recorded> {
    check_states(&plan.schedule.states)?;
    let mut stage = Stage::set(plan)?;
    warm_up(&stage, &mut *progress)?;

    let (disk, mut warnings) = enter_disk(plan, &mut stage, &mut *progress)?;
    let (mut lab, more) = Lab::open(stage.programs.clone(), stage.lab.clone())?;
    warnings.extend(more);
    facts::set_read_ahead(&mut stage.facts, lab.disks());
    let (engine, engine_warnings) = open_engine(plan, &stage)?;
    warnings.extend(engine_warnings);
    let (timing, timing_warnings) = open_timing(plan)?;
    warnings.extend(timing_warnings);
    let mut writer = Writer::create(&plan.output, &header(plan, &stage)?, plan.replace)?;
    warnings.extend(plan.warnings.iter().cloned());
    write_head(&mut writer, &stage, &warnings)?;

    let events = Events::of(plan.events.as_ref(), plan.user.as_ref(), &stage);
    let (mut tracer, seen) = EngineTracer::new(engine, events.clone(), timing.clone());
    let mut recorder = Recorder::new(writer, seen, &stage, progress);
    recorder.listen_to(events);
    recorder.name_with(timing);
    if let Some(disk) = &disk {
        lab.stand_on(Box::new(disk.clone()));
        recorder.on_disk(disk.files()?);
    }
    let conducted = conduct(&plan.schedule, &mut lab, &mut recorder, Some(&mut tracer));
    let needed = match &conducted {
        Ok(summary) if summary.end != End::Interrupted => needed::take(plan, &mut lab, &mut recorder, &mut tracer),
        _ => Ok(()),
    };
    let watched = match (&conducted, &needed) {
        (Ok(summary), Ok(())) if summary.end != End::Interrupted => loader::take(plan, &mut lab, &mut recorder),
        _ => Ok(()),
    };
    let mut stays = lab.close();
    let (facts, more) = disk.map(RunDisk::leave).unwrap_or_default();
    stays.extend(more);
    let counted = recorder.counted();
    let finished =
        needed.is_ok() && watched.is_ok() && matches!(&conducted, Ok(summary) if summary.end != End::Interrupted);
    let ended = recorder.add_facts(&facts).and_then(|()| recorder.end(&stays, finished));
    hand_over(&plan.output)?;
    // Why the runs ended tells more than why the recording could not be ended.
    let summary = conducted.map_err(|error| explained(plan, counted, error))?;
    needed.and(watched).map_err(|error| explained(plan, counted, error))?;
    ended?;
    drop(stage);
    answer(plan, &summary, counted)
}

/// Before anything has a second thread: it would stay outside.
fn enter_disk(
    plan: &RecordPlan,
    stage: &mut Stage,
    progress: &mut dyn Tell,
) -> Result<(Option<RunDisk>, Vec<Warning>)> {
    let Some(chosen) = &plan.disk else { return Ok((None, Vec::new())) };
    progress.note("copying the program to the simulated disk", Duration::ZERO);
    let (disk, warnings) = RunDisk::enter(chosen, stage, &plan.output)?;
    // Copies of profiles must not be gone when the disk is put back.
    stage.lab.snapshot_dir = Some(os::journal::state_dir()?);
    stage.facts.extend(disk.facts(chosen));
    Ok((Some(disk), warnings))
}

/// An existing file is told about before ten minutes are spent, not after.
///
/// # Errors
/// It is there, and must not be replaced.
pub fn check_output(plan: &RecordPlan) -> Result<()> {
    check_recording(&plan.output, plan.replace)
}

/// Whether a recording may be written here.
///
/// # Errors
/// Something is there that may not be replaced.
pub fn check_recording(output: &Path, replace: Replace) -> Result<()> {
    let there = std::fs::symlink_metadata(output).is_ok();
    if there && replace == Replace::Never {
        return Err(Error::on(Exit::Usage, "the recording is already there", output)
            .hint("--force replaces it, -o FILE writes another one"));
    }
    Ok(())
}

/// What the rooms cannot say: which option is about it, and that nothing is lost.
fn explained(plan: &RecordPlan, counted: u32, mut error: Error) -> Error {
    remove_if_empty(plan, counted);
    let mut hints: Vec<String> = error.hint.take().into_iter().collect();
    if counted > 0 {
        let runs = plural(counted.into(), "run", "runs");
        hints.push(format!("{runs} are kept: `thaw report {}`", model::shown(&plan.output)));
    }
    if !hints.is_empty() {
        error.hint = Some(hints.join("\n"));
    }
    error
}

/// A recording without a single counted run says nothing, and would be in the way of the next try.
fn remove_if_empty(plan: &RecordPlan, counted: u32) {
    if counted == 0 {
        // If it cannot be removed it stays in the way; the next try says so.
        let _ = std::fs::remove_file(&plan.output);
    }
}

fn answer(plan: &RecordPlan, summary: &Summary, counted: u32) -> Result<Recorded> {
    let interrupted = summary.end == End::Interrupted;
    if interrupted && counted == 0 {
        remove_if_empty(plan, counted);
        return Err(Error::interrupted().hint("no run was finished, so there is no recording"));
    }
    let document = recorded::report(&plan.output)?;
    let exit = match interrupted {
        true => Exit::Interrupted,
        // What was reached is answered; that not all of it was, is said by the code too.
        false if !summary.unreached.is_empty() => Exit::Machine,
        false => Exit::Done,
    };
    Ok(Recorded { document, exit })
}
