//! Who may ask for a report: a socket, a signal, the end of the program, a threshold of its resident memory; and memory
//! pressure, which asks for giving back.
//!
//! One thread waits for all of them; it is blocked until something comes, or looks once a second if there is a
//! threshold.

use crate::allocator;
use crate::json::Blocks;
use std::ffi::c_int;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Environment variable whose value goes before what the program says.
const VARIABLE: &str = "THAW_MEMREPORT";
/// A peer that says nothing does not hold the others up for longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A reporter that waits for longer does not keep the program from ending.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// Below this share of the threshold it is armed again.
const REARM_PERCENT: usize = 90;
/// Some task waits for memory for 300 ms in 2 s. The window is the one that needs no privilege.
const PRESSURE: &[u8] = b"some 300000 2000000\0";
/// Where the kernel tells of the pressure that all programs are under.
const OF_THE_MACHINE: &str = "/proc/pressure/memory";

/// Why reporting could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The options say something unknown: this word.
    Option(String),
    /// It was started already.
    Twice,
    /// Somebody else has the signal SIGRTMIN.
    SignalTaken,
    /// The system cannot: what, and why.
    System(String, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(word) => write!(
                out,
                "'{word}' is no option of thaw_memreport: socket, signal, exit, pressure, pressure=FILE, rss=BYTES, \
                    dir=PATH, blocks"
            ),
            Self::Twice => write!(out, "thaw_memreport runs already"),
            Self::SignalTaken => write!(out, "the program uses the signal SIGRTMIN itself"),
            Self::System(what, cause) => write!(out, "cannot {what}: {cause}"),
        }
    }
}

impl std::error::Error for StartError {}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    socket: bool,
    signal: bool,
    exit: bool,
    blocks: bool,
    /// The file that tells of it.
    pressure: Option<PathBuf>,
    rss: Option<usize>,
    directory: Option<PathBuf>,
}

impl Options {
    fn parse(text: &str) -> Result<Self, StartError> {
        let mut options = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let unknown = || StartError::Option(word.to_owned());
            match word.split_once('=').unwrap_or((word, "")) {
                ("socket", "") => options.socket = true,
                ("signal", "") => options.signal = true,
                ("exit", "") => options.exit = true,
                ("blocks", "") => options.blocks = true,
                ("pressure", "") if !word.contains('=') => options.pressure = Some(OF_THE_MACHINE.into()),
                ("pressure", path) if !path.is_empty() => options.pressure = Some(path.into()),
                ("rss", size) => options.rss = Some(bytes(size).ok_or_else(unknown)?),
                ("dir", path) if !path.is_empty() => options.directory = Some(path.into()),
                _ => return Err(unknown()),
            }
        }
        Ok(options)
    }
}

/// `500M`: powers of 1024.
fn bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok().filter(|number| *number > 0)?.checked_mul(1 << shift)
}

/// What runs; the process that started it, since a forked child has none of it.
struct Running {
    pid: u32,
    socket: Option<PathBuf>,
    at_exit: bool,
    directory: PathBuf,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Where the signal handler writes.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static FILES: AtomicU32 = AtomicU32::new(0);
/// Whether files list the blocks.
static BLOCKS: AtomicBool = AtomicBool::new(false);

/// What was asked for files.
fn blocks() -> Blocks {
    if BLOCKS.load(Ordering::Relaxed) { Blocks::With } else { Blocks::Without }
}

fn running() -> std::sync::MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts answering, by these options: `socket` (also the default), `signal` (SIGRTMIN), `exit`, `pressure`
/// (minimises), `rss=500M`, `dir=/path` for files (default: TMPDIR). The environment variable `THAW_MEMREPORT` goes
/// before them.
///
/// # Errors
/// Unknown options; no socket, thread or signal to be had. Nothing runs then.
pub fn start(options: &str) -> Result<(), StartError> {
    let told = std::env::var(VARIABLE).unwrap_or_default();
    let text = [told.as_str(), options, "socket"].into_iter().find(|text| !text.trim().is_empty()).unwrap_or("socket");
    let options = Options::parse(text)?;
    let system = |what: &str| {
        let what = what.to_owned();
        move |cause| StartError::System(what, cause)
    };
    let mut running = running();
    let pid = std::process::id();
    if running.as_ref().is_some_and(|running| running.pid == pid) {
        return Err(StartError::Twice);
    }
    let (wake, waker) = pipe().map_err(system("make a pipe"))?;
    let watched = options
        .pressure
        .as_deref()
        .map(|file| pressure(file).map_err(system(&format!("watch memory pressure in {}", file.display()))));
    let pressure = watched.transpose()?;
    let listener = match options.socket {
        true => Some(listen(pid).map_err(system("make the socket"))?),
        false => None,
    };
    if options.signal {
        WAKE.store(waker.as_raw_fd(), Ordering::Release);
        catch().inspect_err(|_| unlink(listener.as_ref().map(|(_, path)| path.as_path())))?;
    }
    let directory = options.directory.unwrap_or_else(std::env::temp_dir);
    let (listener, socket) = listener.unzip();
    let waiter =
        Waiter { wake, _waker: waker, listener, pressure, rss: options.rss, armed: true, directory: directory.clone() };
    let thread = std::thread::Builder::new().name("thaw-memreport".into()).spawn(move || waiter.run());
    thread.map_err(system("start a thread")).inspect_err(|_| unlink(socket.as_deref()))?;
    BLOCKS.store(options.blocks, Ordering::Relaxed);
    *running = Some(Running { pid, socket, at_exit: options.exit, directory });
    static HOOK: std::sync::Once = std::sync::Once::new();
    // SAFETY: the function takes nothing and does not unwind (extern "C").
    HOOK.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
    Ok(())
}

fn unlink(socket: Option<&Path>) {
    if let Some(path) = socket {
        // It may be gone with its directory.
        let _ = fs::remove_file(path);
    }
}

extern "C" fn at_exit() {
    let Some(running) = running().take() else { return };
    if running.pid != std::process::id() {
        return;
    }
    unlink(running.socket.as_deref());
    if running.at_exit {
        say(report_at_exit(running.directory));
    }
}

/// On a thread of its own, as always: the program may end with a lock in its hands that a reporter waits for. Then it
/// ends without a report.
fn report_at_exit(directory: PathBuf) -> io::Result<PathBuf> {
    if crate::is_in_callback() {
        return Err(io::Error::other("a reporter ended the program"));
    }
    let (done, written) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("thaw-memreport".into()).spawn(move || {
        block_signals();
        // Nobody listens when it took too long.
        let _ = done.send(write_report("exit", &directory));
    })?;
    written.recv_timeout(EXIT_PATIENCE).unwrap_or_else(|_| {
        let name = crate::running().unwrap_or_default();
        Err(io::Error::other(format!("the reporter '{name}' has not returned for {} s", EXIT_PATIENCE.as_secs())))
    })
}

/// Writes a report into a file of this name, whole or not at all.
///
/// # Errors
/// The file cannot be written; or this was called from a callback.
pub fn dump(path: &Path) -> io::Result<()> {
    let report = crate::collect("dump").ok_or_else(|| io::Error::other("a reporter cannot ask for a report"))?;
    write_whole(path, report.text(blocks()).as_bytes())
}

fn write_report(reason: &str, directory: &Path) -> io::Result<PathBuf> {
    let report = crate::collect(reason).ok_or_else(|| io::Error::other("a reporter ended the program"))?;
    let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("memory-report-{seconds}-{}-{number}.json", std::process::id());
    let path = directory.join(name);
    write_whole(&path, report.text(blocks()).as_bytes()).map(|()| path)
}

fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| file.write_all(text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&fresh, path));
    written.inspect_err(|_| unlink(Some(&fresh)))
}

/// There is nobody to return an error to: stderr hears it.
fn say(written: io::Result<PathBuf>) {
    match written {
        Ok(path) => eprintln!("thaw_memreport: wrote {}", path.display()),
        Err(cause) => eprintln!("thaw_memreport: cannot write a report: {cause}"),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: two descriptors are written to a local array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptors are new and nobody else's.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Becomes readable with POLLPRI when the machine, or the cgroup of the file, waits for memory.
fn pressure(file: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).open(file)?;
    file.write_all(PRESSURE)?;
    Ok(file)
}

/// The socket of this process, in a directory that only its user can enter.
fn listen(pid: u32) -> io::Result<(UnixListener, PathBuf)> {
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|directory| directory.is_dir());
    let directory = match told {
        Some(directory) => directory.join("thaw-memreport"),
        None => PathBuf::from(format!("/tmp/thaw-memreport-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
        _ => {}
    }
    // Somebody else may have made it first, below /tmp.
    let data = fs::symlink_metadata(&directory)?;
    if !data.is_dir() || data.uid() != user || data.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} is not a directory of this user alone", directory.display())));
    }
    let path = directory.join(format!("{pid}.sock"));
    // Of a killed process that had this number.
    unlink(Some(&path));
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Catches SIGRTMIN, unless the program uses it.
fn catch() -> Result<(), StartError> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is valid for reads and writes; zeroed bytes are a valid sigaction. The handler makes one system
    // call.
    unsafe {
        libc::sigaction(libc::SIGRTMIN(), std::ptr::null(), action.as_mut_ptr());
        let action = action.assume_init_mut();
        let ours = on_signal as extern "C" fn(c_int) as *const () as usize;
        if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN && action.sa_sigaction != ours {
            return Err(StartError::SignalTaken);
        }
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGRTMIN(), action, std::ptr::null_mut());
    }
    Ok(())
}

extern "C" fn on_signal(_signal: c_int) {
    // SAFETY: errno is of this thread and is put back; one byte is read from a local. A full pipe means that it is
    // awake already.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(WAKE.load(Ordering::Acquire), c"!".as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// What the thread waits for.
struct Waiter {
    wake: OwnedFd,
    /// Held open, or the other end would be at its end.
    _waker: OwnedFd,
    listener: Option<UnixListener>,
    pressure: Option<File>,
    rss: Option<usize>,
    armed: bool,
    directory: PathBuf,
}

impl Waiter {
    fn run(mut self) {
        block_signals();
        loop {
            let watch = |fd: Option<RawFd>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
            let mut fds = [
                watch(Some(self.wake.as_raw_fd()), libc::POLLIN),
                watch(self.listener.as_ref().map(AsRawFd::as_raw_fd), libc::POLLIN),
                watch(self.pressure.as_ref().map(AsRawFd::as_raw_fd), libc::POLLPRI),
            ];
            let timeout_ms = if self.rss.is_some() { 1000 } else { -1 };
            // SAFETY: the array is valid for its length.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
            if fds[0].revents != 0 {
                self.drain();
                say(write_report("signal", &self.directory));
            }
            if fds[1].revents != 0
                && let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept)
            {
                // A peer that goes away is its own affair.
                let _ = answer(stream);
            }
            if fds[2].revents & libc::POLLPRI != 0 {
                crate::minimize();
            } else if fds[2].revents != 0 {
                self.pressure = None;
            }
            self.threshold();
        }
    }

    fn drain(&self) {
        let mut bytes = [0u8; 64];
        // SAFETY: reads into a local of this length; the pipe does not block.
        while unsafe { libc::read(self.wake.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {}
    }

    fn threshold(&mut self) {
        let (Some(limit), Some(resident)) = (self.rss, allocator::statm(1)) else { return };
        if resident >= limit && self.armed {
            self.armed = false;
            say(write_report("rss", &self.directory));
        } else if resident < limit / 100 * REARM_PERCENT {
            self.armed = true;
        }
    }
}

/// The program's signals are for its own threads.
fn block_signals() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is filled before it is used.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// One line of words from the peer; the report back if one of them is `report`, with its blocks if it is `blocks`.
fn answer(mut stream: UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut line, mut byte) = (Vec::new(), [0u8; 1]);
    while line.len() < 100 && stream.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    for word in String::from_utf8_lossy(&line).split_ascii_whitespace() {
        match word {
            "minimize" => {
                crate::minimize();
            }
            "report" | "blocks" => {
                let blocks = if word == "blocks" { Blocks::With } else { Blocks::Without };
                let report = crate::collect("socket").map(|report| report.text(blocks)).unwrap_or_default();
                stream.write_all(report.as_bytes())?;
            }
            _ => return stream.write_all(b"error: the words are minimize, report and blocks\n"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words() {
        let options = Options::parse("socket, exit,rss=500M,dir=/x").unwrap();
        assert_eq!((options.socket, options.exit, options.signal), (true, true, false));
        assert_eq!((options.rss, options.directory), (Some(500 << 20), Some("/x".into())));
        let options = Options::parse("pressure,blocks").unwrap();
        assert_eq!((options.pressure, options.blocks), (Some(OF_THE_MACHINE.into()), true));
        assert_eq!(Options::parse("pressure=/x").unwrap().pressure, Some("/x".into()));
        for wrong in ["sokcet", "rss=", "rss=0", "rss=5T", "dir=", "exit=1", "pressure=", "rss=99999999999999999999G"] {
            assert!(Options::parse(wrong).is_err(), "{wrong}");
        }
    }
}
