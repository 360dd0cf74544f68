//! The laboratory: holds the machine (control group, read-ahead, CPU controls, throttle, snapshots) while programs are
//! started in it, and gives everything back. Measures; interprets nothing.

use crate::conduct::{Host, Outcome, Prepared, Tick, Tracer, Verdict};
use crate::ground::Ground;
use crate::inside::Door;
use crate::ready::Ready;
use crate::restore::{self, Snapshot};
use crate::start::{self, Which};
use crate::states::{self, Beat, ManyFiles, OpenNeeds, Scene};
use model::{CacheState, Error, Exit, Need, Owner, Result, RunKind, Warning, WarningKind};
use os::cgroup::{Ability, RunCgroup, Throttle};
use os::cpu::SteadyGuard;
use os::disk::{Disk, ReadAheadGuard};
use os::spawn::User;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Read-ahead of the kernel's own choice, KiB.
const USUAL_READ_AHEAD_KIB: u64 = 128;

/// Where the program's output goes. It is always read, so that the program never waits for us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Two pipes.
    #[default]
    Pipe,
    /// One terminal of 80 columns.
    Pty,
}

/// Exit codes that mean that a run went well. They matter only when the program ends by itself before thaw ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Success {
    /// One of these.
    Codes(Vec<i32>),
    /// Whatever; also a signal.
    Any,
}

/// A program under test.
#[derive(Clone, Debug)]
pub struct Program {
    /// What people call it.
    pub name: String,
    /// Program and arguments. `{beacon}` in an argument is replaced by the URL of the beacon's page.
    pub argv: Vec<OsString>,
    /// Overrides on thaw's own environment; `None` removes the variable.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Where to start; `None`: where thaw is.
    pub cwd: Option<PathBuf>,
    /// Whom to run as; `None`: as thaw.
    pub user: Option<User>,
    /// When has it started? The first stops the clock; not empty.
    pub ready: Vec<Ready>,
    /// Directories to put back before every run.
    pub restore: Vec<PathBuf>,
    /// Directories that belong to the program (where it is installed, its profile): what to evict while the
    /// needs are not known.
    pub dirs: Vec<PathBuf>,
    /// A run that is not ready by then has failed.
    pub timeout: Duration,
    /// How long a program may take to end after SIGTERM.
    pub grace: Duration,
    /// Where its output goes.
    pub output: Output,
    /// Which exit codes are fine.
    pub success: Success,
}

impl Program {
    /// A program that has started when it has ended; 60 s timeout, 5 s grace.
    pub fn new(name: impl Into<String>, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            name: name.into(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: None,
            ready: vec![Ready::Exit],
            restore: Vec::new(),
            dirs: Vec::new(),
            timeout: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            output: Output::Pipe,
            success: Success::Codes(vec![0]),
        }
    }
}

/// What to do about the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// Leave it as it is.
    #[default]
    AsFound,
    /// Hold the governor at `performance` and keep it out of deep sleep.
    Steady,
}

/// How to set the machine up.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// Part of the control group's name (letters, digits, `-`, `_`, `.`); may be empty.
    pub cgroup_name: String,
    /// Read-ahead and throttle are set on the disks that hold these paths.
    pub disk_paths: Vec<PathBuf>,
    /// Read-ahead of these disks, KiB; `None`: as found.
    pub read_ahead_kib: Option<u64>,
    /// Limits on what the program reads from these disks.
    pub throttle: Option<Throttle>,
    /// CPU controls.
    pub cpu: Cpu,
    /// What a session has read before the program is started (state `boot`); `None`: the system's files among the needs.
    pub base_list: Option<Vec<PathBuf>>,
    /// Where to keep copies for `restore`; `None`: beside each directory.
    pub snapshot_dir: Option<PathBuf>,
    /// The recording: no directory that holds it is restored.
    pub recording: Option<PathBuf>,
}

/// The machine, held. Fields are given back in this order.
#[derive(Debug)]
pub struct Lab {
    programs: Vec<Variant>,
    /// Put back before the group goes: programs are gone by then.
    snapshots: Vec<Snapshot>,
    disks: Vec<Disk>,
    throttle: Option<Throttle>,
    throttled: bool,
    base: Option<Vec<PathBuf>>,
    door: Option<Door>,
    cgroup: Option<Rc<RunCgroup>>,
    _cpu: Option<SteadyGuard>,
    _read_ahead: Vec<ReadAheadGuard>,
    /// Behind everything that may still use it.
    ground: Option<Box<dyn Ground>>,
    began: Instant,
    /// The variant whose start was the last thing that happened to the caches.
    warmed: Option<u32>,
}

/// How a run wants to find the program's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// As they were at first, warm or cold.
    AsAtFirst,
    /// As they were at first, and in memory what is in memory.
    Warm,
}

#[derive(Debug)]
struct Variant {
    program: Program,
    needs: Option<Vec<Need>>,
}

impl Lab {
    /// Takes the machine in hand. What it could not get is a warning if the programs can be measured without it.
    ///
    /// # Errors
    /// An unknown program, a directory that must not be restored, a throttle or read-ahead that was asked for and cannot be set.
    pub fn open(programs: Vec<Program>, options: LabOptions) -> Result<(Self, Vec<Warning>)> {
        let mut warnings = Vec::new();
        for program in &programs {
            check_program(program)?;
        }
        let directories = directories(&programs, &options)?;
        if let Some(list) = &options.base_list {
            warnings.extend(states::check_base(list)?);
        }
        let disks = disks(&options.disk_paths)?;
        if disks.is_empty() && (options.throttle.is_some() || options.read_ahead_kib.is_some()) {
            return Err(Error::new(Exit::Machine, "there is no disk whose speed or read-ahead could be set", "")
                .because("the program and its files are on no block device")
                .hint("leave --disk and --readahead out"));
        }
        os::spawn::become_subreaper()?;
        let cgroup = open_cgroup(&options, &mut warnings)?;
        let door = match &cgroup {
            Some(group) => Door::open(group).inspect_err(|_| {
                // Thaw is in it: removing it would end thaw.
                std::mem::forget(Rc::clone(group));
            })?,
            None => None,
        };
        let read_ahead = set_read_ahead(&disks, options.read_ahead_kib, &mut warnings)?;
        let cpu = match options.cpu {
            Cpu::AsFound => None,
            Cpu::Steady => {
                let (guard, more) = SteadyGuard::hold()?;
                warnings.extend(more);
                Some(guard)
            }
        };
        let mut snapshots = Vec::new();
        for directory in directories {
            os::interrupt::check()?;
            snapshots.push(Snapshot::take(&directory, options.snapshot_dir.as_deref())?);
        }
        let lab = Self {
            programs: programs.into_iter().map(|program| Variant { program, needs: None }).collect(),
            snapshots,
            disks,
            throttle: options.throttle,
            throttled: false,
            base: options.base_list,
            door,
            cgroup,
            _cpu: cpu,
            _read_ahead: read_ahead,
            ground: None,
            began: Instant::now(),
            warmed: None,
        };
        Ok((lab, warnings))
    }

    /// The programs' files lie on this from now on: it is put back as a whole before each run that is not to be hot, and slow
    /// while a run is measured.
    pub fn stand_on(&mut self, ground: Box<dyn Ground>) {
        self.ground = Some(ground);
    }

    /// What a start of a variant needs, if it was learned.
    pub fn needs(&self, variant: u32) -> Option<&[Need]> {
        self.programs.get(variant as usize)?.needs.as_deref()
    }

    /// The control group that all runs happen in, if there is one.
    pub fn cgroup(&self) -> Option<&RunCgroup> {
        self.cgroup.as_deref()
    }

    /// The disks that read-ahead and throttle are set on.
    pub fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// Puts everything back and says what did not work; dropping the lab does the same in silence.
    pub fn close(mut self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for snapshot in self.snapshots.drain(..) {
            let live = model::shown(snapshot.live());
            if let Err(error) = snapshot.close() {
                let text = format!("{live} could not be put back: {error}");
                warnings.push(Warning::new(WarningKind::Leftover, text).hint("run `thaw doctor`"));
            }
        }
        warnings
    }

    fn variant(&self, variant: u32) -> Result<&Variant> {
        self.programs.get(variant as usize).ok_or_else(|| Error::bug(format!("there is no variant {variant}")))
    }

    /// Puts directories back, on the run's account. A ground is put back as a whole, which makes everything on it cold.
    fn put_back(&mut self, wanted: Wanted, beat: &mut Beat<'_>) -> Result<()> {
        let _inside = self.door.as_ref().and_then(Door::enter);
        if let Some(ground) = self.ground.as_mut().filter(|_| wanted == Wanted::AsAtFirst) {
            self.warmed = None;
            beat.beat()?;
            ground.put_back()?;
            // The directories on it are what they were first, down to the inodes.
            return self.snapshots.iter_mut().try_for_each(Snapshot::is_as_at_first);
        }
        for snapshot in &mut self.snapshots {
            beat.beat()?;
            if snapshot.put_back()? != os::tree::Copied::default() {
                // Dirty pages cannot be evicted, and writing them must not fall into the run.
                let synced =
                    std::fs::File::open(snapshot.live()).and_then(|live| Ok(rustix::fs::syncfs(live.as_fd())?));
                synced.map_err(|cause| Error::on(Exit::Machine, "cannot write out", snapshot.live()).because(cause))?;
            }
        }
        Ok(())
    }

    /// The throttle is for measured runs only: others would take minutes.
    fn set_throttle(&mut self, on: bool) -> Result<()> {
        let (Some(limits), Some(group)) = (&self.throttle, &self.cgroup) else { return Ok(()) };
        if on != self.throttled {
            for disk in &self.disks {
                if on { group.throttle(disk.dev, limits)? } else { group.unthrottle(disk.dev)? }
            }
            self.throttled = on;
        }
        Ok(())
    }
}

impl Host for Lab {
    fn name(&self, variant: u32) -> String {
        self.variant(variant).map(|variant| variant.program.name.clone()).unwrap_or_default()
    }

    fn prepare(&mut self, variant: u32, state: CacheState, tick: Tick<'_>) -> Result<Prepared> {
        let mut beat = Beat::new(tick);
        let keep = state == CacheState::Hot && self.warmed == Some(variant);
        self.put_back(if keep { Wanted::Warm } else { Wanted::AsAtFirst }, &mut beat)?;
        // A ground that was put back is cold.
        let warmed = self.warmed == Some(variant);
        if state != CacheState::Hot {
            self.warmed = None;
        }
        let _many = ManyFiles::allow();
        let Variant { program, needs } = self.variant(variant)?;
        let scene = Scene {
            cgroup: self.cgroup.as_deref(),
            needs: needs.as_deref(),
            dirs: &program.dirs,
            base: self.base.as_deref(),
            warmed,
        };
        let mut files = OpenNeeds::default();
        files.open(scene.needs.unwrap_or_default(), Owner::System);
        let inside = self.door.as_ref().filter(|_| state == CacheState::App).and_then(Door::enter);
        files.open(scene.needs.unwrap_or_default(), Owner::App);
        drop(inside);
        let prepared = states::prepare(&scene, files, state, &mut beat)?;
        debug_assert!(needs.is_none() || prepared.verdict != Verdict::Unproven);
        Ok(prepared)
    }

    fn start(
        &mut self,
        variant: u32,
        state: CacheState,
        kind: RunKind,
        tracer: Option<&mut dyn Tracer>,
        tick: Tick<'_>,
    ) -> Result<Outcome> {
        let mut beat = Beat::new(tick);
        if kind == RunKind::Warmup {
            self.put_back(Wanted::AsAtFirst, &mut beat)?;
        }
        // A start without read-ahead asks for what it needs, not for how long that takes.
        let measured = matches!(kind, RunKind::Timed | RunKind::Trace);
        self.set_throttle(measured)?;
        self.warmed = None;
        if let Some(ground) = self.ground.as_mut().filter(|_| measured) {
            ground.begin()?;
        }
        let program = &self.variant(variant)?.program;
        let which = Which { variant, state, kind };
        let outcome = start::start(program, which, self.cgroup.as_ref(), tracer, &mut beat);
        let ended = self.ground.as_mut().filter(|_| measured).map_or(Ok(()), |ground| ground.end());
        let outcome = outcome?;
        ended?;
        self.warmed = outcome.row.accepted.then_some(variant);
        Ok(outcome)
    }

    fn learn(&mut self, variant: u32, needs: Vec<Need>) {
        if let Some(variant) = self.programs.get_mut(variant as usize) {
            variant.needs = Some(states::joined(variant.needs.take().unwrap_or_default(), needs));
        }
    }

    fn knows(&self, variant: u32) -> bool {
        self.needs(variant).is_some()
    }

    fn learning_state(&self) -> CacheState {
        if states::can_drop_caches() { CacheState::Cold } else { CacheState::App }
    }

    fn wait(&mut self, how_long: Duration, tick: Tick<'_>) -> Result<()> {
        let mut beat = Beat::new(tick);
        let until = Instant::now() + how_long;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50).min(how_long));
            beat.beat()?;
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn interrupted(&self) -> bool {
        os::interrupt::requested()
    }
}

fn check_program(program: &Program) -> Result<()> {
    let Some(name) = program.argv.first() else {
        return Err(Error::new(Exit::Usage, "there is no program to start", "").hint("thaw record -- PROGRAM ARGS"));
    };
    if program.ready.is_empty() {
        return Err(Error::bug("a program without a way to tell that it is ready"));
    }
    // With a PATH of its own it is looked up in that, when it is started.
    if !program.env.iter().any(|(name, _)| name == "PATH") {
        os::spawn::resolve_program(name)?;
    }
    if let Some(cwd) = program.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
        return Err(Error::on(Exit::Usage, "cannot start the program in the directory", cwd)
            .because("it is not there or not a directory"));
    }
    Ok(())
}

/// The directories to put back, each once, with their real paths.
fn directories(programs: &[Program], options: &LabOptions) -> Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    let wanted = programs.iter().flat_map(|program| program.restore.iter().map(move |path| (path, &program.user)));
    for (directory, user) in wanted {
        let real = restore::check(directory, options.recording.as_deref(), options.snapshot_dir.as_deref())?;
        if let Some(user) = user {
            restore::is_theirs(&real, user.uid)?;
        }
        if !directories.contains(&real) {
            directories.push(real);
        }
    }
    restore::refuse_nested(&directories)?;
    Ok(directories)
}

/// The disks that hold the paths, each once. A path on no disk (tmpfs, network) has none.
fn disks(paths: &[PathBuf]) -> Result<Vec<Disk>> {
    let mut disks: Vec<Disk> = Vec::new();
    for path in paths {
        if let Some(disk) = disk_of(path)?
            && !disks.iter().any(|other| other.dev == disk.dev)
        {
            disks.push(disk);
        }
    }
    Ok(disks)
}

fn disk_of(path: &Path) -> Result<Option<Disk>> {
    if let Err(cause) = path.metadata() {
        return Err(Error::on(Exit::Usage, "cannot find the disk of", path).because(cause));
    }
    Ok(Disk::of_path(path).ok())
}

fn open_cgroup(options: &LabOptions, warnings: &mut Vec<Warning>) -> Result<Option<Rc<RunCgroup>>> {
    let name = if options.cgroup_name.is_empty() { "run" } else { &options.cgroup_name };
    let group = match RunCgroup::create(name) {
        Ok(group) => group,
        Err(error) if options.throttle.is_some() => {
            return Err(Error::new(Exit::Machine, "cannot slow the disk down without a control group", "")
                .because(error)
                .hint("run thaw as root, or without --disk"));
        }
        Err(error) => {
            let text = format!(
                "no control group for the runs: I/O is not counted, CPU time is of processes that were waited for, and the \
                 state app evicts file data only ({error})"
            );
            warnings.push(Warning::new(WarningKind::NoControl, text).hint("run thaw as root"));
            return Ok(None);
        }
    };
    if options.throttle.is_some() && !group.can(Ability::Io) {
        return Err(Error::new(Exit::Machine, "cannot slow the disk down", "").because(group.missing().join("; ")));
    }
    warnings.extend(group.missing().iter().map(|missing| Warning::new(WarningKind::NoControl, missing.clone())));
    Ok(Some(Rc::new(group)))
}

fn set_read_ahead(disks: &[Disk], kib: Option<u64>, warnings: &mut Vec<Warning>) -> Result<Vec<ReadAheadGuard>> {
    if let Some(kib) = kib {
        return disks.iter().map(|disk| ReadAheadGuard::set(disk, kib)).collect();
    }
    for disk in disks {
        let found = disk.read_ahead_kb;
        if !(USUAL_READ_AHEAD_KIB / 4..=4 * USUAL_READ_AHEAD_KIB).contains(&found) {
            let name = &disk.name;
            let text = format!(
                "read-ahead of {name} is {found} KiB, the kernel's default is {USUAL_READ_AHEAD_KIB}: \
                 a cold start reads more or less of each file than on other machines"
            );
            let hint = format!("set it for the recording: --readahead {USUAL_READ_AHEAD_KIB}K");
            warnings.push(Warning::new(WarningKind::ReadAhead, text).hint(hint));
        }
    }
    Ok(Vec::new())
}
