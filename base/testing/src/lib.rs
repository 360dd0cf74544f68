//! What the tests of every room share: saying why a test could not run here.
//!
//! A test that lacks something (root, tracefs, a browser) is never silently passed: it calls [`skip`],
//! returns, and `make test` counts the reasons at its end. Only `[dev-dependencies]` name this crate.

mod killed;
mod linked;
mod loopdisk;
pub mod openmetrics;
pub mod power;
pub mod steps;

pub use killed::killed;
pub use linked::{declared, library, linked, valgrind};
pub use loopdisk::LoopDisk;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Records that the calling test did not run, and why. `make test` sets `THAW_SKIP_LOG` and prints the list.
pub fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED: {test}: {reason}");
    let Some(log) = std::env::var_os("THAW_SKIP_LOG") else { return };
    let written = std::fs::OpenOptions::new().append(true).create(true).open(&log).and_then(|mut file| {
        // One write call, so that lines of tests in parallel do not mix.
        file.write_all(format!("{test}: {reason}\n").as_bytes())
    });
    if let Err(error) = written {
        panic!("cannot count a skipped test in {}: {error}", log.to_string_lossy());
    }
}

/// `true` for root; otherwise the calling test is counted as skipped.
pub fn root_or_skip() -> bool {
    // SAFETY: geteuid takes nothing, touches no memory and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip("needs root");
    }
    root
}

/// Runs `work` as an ordinary user: as nobody if this is root, else as who this is. Only the calling test's own thread
/// changes its user.
///
/// # Panics
/// `work` does, or the user cannot be changed.
pub fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::c_long = 65534;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the raw calls change this one thread, unlike the C library's functions of these names; they touch
            // no memory.
            unsafe {
                if libc::geteuid() == 0 {
                    assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
                }
            }
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a compiler; `false`, counted as skipped: it is not installed.
///
/// # Panics
/// It fails: the message is what it said.
pub fn compiled(compiler: &mut Command) -> bool {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let Ok(built) = compiler.output() else {
        skip(&format!("needs {name}"));
        return false;
    };
    assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
    true
}

/// Copies a program that is to be run. Another process writes it: whoever another thread starts holds, until its exec,
/// what this process has open, and a program that somebody has open for writing is "text file busy".
///
/// # Panics
/// It cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let status = Command::new("cp").arg("--").args([from, to]).status().unwrap();
    assert!(status.success(), "cp {} {}", from.display(), to.display());
}

/// Writes a script that is to be run, in the way of [`copy_program`].
///
/// # Panics
/// It cannot be written.
pub fn write_script(path: impl AsRef<Path>, text: &str) {
    let mut command = Command::new("install");
    let mut child = command.args(["-m", "755", "/dev/stdin"]).arg(path.as_ref()).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "install {}", path.as_ref().display());
}

/// Runs the test `name` in a copy of its program that has something beside it which launchers can call.
///
/// # Panics
/// `test` does, there: the message is what it said.
pub fn beside_a_runner(name: &str, test: impl FnOnce()) {
    const THERE: &str = "THAW_TEST_BESIDE_RUNNER";
    if std::env::var_os(THERE).is_some() {
        return test();
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (copy, runner) = (folder.path().join("tests"), folder.path().join("thaw-preload"));
    copy_program(std::env::current_exe().unwrap(), &copy);
    write_script(&runner, "#!/bin/sh\n");
    let said = Command::new(&copy).args(["--exact", name, "--nocapture"]).env(THERE, "1").output().unwrap();
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // A name that no test has would be a success.
    assert!(said.status.success() && text.contains("1 passed"), "{name}: {text}");
}

/// The uid and gid of a user who is not root: `nobody`.
pub const SECOND_USER: u32 = 65534;

/// Makes the calling thread, and no other one, run as another user, for good.
fn become_user(uid: u32) {
    // SAFETY: raw calls with plain numbers change this one thread, unlike the C library's functions of these names.
    let failed = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) != 0
            || libc::syscall(libc::SYS_setresgid, uid, uid, uid) != 0
            || libc::syscall(libc::SYS_setresuid, uid, uid, uid) != 0
    };
    assert!(!failed, "cannot become user {uid}: {}", std::io::Error::last_os_error());
}

/// What a function says when a thread that runs as another user calls it. Needs root.
///
/// # Panics
/// The function does, or the kernel forbids it.
pub fn as_user<R: Send>(uid: u32, act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            become_user(uid);
            act()
        });
        acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Another user who does something again and again, beside what a test does as root.
#[derive(Debug)]
pub struct Rival {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Rival {
    /// Begins. Needs root.
    pub fn new(uid: u32, mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            become_user(uid);
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) {
                act();
                rounds += 1;
            }
            rounds
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends; how often it did what it does.
    ///
    /// # Panics
    /// What it did, did.
    pub fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(0, |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
