//! What the tests of every room share: saying why a test could not run here.
//!
//! A test that lacks something (root, tracefs, a browser) is never silently passed: it calls [`skip`],
//! returns, and `make test` counts the reasons at its end. Only `[dev-dependencies]` name this crate.

use std::io::Write;
use std::process::Command;

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
