//! Watching the memory of a program over time, with marks that are typed or set by another thaw.

use super::{WatchDocument, checkpoints, read_head, read_watch};
use crate::words::units::plural;
use memory::ask::{self, Detail, First};
use memory::log::Log;
use memory::watch::{self, Head, Sample, Total, Whose};
use model::{Error, Exit, Result, shown};
use os::replace::Existing;
use os::spawn::{Ended, Launch, Running, monotonic_ns};
use os::user::Account;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Stdin};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether all have ended.
const A_MOMENT: Duration = Duration::from_millis(10);

/// A program that is watched.
enum Watchee {
    Started(Running),
    Found { pid: u32, pidfd: OwnedFd },
}

impl Watchee {
    /// What was started waits at its gate until `ready` is done: a program may set a mark at once.
    fn start(wanted: &Watch, ready: impl FnOnce(Whose) -> Result<Log>) -> Result<(Self, Log)> {
        if let Some(pid) = wanted.pid {
            let gone = |cause| Error::new(Exit::Usage, "there is no process", pid).because(cause);
            let number =
                i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| gone(rustix::io::Errno::SRCH))?;
            let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty()).map_err(gone)?;
            let first = watch::sample(Whose::Program(pid), 0);
            if first.processes.is_empty() && first.unseen > 0 {
                return Err(Error::new(Exit::Machine, "the memory of this process is not for us to see:", pid)
                    .hint("watch as root, or as the user that it runs as"));
            }
            let log = ready(Whose::Program(pid))?;
            return Ok((Self::Found { pid, pidfd }, log));
        }
        os::spawn::become_subreaper()?;
        let mut launch = Launch::new(&wanted.command);
        if let Output::To(place) = &wanted.output {
            let place = place.try_clone().map_err(|cause| {
                Error::new(Exit::Machine, "cannot share what the program prints to", "").because(cause)
            })?;
            launch.stdout = os::spawn::Stream::Fd(place);
        }
        if let Some(user) = &wanted.user {
            user.run(&mut launch);
        }
        let gated = os::spawn::spawn_gated(launch)?;
        let log = ready(Whose::ChildrenOf(std::process::id()))?;
        Ok((Self::Started(gated.release()?), log))
    }

    fn whose(&self) -> Whose {
        match self {
            Self::Started(_) => Whose::ChildrenOf(std::process::id()),
            Self::Found { pid, .. } => Whose::Program(*pid),
        }
    }

    /// Also of one whose parent does not hear of it: a zombie.
    fn ended(&mut self) -> Result<bool> {
        match self {
            Self::Started(running) => {
                let ended = running.try_wait()?.is_some();
                os::spawn::reap_all();
                Ok(ended && os::process::descendants(std::process::id()).is_empty())
            }
            Self::Found { pidfd, .. } => {
                let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
                Ok(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now))? > 0)
            }
        }
    }

    /// Ends what was started, all of it; leaves alone what was found.
    fn end(&mut self) -> Result<Option<Ended>> {
        if matches!(self, Self::Started(_)) {
            for signal in [Signal::TERM, Signal::KILL] {
                for pid in os::process::descendants(std::process::id()) {
                    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                    // One that ended meanwhile, or changed its user, is not ours to end.
                    let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
                }
                let asked = Instant::now();
                while !self.ended()? && asked.elapsed() < PATIENCE {
                    std::thread::sleep(A_MOMENT);
                }
            }
        }
        match self {
            Self::Started(running) => running.try_wait(),
            Self::Found { .. } => Ok(None),
        }
    }
}

/// Samples that are not in the file.
#[derive(Default)]
struct Missing {
    samples: u64,
    last: Option<Error>,
}

impl Missing {
    /// The program must not suffer from a full disk, and there may be room again.
    fn note(&mut self, error: Error, doubt: &dyn Fn(&Error)) {
        if self.samples == 0 {
            doubt(&error);
        }
        self.samples += 1;
        self.last = Some(error);
    }

    fn or_done(self, exit: Exit) -> Result<Exit> {
        let Some(last) = self.last else { return Ok(exit) };
        let samples = plural(self.samples, "sample is", "samples are");
        Err(Error { what: format!("{samples} missing: {}", last.what), ..last })
    }
}

/// What is watched, and for how long.
#[derive(Debug)]
pub struct Watch {
    /// A process that runs; `None`: the command is started.
    pub pid: Option<u32>,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Whom it runs as; `None`: as thaw.
    pub user: Option<Account>,
    /// Where it prints.
    pub output: Output,
    /// The file to write.
    pub file: PathBuf,
    /// What becomes of a file that is there.
    pub existing: Existing,
    /// Between two looks.
    pub interval: Duration,
    /// The watch ends after so long, and the program with it if it was started.
    pub end: Option<Duration>,
}

/// Where a started program prints.
#[derive(Debug)]
pub enum Output {
    /// As usual.
    Usual,
    /// Here: a document has stdout for itself.
    To(OwnedFd),
}

/// Who is told while it is watched.
pub struct Told<'a> {
    /// The sums of each look, and the time since the first.
    pub now: &'a mut dyn FnMut(&Total, Duration),
    /// What goes wrong and does not end the watch.
    pub doubt: &'a dyn Fn(&Error),
}

/// A watch that has ended.
pub struct Watched {
    /// What its file says.
    pub document: WatchDocument,
    /// [`Exit::Target`] if the program failed; an error if samples are missing.
    pub exit: Result<Exit>,
}

/// Watches until the program ends, the time is over, or Ctrl-C.
///
/// # Errors
/// There is a file already; no such process; a program that cannot be started.
pub fn watch(wanted: &Watch, told: &mut Told<'_>) -> Result<Watched> {
    os::interrupt::install()?;
    let name = shown(&wanted.file);
    if wanted.file.exists() && wanted.existing == Existing::Keep {
        return Err(Error::on(Exit::Usage, "there is already a file", &wanted.file)
            .hint("--force replaces it, -o names another"));
    }
    let began_ns = monotonic_ns();
    let (mut watchee, log) = Watchee::start(wanted, |whose| {
        let (Whose::Program(root) | Whose::ChildrenOf(root)) = whose;
        let head = Head {
            schema: watch::SCHEMA.into(),
            thaw_version: env!("CARGO_PKG_VERSION").into(),
            command: wanted.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            whose,
            start_ticks: os::process::start_ticks(root).unwrap_or(0),
            began_ns,
            created_unix_ns: os::machine::now_unix_ns(),
        };
        Log::create(&wanted.file, &head)
    })?;
    let whose = watchee.whose();
    let began = Instant::now();
    let mut keyboard = Keyboard::new();
    let mut missing = Missing::default();
    let mut mark = None;
    let ended_itself = loop {
        let looked = Instant::now();
        let mut sample = watch::sample(whose, monotonic_ns());
        let ended = watchee.ended()?;
        if ended && wanted.pid.is_some() {
            // Its number may be somebody else's already.
            sample.processes.clear();
        }
        (told.now)(&sample.total(), began.elapsed());
        if let Some(mark) = mark.take() {
            add_trees(&mut sample, &watch::processes(whose), &mut |error| (told.doubt)(&error));
            sample.mark = Some(mark);
        }
        log.add(&sample).unwrap_or_else(|error| missing.note(error, told.doubt));
        let over = wanted.end.is_some_and(|end| began.elapsed() >= end);
        if ended || over || os::interrupt::requested() {
            break ended;
        }
        // The time that a look takes is a part of the interval.
        let left = wanted.interval.saturating_sub(looked.elapsed());
        let left = wanted.end.map_or(left, |end| left.min(end.saturating_sub(began.elapsed())));
        mark = wait(left, &watchee, &mut keyboard)?;
    };
    let ended = watchee.end()?;
    let document = checkpoints(name, &read_watch(&wanted.file)?);
    let exit = missing.or_done(match ended {
        Some(ended) if ended_itself && ended.code != Some(0) => Exit::Target,
        _ => Exit::Done,
    });
    Ok(Watched { document, exit })
}

/// Where names of marks are typed, if that is a terminal.
struct Keyboard(Option<Stdin>);

impl Keyboard {
    fn new() -> Self {
        let stdin = std::io::stdin();
        Self(stdin.is_terminal().then_some(stdin))
    }

    /// Only in the foreground: elsewhere what is typed is for others, and reading it would stop us (SIGTTIN).
    fn listened_to(&self) -> Option<&Stdin> {
        let stdin = self.0.as_ref()?;
        (rustix::termios::tcgetpgrp(stdin) == Ok(rustix::process::getpgrp())).then_some(stdin)
    }

    /// The line that is there: a mark's name. After its end (Ctrl-D, a lost terminal) there are no more.
    fn line(&mut self) -> Option<String> {
        let mut line = [0; 200];
        let length = self.listened_to()?.lock().read(&mut line).unwrap_or(0);
        if length == 0 {
            self.0 = None;
            return None;
        }
        let name = String::from_utf8_lossy(&line[..length]).trim().to_owned();
        Some(if name.is_empty() { "mark".into() } else { name })
    }
}

/// Waits for the next look, the program's end, Ctrl-C, or a line that is typed: the name of a mark.
fn wait(at_most: Duration, watchee: &Watchee, keyboard: &mut Keyboard) -> Result<Option<String>> {
    let mut fds = Vec::new();
    fds.extend(keyboard.listened_to().map(|stdin| PollFd::new(stdin, PollFlags::IN)));
    let typing = fds.len();
    match watchee {
        // A program that has ended while its children have not would wake us at once, again and again.
        Watchee::Started(running) if os::process::stat(running.pid()).is_some_and(|stat| stat.state != 'Z') => {
            fds.push(PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN));
        }
        Watchee::Started(_) => {}
        Watchee::Found { pidfd, .. } => fds.push(PollFd::new(pidfd, PollFlags::IN)),
    }
    fds.extend(os::interrupt::fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let timeout = rustix::time::Timespec::try_from(at_most).ok();
    poll(&mut fds, timeout.as_ref())?;
    let typed = typing > 0 && !fds[0].revents().is_empty();
    Ok(if typed { keyboard.line() } else { None })
}

/// How many are ready; a signal is no error.
fn poll(fds: &mut [PollFd<'_>], timeout: Option<&rustix::time::Timespec>) -> Result<usize> {
    match rustix::event::poll(fds, timeout) {
        Err(rustix::io::Errno::INTR) => Ok(0),
        ready => ready.map_err(|cause| {
            Error::new(Exit::Machine, "cannot wait for the program", "").because(std::io::Error::from(cause))
        }),
    }
}

/// Adds what programs with `thaw_memreport` say.
pub(super) fn add_trees(sample: &mut Sample, processes: &[u32], doubt: &mut dyn FnMut(Error)) {
    for pid in processes.iter().copied() {
        if ask::socket(pid).is_none() {
            continue;
        }
        // A program may have ended since, or be stuck: its memory is in the sample all the same.
        match ask::ask(pid, First::Nothing, Detail::Figures) {
            Ok(report) => sample.reports.extend(report.reports),
            Err(error) => doubt(error),
        }
    }
}

/// Sets a mark in a watch that goes on.
///
/// # Errors
/// The watch has ended, or its file cannot be read or written.
pub fn mark(file: &Path, name: &str, doubt: &dyn Fn(&Error)) -> Result<()> {
    let head = read_head(file)?;
    let (Whose::Program(root) | Whose::ChildrenOf(root)) = head.whose;
    if os::process::start_ticks(root) != Some(head.start_ticks) {
        return Err(Error::on(Exit::No, "the watch has ended, or what it watched:", file));
    }
    let mut sample = watch::sample(head.whose, monotonic_ns());
    // A mark that the program sets itself is not a part of it.
    sample.processes.retain(|process| process.pid != std::process::id());
    add_trees(&mut sample, &watch::processes(head.whose), &mut |error| doubt(&error));
    sample.mark = Some(name.to_owned());
    Log::open(file)?.add(&sample)
}
