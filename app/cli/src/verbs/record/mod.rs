//! `thaw record`: guards, warm-up, then learning, random blocks, the answer.
//!
//! The order is chosen so that a mistake costs nothing: what can be checked is checked before anything runs, and the
//! recording is made only when the program is known to start.

mod disk;
pub mod more;
mod needed;
pub mod sink;
pub mod stage;

use self::disk::RunDisk;
use crate::plan::RecordPlan;
use crate::progress::Progress;
use crate::{document, export, facts, output, text};
use bench::conduct::{End, Host, Summary, conduct, with_tail};
use bench::record::{Lab, LabOptions};
use io::{Engine, EngineOptions};
use model::{CacheState, Error, Exit, Result, RunKind, Warning};
use os::replace::Existing;
use recording::{Header, Replace, Variant, Writer};
use sink::{EngineTracer, Recorder};
use stage::Stage;
use std::ffi::OsString;
use std::time::Duration;

/// Rows of the tables of files in the answer that follows a recording.
const TOP: usize = 10;

/// Records and prints the answer.
///
/// # Errors
/// Everything that can go wrong with a program, a machine or a disk. What was finished is in the recording, and the
/// machine is as it was found.
pub fn run(plan: RecordPlan, quiet: bool) -> Result<Exit> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    check_output(&plan)?;
    check_states(&plan.schedule.states)?;
    let mut progress = Progress::new(quiet);
    let mut stage = Stage::set(&plan)?;
    if !quiet {
        stage.lab.wait.say = |text| output::complain(&format!("{text}\n"));
    }
    warm_up(&stage, &mut progress)?;

    let (disk, mut warnings) = enter_disk(&plan, &mut stage, &mut progress)?;
    let (mut lab, more) = Lab::open(stage.programs.clone(), stage.lab.clone())?;
    warnings.extend(more);
    facts::set_read_ahead(&mut stage.facts, lab.disks());
    let (engine, engine_warnings) = open_engine(&plan, &stage)?;
    warnings.extend(engine_warnings);
    let mut writer = Writer::create(&plan.output, &header(&plan, &stage)?, plan.replace)?;
    warnings.extend(plan.warnings.iter().cloned());
    write_head(&mut writer, &stage, &warnings)?;

    let (mut tracer, seen) = EngineTracer::new(engine);
    let mut recorder = Recorder::new(writer, seen, &stage, progress);
    if let Some(disk) = &disk {
        lab.stand_on(Box::new(disk.clone()));
        recorder.on_disk(disk.files()?);
    }
    let conducted = conduct(&plan.schedule, &mut lab, &mut recorder, Some(&mut tracer));
    let needed = match &conducted {
        Ok(summary) if summary.end != End::Interrupted => needed::take(&plan, &mut lab, &mut recorder, &mut tracer),
        _ => Ok(()),
    };
    let mut stays = lab.close();
    let (facts, more) = disk.map(RunDisk::leave).unwrap_or_default();
    stays.extend(more);
    let counted = recorder.counted();
    let finished = needed.is_ok() && matches!(&conducted, Ok(summary) if summary.end != End::Interrupted);
    let ended = recorder.add_facts(&facts).and_then(|()| recorder.end(&stays, finished));
    hand_over(&plan.output)?;
    // Why the runs ended tells more than why the recording could not be ended.
    let summary = conducted.map_err(|error| explained(&plan, counted, error))?;
    needed.map_err(|error| explained(&plan, counted, error))?;
    ended?;
    drop(stage);
    answer(&plan, &summary, counted)
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

/// Before anything has a second thread: it would stay outside.
fn enter_disk(
    plan: &RecordPlan,
    stage: &mut Stage,
    progress: &mut Progress,
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
fn check_output(plan: &RecordPlan) -> Result<()> {
    let there = std::fs::symlink_metadata(&plan.output).is_ok();
    if there && plan.replace == Replace::Never {
        return Err(Error::on(Exit::Usage, "the recording is already there", &plan.output)
            .hint("--force replaces it, -o FILE writes another one"));
    }
    export::check(&plan.export, Existing::forced(plan.replace == Replace::Recording))
}

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
            .hint("run it as root, or record what works without: --state app,hot (the program's own files are evicted one by one)")),
    }
}

/// One start that fills a fresh profile: the program is measured with an existing one, which is put back before each run.
pub fn warm_up(stage: &Stage, progress: &mut Progress) -> Result<()> {
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
            let argv = crate::shell::command_line(&stage.programs[variant as usize].argv);
            return Err(Error::new(Exit::Target, "the program did not start in its fresh profile", argv)
                .because(with_tail(because, &outcome.output_tail)));
        }
    }
    lab.close();
    Ok(())
}

fn open_engine(plan: &RecordPlan, stage: &Stage) -> Result<(Box<dyn Engine>, Vec<Warning>)> {
    let options = EngineOptions { program: stage.program_files.first().cloned(), app_dirs: stage.app_dirs() };
    io::open_engine(plan.engine, &options)
}

pub fn header(plan: &RecordPlan, stage: &Stage) -> Result<Header> {
    let asked =
        serde_json::to_value(&plan.asked).map_err(|error| Error::bug(format!("cannot store the plan: {error}")))?;
    let changes: Vec<(OsString, Option<OsString>)> =
        stage.programs.first().map(|it| it.env.clone()).unwrap_or_default();
    Ok(Header {
        thaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_unix_ns: os::machine::now_unix_ns(),
        command_line: std::env::args_os().collect(),
        cwd: std::env::current_dir().unwrap_or_default(),
        environment: facts::environment(&changes),
        plan: asked,
        seed: plan.schedule.seed,
    })
}

/// Everything that is known before the first run.
pub fn write_head(writer: &mut Writer, stage: &Stage, warnings: &[Warning]) -> Result<()> {
    for (index, program) in (0..).zip(&stage.programs) {
        writer.add_variant(&Variant { index, name: program.name.clone(), argv: program.argv.clone() })?;
    }
    writer.add_facts(&stage.facts)?;
    warnings.iter().try_for_each(|warning| writer.add_warning(warning))
}

/// What the rooms cannot say: that nothing is lost.
fn explained(plan: &RecordPlan, counted: u32, mut error: Error) -> Error {
    remove_if_empty(plan, counted);
    let mut hints: Vec<String> = error.hint.take().into_iter().collect();
    if counted > 0 {
        let runs = text::units::plural(counted.into(), "run", "runs");
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

fn answer(plan: &RecordPlan, summary: &Summary, counted: u32) -> Result<Exit> {
    let interrupted = summary.end == End::Interrupted;
    if interrupted && counted == 0 {
        remove_if_empty(plan, counted);
        return Err(Error::interrupted().hint("no run was finished, so there is no recording"));
    }
    let document = document::report(&plan.output)?;
    if plan.json {
        output::json(&document)?;
    } else {
        output::page(&text::report::page(&document, TOP, text::width::of_terminal()))?;
    }
    export::write(&document, &plan.export, Existing::forced(plan.replace == Replace::Recording))?;
    Ok(match interrupted {
        true => Exit::Interrupted,
        // What was reached is answered; that not all of it was, is said by the code too.
        false if !summary.unreached.is_empty() => Exit::Machine,
        false => Exit::Done,
    })
}
