//! The plan in the form in which a recording keeps it and one process of thaw hands it to another, and back.
//!
//! What a stored plan says is not asked again: no preset is looked up and no word is parsed by the argument parser.

use super::{ATTEMPTS, Asked, DiskPlan, Needed, PATIENCE, RecordPlan, needs_run_dir};
use bench::around::Around;
use bench::base::BaseList;
use bench::record::{Cpu, LabOptions, Output, Program, Success};
use bench::schedule::Plan as Schedule;
use disk::preset::Presets;
use disk::simulated::{Image, Pace};
use io::EngineChoice;
use model::{CacheState, Error, Exit, Nanos, Result};
use os::cgroup::Throttle;
use os::replace::{Existing, Rights, write_whole};
use os::settings::Wait;
use os::user::{Account, Choice};
use recording::Replace;
use recording::plan::{self, Answers, Machine, Plan, Planned, Schema, Word};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The word with which thaw starts itself to do what an [`Errand`] in a file says.
pub const RECORDER: &str = "__recorder";

/// What one thaw asks of another: to record this, there.
#[derive(Debug, Serialize, Deserialize)]
pub struct Errand {
    /// Everything that is run.
    plan: Plan,
    /// What the recording's reports say of it.
    asked: Asked,
    /// Where the recording goes; one that is there is replaced.
    output: Word,
    /// Whether progress is printed.
    pub progress: Progress,
}

/// Whether progress is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// As a user sees it.
    Shown,
    /// `--quiet`
    Quiet,
}

impl Errand {
    /// To do what this plan says.
    pub fn of(plan: &RecordPlan, progress: Progress) -> Self {
        Self { plan: stored(plan), asked: plan.asked.clone(), output: word(&plan.output), progress }
    }

    /// Writes it for the other process.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes =
            serde_json::to_vec(self).map_err(|cause| Error::bug(format!("cannot hand over a plan: {cause}")))?;
        write_whole(path, &bytes, Rights::Private, Existing::Replace)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is not there, or none.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = || Error::on(Exit::Data, "cannot read the plan in", path);
        let bytes = std::fs::read(path).map_err(|cause| wrong().because(cause))?;
        serde_json::from_slice(&bytes).map_err(|cause| wrong().because(cause))
    }

    /// What is to be done.
    ///
    /// # Errors
    /// As [`understood`].
    pub fn plan(self) -> Result<RecordPlan> {
        let plan = understood(self.plan, self.asked, self.output.path())?;
        Ok(RecordPlan { replace: Replace::Recording, ..plan })
    }
}

/// A plan as it is kept.
pub fn stored(plan: &RecordPlan) -> Plan {
    let throttle = plan.lab.throttle.unwrap_or_default();
    Plan {
        schema: Schema,
        programs: plan.programs.iter().map(|it| stored_program(it, plan.user.is_some())).collect(),
        own: plan.own.iter().map(|(own, rule)| (own.into(), *rule)).collect(),
        user: plan.user.as_ref().map(|user| user.name.clone()),
        states: plan.schedule.states.clone(),
        runs: plan.schedule.blocks,
        most_runs: plan.schedule.most_blocks,
        precision: plan.schedule.precision,
        budget_ns: plan.schedule.budget.map(nanos),
        trace_runs: plan.schedule.trace_runs,
        warm_ups: plan.schedule.warm_ups,
        seed: plan.schedule.seed,
        machine: Machine {
            read_ahead_kib: plan.lab.read_ahead_kib,
            throttle_iops: throttle.iops,
            throttle_bps: throttle.bps,
            cpu: match plan.lab.cpu {
                Cpu::AsFound => plan::Cpu::AsFound,
                Cpu::Steady => plan::Cpu::Steady,
            },
            wait_ns: nanos(plan.lab.wait.limit),
        },
        disk: plan.disk.as_ref().map(stored_disk),
        engine: engine_word(plan.engine).to_owned(),
        needed: needed_word(plan.needed).to_owned(),
    }
}

/// What a stored plan means; who asks says with which words.
///
/// # Errors
/// This thaw does not know one of its words; its user, disk or base list is not there any more.
pub fn understood(plan: Plan, asked: Asked, output: PathBuf) -> Result<RecordPlan> {
    let user = match &plan.user {
        Some(name) => Choice::Named(name.clone()).account()?,
        None => None,
    };
    let programs = plan.programs.into_iter().map(|it| program(it, user.as_ref())).collect::<Result<Vec<Program>>>()?;
    let Machine { read_ahead_kib, throttle_iops: iops, throttle_bps: bps, cpu, wait_ns } = plan.machine;
    let throttle = Throttle { iops, bps };
    Ok(RecordPlan {
        command_line: Vec::new(),
        asked,
        warnings: Vec::new(),
        replace: Replace::Never,
        needs_run_dir: needs_run_dir(&programs),
        own: plan.own.into_iter().map(|(own, rule)| (own.0, rule)).collect(),
        schedule: Schedule {
            variants: programs.len() as u32,
            blocks: plan.runs,
            most_blocks: plan.most_runs,
            precision: plan.precision,
            budget: plan.budget_ns.map(duration),
            trace_runs: plan.trace_runs,
            warm_ups: plan.warm_ups,
            max_attempts: ATTEMPTS,
            patience: PATIENCE,
            seed: plan.seed,
            states: plan.states.clone(),
            ..Schedule::default()
        },
        lab: LabOptions {
            read_ahead_kib,
            throttle: Some(throttle).filter(|limit| *limit != Throttle::default()),
            keep_read_ahead: plan.states.iter().any(|state| *state != CacheState::Hot),
            wait: Wait { limit: duration(wait_ns), ..Wait::default() },
            cpu: match cpu {
                plan::Cpu::AsFound => Cpu::AsFound,
                plan::Cpu::Steady => Cpu::Steady,
            },
            recording: Some(output.clone()),
            ..LabOptions::default()
        },
        disk: plan.disk.map(disk).transpose()?,
        engine: engine_of(&plan.engine)?,
        needed: needed_of(&plan.needed)?,
        // More runs are not made to look at events, or where the time goes.
        events: None,
        why: false,
        loader: false,
        programs,
        user,
        output,
    })
}

fn stored_program(program: &Program, has_user: bool) -> Planned {
    let around = &program.around;
    Planned {
        name: program.name.clone(),
        argv: program.argv.iter().map(Word::from).collect(),
        env: program.env.iter().map(|(name, value)| (name.into(), value.as_ref().map(Word::from))).collect(),
        cwd: program.cwd.as_deref().map(word),
        ready: program.ready.iter().map(ToString::to_string).collect(),
        restore: program.restore.iter().map(|path| word(path)).collect(),
        timeout_ns: nanos(program.timeout),
        grace_ns: nanos(program.grace),
        output: match program.output {
            Output::Pipe => plan::Output::Pipe,
            Output::Pty => plan::Output::Pty,
        },
        ok_exit: match &program.success {
            Success::Codes(codes) => Some(codes.clone()),
            Success::Any => None,
        },
        covers: program.covers.iter().map(|(seen, place)| (word(seen), word(place))).collect(),
        becomes_user: has_user && program.user.is_none(),
        around: plan::Around {
            shell: around.shell.as_deref().map(word),
            setup: around.setup.as_ref().map(Word::from),
            prepare: around.prepare.as_ref().map(Word::from),
            conclude: around.conclude.as_ref().map(Word::from),
            cleanup: around.cleanup.as_ref().map(Word::from),
        },
        base_list: program.base_list.as_ref().map(|list| word(&list.file)),
    }
}

fn program(planned: Planned, user: Option<&Account>) -> Result<Program> {
    let text = |word: Option<Word>| word.map(|word| word.0);
    let around = planned.around;
    Ok(Program {
        env: planned.env.into_iter().map(|(name, value)| (name.0, text(value))).collect(),
        cwd: planned.cwd.map(Word::path),
        user: user.filter(|_| !planned.becomes_user).map(Account::user),
        ready: planned.ready.iter().map(|probe| probe.parse().map_err(|_| unknown(probe))).collect::<Result<_>>()?,
        restore: planned.restore.into_iter().map(Word::path).collect(),
        timeout: duration(planned.timeout_ns),
        grace: duration(planned.grace_ns),
        output: match planned.output {
            plan::Output::Pipe => Output::Pipe,
            plan::Output::Pty => Output::Pty,
        },
        success: planned.ok_exit.map_or(Success::Any, Success::Codes),
        covers: planned.covers.into_iter().map(|(seen, place)| (seen.path(), place.path())).collect(),
        around: Around {
            shell: around.shell.map(Word::path),
            setup: text(around.setup),
            prepare: text(around.prepare),
            conclude: text(around.conclude),
            cleanup: text(around.cleanup),
        },
        base_list: planned.base_list.map(|file| BaseList::read(&file.path())).transpose()?,
        ..Program::new(planned.name, planned.argv.into_iter().map(|word| word.0).collect::<Vec<OsString>>())
    })
}

fn stored_disk(disk: &DiskPlan) -> plan::Disk {
    plan::Disk {
        name: disk.preset.model.name.clone(),
        disks_file: disk.disks_file.as_deref().map(word),
        answers: if disk.pace == Pace::Model { Answers::Model } else { Answers::Quick },
        include: disk.include.iter().map(|path| word(path)).collect(),
        image: match &disk.image {
            Image::Memory => None,
            Image::File(directory) => Some(word(directory)),
        },
        read_ahead_kib: disk.read_ahead_kib,
    }
}

fn disk(stored: plan::Disk) -> Result<DiskPlan> {
    let disks_file = stored.disks_file.map(Word::path);
    let mut presets = Presets::builtin();
    if let Some(file) = &disks_file {
        presets.extend_from(file)?;
    }
    Ok(DiskPlan {
        preset: presets.get(&stored.name)?.clone(),
        disks_file,
        pace: match stored.answers {
            Answers::Model => Pace::Model,
            Answers::Quick => Pace::Recorded,
        },
        include: stored.include.into_iter().map(Word::path).collect(),
        image: stored.image.map_or(Image::Memory, |directory| Image::File(directory.path())),
        read_ahead_kib: stored.read_ahead_kib,
    })
}

/// A word of an enumeration that this thaw does not have.
fn unknown(word: &str) -> Error {
    Error::new(Exit::Data, "this thaw does not know what a recording's plan asks for:", word)
        .hint("a newer thaw wrote it: use that one, or record the program again")
}

fn engine_word(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Auto => "auto",
        EngineChoice::Perf => "perf",
        EngineChoice::Tracefs => "tracefs",
        EngineChoice::Probe => "probe",
    }
}

fn engine_of(word: &str) -> Result<EngineChoice> {
    let all = [EngineChoice::Auto, EngineChoice::Perf, EngineChoice::Tracefs, EngineChoice::Probe];
    all.into_iter().find(|engine| engine_word(*engine) == word).ok_or_else(|| unknown(word))
}

fn needed_word(needed: Needed) -> &'static str {
    match needed {
        Needed::Auto => "auto",
        Needed::Yes => "yes",
        Needed::No => "no",
    }
}

fn needed_of(word: &str) -> Result<Needed> {
    let all = [Needed::Auto, Needed::Yes, Needed::No];
    all.into_iter().find(|needed| needed_word(*needed) == word).ok_or_else(|| unknown(word))
}

fn word(path: &Path) -> Word {
    path.into()
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}
