//! Recording: starts a program with the guest in it and its children, waits for all of them, and puts the directory
//! into order.
//!
//! A recording is a directory: `recording.json` and one `PID-N.stream` for each process image. The streams are complete
//! at any moment, so a recording whose thaw was killed is read as far as it goes.

mod desk;
mod missed;
pub(crate) mod unseen;

pub(crate) use desk::{Asker, Desk};
pub use heapfile::recording::{Pauses, Recording, Unseen};

use crate::aggregate::Aggregator;
pub use crate::aggregate::States;
use crate::clock::Clock;
use crate::finish::Ahead;
use crate::finish::ahead::Thread;
use heapfile::event::SAMPLE_MAX;
use heapfile::form::is_stream;
use heapfile::recording::{FILE, believed};
use model::{Bytes, Error, Exit, Result, shown};
use os::file::Access;
pub use os::replace::Existing;
use os::spawn::{Ended, Launch, Orphan, Stream};
use os::user::Account;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// File name of the guest.
pub const AGENT: &str = "libthaw_heap.so";
/// Names another place for it.
pub const AGENT_VARIABLE: &str = "THAW_HEAP_AGENT";

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The directory to make.
    pub output: PathBuf,
    /// What to do if it is there.
    pub existing: Existing,
    /// A cut stack has at least so many frames: 1 to 127.
    pub depth: u32,
    /// Whether frees are recorded with their stacks.
    pub frees: FreeStacks,
    /// Whether functions of Python programs are in stacks.
    pub functions: Functions,
    /// Which blocks are recorded; `None`: all.
    pub sample: Option<Sample>,
    /// Whether every event is kept, or sums.
    pub keep: Keep,
    /// Which states of the sums stay, beside the last one; `None`: none.
    pub states: Option<States>,
    /// Whether it is looked which leaks can still be reached.
    pub leaks: LeakCheck,
    /// Where the program's standard output goes.
    pub stdout: Output,
    /// The guest.
    pub agent: PathBuf,
    /// Whom the program runs as; `None`: as thaw.
    pub user: Option<Account>,
}

/// Where a recorded program's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Where thaw's goes.
    Stdout,
    /// Where thaw's standard error goes: thaw's own output is a document that nothing may be mixed into.
    Stderr,
}

/// What is kept of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Every event.
    Events,
    /// Sums by site, made while the program runs: the disk holds no more than what was not read yet. See
    /// `aggregate`.
    Sums {
        /// Most bytes of a stream that may wait to be read: the process waits where it would write more.
        ahead: Bytes,
    },
}

impl Keep {
    /// What [`Keep::Sums`] has if nothing is said: some seconds of a busy program.
    pub const AHEAD: Bytes = Bytes(64 << 20);
}

/// Whether each process is stopped when it exits, and its memory searched for pointers to what it did not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeakCheck {
    /// It is not.
    Without,
    /// It is.
    AtExit,
}

/// Whether frees are recorded with their stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeStacks {
    /// They are not: half the work.
    Without,
    /// They are.
    With,
}

/// Whether the functions that an interpreter runs are in stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Functions {
    /// They are, in the place of the interpreter's own frames.
    Interpreted,
    /// They are not.
    Native,
}

/// Blocks are chosen by their bytes: one of s bytes with probability 1 - exp(-s / `bytes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Mean bytes between two.
    pub bytes: u64,
    /// What random numbers begin with, for runs that are to be alike; `None`: with the time.
    pub seed: Option<u64>,
}

/// What recording is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The program runs.
    Running(u32),
    /// It has ended; so many of its descendants have not.
    Waiting(usize),
    /// All have ended; the directory is put into order.
    Finishing,
}

/// Records a program until it and all its descendants have ended.
///
/// # Errors
/// The directory cannot be made; the program cannot be started; another machine than x86-64.
pub fn run(plan: &Plan, version: &str, progress: &mut dyn FnMut(Phase)) -> Result<Recording> {
    run_ahead(plan, version, None, progress)
}

/// The same; if wanted, the streams are finished while the program runs, and `ahead` has what was made of them.
///
/// # Errors
/// As [`run`].
pub fn run_ahead(
    plan: &Plan,
    version: &str,
    ahead: Option<&mut Ahead>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Recording> {
    check_sample(plan.sample)?;
    check_states(plan.states)?;
    if let Some(Ok(program)) = plan.command.first().map(|name| os::spawn::resolve_program(name)) {
        unseen::refuse_sanitized(&program)?;
    }
    if let Some(user) = &plan.user {
        reaches(user, &plan.agent, &format!("copy it to a directory that the user reaches and set {AGENT_VARIABLE}"))?;
        let output = std::path::absolute(&plan.output).unwrap_or_else(|_| plan.output.clone());
        reaches(user, &output, "record into a directory that the user reaches: -o /tmp/thaw.heap")?;
    }
    let clock = Clock::start()?;
    let made = Made::new(&plan.output, plan.existing)?;
    record(plan, version, &made, &clock, ahead, progress).map_err(|error| made.named(error))
}

fn record(
    plan: &Plan,
    version: &str,
    made: &Made,
    clock: &Clock,
    ahead: Option<&mut Ahead>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Recording> {
    let directory = made.path();
    let command = plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let cwd = std::env::current_dir().map(|cwd| shown(&cwd)).unwrap_or_default();
    let mut recording = Recording::begin(version, command, cwd, clock.ticks);
    let nothing = |_: &Error| {
        // Nothing was recorded: leave no directory that looks like a recording.
        let _ = os::tree::remove(&made.real);
    };
    recording.leak_check = plan.leaks == LeakCheck::AtExit;
    recording.write(directory).inspect_err(nothing)?;
    unseen::begin(directory).inspect_err(nothing)?;
    let desk = Desk::open(made, Asker::Below(std::process::id())).inspect_err(nothing)?;
    let mut beside = Beside::new(plan.keep, plan.states, directory, clock, ahead).inspect_err(nothing)?;
    let ended = start(plan, made, progress, &mut beside).inspect_err(nothing)?;
    recording.running = os::spawn::wait_for_descendants(|left| {
        progress(Phase::Waiting(left));
        beside.poll();
    });
    drop(desk);
    progress(Phase::Finishing);
    let summed = beside.end(&recording.running);
    recording.finished = recording.running.is_empty();
    recording.ticks_per_second = Some(clock.rate());
    (recording.code, recording.signal) = (ended.code, ended.signal);
    recording.cpu_s = Some(ended.usage.user.seconds() + ended.usage.system.seconds());
    recording.max_rss_bytes = Some(ended.usage.max_rss.0);
    let streams = finish(directory, &recording.running)?;
    if streams + *summed.as_ref().unwrap_or(&1) == 0 {
        recording.nothing = Some(why_nothing(plan));
    }
    let without = unseen::end(directory, &recording.running)?;
    (recording.unseen, recording.missing) = (without.unseen, without.missing);
    recording.write(directory)?;
    close(directory);
    summed.map(|_| recording)
}

/// Sees that the program's user comes to a file.
fn reaches(user: &Account, path: &Path, hint: &str) -> Result<()> {
    let Some(closed) = path.parent().and_then(|above| user.closed(above)) else { return Ok(()) };
    Err(Error::on(Exit::Usage, format!("user {} cannot reach", user.name), path)
        .because(format!("{} is closed to that user", shown(closed)))
        .hint(hint))
}

/// # Errors
/// Samples would be too far apart to count with.
pub(crate) fn check_sample(sample: Option<Sample>) -> Result<()> {
    match sample {
        Some(sample) if sample.bytes > SAMPLE_MAX => {
            let apart = format!("{} bytes", sample.bytes);
            Err(Error::new(Exit::Usage, "samples would be too far apart", apart)
                .hint("1GiB is the most: --sample 1GiB"))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// States of the sums would follow each other too closely.
pub(crate) fn check_states(states: Option<States>) -> Result<()> {
    const LEAST: Duration = Duration::from_millis(100);
    match states {
        Some(states) if states.every < LEAST => {
            Err(Error::new(Exit::Usage, "states would follow each other too closely", format!("{:?}", states.every))
                .hint("0.1 s is the least, a minute is usual: --every 1m"))
        }
        _ => Ok(()),
    }
}

/// What is done beside the program while it runs.
pub(crate) struct Beside<'a> {
    aggregator: Option<Aggregator>,
    /// What finishes the streams, and where what it made is wanted.
    finishing: Option<(Thread, &'a mut Ahead)>,
    /// Until all is read, the guests know that they are read.
    _heart: Option<Heart>,
    clock: &'a Clock,
    /// The program goes on without it.
    failed: Option<Error>,
}

impl<'a> Beside<'a> {
    pub(crate) fn new(
        keep: Keep,
        states: Option<States>,
        directory: &Path,
        clock: &'a Clock,
        ahead: Option<&'a mut Ahead>,
    ) -> Result<Self> {
        let aggregator = match keep {
            Keep::Events => None,
            Keep::Sums { .. } => Some(Aggregator::new(directory, clock.ticks, states)?),
        };
        let heart = aggregator.as_ref().map(|_| Heart::start(directory)).transpose()?;
        // Where there is no thread for it, all is done in the end.
        let finishing = ahead.filter(|_| keep == Keep::Events).and_then(|wanted| {
            let thread = Thread::start(directory, *clock, std::mem::take(wanted)).ok()?;
            Some((thread, wanted))
        });
        Ok(Self { aggregator, finishing, _heart: heart, clock, failed: None })
    }

    pub(crate) fn poll(&mut self) {
        if let Some(aggregator) = self.aggregator.as_mut().filter(|_| self.failed.is_none()) {
            self.failed = aggregator.poll(self.clock).err();
        }
    }

    /// How many streams were added up.
    pub(crate) fn end(mut self, running: &[u32]) -> Result<usize> {
        if let Some((thread, wanted)) = self.finishing.take() {
            *wanted = thread.end().unwrap_or_default();
        }
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let Some(aggregator) = self.aggregator.take() else { return Ok(0) };
        aggregator.end(self.clock, running)
    }
}

/// Tells the guests that their reader lives: a file of the recording is locked, and counted up by a thread that does
/// nothing else. So a thaw that works on something for long is not taken for one that stands still.
struct Heart {
    path: PathBuf,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn start(directory: &Path) -> Result<Self> {
        let path = directory.join(OsStr::from_bytes(heap_wire::attach::LOCK));
        let (stop, stopped) = mpsc::channel();
        let started = File::create_new(&path).and_then(|file| {
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            let every = Duration::from_nanos(heap_wire::follow::BEAT_NS);
            std::thread::Builder::new().name("heart".into()).spawn(move || {
                let mut beats = 0u64;
                while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                    beats += 1;
                    // On a full disk it stands still; streams cannot grow there either.
                    let _ = file.write_all_at(&beats.to_le_bytes(), 0);
                }
            })
        });
        match started {
            Ok(thread) => Ok(Self { path, stop: Some(stop), thread: Some(thread) }),
            Err(cause) => Err(Error::on(Exit::Machine, "cannot lock the recording", &path).because(cause)),
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Nobody else may enter the directory of a recording that has ended.
pub(crate) fn close(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
}

/// The directory of a recording that is being made. The directory above may be another user's, who can rename it and
/// put something else into its place: thaw works in what it made, by its descriptor.
#[derive(Debug)]
pub struct Made {
    /// Where it was made: for guests and for people.
    pub(crate) real: PathBuf,
    inside: PathBuf,
    _held: OwnedFd,
}

impl Made {
    /// Makes it.
    ///
    /// # Errors
    /// There is something already; it cannot be made; somebody else put something into its place.
    pub(crate) fn new(path: &Path, existing: Existing) -> Result<Self> {
        only_ours(path)?;
        make_directory(path, existing)?;
        Self::of_new(path).inspect_err(|_| {
            // Only if it is empty, as ours is: there is no recording then that would lie in it.
            let _ = fs::remove_dir(path);
        })
    }

    fn of_new(path: &Path) -> Result<Self> {
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot make the recording", path).because(cause);
        let made = Self::at(real_place(path).map_err(cannot)?)?;
        if let Some(entry) = fs::read_dir(&made.inside).map_err(cannot)?.next() {
            entry.map_err(cannot)?;
            return Err(cannot(std::io::Error::other("somebody else put another directory into its place")));
        }
        if rustix::process::geteuid().is_root() {
            // Descendants that give up root find the desk and the recorder's lock by their names, and nothing else.
            fs::set_permissions(&made.inside, fs::Permissions::from_mode(0o711)).map_err(cannot)?;
        }
        Ok(made)
    }

    /// Opens one that was just made.
    ///
    /// # Errors
    /// It is gone, or somebody else put something into its place.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot open the recording", path).because(cause);
        Self::at(real_place(path).map_err(cannot)?)
    }

    fn at(real: PathBuf) -> Result<Self> {
        let cannot =
            |cause: std::io::Error| Error::on(Exit::Machine, "cannot open the recording", &real).because(cause);
        let held = os::tree::open_directory(&real).map_err(cannot)?;
        let inside = os::tree::of_descriptor(&held);
        let about = fs::metadata(&inside).map_err(cannot)?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o066 != 0 {
            return Err(cannot(std::io::Error::other("somebody else put another directory into its place")));
        }
        Ok(Self { real, inside, _held: held })
    }

    /// Where thaw finds it, whatever it is called by now.
    pub fn path(&self) -> &Path {
        &self.inside
    }

    /// An error, with the name for people.
    pub fn named(&self, mut error: Error) -> Error {
        error.object = error.object.replacen(&shown(&self.inside), &shown(&self.real), 1);
        error
    }
}

/// Programs that root records open their streams by path: who can swap a directory on the way leads them elsewhere. Who
/// called sudo need not.
fn only_ours(path: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match os::user::who_changes_but(os::file::directory_of(path), os::user::caller()?.as_ref()) {
        None => Ok(()),
        Some((part, who)) => {
            Err(Error::on(Exit::Usage, "root records into no directory that another user can change:", path)
                .because(format!("{}: {who}", shown(&part)))
                .hint("record into another one: -o /tmp/thaw.heap"))
        }
    }
}

/// The real path of the directory above, and the name: a link that has the name by now is not followed.
fn real_place(path: &Path) -> std::io::Result<PathBuf> {
    match path.file_name() {
        Some(name) => Ok(os::file::directory_of(path).canonicalize()?.join(name)),
        None => path.canonicalize(),
    }
}

fn make_directory(path: &Path, existing: Existing) -> Result<()> {
    let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot make the recording", path).because(cause);
    if path.symlink_metadata().is_ok() {
        let is_recording = path.join(FILE).exists();
        if existing == Existing::Keep || !is_recording {
            let hint =
                if is_recording { "replace it with --force, or write another: -o" } else { "choose another name: -o" };
            return Err(Error::on(Exit::Usage, "there is something already", path).hint(hint));
        }
        fs::remove_dir_all(path).map_err(cannot)?;
    }
    os::file::create_private_directory(path).map_err(cannot)
}

fn start(plan: &Plan, made: &Made, progress: &mut dyn FnMut(Phase), beside: &mut Beside<'_>) -> Result<Ended> {
    let mut launch = Launch::new(&plan.command);
    launch.stdin = Stream::Inherit;
    if plan.stdout == Output::Stderr {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        let cannot = |cause| Error::new(Exit::Machine, "cannot pass standard error on", "stderr").because(cause);
        launch.stdout = Stream::Fd(stderr.map_err(cannot)?);
    }
    launch.env = environment(plan, &made.real);
    if plan.keep != Keep::Events {
        // For days: what the program does is worth more than its recording.
        launch.orphan = Orphan::GoesOn;
    }
    if let Some(user) = &plan.user {
        user.run(&mut launch);
    }
    let gated = os::spawn::spawn_gated(launch)?;
    if let Some(Ok(program)) = plan.command.first().map(|name| os::spawn::resolve_program(name)) {
        unseen::note(made.path(), gated.pid(), Clock::now(), &program)?;
    }
    let mut running = gated.release()?;
    progress(Phase::Running(running.pid()));
    running.wait_passing_signals(|| beside.poll())
}

/// What makes the dynamic linker load the guest, and what the guest is to do.
fn environment(plan: &Plan, directory: &Path) -> Vec<(OsString, Option<OsString>)> {
    let mut preload = plan.agent.clone().into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let frees = if plan.frees == FreeStacks::With { "frees=1;" } else { "" };
    let native = if plan.functions == Functions::Native { "native=1;" } else { "" };
    let mut options = OsString::from(format!("depth={};{frees}{native}", plan.depth));
    if let Some(Sample { bytes, seed }) = plan.sample {
        options.push(format!("sample={bytes};seed={};", seed.unwrap_or(0)));
    }
    if plan.leaks == LeakCheck::AtExit {
        options.push("leaks=1;");
    }
    if let Keep::Sums { ahead } = plan.keep {
        options.push(format!("ahead={ahead};", ahead = ahead.0));
    }
    options.push("dir=");
    options.push(directory);
    vec![("LD_PRELOAD".into(), Some(preload)), ("THAW_HEAP".into(), Some(options))]
}

/// Cuts off what the guests allocated ahead; returns how many streams there are. What is not believed stays as it is:
/// readers say so.
pub(crate) fn finish(directory: &Path, running: &[u32]) -> Result<usize> {
    let cannot =
        |cause: std::io::Error| Error::on(Exit::Machine, "cannot finish the recording", directory).because(cause);
    let about = directory.metadata().map_err(cannot)?;
    let mut streams = 0;
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if !is_stream(&path) {
            continue;
        }
        let Ok(file) = believed(&about, &path, Access::Write) else { continue };
        streams += 1;
        if running.is_empty() {
            let end = heapfile::stream::end_of(&file, &path)?;
            file.set_len(end).map_err(cannot)?;
        }
    }
    Ok(streams)
}

/// Why a program left no stream.
fn why_nothing(plan: &Plan) -> String {
    let Some(path) = plan.command.first().and_then(|name| os::spawn::resolve_program(name).ok()) else {
        return "no process was recorded".into();
    };
    unseen::why(&path).unwrap_or_else(|| format!("{} is neither a program nor a script", shown(&path)))
}
