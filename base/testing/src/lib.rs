//! What the tests of every room share: saying why a test could not run here.
//!
//! A test that lacks something (root, tracefs, a browser) is never silently passed: it calls [`skip`],
//! returns, and `make test` counts the reasons at its end. Only `[dev-dependencies]` name this crate.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Runs `work` as an ordinary user: as nobody if this is root, else as who this is. Only the calling test's own thread changes its user.
///
/// # Panics
/// `work` does, or the user cannot be changed.
pub fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::c_long = 65534;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the raw calls change this one thread, unlike the C library's functions of these names; they touch no memory.
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

/// Copies a program that is to be run. Another process writes it: whoever another thread starts holds, until its exec, what this process has
/// open, and a program that somebody has open for writing is "text file busy".
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
