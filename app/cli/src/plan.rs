//! What was typed becomes what it means, once: `Args` -> plan. From here on nobody looks at arguments.
//!
//! Only `record` has a meaning that differs from what was typed; the other verbs take their arguments as they are.
//! Touches the machine only to read: presets, PATH, the base list.

mod loads;

pub use loads::pageload;

use crate::args::record::{Cpu, Engine, Needed, RecordArgs, States};
use crate::args::sweep::SweepArgs;
use crate::args::touch::TouchArgs;
use crate::args::values::{DiskChoice, DiskLimit, disk_choice};
use crate::args::{Args, Verb};
use crate::around;
use crate::bases;
use crate::parameters::{self, Named};
use crate::preset::{self, Preset};
use bench::ready::Ready;
use bench::record::{LabOptions, Output, Program, Success};
use bench::schedule::{Plan as Schedule, TracedIn};
use clap::Parser;
use disk::preset::Presets;
use disk::simulated::{Image, Pace};
use io::EngineChoice;
use model::{Bytes, CacheState, Error, Exit, OwnerRule, PAGE, Result, Warning, WarningKind, shown};
use os::cgroup::Throttle;
use os::settings::Wait;
use os::user::Account;
use recording::{Header, Replace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use work::plan::{Asked, DiskPlan, EventsPlan, Handed, Plans, RecordPlan, Wanted};

/// How long `--precision` goes on without a `--budget`.
const DEFAULT_BUDGET: Duration = Duration::from_secs(600);
/// Read-ahead of a simulated disk: what the kernel gives every disk.
const USUAL_READ_AHEAD_KIB: u64 = 128;

/// What `record`'s arguments mean.
///
/// # Errors
/// A command line that makes no sense: no program, unknown preset, unknown probe, a base list that is none.
pub fn record(args: RecordArgs) -> Result<RecordPlan> {
    meant(args, None)
}

/// What `sweep`'s arguments mean: a recording in which something is varied.
///
/// # Errors
/// As [`record`]; usage: nothing is varied.
pub fn sweep(args: SweepArgs) -> Result<RecordPlan> {
    let Some(cycles) = args.cycles else {
        if args.record.parameter.is_empty() {
            return Err(Error::new(Exit::Usage, "nothing is varied", "")
                .hint("--sweep n=1,10,100,1000 with {n} among the program's words, or --cycles 200"));
        }
        return record(RecordArgs { verb: "sweep", ..args.record });
    };
    let mut plan = record(RecordArgs { verb: "sweep", runs: cycles, ..args.record })?;
    plan.programs.iter_mut().for_each(|program| program.restore.clear());
    plan.asked.restore.clear();
    plan.asked.cycles = true;
    Ok(plan)
}

/// With these programs in the place of those that are named.
fn meant(args: RecordArgs, handed: Option<Handed>) -> Result<RecordPlan> {
    let user = args.run_as.choice().account()?;
    let beacon = args.ready.iter().any(|word| word == "beacon" || word.starts_with("beacon:"));
    let chosen = choose(&args, beacon, user.as_ref())?;
    let ready = readiness(&args.ready, chosen.preset.as_ref())?;
    let restore: Vec<OsString> = args
        .restore
        .iter()
        .map(|path| path.clone().into_os_string())
        .chain(chosen.words(|preset| preset.fields.restore.as_ref()))
        .collect();
    let template = Program {
        env: environment(&args, chosen.preset.as_ref(), user.as_ref()),
        cwd: args.cwd.clone().or_else(|| user.as_ref()?.other_directory()),
        user: user.as_ref().map(Account::user),
        ready,
        restore: restore.iter().map(PathBuf::from).collect(),
        timeout: positive(args.timeout, "--timeout")?,
        grace: args.grace,
        output: if args.pty { Output::Pty } else { Output::Pipe },
        success: Success::Codes(args.ok_exit.0.iter().cloned().flatten().collect()),
        ..Program::new("", Vec::<OsString>::new())
    };
    let own = chosen.words(|preset| preset.fields.own.as_ref()).chain(chosen.typed_own.iter().map(Into::into));
    let mut own: Vec<(OsString, OwnerRule)> = args
        .own
        .iter()
        .map(|path| (path.clone().into_os_string(), OwnerRule::Option))
        .chain(own.map(|word| (word, OwnerRule::Preset)))
        .collect();
    let mut programs = Vec::new();
    let mut template = template;
    if let Some(handed) = handed {
        programs = handed.programs;
        own.extend(handed.own.into_iter().map(|path| (path.into_os_string(), OwnerRule::Option)));
        template = programs.first().cloned().ok_or_else(|| Error::bug("there is no program to record"))?;
    } else {
        for Named { name, argv, around, base_list } in commands(&args, &chosen)? {
            programs.push(Program { name, argv, around, base_list, ..template.clone() });
        }
    }
    let seed = args.seed.unwrap_or_else(seed_of_clock);
    Ok(RecordPlan {
        command_line: std::env::args_os().collect(),
        asked: asked(&args, chosen.preset.as_ref(), &template, user.as_ref()),
        warnings: without_sandbox(&chosen, user.as_ref()).into_iter().collect(),
        user,
        replace: if args.force { Replace::Recording } else { Replace::Never },
        needs_run_dir: work::plan::needs_run_dir(&programs),
        own,
        schedule: schedule(&args, programs.len(), seed),
        lab: lab(&args)?,
        disk: disk_plan(&args)?,
        engine: engine(args.engine),
        needed: match args.needed {
            Needed::Auto => work::plan::Needed::Auto,
            Needed::Yes => work::plan::Needed::Yes,
            Needed::No => work::plan::Needed::No,
        },
        events: (args.events || !args.events_of.is_empty()).then(|| EventsPlan { files: args.events_of.clone() }),
        why: args.why,
        loader: args.why && !args.no_loader,
        programs,
        output: args.output,
    })
}

/// Plans of recordings, from words.
pub struct FromWords;

impl Plans for FromWords {
    /// How it was recorded: its plan, or, where it was made before plans were stored, what was typed then, as it is
    /// understood now.
    fn of_recording(&self, recording: &Path, header: &Header) -> Result<RecordPlan> {
        if let Some(stored) = recording::plan::Plan::of_header(header)? {
            let asked = serde_json::from_value(header.plan.clone()).unwrap_or_default();
            let plan = work::plan::stored::understood(stored, asked, recording.to_owned())?;
            return Ok(RecordPlan { command_line: header.command_line.clone(), ..plan });
        }
        let wrong = |cause: String| {
            Error::on(Exit::Data, "cannot understand the command line of the recording", recording)
                .because(cause)
                .hint("record the program with this thaw: thaw record -- PROGRAM ARGS")
        };
        let args = Args::try_parse_from(&header.command_line).map_err(|error| wrong(error.kind().to_string()))?;
        match args.verb {
            Verb::Record(args) => record(*args),
            Verb::Touch(args) => record(as_record(*args)?),
            _ => Err(wrong("it is not one of `thaw record` or `thaw touch`".into())),
        }
    }

    fn of_copies(&self, wanted: Wanted) -> Result<RecordPlan> {
        let disk = wanted.disk.as_deref().map(disk_choice).transpose();
        let disk = disk.map_err(|cause| {
            Error::new(Exit::Usage, "this is no disk:", wanted.disk.as_deref().unwrap_or("")).because(cause)
        })?;
        let mut args = RecordArgs {
            output: wanted.output,
            state: States(wanted.states),
            runs: wanted.runs,
            trace_runs: wanted.trace_runs,
            readahead: wanted.read_ahead,
            disk,
            disk_include: wanted.include,
            needed: Needed::No,
            ..RecordArgs::usual()?
        };
        match wanted.user {
            Some(uid) => args.run_as.user = Some(uid.to_string()),
            None => args.run_as.as_root = true,
        }
        meant(args, Some(wanted.handed))
    }
}

/// Where recordings go that no name is given for.
pub fn default_output() -> PathBuf {
    PathBuf::from("thaw.thaw")
}

/// The arguments of `thaw record` that say the same.
///
/// # Errors
/// The usual ones of `thaw record` cannot be made: a bug.
pub fn as_record(args: TouchArgs) -> Result<RecordArgs> {
    Ok(RecordArgs {
        command: args.command,
        output: args.output.unwrap_or_else(default_output),
        force: args.force,
        app: args.app,
        ready: args.ready,
        timeout: args.timeout,
        grace: args.grace,
        restore: args.restore,
        env: args.env,
        cwd: args.cwd,
        run_as: args.run_as,
        ..RecordArgs::usual()?
    })
}

/// The program that was chosen by `--app`, or what a preset knows about the one that was typed.
struct Chosen {
    /// `--app`
    preset: Option<Preset>,
    /// `own` of a preset whose program was typed without `--app`.
    typed_own: Vec<String>,
    /// Its program has a sandbox that root gives up.
    gives_up_sandbox: bool,
    /// The first program's name and words; none if only variants are named.
    first: Option<(String, Vec<OsString>)>,
}

impl Chosen {
    /// A list of the preset.
    fn words(&self, list: impl Fn(&Preset) -> Option<&Vec<String>>) -> impl Iterator<Item = OsString> {
        self.preset.as_ref().and_then(list).cloned().unwrap_or_default().into_iter().map(OsString::from)
    }
}

fn choose(args: &RecordArgs, beacon: bool, user: Option<&Account>) -> Result<Chosen> {
    let home = user.map(|user| user.home.as_path());
    if let Some(name) = &args.app {
        let preset = preset::find(name, home)?;
        let root = user.is_none() && rustix::process::geteuid().is_root();
        let mut argv: Vec<OsString> = vec![preset.program()?.into()];
        argv.extend(preset.args(beacon, root).into_iter().map(OsString::from));
        argv.extend(args.command.iter().cloned());
        let gives_up_sandbox = preset.fields.args_as_root.is_some();
        let first = Some((name.clone(), argv));
        return Ok(Chosen { first, preset: Some(preset), typed_own: Vec::new(), gives_up_sandbox });
    }
    let Some(program) = args.command.first() else {
        return Ok(Chosen { preset: None, typed_own: Vec::new(), gives_up_sandbox: false, first: None });
    };
    let known = preset::of_program(program, home)?;
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    Ok(Chosen {
        preset: None,
        gives_up_sandbox: known.as_ref().is_some_and(|preset| preset.fields.args_as_root.is_some()),
        typed_own: known.and_then(|preset| preset.fields.own).unwrap_or_default(),
        first: Some((name, args.command.clone())),
    })
}

/// A program that root starts without its sandbox is not the one that people use.
fn without_sandbox(chosen: &Chosen, user: Option<&Account>) -> Option<Warning> {
    let as_root = user.is_none() && rustix::process::geteuid().is_root();
    let (name, _) = chosen.first.as_ref().filter(|_| as_root && chosen.gives_up_sandbox)?;
    let text = format!("{name} runs as root, where it has no sandbox: users' starts differ");
    Some(Warning::new(WarningKind::Note, text).hint("measure it as a user has it: --user NAME"))
}

/// Names and words of all variants; names differ.
fn commands(args: &RecordArgs, chosen: &Chosen) -> Result<Vec<Named>> {
    let mut commands: Vec<(String, Vec<OsString>)> = chosen.first.iter().cloned().collect();
    if let (Some(first), Some(name)) = (commands.first_mut(), &args.name) {
        first.0.clone_from(name);
    }
    commands.extend(args.variant.iter().map(|variant| (variant.name.clone(), variant.argv.clone())));
    let commands = parameters::expanded(around::with(commands, &args.around)?, &args.parameter)?;
    let mut commands = bases::with(commands, &args.base, &args.state.0)?;
    let Some(first) = commands.first().cloned() else {
        return Err(Error::new(Exit::Usage, "no program is named", "")
            .hint(format!("thaw {0} -- PROGRAM ARGS, or thaw {0} --app NAME (see `thaw presets`)", args.verb)));
    };
    if args.aa {
        commands.push(Named { name: format!("{} again", first.name), ..first });
    }
    for (index, Named { name, .. }) in commands.iter().enumerate() {
        if commands[..index].iter().any(|earlier| earlier.name == *name) {
            return Err(Error::new(Exit::Usage, "two variants have the same name", name).hint(
                "the program after -- has the name of its file, or that of --name; give the variant another one",
            ));
        }
    }
    Ok(commands)
}

fn readiness(typed: &[String], preset: Option<&Preset>) -> Result<Vec<Ready>> {
    let of_preset = preset.and_then(|preset| preset.fields.ready.clone()).unwrap_or_default();
    let words = if typed.is_empty() { of_preset.as_slice() } else { typed };
    let parse = |word: &String| {
        word.parse::<Ready>().map_err(|cause| {
            Error::new(Exit::Usage, "this is no readiness probe", word).because(cause).hint(
                "probes are exit, line:REGEX, notify, listen:PORT, http:URL, file:PATH, fd, x11, beacon and settled",
            )
        })
    };
    let probes = words.iter().map(parse).collect::<Result<Vec<_>>>()?;
    Ok(if probes.is_empty() { vec![Ready::Exit] } else { probes })
}

/// The user's variables, the preset's, then those that were typed.
fn environment(
    args: &RecordArgs,
    preset: Option<&Preset>,
    user: Option<&Account>,
) -> Vec<(OsString, Option<OsString>)> {
    let of_preset = preset.map(|preset| preset.fields.env.clone()).unwrap_or_default();
    let mut changes = user.map(Account::environment).unwrap_or_default();
    let of_preset = of_preset.into_iter().map(|(name, value)| (name.into(), Some(value.into())));
    let typed = args.env.iter().map(|change| (change.name.clone(), change.value.clone()));
    for (name, value) in of_preset.chain(typed) {
        changes.retain(|(other, _)| *other != name);
        changes.push((name, value));
    }
    changes
}

fn schedule(args: &RecordArgs, variants: usize, seed: u64) -> Schedule {
    Schedule {
        variants: variants as u32,
        states: args.state.0.clone(),
        blocks: args.runs,
        precision: args.precision,
        budget: budget(args),
        trace_runs: args.trace_runs,
        // Where the time goes is another question in each state.
        traced_in: if args.why { TracedIn::Each } else { TracedIn::Coldest },
        most_blocks: args.max_runs.unwrap_or(Schedule::default().most_blocks),
        warm_ups: args.warmup,
        max_attempts: work::plan::ATTEMPTS,
        patience: work::plan::PATIENCE,
        seed,
        ..Schedule::default()
    }
}

fn budget(args: &RecordArgs) -> Option<Duration> {
    args.budget.or(args.precision.map(|_| DEFAULT_BUDGET))
}

fn lab(args: &RecordArgs) -> Result<LabOptions> {
    Ok(LabOptions {
        read_ahead_kib: args.readahead.map(read_ahead_kib).transpose()?,
        throttle: limit(args).map(|limit| Throttle { iops: limit.iops, bps: limit.bps }),
        keep_read_ahead: args.state.0.iter().any(|state| *state != CacheState::Hot),
        wait: Wait { limit: args.wait, ..Wait::default() },
        cpu: if args.cpu == Cpu::Steady { bench::record::Cpu::Steady } else { bench::record::Cpu::AsFound },
        recording: Some(args.output.clone()),
        ..LabOptions::default()
    })
}

/// The limit on the machine's own disk.
fn limit(args: &RecordArgs) -> Option<DiskLimit> {
    match args.disk {
        Some(DiskChoice::Limit(limit)) => Some(limit),
        _ => None,
    }
}

fn disk_plan(args: &RecordArgs) -> Result<Option<DiskPlan>> {
    let (name, pace) = match &args.disk {
        Some(DiskChoice::Simulated(name)) => (name, Pace::Model),
        Some(DiskChoice::Quick(name)) => (name, Pace::Recorded),
        None => return Ok(None),
        Some(DiskChoice::Limit(_)) => {
            let given = [
                ("--disks-file", args.disks_file.is_some()),
                ("--disk-include", !args.disk_include.is_empty()),
                ("--disk-image", args.disk_image.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((option, _)) => Err(Error::new(Exit::Usage, "a limit on the machine's own disk has no", option)
                    .hint("choose a simulated disk: see `thaw io model --list`")),
                None => Ok(None),
            };
        }
    };
    let mut presets = Presets::builtin();
    if let Some(file) = &args.disks_file {
        presets.extend_from(file)?;
    }
    Ok(Some(DiskPlan {
        preset: presets.get(name)?.clone(),
        disks_file: args.disks_file.clone(),
        pace,
        include: args.disk_include.clone(),
        image: args.disk_image.clone().map_or(Image::Memory, Image::File),
        read_ahead_kib: args.readahead.map_or(Ok(USUAL_READ_AHEAD_KIB), read_ahead_kib)?,
    }))
}

/// The kernel rounds to whole pages; a value that it would change is a mistake.
fn read_ahead_kib(size: Bytes) -> Result<u64> {
    if !size.0.is_multiple_of(PAGE) {
        return Err(Error::new(
            Exit::Usage,
            "read-ahead comes in whole pages of 4 KiB, not",
            format!("{} bytes", size.0),
        )
        .hint("--readahead 128K"));
    }
    Ok(size.0 / 1024)
}

fn engine(engine: Engine) -> EngineChoice {
    match engine {
        Engine::Auto => EngineChoice::Auto,
        Engine::Perf => EngineChoice::Perf,
        Engine::Tracefs => EngineChoice::Tracefs,
        Engine::Probe => EngineChoice::Probe,
    }
}

fn asked(args: &RecordArgs, preset: Option<&Preset>, template: &Program, user: Option<&Account>) -> Asked {
    Asked {
        app: preset.map(|preset| preset.name.clone()),
        states: args.state.0.clone(),
        runs: args.runs,
        precision: args.precision,
        budget_s: budget(args).map(|budget| budget.as_secs_f64()),
        aa: args.aa,
        cycles: false,
        ablation: None,
        ready: template.ready.iter().map(ToString::to_string).collect(),
        timeout_s: args.timeout.as_secs_f64(),
        grace_s: args.grace.as_secs_f64(),
        restore: template.restore.iter().map(|path| shown(path)).collect(),
        disk: match &args.disk {
            Some(DiskChoice::Simulated(name)) => Some(name.clone()),
            Some(DiskChoice::Quick(name)) => Some(format!("quick:{name}")),
            _ => None,
        },
        disk_include: args.disk_include.iter().map(|path| shown(path)).collect(),
        throttle_iops: limit(args).and_then(|limit| limit.iops),
        throttle_bps: limit(args).and_then(|limit| limit.bps).map(|bps| bps.0),
        readahead_kib: args.readahead.map(|size| size.0 / 1024),
        steady_cpu: args.cpu == Cpu::Steady,
        base_lists: args.base.iter().map(|list| shown(&list.file)).collect(),
        engine: format!("{:?}", args.engine).to_lowercase(),
        trace_runs: args.trace_runs,
        warmup: Some(args.warmup).filter(|times| *times > 1),
        max_runs: args.max_runs,
        shell: args.around.shell.as_deref().map(shown),
        setup: around::shown(&args.around.setup),
        prepare: around::shown(&args.around.prepare),
        conclude: around::shown(&args.around.conclude),
        cleanup: around::shown(&args.around.cleanup),
        pty: args.pty,
        user: Some(user.map_or_else(os::user::own_name, |user| user.name.clone())),
    }
}

fn positive(time: Duration, option: &str) -> Result<Duration> {
    if time.is_zero() {
        return Err(Error::new(Exit::Usage, "this time must be above 0:", option));
    }
    Ok(time)
}

/// Any number will do; it is recorded, so that the order can be had again.
pub fn seed_of_clock() -> u64 {
    os::machine::now_unix_ns()
}

#[cfg(test)]
mod stored_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Result<RecordPlan> {
        let args = Args::try_parse_from(["thaw", "record"].iter().chain(words)).unwrap();
        let Verb::Record(args) = args.verb else { panic!("not record") };
        record(*args)
    }

    #[test]
    fn a_preset_brings_arguments_environment_and_directories() {
        let plan = plan(&["--app", "firefox-esr", "--env", "MOZ_HEADLESS=0", "--", "https://example.org"]).unwrap();
        let program = &plan.programs[0];
        assert_eq!(program.argv.first().unwrap(), "firefox-esr");
        assert_eq!(program.argv.last().unwrap(), "https://example.org");
        assert!(program.env.contains(&("MOZ_HEADLESS".into(), Some("0".into()))), "what is typed wins");
        assert!(plan.needs_run_dir);
        assert!(plan.own.contains(&("/usr/lib/firefox-esr".into(), OwnerRule::Preset)));
        assert_eq!(program.restore.len(), 3);
    }

    #[test]
    fn starts_in_a_row_put_nothing_back() {
        let words = ["thaw", "sweep", "--app", "firefox-esr", "--cycles", "200"];
        let Verb::Sweep(args) = Args::try_parse_from(words).unwrap().verb else { panic!("not sweep") };
        let plan = sweep(*args).unwrap();
        assert_eq!((plan.schedule.blocks, &plan.schedule.states[..]), (200, &[CacheState::Hot][..]));
        assert!(plan.programs[0].restore.is_empty() && plan.asked.restore.is_empty() && plan.asked.cycles);
    }

    #[test]
    fn a_known_program_that_was_typed_keeps_its_own_arguments() {
        let plan = plan(&["--", "/usr/bin/chromium", "about:blank"]).unwrap();
        assert_eq!(plan.programs[0].argv, ["/usr/bin/chromium", "about:blank"]);
        assert_eq!(plan.programs[0].name, "chromium");
        assert!(plan.own.contains(&("/usr/lib/chromium".into(), OwnerRule::Preset)), "the preset says what is its own");
        assert!(!plan.needs_run_dir);
    }

    #[test]
    fn the_same_program_twice_is_an_aa_recording() {
        let plan = plan(&["--aa", "--", "true"]).unwrap();
        assert_eq!(plan.programs.len(), 2);
        assert_eq!(plan.programs[0].argv, plan.programs[1].argv);
        assert!(plan.asked.aa);
    }

    #[test]
    fn precision_has_a_budget_and_a_bare_run_has_none() {
        assert_eq!(plan(&["--", "true"]).unwrap().schedule.budget, None);
        assert_eq!(plan(&["--precision", "1%", "--", "true"]).unwrap().schedule.budget, Some(DEFAULT_BUDGET));
    }

    #[test]
    fn what_makes_no_sense_says_what_would() {
        let wrong = |words: &[&str]| plan(words).unwrap_err();
        assert!(wrong(&[]).hint.unwrap().contains("--app"));
        assert!(wrong(&["--app", "netscape"]).hint.unwrap().contains("firefox-esr"));
        assert!(wrong(&["--ready", "soon", "--", "true"]).to_string().contains("soon"));
        assert!(wrong(&["--readahead", "100", "--", "true"]).to_string().contains("4 KiB"));
        assert!(wrong(&["--timeout", "0", "--", "true"]).to_string().contains("--timeout"));
        assert!(wrong(&["--variant", "true=false", "--", "true"]).to_string().contains("same name"));
        assert!(wrong(&["--base", "/nonexistent", "--", "true"]).hint.unwrap().contains("thaw resident"));
    }

    #[test]
    fn a_disk_by_name_is_simulated_with_the_kernels_read_ahead() {
        let chosen = plan(&["--disk", "laptop2010", "--disk-include", "/opt/x", "--", "true"]).unwrap();
        let disk = chosen.disk.unwrap();
        assert_eq!((disk.preset.model.name.as_str(), disk.pace, disk.read_ahead_kib), ("laptop2010", Pace::Model, 128));
        assert_eq!(disk.include, [Path::new("/opt/x")]);
        assert_eq!(chosen.asked.disk.unwrap(), "laptop2010");
        assert!(chosen.lab.throttle.is_none());
        let quick = plan(&["--disk", "quick:nvme", "--readahead", "64K", "--", "true"]).unwrap().disk.unwrap();
        assert_eq!((quick.pace, quick.read_ahead_kib), (Pace::Recorded, 64));
        let limited = plan(&["--disk", "throttle:iops=5", "--", "true"]).unwrap();
        assert_eq!((limited.disk, limited.lab.throttle.unwrap().iops), (None, Some(5)));
        let unknown = plan(&["--disk", "floppy", "--", "true"]).unwrap_err();
        assert!(unknown.hint.unwrap().contains("laptop2010"));
        let both = plan(&["--disk", "throttle:iops=5", "--disk-include", "/opt/x", "--", "true"]).unwrap_err();
        assert!(both.to_string().contains("--disk-include"), "{both}");
    }
}
