//! A process that is killed in the middle of its work.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Runs the test `child` of this test's program as a process of its own, with these variables. `line` has the words of
/// each line that it says; after so many for which that was `true` it gets SIGKILL. What it says after that is handed
/// on too.
///
/// # Panics
/// It cannot be started.
pub fn killed(variables: &[(&str, &OsStr)], upto: u64, mut line: impl FnMut(&[&str]) -> bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = 0;
    for text in BufReader::new(child.stdout.take().unwrap()).lines() {
        seen += u64::from(line(&text.unwrap().split(' ').collect::<Vec<_>>()));
        if seen == upto {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
}
