//! Ctrl-C, SIGTERM and a lost terminal become a flag and a readable file descriptor, so that what was done is kept
//! and the machine is put back.
//!
//! The first signal asks politely; a second one of the same kind has its default action, so that
//! a hanging thaw can still be ended from the keyboard (`thaw doctor` then mends what is left).
//! Programs under test are in a session of their own and do not hear the Ctrl-C.

use model::{Error, Exit, Result};
use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The first signal that came; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// For the handler, which may touch nothing but atomics; -1 before [`install`].
static BELL: AtomicI32 = AtomicI32::new(-1);
static INSTALLED: OnceLock<std::result::Result<OwnedFd, rustix::io::Errno>> = OnceLock::new();

const CAUGHT: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Catches SIGINT, SIGTERM and SIGHUP from now on, except those that thaw's caller had ignored (`nohup`).
/// Calling it again changes nothing.
///
/// # Errors
/// No file descriptor is left.
pub fn install() -> Result<()> {
    let installed = INSTALLED.get_or_init(|| {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        BELL.store(bell.as_raw_fd(), Ordering::Release);
        if REQUESTED.load(Ordering::Acquire) {
            ring();
        }
        CAUGHT.into_iter().for_each(catch);
        Ok(bell)
    });
    match installed {
        Ok(_) => Ok(()),
        Err(cause) => Err(Error::new(Exit::Machine, "cannot catch Ctrl-C", "").because(io::Error::from(*cause))),
    }
}

fn catch(signal: i32) {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is valid for reads and writes; zeroed bytes are a valid sigaction. The handler touches
    // atomics and makes one system call. SA_RESETHAND gives the second signal its default action.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        let action = action.assume_init_mut();
        if action.sa_sigaction == libc::SIG_IGN {
            return;
        }
        action.sa_sigaction = handler as extern "C" fn(i32) as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, action, std::ptr::null_mut());
    }
}

/// From now on a file that would grow beyond RLIMIT_FSIZE is an error of the write (EFBIG), as a full disk is, and not
/// the end of this process. Caught and not ignored: programs that are started have the default action back.
pub fn catch_file_limit() {
    extern "C" fn nothing(_: i32) {}
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: as in `catch`; the handler does nothing.
    unsafe {
        libc::sigaction(libc::SIGXFSZ, std::ptr::null(), action.as_mut_ptr());
        let action = action.assume_init_mut();
        if action.sa_sigaction == libc::SIG_IGN {
            return;
        }
        action.sa_sigaction = nothing as extern "C" fn(i32) as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGXFSZ, action, std::ptr::null_mut());
    }
}

extern "C" fn handler(signal: i32) {
    // SAFETY: errno is of this thread; what was interrupted must find it as it was.
    unsafe {
        let errno = *libc::__errno_location();
        let _ = SIGNAL.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        request();
        *libc::__errno_location() = errno;
    }
}

/// Makes the descriptor readable. Async-signal-safe.
fn ring() {
    let bell = BELL.load(Ordering::Acquire);
    let one = 1u64;
    if bell >= 0 {
        // SAFETY: eight bytes are read from a local; the descriptor is never closed once it is stored.
        unsafe { libc::write(bell, (&raw const one).cast(), 8) };
    }
}

/// Whether a signal came (or [`request`] was called).
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Acquire)
}

/// The first signal that came; SIGINT if [`request`] was called instead. `None`: nothing came yet.
pub fn signal() -> Option<i32> {
    let signal = SIGNAL.load(Ordering::Acquire);
    requested().then_some(if signal == 0 { libc::SIGINT } else { signal })
}

/// For use between steps with `?`.
///
/// # Errors
/// A signal came.
pub fn check() -> Result<()> {
    if requested() { Err(Error::interrupted()) } else { Ok(()) }
}

/// Becomes readable (and stays so) when a signal came; for `poll`, never to be read. `None` before [`install`].
pub fn fd() -> Option<BorrowedFd<'static>> {
    INSTALLED.get()?.as_ref().ok().map(AsFd::as_fd)
}

/// Does what the first signal does. Async-signal-safe.
pub fn request() {
    REQUESTED.store(true, Ordering::Release);
    ring();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    fn readable() -> bool {
        let fd = fd().unwrap();
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    fn raise(signal: i32) {
        // SAFETY: takes a number; the handler above is all that can run.
        unsafe { libc::raise(signal) };
    }

    const CHILD: &str = "THAW_TEST_CHILD";

    /// In a process of its own: signals are of the whole process.
    fn hear_signals() {
        assert!(fd().is_none());
        install().unwrap();
        install().unwrap();
        assert!(!requested() && check().is_ok() && !readable());
        raise(libc::SIGINT);
        println!("\nint {} {}", requested(), readable());
        raise(libc::SIGTERM);
        assert_eq!(check().map_err(|error| error.exit), if requested() { Err(Exit::Interrupted) } else { Ok(()) });
        println!("term {} {}", requested(), readable());
        raise(libc::SIGTERM);
        println!("still here");
    }

    fn run(test: &str, change: impl FnOnce(&mut Command)) -> (String, Option<i32>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("interrupt::tests::{test}"), "--nocapture"]);
        command.env(CHILD, "1");
        change(&mut command);
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.signal())
    }

    fn set_sigint(command: &mut Command, disposition: libc::sighandler_t) {
        // SAFETY: one system call on a number between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::signal(libc::SIGINT, disposition);
                Ok(())
            });
        }
    }

    #[test]
    fn the_first_signal_asks_and_the_second_ends() {
        if std::env::var_os(CHILD).is_some() {
            return hear_signals();
        }
        // A shell without job control lets what it runs in the background ignore SIGINT, tests too.
        let (text, signal) =
            run("the_first_signal_asks_and_the_second_ends", |command| set_sigint(command, libc::SIG_DFL));
        assert!(text.contains("int true true\nterm true true\n") && !text.contains("still here"), "{text}");
        assert_eq!(signal, Some(libc::SIGTERM));
    }

    #[test]
    fn signals_that_the_caller_ignores_stay_ignored() {
        if std::env::var_os(CHILD).is_some() {
            return hear_signals();
        }
        let (text, signal) = run("signals_that_the_caller_ignores_stay_ignored", |command| {
            set_sigint(command, libc::SIG_IGN);
        });
        assert!(text.contains("int false false\nterm true true\n"), "{text}");
        assert_eq!(signal, Some(libc::SIGTERM));
    }
}
