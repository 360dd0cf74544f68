//! What comes before and after the runs of every recording, whoever makes it: checks, a fresh profile, the head of the
//! file.

use super::sink::Timing;
use super::stage::Stage;
use super::timing::CpuTracer;
use crate::facts;
use crate::plan::RecordPlan;
use crate::plan::stored::stored;
use crate::progress::Tell;
use crate::shell::command_line;
use bench::conduct::{Host, with_tail};
use bench::record::{Lab, LabOptions};
use io::{Engine, EngineOptions};
use model::{CacheState, Error, Exit, Result, RunKind, Warning};
use recording::{Header, Variant, Writer};
use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

/// Only root may drop the machine's caches.
///
/// # Errors
/// A state needs that, and this user may not.
pub fn check_states(states: &[CacheState]) -> Result<()> {
    let need = |state: &&CacheState| matches!(state, CacheState::Cold | CacheState::Boot);
    let Some(state) = states.iter().find(need) else { return Ok(()) };
    match std::fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches") {
        Ok(_) => Ok(()),
        Err(cause) => Err(Error::new(Exit::Machine, "this user cannot reach the cache state", state)
            .because(format!("/proc/sys/vm/drop_caches: {cause}"))
            .hint(
                "run it as root, or record what works without: --state app,hot (the program's own files are evicted \
             one by one)",
            )),
    }
}

/// One start that fills a fresh profile: the program is measured with an existing one, which is put back before each
/// run.
///
/// # Errors
/// The program does not start.
pub fn warm_up(stage: &Stage, progress: &mut dyn Tell) -> Result<()> {
    if stage.run_dir.is_none() {
        return Ok(());
    }
    let programs = stage.programs.iter().cloned().map(|mut program| {
        program.restore.clear();
        program
    });
    let options = LabOptions { recording: stage.lab.recording.clone(), wait: stage.lab.wait, ..LabOptions::default() };
    let (mut lab, _) = Lab::open(programs.collect(), options)?;
    for variant in 0..stage.programs.len() as u32 {
        let mut tick = |time| progress.note("making a fresh profile", time);
        tick(Duration::ZERO);
        let outcome = lab.start(variant, CacheState::Hot, RunKind::Warmup, None, &mut tick)?;
        if !outcome.row.accepted {
            let because = outcome.row.rejected_because.unwrap_or_else(|| "it failed".into());
            let argv = command_line(&stage.programs[variant as usize].argv);
            return Err(Error::new(Exit::Target, "the program did not start in its fresh profile", argv)
                .because(with_tail(because, &outcome.output_tail)));
        }
    }
    lab.close();
    Ok(())
}

/// Opens the tracer; what it cannot do here is a warning.
///
/// # Errors
/// The one that was asked for does not work here.
pub fn open_engine(plan: &RecordPlan, stage: &Stage) -> Result<(Box<dyn Engine>, Vec<Warning>)> {
    let program = stage.program_files.first().cloned();
    let options = EngineOptions { program, app_dirs: stage.app_dirs(), wakes: plan.events.is_some() };
    io::open_engine(plan.engine, &options)
}

/// Opens what takes down where the time goes, if that is asked for; what it cannot do here is a warning.
///
/// # Errors
/// It works for nobody here.
pub fn open_timing(plan: &RecordPlan) -> Result<(Option<Timing>, Vec<Warning>)> {
    if !plan.why {
        return Ok((None, Vec::new()));
    }
    let (tracer, warnings) = CpuTracer::open()?;
    Ok((Some(Rc::new(RefCell::new(tracer))), warnings))
}

/// What the recording says of how it was made.
///
/// # Errors
/// The plan is no JSON: a bug.
pub fn header(plan: &RecordPlan, stage: &Stage) -> Result<Header> {
    let mut asked =
        serde_json::to_value(&plan.asked).map_err(|error| Error::bug(format!("cannot store the plan: {error}")))?;
    stored(plan).put_into(&mut asked)?;
    let changes: Vec<(OsString, Option<OsString>)> =
        stage.programs.first().map(|it| it.env.clone()).unwrap_or_default();
    Ok(Header {
        thaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_unix_ns: os::machine::now_unix_ns(),
        command_line: plan.command_line.clone(),
        cwd: std::env::current_dir().unwrap_or_default(),
        environment: facts::environment(&changes),
        plan: asked,
        seed: plan.schedule.seed,
    })
}

/// Everything that is known before the first run.
///
/// # Errors
/// The disk is full.
pub fn write_head(writer: &mut Writer, stage: &Stage, warnings: &[Warning]) -> Result<()> {
    for (index, program) in (0..).zip(&stage.programs) {
        writer.add_variant(&Variant { index, name: program.name.clone(), argv: program.argv.clone() })?;
    }
    writer.add_facts(&stage.facts)?;
    warnings.iter().try_for_each(|warning| writer.add_warning(warning))
}

/// What root wrote for the caller of sudo becomes the caller's.
///
/// # Errors
/// The caller is no user; somebody else put something into its place.
pub fn hand_over(made: &std::path::Path) -> Result<()> {
    match os::user::caller()? {
        Some(caller) if made.exists() => caller.take_over(made),
        _ => Ok(()),
    }
}
