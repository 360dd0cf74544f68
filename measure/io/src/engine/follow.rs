//! Which files a program opens, without any rights: its system calls are watched through ptrace(2) in one start that is
//! not timed.
//!
//! A process of its own follows the program, as whoever waits for a program's stops would also be handed the program's
//! end, which somebody else waits for. It changes nothing: each stop of each thread is answered at once, signals are
//! passed on, and a thread that is about to gain rights by exec, or to be traced by another, is let go before.

use libc::c_int;
use os::tracee::{EVENT_STOP, Resume, SystemCall, Tracee};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Audit number of 32-bit programs on x86-64.
const ARCH_I386: u32 = 0x4000_0003;
/// Arguments of ptrace(2) that make a thread a tracee: of itself, of the caller.
const TRACEME: u64 = 0;
const BY_CALLER: [u64; 2] = [16, 0x4206];

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Files that were opened or executed.
    pub(super) files: BTreeSet<PathBuf>,
    /// What could not be seen, as ends of the sentence "it cannot tell …".
    pub(super) doubts: BTreeSet<String>,
}

/// A process that waits to follow a program.
#[derive(Debug)]
pub(super) struct Follower {
    socket: UnixStream,
    pid: c_int,
}

impl Follower {
    /// Starts it, and lets it trace the programs that are started from now on.
    pub(super) fn start() -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        // SAFETY: takes nothing and returns a number.
        let thaw = unsafe { libc::getpid() };
        // SAFETY: the C library makes its allocator usable in the child, which uses nothing else that another thread
        // may hold: no lock, no buffer, no destructor of thaw's.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                // Panics must not unwind into what thaw would do next.
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(its, thaw)));
                // SAFETY: ends this process without any handler of thaw's.
                unsafe { libc::_exit(c_int::from(!matches!(done, Ok(Ok(()))))) }
            }
            pid => {
                os::spawn::allow_tracer(pid.cast_unsigned());
                Ok(Self { socket: ours, pid })
            }
        }
    }

    /// Follows a process that waits to call exec, and all that it will start.
    pub(super) fn attach(&mut self, pid: u32) -> io::Result<()> {
        self.socket.write_all(&pid.to_ne_bytes())?;
        let mut answer = [0; 4];
        self.socket.read_exact(&mut answer)?;
        match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Lets everybody go and says what was seen.
    pub(super) fn finish(mut self) -> io::Result<Followed> {
        self.socket.shutdown(std::net::Shutdown::Write)?;
        let mut text = Vec::new();
        self.socket.read_to_end(&mut text)?;
        let mut followed = Followed::default();
        for line in text.split(|byte| *byte == 0) {
            match line.split_first() {
                Some((b'F', path)) => drop(followed.files.insert(OsStr::from_bytes(path).into())),
                Some((b'D', doubt)) => drop(followed.doubts.insert(String::from_utf8_lossy(doubt).into_owned())),
                _ => {}
            }
        }
        Ok(followed)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It ends when nobody talks to it any more.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        // SAFETY: takes numbers and a null pointer. Somebody else may have reaped it.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The life of the process that follows.
fn serve(mut socket: UnixStream, thaw: c_int) -> io::Result<()> {
    // SAFETY: numbers only; it ends with thaw, and Ctrl-C is thaw's matter.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != thaw {
            return Ok(());
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    close_others(socket.as_raw_fd());
    let stops = stops()?;
    let mut pid = [0; 4];
    if socket.read_exact(&mut pid).is_err() {
        return Ok(());
    }
    let pid = i32::from_ne_bytes(pid);
    let attached = Tracee(pid).seize_for_a_while().and_then(|()| Tracee(pid).interrupt());
    let errno = attached.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EPERM));
    socket.write_all(&errno.to_ne_bytes())?;
    if errno != 0 {
        return Ok(());
    }
    let mut tracer = Tracer { threads: HashMap::from([(pid, Thread::default())]), ..Tracer::default() };
    loop {
        while let Some((tid, status)) = next_stop() {
            tracer.event(tid, status);
        }
        let mut fds = [socket.as_fd(), stops.as_fd()].map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, POLLED));
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            // Whoever is still traced is let go when this process ends.
            return tracer.tell(&mut socket);
        }
        let mut taken = [0_u8; 1024];
        let _ = rustix::io::read(&stops, &mut taken);
    }
}

const POLLED: rustix::event::PollFlags = rustix::event::PollFlags::IN;

/// Descriptors of thaw's are not ours to hold open.
fn close_others(keep: c_int) {
    let keep = keep.cast_unsigned();
    // SAFETY: nothing of this process uses them any more.
    unsafe {
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep.max(2) + 1, u32::MAX, 0);
    }
}

/// A descriptor that can be read when a tracee has stopped.
fn stops() -> io::Result<OwnedFd> {
    // SAFETY: the set is a local that sigemptyset fills; signalfd returns a new descriptor or -1.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(std::os::fd::FromRawFd::from_raw_fd(fd))
    }
}

/// A thread that has stopped or ended, if there is one.
fn next_stop() -> Option<(c_int, c_int)> {
    let mut status = 0;
    // SAFETY: the out-pointer is valid for writes during the call.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    (tid > 0).then_some((tid, status))
}

/// Whether this process traces that one, as the kernel has it.
fn is_traced_by_this(tid: c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.and_then(|pid| pid.trim().parse().ok()) == Some(std::process::id())
}

#[derive(Default)]
struct Thread {
    /// It is inside of this system call.
    inside: Option<Inside>,
    /// It is let go at its next stop.
    leaves: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Open,
    Other,
}

#[derive(Default)]
struct Tracer {
    threads: HashMap<c_int, Thread>,
    /// Threads that wait at the beginning of ptrace(2) until this one is free.
    held: Vec<(c_int, c_int)>,
    followed: Followed,
}

impl Tracer {
    fn event(&mut self, tid: c_int, status: c_int) {
        if !libc::WIFSTOPPED(status) {
            self.threads.remove(&tid);
            return self.free(tid);
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        // A new thread's first stop may come before its parent tells of it.
        let thread = self.threads.entry(tid).or_default();
        if thread.leaves {
            return self.let_go(tid, if event == 0 && signal != libc::SIGTRAP | 0x80 { signal } else { 0 });
        }
        let _ = match event {
            EVENT_STOP if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                Tracee(tid).listen()
            }
            libc::PTRACE_EVENT_EXEC => {
                thread.inside = None;
                self.see_program(tid);
                go_on(tid, 0)
            }
            0 if signal == libc::SIGTRAP | 0x80 => return self.system_call(tid),
            0 => go_on(tid, signal),
            _ => go_on(tid, 0),
        };
    }

    /// A system call begins or ends.
    fn system_call(&mut self, tid: c_int) {
        let told = Tracee(tid).system_call();
        let inside = self.threads.get_mut(&tid).and_then(|thread| thread.inside.take());
        match told {
            Ok(SystemCall::Entry { arch, number, arguments: [first, second, ..] }) => {
                let call = call(arch, number);
                let inside = if call == Call::Open { Inside::Open } else { Inside::Other };
                self.threads.entry(tid).or_default().inside = Some(inside);
                let own = match call {
                    Call::Exec => self.gains_rights(tid, None, first),
                    Call::ExecAt => self.gains_rights(tid, Some(first as c_int), second),
                    Call::Trace => return self.traces(tid, [first, second]),
                    Call::Open | Call::Other => false,
                };
                if own {
                    return self.let_go(tid, 0);
                }
            }
            Ok(SystemCall::Exit(fd)) if inside == Some(Inside::Open) && fd >= 0 => self.see_file(tid, fd),
            _ => {}
        }
        let _ = go_on(tid, 0);
    }

    fn see_file(&mut self, tid: c_int, fd: i64) {
        if let Ok(path) = std::fs::read_link(format!("/proc/{tid}/fd/{fd}"))
            && path.is_absolute()
            && !path.starts_with("/proc")
            && !path.starts_with("/sys")
            && !path.starts_with("/dev")
        {
            self.followed.files.insert(path);
        }
    }

    /// The program and its loader.
    fn see_program(&mut self, tid: c_int) {
        let mapped = os::process::maps(tid.cast_unsigned()).unwrap_or_default();
        let files = mapped.into_iter().filter(|map| map.path.is_absolute() && !map.deleted).map(|map| map.path);
        self.followed.files.extend(files);
    }

    /// Whether the program that it is about to execute has rights of its own, which it would not get while it is
    /// traced.
    fn gains_rights(&mut self, tid: c_int, directory: Option<c_int>, name: u64) -> bool {
        let Some(name) = read_text(tid, name) else { return false };
        let base = match directory {
            Some(fd) if fd >= 0 => format!("/proc/{tid}/fd/{fd}"),
            _ => format!("/proc/{tid}/cwd"),
        };
        let path = match name.strip_prefix("/") {
            Ok(inside) => Path::new(&format!("/proc/{tid}/root")).join(inside),
            Err(_) if name.as_os_str().is_empty() => base.into(),
            Err(_) => Path::new(&base).join(&name),
        };
        let gains = has_rights(&path);
        if gains {
            self.followed.files.extend(path.canonicalize());
            let shown = model::shown(&name);
            self.followed.doubts.insert(format!("which files {shown} uses: it has rights of its own"));
        }
        gains
    }

    /// It wants to trace, or to be traced by another: whoever it is about is let go first.
    fn traces(&mut self, tid: c_int, [request, target]: [u64; 2]) {
        let comm = os::process::comm(tid.cast_unsigned()).unwrap_or_default();
        if request == TRACEME {
            self.followed.doubts.insert(format!("which files {comm} ({tid}) uses: another program traces it"));
            return self.let_go(tid, 0);
        }
        let target = target as c_int;
        // A new thread may be ours without having stopped yet.
        let is_ours = || self.threads.contains_key(&target) || is_traced_by_this(target);
        if BY_CALLER.contains(&request) && target != tid && is_ours() {
            self.followed.doubts.insert(format!("which files the process {target} uses: {comm} traces it"));
            self.threads.entry(target).or_default().leaves = true;
            self.held.push((target, tid));
            if Tracee(target).interrupt().is_err() {
                self.free(target);
            }
            return;
        }
        let _ = go_on(tid, 0);
    }

    fn let_go(&mut self, tid: c_int, signal: c_int) {
        // One that was killed meanwhile needs nothing.
        let _ = Tracee(tid).detach(signal);
        self.threads.remove(&tid);
        self.free(tid);
    }

    /// Nobody of ours has this thread any more.
    fn free(&mut self, target: c_int) {
        self.held.retain(|(waits_for, tid)| {
            let waits = *waits_for != target;
            if !waits {
                let _ = go_on(*tid, 0);
            }
            waits
        });
    }

    fn tell(self, socket: &mut UnixStream) -> io::Result<()> {
        let mut text = Vec::new();
        for file in &self.followed.files {
            text.push(b'F');
            text.extend(file.as_os_str().as_bytes());
            text.push(0);
        }
        for doubt in &self.followed.doubts {
            text.push(b'D');
            text.extend(doubt.bytes());
            text.push(0);
        }
        socket.write_all(&text)
    }
}

fn go_on(tid: c_int, signal: c_int) -> io::Result<()> {
    Tracee(tid).resume(Resume::ToSystemCall, signal)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open,
    Exec,
    ExecAt,
    Trace,
    Other,
}

fn call(arch: u32, number: u64) -> Call {
    if arch == ARCH_I386 {
        return match number {
            5 | 8 | 295 | 437 => Call::Open,
            11 => Call::Exec,
            358 => Call::ExecAt,
            26 => Call::Trace,
            _ => Call::Other,
        };
    }
    match number as libc::c_long {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => Call::Open,
        libc::SYS_openat | libc::SYS_openat2 | libc::SYS_open_by_handle_at => Call::Open,
        libc::SYS_execve => Call::Exec,
        libc::SYS_execveat => Call::ExecAt,
        libc::SYS_ptrace => Call::Trace,
        _ => Call::Other,
    }
}

/// A path in the memory of a process.
fn read_text(tid: c_int, address: u64) -> Option<PathBuf> {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::File::open(format!("/proc/{tid}/mem")).ok()?;
    let mut text = Vec::new();
    while text.len() < libc::PATH_MAX as usize {
        let at = address.checked_add(text.len() as u64)?;
        // Not beyond the page: the next one need not be there.
        let mut piece = vec![0; 4096 - (at % 4096) as usize];
        let read = memory.read_at(&mut piece, at).ok().filter(|read| *read > 0)?;
        let end = piece[..read].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&piece[..end.unwrap_or(read)]);
        if end.is_some() {
            return Some(std::ffi::OsString::from_vec(text).into());
        }
    }
    None
}

/// Whether a file is executed with the rights of its owner or group, or with capabilities.
fn has_rights(path: &Path) -> bool {
    let Ok(file) = path.metadata() else { return false };
    let mode = file.permissions().mode();
    let owner = mode & libc::S_ISUID != 0 && file.uid() != rustix::process::geteuid().as_raw();
    let group = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0;
    let mut value = [0_u8; 64];
    owner || group || rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok()
}

#[cfg(test)]
mod tests;
