//! One more traced cold start of each variant, without read-ahead: what comes into memory then is what a start needs.

use super::sink::{EngineTracer, Recorder};
use crate::args::record::Needed;
use crate::plan::RecordPlan;
use bench::conduct::{Host, Prepared, Sink, Verdict};
use bench::record::Lab;
use model::{CacheState, Error, Exit, Milestone, Result, RunKind, Warning, WarningKind};
use os::disk::ReadAheadGuard;
use std::time::Duration;

/// Takes the needed runs, where they are wanted and can be had. With `auto`, what goes wrong is a warning in the recording.
///
/// # Errors
/// With `--needed yes`: this machine cannot, or the program failed. In both cases: interrupted, disk full.
pub fn take(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder, tracer: &mut EngineTracer) -> Result<()> {
    if plan.needed == Needed::No || lab.interrupted() {
        return Ok(());
    }
    if let Some(why) = cannot(lab, tracer) {
        let error = Error::new(Exit::Machine, "cannot tell which of the pages read a start needs", "").because(why);
        return if plan.needed == Needed::Yes { Err(error.hint("leave `--needed yes` out")) } else { Ok(()) };
    }
    for variant in 0..plan.programs.len() as u32 {
        let name = lab.name(variant);
        match take_one(plan, lab, recorder, tracer, variant) {
            Err(error) if plan.needed == Needed::Auto && !matches!(error.exit, Exit::Interrupted | Exit::Bug) => {
                let text = format!("no run without read-ahead told what {name} needs: {error}");
                recorder.warning(Warning::new(WarningKind::Note, text).hint("`--needed no` leaves it out"))?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// Why nobody can know here.
fn cannot(lab: &Lab, tracer: &EngineTracer) -> Option<String> {
    if tracer.engine_name() == "probe" {
        return Some("the probe engine cannot tell what is touched from what is read ahead".to_owned());
    }
    if lab.learning_state() != CacheState::Cold {
        return Some("this user cannot empty the caches".to_owned());
    }
    lab.disks().is_empty().then(|| "the program and its files are on no block device".to_owned())
}

fn take_one(
    plan: &RecordPlan,
    lab: &mut Lab,
    recorder: &mut Recorder,
    tracer: &mut EngineTracer,
    variant: u32,
) -> Result<()> {
    let none = lab.disks().iter().map(|disk| ReadAheadGuard::set(disk, 0)).collect::<Result<Vec<_>>>()?;
    let prepared = prepare(plan, lab, recorder, variant)?;
    let outcome = {
        let mut tick = |time| recorder.note("a cold start without read-ahead", time);
        tick(Duration::ZERO);
        lab.start(variant, CacheState::Cold, RunKind::Touch, Some(tracer), &mut tick)?
    };
    // Last set, first put back: a disk that is named twice ends as it was found.
    none.into_iter().rev().try_for_each(ReadAheadGuard::undo)?;
    let mut row = outcome.row;
    row.own_resident_share = prepared.own_share;
    row.system_resident_share = prepared.system_share;
    row.id = recorder.run(&row, &outcome.milestones as &[Milestone], &prepared.residency)?;
    if !row.accepted {
        let because = row.rejected_because.unwrap_or_else(|| "it failed".into());
        return Err(Error::new(Exit::Target, "the start without read-ahead did not get ready", lab.name(variant))
            .because(because)
            .hint("raise --timeout, or leave it out: --needed no"));
    }
    recorder.touched(row.id, &row)
}

/// Empties the caches, and waits for others to let go of what they hold as the other runs do.
fn prepare(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder, variant: u32) -> Result<Prepared> {
    let mut attempt = 1;
    loop {
        let mut tick = |time| recorder.note("emptying the caches", time);
        let prepared = lab.prepare(variant, CacheState::Cold, &mut tick)?;
        match prepared.verdict {
            Verdict::NotInState(why) | Verdict::NeedsWarmUp(why) if attempt >= plan.schedule.max_attempts => {
                return Err(Error::new(Exit::Machine, "the caches could not be emptied", "").because(why));
            }
            Verdict::NotInState(_) | Verdict::NeedsWarmUp(_) => {
                lab.wait(plan.schedule.patience * attempt, &mut tick)?
            }
            Verdict::InState | Verdict::Unproven => return Ok(prepared),
        }
        attempt += 1;
    }
}
