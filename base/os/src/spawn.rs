//! Starting the program under test: everything is prepared, then one gate is opened at a known moment.
//!
//! The standard library starts a program at once; a measurement must first put the child into its control groups,
//! attach counters and tracers to it, and then start the clock and let it go. The child is in its own session, has
//! default signals, no descriptors that it was not given, and dies with thaw (unless [`Orphan`] says else). Not for
//! thaw's own little helpers: use `std::process::Command` for these.

mod child;
mod program;

pub use program::resolve as resolve_program;

use crate::covers::Covers;
use child::{Report, Stage};
use model::{Bytes, Error, Exit, Nanos, Result};
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where a standard stream goes.
#[derive(Debug)]
pub enum Stream {
    /// Nothing: it is connected to `/dev/null`.
    Null,
    /// Where thaw's own goes.
    Inherit,
    /// This file, pipe or socket.
    Fd(OwnedFd),
    /// The terminal of [`Launch::terminal`].
    Terminal,
}

/// Whom to run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The number of the user (real, effective and saved).
    pub uid: u32,
    /// The number of the group (real, effective and saved).
    pub gid: u32,
    /// The numbers of the supplementary groups.
    pub groups: Vec<u32>,
}

/// How to start a program. [`spawn_gated`] takes it by value, so that thaw keeps no end of the program's pipes open.
#[derive(Debug)]
pub struct Launch {
    /// Program (looked up in PATH unless it has a slash; a relative path is relative to thaw's own directory) and
    /// arguments.
    pub argv: Vec<OsString>,
    /// Overrides on thaw's own environment; `None` removes the variable.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Where to start; `None`: where thaw is.
    pub cwd: Option<PathBuf>,
    /// What standard input is connected to.
    pub stdin: Stream,
    /// What standard output is connected to.
    pub stdout: Stream,
    /// What standard error is connected to.
    pub stderr: Stream,
    /// More descriptors and the numbers (3 and above) that they get in the program.
    pub extra_fds: Vec<(OwnedFd, RawFd)>,
    /// `cgroup.procs` files that the program joins before anything else: [`crate::cgroup::RunCgroup::enter_fds`].
    pub cgroups: Vec<OwnedFd>,
    /// The program's end of a pty ([`open_pty`]): becomes its controlling terminal.
    pub terminal: Option<OwnedFd>,
    /// Give up root before exec.
    pub user: Option<User>,
    /// Files that lie over others for it and its children alone; where there are some, it starts in a mount namespace
    /// of its own. Needs root.
    pub covers: Covers,
    /// What becomes of it if thaw is killed.
    pub orphan: Orphan,
}

/// What becomes of a program whose thaw is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// It is killed too: a measurement would be of no use.
    Ends,
    /// The program goes on, whatever becomes of thaw.
    GoesOn,
}

impl Launch {
    /// A launch with thaw's environment and directory, no input, and thaw's own output.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            stdin: Stream::Null,
            stdout: Stream::Inherit,
            stderr: Stream::Inherit,
            extra_fds: Vec::new(),
            cgroups: Vec::new(),
            terminal: None,
            user: None,
            covers: Covers::default(),
            orphan: Orphan::Ends,
        }
    }
}

/// Sets variables of this process, for the program that it becomes.
///
/// # Errors
/// It has other threads, which may read them meanwhile; nothing is set then.
pub fn set_variables(variables: &[(OsString, OsString)]) -> Result<()> {
    let failed = || Error::new(Exit::Machine, "cannot set the environment of", "the program");
    let threads = std::fs::read_dir("/proc/self/task").map_err(|cause| failed().because(cause))?;
    if threads.count() != 1 {
        return Err(failed().because("other threads may read it"));
    }
    for (name, value) in variables {
        // SAFETY: there is no other thread.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

/// Both ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    /// Ours: what the program prints is read here (EIO: nobody has the other end open any more).
    pub ours: OwnedFd,
    /// The end for the program: [`Launch::terminal`].
    pub theirs: OwnedFd,
}

/// Opens a pseudo-terminal of 24 rows and 80 columns that does not echo and does not turn `\n` into `\r\n`.
///
/// # Errors
/// No more pseudo-terminals, or no `/dev/pts`.
pub fn open_pty() -> Result<Pty> {
    use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize};
    let open = || -> rustix::io::Result<Pty> {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let ours = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC)?;
        rustix::pty::grantpt(&ours)?;
        rustix::pty::unlockpt(&ours)?;
        let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags | rustix::pty::OpenptFlags::CLOEXEC)?;
        let mut modes = rustix::termios::tcgetattr(&theirs)?;
        modes.output_modes -= OutputModes::OPOST;
        modes.local_modes -= LocalModes::ECHO;
        rustix::termios::tcsetattr(&theirs, OptionalActions::Now, &modes)?;
        rustix::termios::tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok(Pty { ours, theirs })
    };
    open().map_err(|cause| {
        Error::new(Exit::Machine, "cannot open a pseudo-terminal", "")
            .because(io::Error::from(cause))
            .hint("use pipes for the program's output instead")
    })
}

/// First processes of the programs that we started and have not reaped: [`reap_all`] leaves them alone.
static OURS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn ours() -> MutexGuard<'static, BTreeSet<u32>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who may trace the programs that are started from now on; 0: nobody but their ancestors.
static TRACER: AtomicU32 = AtomicU32::new(0);

/// Lets a process of ours, a tracer, attach to the programs that are started from now on, where the Yama security
/// module would not let it because it is not their ancestor.
pub fn allow_tracer(pid: u32) {
    TRACER.store(pid, Ordering::Release);
}

/// A child that has everything but exec behind it and waits at the gate. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Gated {
    child: Child,
    gate: OwnedFd,
    report: OwnedFd,
    program: PathBuf,
}

impl Gated {
    /// The process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Opens the gate; returns when exec has succeeded.
    ///
    /// # Errors
    /// What exec said, with the hint: not executable, interpreter missing, a script without `#!`.
    pub fn release(self) -> Result<Running> {
        let Self { child, gate, report, program } = self;
        let t0_ns = monotonic_ns();
        rustix::io::write(&gate, b"!")
            .map_err(|cause| Error::on(Exit::Machine, "cannot start", &program).because(io::Error::from(cause)))?;
        match Report::read(&report) {
            None => Ok(Running { child, t0_ns }),
            Some(report) => Err(report.error(&program, Path::new(""))),
        }
    }
}

/// What a process used, by `wait4`: itself and the children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Largest resident set of one process.
    pub max_rss: Bytes,
    /// Faults without the disk.
    pub minor_faults: u64,
    /// Faults that waited for the disk.
    pub major_faults: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// What it and the children that it waited for used.
    pub usage: Usage,
    /// When that was noticed, CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// A child process of ours that is not reaped yet, or how it ended.
#[derive(Debug)]
struct Child {
    pid: u32,
    pidfd: OwnedFd,
    ended: Option<Ended>,
}

impl Child {
    fn try_wait(&mut self) -> Result<Option<Ended>> {
        if self.ended.is_none() {
            self.ended = reap(self.pid, libc::WNOHANG)?;
            if self.ended.is_some() {
                ours().remove(&self.pid);
            }
        }
        Ok(self.ended)
    }

    fn wait_until(&mut self, until: Option<Instant>) -> Result<Option<Ended>> {
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(Some(ended));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // A time that does not fit is longer than anybody waits.
            let timeout = left.and_then(|left| rustix::time::Timespec::try_from(left).ok());
            match rustix::event::poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => {
                    return Err(Error::new(Exit::Machine, "cannot wait for the process", self.pid)
                        .because(io::Error::from(cause)));
                }
            }
        }
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        // SAFETY: plain system call on a descriptor that we own; the null pointer means "like kill(2)".
        let result = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), signal, std::ptr::null::<()>(), 0)
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()).or_else(|cause| match cause.raw_os_error() {
                Some(libc::ESRCH) => Ok(()),
                _ => Err(cause),
            }),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.signal(libc::SIGKILL);
            let _ = reap(self.pid, 0);
            ours().remove(&self.pid);
        }
    }
}

/// Whether a child has ended; it is not reaped. Asked without taking anything away: the stops of a child that another
/// thread of ours traces are told to its parent too, and are the tracer's.
fn has_ended(pid: u32, flags: i32) -> io::Result<bool> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = flags | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the out-pointer is valid for writes during the call.
    if unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before, and filled by the kernel if there is something; all zero bytes are valid.
    let info = unsafe { info.assume_init() };
    Ok(matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED))
}

/// `wait4` on one child; `None`: it still runs.
fn reap(pid: u32, flags: i32) -> Result<Option<Ended>> {
    let (mut status, mut used) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    loop {
        match has_ended(pid, flags) {
            Ok(true) => {}
            Ok(false) if flags & libc::WNOHANG != 0 => return Ok(None),
            Ok(false) => continue,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => {
                return Err(Error::new(Exit::Machine, "cannot wait for the process", pid).because(cause));
            }
        }
        // SAFETY: both out-pointers are valid for writes during the call.
        match unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, flags, used.as_mut_ptr()) } {
            0 => return Ok(None),
            -1 => {
                let cause = io::Error::last_os_error();
                if cause.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(Error::new(Exit::Machine, "cannot wait for the process", pid).because(cause));
            }
            _ => {}
        }
        let at_ns = monotonic_ns();
        // SAFETY: wait4 returned a process, so it filled the structure (all zero bytes are valid besides).
        let used = unsafe { used.assume_init() };
        let time = |time: libc::timeval| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000);
        return Ok(Some(Ended {
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            usage: Usage {
                user: time(used.ru_utime),
                system: time(used.ru_stime),
                // Linux counts it in KiB.
                max_rss: Bytes(used.ru_maxrss as u64 * 1024),
                minor_faults: used.ru_minflt as u64,
                major_faults: used.ru_majflt as u64,
            },
            at_ns,
        }));
    }
}

/// A program that runs. Dropping it kills and reaps its first process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    t0_ns: u64,
}

impl Running {
    /// The process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Becomes readable when the process has ended; for `poll`.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.child.pidfd.as_fd()
    }

    /// CLOCK_MONOTONIC right before the gate was opened.
    pub fn t0_ns(&self) -> u64 {
        self.t0_ns
    }

    /// How it ended, if it has; does not wait. May be called again after the end.
    ///
    /// # Errors
    /// Somebody else reaped our child: a bug.
    pub fn try_wait(&mut self) -> Result<Option<Ended>> {
        self.child.try_wait()
    }

    /// Waits for its end, at most this long; `None`: it still runs.
    ///
    /// # Errors
    /// Somebody else reaped our child: a bug.
    pub fn wait_for(&mut self, at_most: Duration) -> Result<Option<Ended>> {
        self.child.wait_until(Instant::now().checked_add(at_most))
    }

    /// Waits for its end, also when it never comes: poll [`Running::pidfd`] beside [`crate::interrupt::fd`] where
    /// Ctrl-C matters.
    ///
    /// # Errors
    /// Somebody else reaped our child: a bug.
    pub fn wait(&mut self) -> Result<Ended> {
        self.child.wait_until(None)?.ok_or_else(|| Error::bug("an endless wait ended without an end"))
    }

    /// Waits for its end; calls `beside` about ten times a second. A signal that this process gets is passed on, once:
    /// what the program did until then is wanted, so it ends as it would if the signal had been its own.
    ///
    /// # Errors
    /// Somebody else reaped our child: a bug. The signal cannot be sent.
    pub fn wait_passing_signals(&mut self, mut beside: impl FnMut()) -> Result<Ended> {
        let mut told = false;
        loop {
            if let Some(ended) = self.wait_for(Duration::from_millis(100))? {
                return Ok(ended);
            }
            beside();
            if let Some(signal) = crate::interrupt::signal().filter(|_| !told) {
                self.signal(signal)?;
                told = true;
            }
        }
    }

    /// Sends a signal to the first process; one that has ended is fine.
    ///
    /// # Errors
    /// Not permitted (a program that changed its user), or no such signal.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.child.signal(signal).map_err(|cause| {
            Error::new(Exit::Machine, format!("cannot send signal {signal} to process"), self.pid()).because(cause)
        })
    }
}

/// Waits until nothing below this process is left, or Ctrl-C; those that still run. Calls `beside` about fifty times a
/// second with how many there are. Needs [`become_subreaper`].
pub fn wait_for_descendants(mut beside: impl FnMut(usize)) -> Vec<u32> {
    loop {
        reap_all();
        let left = crate::process::descendants(std::process::id());
        if left.is_empty() || crate::interrupt::requested() {
            return left;
        }
        beside(left.len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// CLOCK_MONOTONIC now, in nanoseconds: the clock of all run times and of the traces.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// From now on, orphans of the programs that thaw starts become its children: reap them with [`reap_all`].
///
/// # Errors
/// The kernel is older than 3.4.
pub fn become_subreaper() -> Result<()> {
    // SAFETY: this prctl takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => {
            Err(Error::new(Exit::Machine, "cannot become the reaper of orphans", "")
                .because(io::Error::last_os_error()))
        }
    }
}

/// Reaps orphans that have ended; never the first process of a [`Gated`] or [`Running`], and never what
/// other threads started with `std::process` (orphans come to the main thread).
pub fn reap_all() -> Vec<(u32, Ended)> {
    let ours = ours();
    children_of_main_thread()
        .into_iter()
        .filter(|pid| !ours.contains(pid))
        .filter_map(|pid| Some((pid, reap(pid, libc::WNOHANG).ok()??)))
        .collect()
}

fn children_of_main_thread() -> Vec<u32> {
    let pid = std::process::id();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/self/task/{pid}/children")) {
        return list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    }
    // Kernels without that file: everybody whose parent we are.
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&other: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{other}/status")).unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
            parent.and_then(|parent| parent.trim().parse().ok()) == Some(pid)
        })
        .collect()
}

/// Forks a child that is ready to exec and waits at its gate.
///
/// The child dies with the *thread* that calls this (PR_SET_PDEATHSIG), so call it from one that lives long enough.
///
/// # Errors
/// Unknown program; a directory, terminal, user or control group that it cannot be given; no more processes.
pub fn spawn_gated(launch: Launch) -> Result<Gated> {
    let name = launch.argv.first().ok_or_else(|| Error::new(Exit::Usage, "no program was given", ""))?;
    let path = launch
        .env
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.clone());
    let program = program::resolve_in(name, path.as_deref())?;
    let cwd = launch.cwd.clone().unwrap_or_default();
    let failed = |cause: io::Error| Error::on(Exit::Machine, "cannot start", &program).because(cause);

    if let Some(user) = &launch.user {
        give_streams(&launch, user.uid).map_err(failed)?;
    }
    let (child_gate, gate) = pipe().map_err(failed)?;
    let (report, child_report) = pipe().map_err(failed)?;
    let memory = child::arena(&launch, &program).map_err(failed)?;
    let (prepared, lifted) = child::prepare(&launch, &program, &memory, &child_gate, &child_report).map_err(failed)?;
    let (pid, pidfd) = child::fork(&prepared).map_err(failed)?;
    // From now on, only the child holds these ends.
    drop((launch, lifted, child_gate, child_report));
    let child = Child { pid, pidfd, ended: None };
    match Report::read(&report) {
        Some(Report { stage: Stage::Ready, .. }) => Ok(Gated { child, gate, report, program }),
        Some(other) => Err(other.error(&program, &cwd)),
        None => Err(Error::on(Exit::Machine, "the child died before it could run", &program)),
    }
}

/// The user must be able to open `/dev/stdout` again: pipes and the terminal that thaw made become the user's.
fn give_streams(launch: &Launch, uid: u32) -> io::Result<()> {
    let streams = [&launch.stdin, &launch.stdout, &launch.stderr].into_iter().filter_map(|stream| match stream {
        Stream::Fd(fd) => Some(fd),
        _ => None,
    });
    for fd in streams.chain(&launch.terminal) {
        let about = rustix::fs::fstat(fd)?;
        let kind = rustix::fs::FileType::from_raw_mode(about.st_mode);
        let is_made = matches!(kind, rustix::fs::FileType::Fifo)
            || launch.terminal.as_ref().is_some_and(|tty| std::ptr::eq(tty, fd));
        if is_made && about.st_uid == rustix::process::geteuid().as_raw() {
            rustix::fs::fchown(fd, Some(rustix::fs::Uid::from_raw(uid)), None)?;
        }
    }
    Ok(())
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags};
    use std::fs::{self, File};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    /// Runs a program to its end and returns what it printed on stdout and stderr.
    fn output(change: impl FnOnce(&mut Launch), argv: &[&str]) -> (String, Ended) {
        let (mut read, write) = io::pipe().unwrap();
        let mut launch = Launch::new(argv);
        launch.stderr = Stream::Fd(write.try_clone().unwrap().into());
        launch.stdout = Stream::Fd(write.into());
        change(&mut launch);
        let mut running = spawn_gated(launch).unwrap().release().unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        (text, running.wait().unwrap())
    }

    fn sh(script: &str) -> String {
        output(|_| {}, &["sh", "-c", script]).0
    }

    #[test]
    fn a_program_prints_and_ends_with_its_code() {
        let (text, ended) = output(|_| {}, &["sh", "-c", "echo out; echo err >&2; exit 7"]);
        assert_eq!(text, "out\nerr\n");
        assert_eq!((ended.code, ended.signal), (Some(7), None));
        assert!(ended.usage.max_rss > Bytes(0) && ended.usage.minor_faults > 0);
    }

    #[test]
    fn a_large_thaw_does_not_make_the_program_look_large() {
        let large = std::hint::black_box(vec![1u8; 300 << 20]);
        let (_, ended) = output(|_| {}, &["true"]);
        assert!(ended.usage.max_rss < Bytes(100 << 20), "{}", ended.usage.max_rss);
        drop(large);
    }

    #[test]
    fn a_signal_is_told_from_an_exit_code() {
        let (_, ended) = output(|_| {}, &["sh", "-c", "kill -TERM $$"]);
        assert_eq!((ended.code, ended.signal), (None, Some(libc::SIGTERM)));
    }

    #[test]
    fn a_program_sees_copies_in_the_place_of_its_files_and_nobody_else_does() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("original"), "original").unwrap();
        fs::write(path("copy"), "copy").unwrap();
        let (copy, original) = (path("copy"), path("original"));
        let cover = |launch: &mut Launch| launch.covers = Covers::new([(&*copy, &*original)]).unwrap();
        let (text, ended) =
            output(cover, &["sh", "-c", "cat \"$0\"; sh -c 'cat \"$0\"' \"$0\"", original.to_str().unwrap()]);
        assert_eq!((text.as_str(), ended.code), ("copycopy", Some(0)), "its children too");
        assert_eq!(fs::read(&original).unwrap(), b"original");
        assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(original.to_str().unwrap()));
        fs::remove_file(&copy).unwrap();
        let mut launch = Launch::new(["true"]);
        cover(&mut launch);
        let error = spawn_gated(launch).unwrap_err();
        assert!(error.to_string().contains("cannot put copies over"), "{error}");
    }

    #[test]
    fn nothing_runs_before_the_gate_opens() {
        let home = tempfile::tempdir().unwrap();
        let witness = home.path().join("ran");
        let before = monotonic_ns();
        let gated = spawn_gated(Launch::new(["touch".as_ref(), witness.as_os_str()])).unwrap();
        let waiting = monotonic_ns();
        assert_eq!(
            fs::read_link(format!("/proc/{}/exe", gated.pid())).unwrap(),
            std::env::current_exe().unwrap(),
            "it has run exec already"
        );
        assert!(!witness.exists());
        let mut running = gated.release().unwrap();
        assert!(before < waiting && waiting <= running.t0_ns());
        let ended = running.wait().unwrap();
        assert!(witness.exists() && ended.at_ns > running.t0_ns());
        assert_eq!(running.try_wait().unwrap(), Some(ended), "the end can be asked for again");
        running.signal(libc::SIGTERM).unwrap();
    }

    #[test]
    fn a_gated_child_that_is_dropped_never_runs_and_leaves_no_zombie() {
        let home = tempfile::tempdir().unwrap();
        let witness = home.path().join("ran");
        let gated = spawn_gated(Launch::new(["touch".as_ref(), witness.as_os_str()])).unwrap();
        let pid = gated.pid();
        drop(gated);
        assert!(!witness.exists() && !Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn dropping_a_running_program_ends_it() {
        let running = spawn_gated(Launch::new(["sleep", "1000"])).unwrap().release().unwrap();
        let pid = running.pid();
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn waiting_can_be_cut_short() {
        let mut running = spawn_gated(Launch::new(["sleep", "1000"])).unwrap().release().unwrap();
        assert_eq!(running.try_wait().unwrap(), None);
        assert_eq!(running.wait_for(Duration::from_millis(1)).unwrap(), None);
        running.signal(libc::SIGKILL).unwrap();
        assert_eq!(running.wait_for(Duration::MAX).unwrap().unwrap().signal, Some(libc::SIGKILL));
    }

    #[test]
    fn environment_directory_and_arguments_are_as_asked() {
        let home = tempfile::tempdir().unwrap();
        let (text, _) = output(
            |launch| {
                launch.cwd = Some(home.path().to_path_buf());
                launch.env = vec![
                    ("THAW_TEST".into(), Some(OsString::from_vec(b"a\xffb".to_vec()))),
                    ("HOME".into(), None),
                    ("THAW_TWICE".into(), Some("first".into())),
                    ("THAW_TWICE".into(), Some("last".into())),
                ];
            },
            &[
                "sh",
                "-c",
                "pwd; printf %s \"$THAW_TEST\" | od -An -tx1; echo ${HOME-none} $THAW_TWICE \"$1\"",
                "0",
                "a b",
            ],
        );
        assert_eq!(text, format!("{}\n 61 ff 62\nnone last a b\n", home.path().canonicalize().unwrap().display()));
    }

    #[test]
    fn the_program_is_found_in_the_path_that_it_gets() {
        let home = tempfile::tempdir().unwrap();
        testing::write_script(home.path().join("only-here"), "#!/bin/sh\necho found\n");
        let path = home.path().as_os_str().to_owned();
        let (text, _) = output(|launch| launch.env = vec![("PATH".into(), Some(path))], &["only-here"]);
        assert_eq!(text, "found\n");
    }

    #[test]
    fn no_signal_is_ignored_or_blocked_and_the_session_is_its_own() {
        // The standard library ignores SIGPIPE in this process; the program must not inherit that.
        assert!(!fs::read_to_string("/proc/self/status").unwrap().contains(&format!("SigIgn:\t{}", "0".repeat(16))));
        let status = sh("cat /proc/self/status");
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!((line("SigIgn:"), line("SigBlk:")), ("0".repeat(16), "0".repeat(16)));
        let numbers = sh("read pid comm state parent group session rest < /proc/self/stat; echo $$ $session $group");
        let numbers: Vec<_> = numbers.split_whitespace().collect();
        assert!(numbers[0] == numbers[1] && numbers[0] == numbers[2], "{numbers:?}");
    }

    #[test]
    fn the_program_gets_its_descriptors_and_no_others() {
        let leak = File::open("/dev/null").unwrap();
        // As if thaw's own caller had left one open.
        let leaked = rustix::io::fcntl_dupfd_cloexec(&leak, 100).unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let (read, mut write) = io::pipe().unwrap();
        write.write_all(b"through seven\n").unwrap();
        drop(write);
        let (text, _) = output(
            |launch| launch.extra_fds.push((read.into(), 7)),
            &[
                "sh",
                "-c",
                "cat <&7; i=0; while [ $i -lt 300 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i + 1)); done",
            ],
        );
        assert_eq!(text, "through seven\n0\n1\n2\n7\n");
    }

    #[test]
    fn standard_input_is_empty_unless_given() {
        assert_eq!(sh("cat; echo end"), "end\n");
    }

    #[test]
    fn a_terminal_is_a_controlling_terminal_and_does_not_change_lines() {
        let Pty { ours, theirs } = open_pty().unwrap();
        let mut launch = Launch::new(["sh", "-c", "test -t 0 && test -t 1 && stty size </dev/tty && echo done"]);
        launch.terminal = Some(theirs);
        (launch.stdin, launch.stdout, launch.stderr) = (Stream::Terminal, Stream::Terminal, Stream::Terminal);
        let mut running = spawn_gated(launch).unwrap().release().unwrap();
        let mut text = Vec::new();
        let end = File::from(ours).read_to_end(&mut text).unwrap_err();
        assert_eq!(end.raw_os_error(), Some(libc::EIO), "the end of a terminal");
        assert_eq!(String::from_utf8(text).unwrap(), "24 80\ndone\n");
        assert_eq!(running.wait().unwrap().code, Some(0));
    }

    #[test]
    fn root_can_be_given_up() {
        if !testing::root_or_skip() {
            return;
        }
        let user = User { uid: 65534, gid: 65534, groups: vec![100] };
        let (text, _) =
            output(|launch| launch.user = Some(user), &["sh", "-c", "id -u; id -g; id -G; cat /etc/shadow"]);
        assert!(text.starts_with("65534\n65534\n65534 100\n"), "{text}");
        assert!(text.contains("denied"), "{text}");
    }

    fn refused(launch: Launch) -> Error {
        match spawn_gated(launch).and_then(Gated::release) {
            Err(error) => error,
            Ok(_) => panic!("it ran"),
        }
    }

    #[test]
    fn unknown_programs_are_a_usage_error_with_similar_names() {
        let error = refused(Launch::new(["catt"]));
        assert_eq!((error.exit, error.to_string().as_str()), (Exit::Usage, "unknown program 'catt'"));
        assert!(error.hint.unwrap().contains("cat"));
        let error = refused(Launch::new(["no-such-program-anywhere"]));
        assert!(error.hint.unwrap().contains("PATH"));
        assert_eq!(refused(Launch::new(["/no/such/file"])).exit, Exit::Usage);
        assert_eq!(refused(Launch::new([""])).exit, Exit::Usage);
        assert_eq!(refused(Launch::new(Vec::<String>::new())).exit, Exit::Usage);
    }

    #[test]
    fn what_cannot_be_run_says_why() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = home.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        for (path, says) in [
            (file("no-shebang", "echo hello\n", 0o755), "#!/bin/sh"),
            (file("plain", "x", 0o644), "it is data"),
            (file("script", "#!/bin/sh\n", 0o644), "chmod +x"),
            (file("no-interpreter", "#!/no/such/shell\n", 0o755), "first line"),
            (home.path().to_path_buf(), "inside"),
        ] {
            let error = refused(Launch::new([&path]));
            assert_eq!(error.exit, Exit::Usage, "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
            assert!(error.hint.as_deref().unwrap().contains(says), "{error}: {:?}", error.hint);
        }
        let mut launch = Launch::new(["true"]);
        launch.cwd = Some(home.path().join("gone"));
        let error = refused(launch);
        assert!(error.exit == Exit::Usage && error.object.ends_with("gone"), "{error}");
        let mut launch = Launch::new(["true"]);
        launch.extra_fds.push((File::open("/dev/null").unwrap().into(), 1));
        refused(launch);
    }

    /// This test binary, running only one test, which then finds [`CHILD`] set: for what a whole process
    /// must be killed for, or is changed by.
    fn again(test: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // Two threads, so that the test is not on the main one, to which orphans come.
        command.args(["--exact", &format!("spawn::tests::{test}"), "--nocapture", "--test-threads=2"]).env(CHILD, "1");
        command
    }

    const CHILD: &str = "THAW_TEST_CHILD";

    fn start_programs_and_hang() -> ! {
        let running = spawn_gated(Launch::new(["sleep", "1000"])).unwrap().release().unwrap();
        let gated = spawn_gated(Launch::new(["sleep", "1000"])).unwrap();
        println!("\npids {} {}", running.pid(), gated.pid());
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn programs_die_with_a_killed_thaw() {
        if std::env::var_os(CHILD).is_some() {
            start_programs_and_hang();
        }
        let mut child = again("programs_die_with_a_killed_thaw").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let pids = lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).unwrap();
        let pidfds: Vec<_> = pids
            .split(' ')
            .map(|pid| {
                rustix::process::pidfd_open(Pid::from_raw(pid.parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap()
            })
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        for pidfd in &pidfds {
            // Waits until that process is gone; hangs if it is not.
            rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
        }
    }

    fn reap_orphans() {
        become_subreaper().unwrap();
        let (read, write) = io::pipe().unwrap();
        let mut launch = Launch::new(["sh", "-c", "(read x; exit 9) <&7 & exit 3"]);
        launch.extra_fds.push((read.into(), 7));
        let mut first = spawn_gated(launch).unwrap().release().unwrap();
        // The first process has ended, but is not waited for: reap_all must leave it to us.
        rustix::event::poll(&mut [PollFd::new(&first.pidfd(), PollFlags::IN)], None).unwrap();
        assert_eq!(reap_all(), []);
        drop(write);
        let orphan = loop {
            if let Some(orphan) = reap_all().pop() {
                break orphan;
            }
            std::thread::yield_now();
        };
        assert_ne!(orphan.0, first.pid());
        assert_eq!(orphan.1.code, Some(9));
        assert_eq!(first.wait().unwrap().code, Some(3));
        println!("\nreaped");
    }

    #[test]
    fn orphans_are_reaped_and_first_processes_are_left_alone() {
        if std::env::var_os(CHILD).is_some() {
            return reap_orphans();
        }
        let output = again("orphans_are_reaped_and_first_processes_are_left_alone").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("\nreaped"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
