//! The laboratory: holds the machine (control group, read-ahead, CPU controls, throttle, snapshots) while programs are
//! started in it, and gives everything back. Measures; interprets nothing.

use crate::around::{self, Command};
use crate::base::BaseList;
use crate::conduct::{Host, Outcome, Prepared, Tick, Tracer, Verdict};
use crate::drain::Drain;
use crate::ground::Ground;
use crate::inside::{Controller, Door};
pub use crate::program::{Output, Program, Success};
use crate::restore::{self, Snapshot};
use crate::start::{self, Which};
use crate::states::{self, Beat, Expected, ManyFiles, OpenNeeds, Scene};
use crate::watch::{Moment, Watched};
use model::{CacheState, Error, Exit, Need, Owner, Result, RunKind, Warning, WarningKind};
use os::cgroup::{Ability, RunCgroup, Throttle};
use os::cpu::SteadyGuard;
use os::disk::{Disk, read_ahead_text};
use os::settings::{Hold, Share, Turn, Wait};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Read-ahead of the kernel's own choice, KiB.
const USUAL_READ_AHEAD_KIB: u64 = 128;

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
    /// Keep the read-ahead as it is found, so that no other recording changes it meanwhile.
    pub keep_read_ahead: bool,
    /// How long to wait for other recordings that need the machine otherwise.
    pub wait: Wait,
    /// Where to keep copies for `restore`; `None`: beside each directory.
    pub snapshot_dir: Option<PathBuf>,
    /// The recording: no directory that holds it is restored.
    pub recording: Option<PathBuf>,
}

/// The machine, held. Fields are given back in this order.
#[derive(Debug)]
pub struct Lab {
    programs: Vec<Variant>,
    /// The setups of so many programs were run, and their cleanups not yet.
    set_up: u32,
    /// The variant that was prepared by its command, and not concluded yet.
    between: Option<u32>,
    /// Put back before the group goes: programs are gone by then.
    snapshots: Vec<Snapshot>,
    disks: Vec<Disk>,
    throttle: Option<Throttle>,
    throttled: bool,
    door: Option<Door>,
    drain: Option<Drain>,
    cgroup: Option<Rc<RunCgroup>>,
    cpu: Option<SteadyGuard>,
    /// For one run, before what is held for all of them.
    for_a_run: Vec<Hold>,
    read_ahead: Vec<Hold>,
    /// Whether the disks' settings mean anything for the runs.
    watches_disks: bool,
    /// Whose turn it is to use the machine's caches: ours from before a run until the next one is prepared, so that
    /// what follows a run finds them as it left them.
    turn: Option<Turn>,
    /// A start follows that the turn was taken for.
    in_attempt: bool,
    wait: Wait,
    watched: Watched,
    /// The machine when the last run was prepared, and what that run will have to read.
    prepared: Option<(CacheState, Moment, Expected)>,
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
    /// Real paths of the directories that are put back before its starts.
    restore: Vec<PathBuf>,
    needs: Option<Vec<Need>>,
}

impl Lab {
    /// Takes the machine in hand. What it could not get is a warning if the programs can be measured without it.
    ///
    /// # Errors
    /// An unknown program, a directory that must not be restored, a throttle or read-ahead that was asked for and
    /// cannot be set.
    pub fn open(programs: Vec<Program>, options: LabOptions) -> Result<(Self, Vec<Warning>)> {
        let mut warnings = Vec::new();
        for program in &programs {
            check_program(program)?;
        }
        let directories = directories(&programs, &options)?;
        let lists: BTreeMap<&Path, &BaseList> =
            programs.iter().filter_map(|it| it.base_list.as_ref()).map(|list| (list.file.as_path(), list)).collect();
        for list in lists.into_values() {
            warnings.extend(states::check_base(list)?);
        }
        let mut disks = disks(&options.disk_paths)?;
        if disks.is_empty() && (options.throttle.is_some() || options.read_ahead_kib.is_some()) {
            return Err(Error::new(Exit::Machine, "there is no disk whose speed or read-ahead could be set", "")
                .because("the program and its files are on no block device")
                .hint("leave --disk and --readahead out"));
        }
        os::spawn::become_subreaper()?;
        let cgroup = open_cgroup(&options, &mut warnings)?;
        let door = match &cgroup {
            Some(group) => Door::open(group, Controller::Memory).inspect_err(|_| {
                // Thaw is in it: removing it would end thaw.
                std::mem::forget(Rc::clone(group));
            })?,
            None => None,
        };
        let read_ahead = hold_read_ahead(&disks, &options, &mut warnings)?;
        for disk in &mut disks {
            disk.look_again();
        }
        let drain = match (&cgroup, options.throttle) {
            (Some(group), Some(limits)) => {
                let (drain, more) = Drain::open(group, &disks, limits)?;
                warnings.extend(more);
                drain
            }
            _ => None,
        };
        let cpu = match options.cpu {
            Cpu::AsFound => None,
            Cpu::Steady => {
                let (guard, more) = SteadyGuard::hold(options.wait)?;
                warnings.extend(more);
                Some(guard)
            }
        };
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for directory in directories.iter().flatten() {
            if snapshots.iter().all(|taken| taken.live() != directory) {
                os::interrupt::check()?;
                snapshots.push(Snapshot::take(directory, options.snapshot_dir.as_deref())?);
            }
        }
        // Others may change the disks of hot starts: these read nothing.
        let watches_disks = options.keep_read_ahead || options.read_ahead_kib.is_some();
        let watched_disks = if watches_disks { disks.as_slice() } else { &[] };
        let watched = Watched::new(watched_disks, cpu.as_ref().map_or(&[], SteadyGuard::governors));
        let mut lab = Self {
            programs: programs
                .into_iter()
                .zip(directories)
                .map(|(program, restore)| Variant { program, restore, needs: None })
                .collect(),
            set_up: 0,
            between: None,
            snapshots,
            disks,
            throttle: options.throttle,
            throttled: false,
            door,
            drain,
            cgroup,
            cpu,
            for_a_run: Vec::new(),
            read_ahead,
            watches_disks,
            turn: None,
            in_attempt: false,
            wait: options.wait,
            watched,
            prepared: None,
            ground: None,
            began: Instant::now(),
            warmed: None,
        };
        lab.set_up()?;
        Ok((lab, warnings))
    }

    /// The programs' files lie on this from now on: it is put back as a whole before each run that is not to be hot,
    /// and slow while a run is measured.
    pub fn stand_on(&mut self, ground: Box<dyn Ground>) {
        self.ground = Some(ground);
    }

    /// Turns the kernel's read-ahead off for what follows, until [`Lab::with_read_ahead`]: nobody else's runs meet
    /// that.
    ///
    /// # Errors
    /// It cannot be set; somebody else's run takes longer than the lab may wait.
    pub fn without_read_ahead(&mut self) -> Result<()> {
        self.in_attempt = false;
        self.take_turn(Share::Alone)?;
        self.in_attempt = true;
        let Some(turn) = &self.turn else {
            return Err(Error::new(Exit::Machine, "this user cannot turn read-ahead off", "").hint("run thaw as root"));
        };
        for disk in &self.disks {
            let hold = Hold::for_a_run(&disk.read_ahead_file, "0", turn)?;
            self.watched.expect(hold.path(), hold.value());
            self.for_a_run.push(hold);
        }
        Ok(())
    }

    /// Read-ahead is again what it is for all other runs.
    ///
    /// # Errors
    /// It cannot be put back; the entry stays for `thaw doctor`.
    pub fn with_read_ahead(&mut self) -> Result<()> {
        // Last set, first put back: a disk that is named twice ends as it was found.
        while let Some(hold) = self.for_a_run.pop() {
            hold.undo()?;
        }
        let disks = if self.watches_disks { self.disks.as_slice() } else { &[] };
        self.watched = Watched::new(disks, self.cpu.as_ref().map_or(&[], SteadyGuard::governors));
        self.end_turn();
        Ok(())
    }

    /// Takes a turn on the machine's caches, unless the one that this attempt has is enough.
    fn take_turn(&mut self, share: Share) -> Result<()> {
        let enough = self.turn.as_ref().is_some_and(|turn| turn.share() == share || turn.share() == Share::Alone);
        if !(self.in_attempt && enough) {
            // Let go of first: whoever waits comes before the next one.
            self.turn = None;
            self.turn = Turn::take(share, self.wait)?;
        }
        Ok(())
    }

    fn end_turn(&mut self) {
        self.turn = None;
        self.in_attempt = false;
    }

    /// Sets again what the lab holds and somebody has changed; what it cannot is the objection to the run.
    fn look_at_settings(&self) -> Option<String> {
        let governors = self.cpu.as_ref().map_or(&[][..], SteadyGuard::governors);
        if self.for_a_run.is_empty() {
            for hold in self.read_ahead.iter().chain(governors) {
                // If it cannot be written, it is found below.
                let _ = hold.renew();
            }
        }
        self.lost_limit().or_else(|| self.watched.look().objection())
    }

    fn lost_limit(&self) -> Option<String> {
        let (limits, group) = (self.throttle.as_ref().filter(|_| self.throttled)?, self.cgroup.as_ref()?);
        let lost = |disk: &&Disk| group.throttled(disk.dev).ok().flatten().as_ref() != Some(limits);
        self.disks.iter().find(lost).map(|disk| format!("somebody took the limit on reads from {} away", disk.name))
    }

    /// Why a run that has ended was not made in its state or under the recording's settings.
    fn disturbed(&self, which: Which, row: &model::RunRow) -> Option<String> {
        let (state, before, expected) = self.prepared.as_ref().filter(|_| which.kind != RunKind::Warmup)?;
        let why = self.lost_limit().or_else(|| self.watched.look().disturbed_since(before));
        let is_usual = matches!(which.kind, RunKind::Timed | RunKind::Trace) && *state == which.state;
        why.or_else(|| states::contradiction(which.state, *expected, row).filter(|_| is_usual))
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
        let mut warnings = self.tidy();
        for snapshot in self.snapshots.drain(..) {
            let live = model::shown(snapshot.live());
            if let Err(error) = snapshot.close() {
                let text = format!("{live} could not be put back: {error}");
                warnings.push(Warning::new(WarningKind::Leftover, text).hint("run `thaw doctor`"));
            }
        }
        warnings
    }

    /// Runs one of the commands around a program's starts, if it has that; a slow disk is not slow for it.
    fn run_around(&mut self, variant: u32, command: Command, beat: &mut Beat<'_>) -> Result<()> {
        self.set_throttle(false)?;
        let Some(line) = command.of(&self.variant(variant)?.program.around).cloned() else { return Ok(()) };
        around::run(&self.variant(variant)?.program, variant, (command, &line), self.cgroup.as_ref(), beat)
    }

    /// What comes before the first start of each program.
    fn set_up(&mut self) -> Result<()> {
        let mut tick = |_| {};
        let mut beat = Beat::new(&mut tick);
        for variant in 0..self.programs.len() as u32 {
            // A setup that failed half way leaves something to clean up, too.
            self.set_up = variant + 1;
            self.run_around(variant, Command::Setup, &mut beat)?;
        }
        Ok(())
    }

    /// What comes before a start, after what follows one that was not made.
    fn before_start(&mut self, variant: u32, wanted: Wanted, beat: &mut Beat<'_>) -> Result<()> {
        self.after_start(beat)?;
        self.put_back(variant, wanted, beat)?;
        self.run_around(variant, Command::Prepare, beat)?;
        self.between = Some(variant);
        Ok(())
    }

    /// What comes after a start, if one was prepared for.
    fn after_start(&mut self, beat: &mut Beat<'_>) -> Result<()> {
        match self.between.take() {
            Some(variant) => self.run_around(variant, Command::Conclude, beat),
            None => Ok(()),
        }
    }

    /// What is left to be done at the end, whatever happened. Says what did not work.
    fn tidy(&mut self) -> Vec<Warning> {
        let mut tick = |_| {};
        let mut beat = Beat::to_the_end(&mut tick);
        let mut done = vec![self.after_start(&mut beat)];
        for variant in 0..std::mem::take(&mut self.set_up) {
            done.push(self.run_around(variant, Command::Cleanup, &mut beat));
        }
        let failed = done.into_iter().filter_map(Result::err);
        failed.map(|error| Warning::new(WarningKind::Leftover, error.to_string())).collect()
    }

    fn variant(&self, variant: u32) -> Result<&Variant> {
        self.programs.get(variant as usize).ok_or_else(|| Error::bug(format!("there is no variant {variant}")))
    }

    /// Puts a program's directories back, on the run's account: those of others wait for their own starts. A ground is
    /// put back as a whole, which makes everything on it cold.
    fn put_back(&mut self, variant: u32, wanted: Wanted, beat: &mut Beat<'_>) -> Result<()> {
        let _inside = self.door.as_ref().and_then(Door::enter);
        if let Some(ground) = self.ground.as_mut().filter(|_| wanted == Wanted::AsAtFirst) {
            self.warmed = None;
            beat.beat()?;
            ground.put_back()?;
            // The directories on it are what they were first, down to the inodes.
            return self.snapshots.iter_mut().try_for_each(Snapshot::is_as_at_first);
        }
        let own = self.variant(variant)?.restore.clone();
        for snapshot in self.snapshots.iter_mut().filter(|snapshot| own.iter().any(|path| path == snapshot.live())) {
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

impl Drop for Lab {
    fn drop(&mut self) {
        self.tidy();
        let is_in = |left: Option<Result<()>>| left.is_some_and(|left| left.is_err());
        if is_in(self.door.as_ref().map(Door::is_left)) || is_in(self.drain.as_ref().map(Drain::is_left)) {
            // Thaw is in it: removing it would end thaw.
            std::mem::forget(self.cgroup.take());
        }
    }
}

impl Host for Lab {
    fn name(&self, variant: u32) -> String {
        self.variant(variant).map(|variant| variant.program.name.clone()).unwrap_or_default()
    }

    fn prepare(&mut self, variant: u32, state: CacheState, tick: Tick<'_>) -> Result<Prepared> {
        let mut beat = Beat::new(tick);
        self.prepared = None;
        self.take_turn(if state == CacheState::Hot { Share::Beside } else { Share::Alone })?;
        self.in_attempt = true;
        if let Some(why) = self.look_at_settings() {
            return Ok(Prepared::not_in_state(why));
        }
        let keep = state == CacheState::Hot && self.warmed == Some(variant);
        self.before_start(variant, if keep { Wanted::Warm } else { Wanted::AsAtFirst }, &mut beat)?;
        // A ground that was put back is cold.
        let warmed = self.warmed == Some(variant);
        if state != CacheState::Hot {
            self.warmed = None;
        }
        let _many = ManyFiles::allow();
        let Variant { program, needs, .. } = self.variant(variant)?;
        let scene = Scene {
            cgroup: self.cgroup.as_deref(),
            needs: needs.as_deref(),
            dirs: &program.dirs,
            base: program.base_list.as_ref().map(|list| list.paths.as_slice()),
            warmed,
        };
        let mut files = OpenNeeds::default();
        files.open(scene.needs.unwrap_or_default(), Owner::System, &mut beat)?;
        let inside = self.door.as_ref().filter(|_| state == CacheState::App).and_then(Door::enter);
        files.open(scene.needs.unwrap_or_default(), Owner::App, &mut beat)?;
        drop(inside);
        let prepared = states::prepare(&scene, files, state, &mut beat)?;
        debug_assert!(needs.is_none() || prepared.verdict != Verdict::Unproven);
        let expected = Expected::of(&prepared, needs.as_deref());
        self.prepared = Some((state, self.watched.look(), expected));
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
        if self.turn.is_none() {
            self.take_turn(Share::Beside)?;
        }
        if kind == RunKind::Warmup {
            self.before_start(variant, Wanted::AsAtFirst, &mut beat)?;
        }
        // A start without read-ahead asks for what it needs, not for how long that takes.
        let measured = matches!(kind, RunKind::Timed | RunKind::Trace);
        self.set_throttle(measured)?;
        self.warmed = None;
        if let Some(ground) = self.ground.as_mut().filter(|_| measured) {
            ground.begin()?;
        }
        self.door.as_ref().map_or(Ok(()), Door::is_left)?;
        let program = &self.variant(variant)?.program;
        let which = Which { variant, state, kind };
        let drain = self.drain.as_ref().filter(|_| measured);
        let outcome = start::start(program, which, self.cgroup.as_ref(), drain, tracer, &mut beat);
        let ended = self.ground.as_mut().filter(|_| measured).map_or(Ok(()), |ground| ground.end());
        let mut outcome = outcome?;
        ended?;
        if outcome.row.accepted
            && let Some(why) = self.disturbed(which, &outcome.row)
        {
            outcome.row.accepted = false;
            outcome.row.rejected_because = Some(format!("not {state}: {why}"));
            outcome.disturbed = Some(why);
        }
        self.in_attempt &= kind == RunKind::Warmup;
        self.prepared = None;
        self.warmed = outcome.row.accepted.then_some(variant);
        self.after_start(&mut beat)?;
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
        self.end_turn();
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

/// The real paths of the directories to put back, of each program.
fn directories(programs: &[Program], options: &LabOptions) -> Result<Vec<Vec<PathBuf>>> {
    let real = |program: &Program, directory: &PathBuf| {
        let real = restore::check(directory, options.recording.as_deref(), options.snapshot_dir.as_deref())?;
        if let Some(user) = &program.user {
            restore::is_theirs(&real, user.uid)?;
        }
        Ok(real)
    };
    let of = |program: &Program| program.restore.iter().map(|directory| real(program, directory)).collect();
    let directories = programs.iter().map(of).collect::<Result<Vec<Vec<PathBuf>>>>()?;
    let mut all: Vec<PathBuf> = directories.iter().flatten().cloned().collect();
    all.sort();
    all.dedup();
    restore::refuse_nested(&all)?;
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
                "no control group for the runs: I/O is not counted, CPU time is of processes that were waited for, \
                    and the \
                 state app evicts file data only ({error})"
            );
            let hint = match rustix::process::geteuid().is_root() {
                true => {
                    "the kernel's control groups are to be mounted at /sys/fs/cgroup; a container needs --privileged"
                }
                false => "run thaw as root",
            };
            warnings.push(Warning::new(WarningKind::NoControl, text).hint(hint));
            return Ok(None);
        }
    };
    if options.throttle.is_some() && !group.can(Ability::Io) {
        return Err(Error::new(Exit::Machine, "cannot slow the disk down", "").because(group.missing().join("; ")));
    }
    warnings.extend(group.missing().iter().map(|missing| Warning::new(WarningKind::NoControl, missing.clone())));
    Ok(Some(Rc::new(group)))
}

/// Holds the read-ahead of the disks at the value that was asked for, or at what it is.
fn hold_read_ahead(disks: &[Disk], options: &LabOptions, warnings: &mut Vec<Warning>) -> Result<Vec<Hold>> {
    // In one order everywhere: who has the first need not wait for the second.
    let mut disks: Vec<&Disk> = disks.iter().collect();
    disks.sort_by(|one, other| one.read_ahead_file.cmp(&other.read_ahead_file));
    if let Some(kib) = options.read_ahead_kib {
        let text = read_ahead_text(kib);
        return disks.iter().map(|disk| Hold::take(&disk.read_ahead_file, Some(&text), options.wait)).collect();
    }
    let mut held = Vec::new();
    for disk in disks {
        // Who cannot take part notices a change at the next run.
        if options.keep_read_ahead && rustix::process::geteuid().is_root() {
            held.push(Hold::take(&disk.read_ahead_file, None, options.wait)?);
        }
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
    Ok(held)
}
