//! The processes of a group, and its end.

use model::{Error, Exit, Result};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Every group of ours begins with it; [`remove`] refuses others.
pub(super) const PREFIX: &str = "thaw-";
/// How long killed processes may take to go away: a disk that is throttled holds them for a while.
const PATIENCE: Duration = Duration::from_secs(120);

/// A group and all groups below it, the deepest first; nothing for one that is not there.
fn with_children(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return all };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(with_children(&entry.path()));
    }
    all.push(dir.to_path_buf());
    all
}

/// Processes in these groups and below.
pub(super) fn members(dirs: &[PathBuf]) -> Result<BTreeSet<u32>> {
    let mut pids = BTreeSet::new();
    for dir in dirs.iter().flat_map(|dir| with_children(dir)) {
        match fs::read_to_string(dir.join("cgroup.procs")) {
            // 0 stands for a process of another process-id namespace: nothing that we started.
            Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0)),
            // Removed meanwhile, or a v2 group of the threaded kind whose processes are listed above it.
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {}
            Err(cause) => return Err(Error::on(Exit::Machine, "cannot list the processes in", &dir).because(cause)),
        }
    }
    Ok(pids)
}

/// Sends a signal to a process if it is (still) in one of the groups: a number may be reused at any moment.
pub(super) fn signal_member(pid: u32, dirs: &[PathBuf], signal: Signal) {
    let send = || {
        let process = Pid::from_raw(pid as i32)?;
        let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?;
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let ours = |dir: &PathBuf| dir.file_name().is_some_and(|name| own.split(['/', '\n']).any(|part| part == name));
        if pid != std::process::id() && dirs.iter().any(ours) {
            rustix::process::pidfd_send_signal(&pidfd, signal).ok()?;
        }
        Some(())
    };
    // A process that is gone meanwhile is what we want.
    send();
}

/// SIGKILL until nobody is left in these groups; returns how many processes were seen.
pub(super) fn kill_everything(dirs: &[PathBuf]) -> Result<usize> {
    let mut seen = BTreeSet::new();
    let mut pause = Duration::from_millis(1);
    let until = Instant::now() + PATIENCE;
    loop {
        let now = members(dirs)?;
        if now.is_empty() {
            return Ok(seen.len());
        }
        if Instant::now() > until {
            let pids = now.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::new(Exit::Machine, "these processes cannot be killed:", pids)
                .hint("they wait for a device; look at `cat /proc/PID/stack`, then run `thaw doctor`"));
        }
        seen.extend(now);
        kill_round(dirs)?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn kill_round(dirs: &[PathBuf]) -> Result<()> {
    let mut at_once = false;
    for dir in dirs {
        // Kills what is in it and below, and what forks meanwhile.
        at_once |= fs::write(dir.join("cgroup.kill"), "1").is_ok();
    }
    if at_once {
        return Ok(());
    }
    // Frozen processes cannot fork, so that the list is complete.
    let frozen: Vec<PathBuf> = dirs.iter().map(|dir| dir.join("freezer.state")).filter(|file| file.exists()).collect();
    for file in &frozen {
        let _ = fs::write(file, "FROZEN");
        for _ in 0..1000 {
            if fs::read_to_string(file).is_ok_and(|state| state.trim() == "FROZEN") {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let pids = members(dirs);
    for pid in pids.iter().flatten() {
        signal_member(*pid, dirs, Signal::KILL);
    }
    for file in &frozen {
        let _ = fs::write(file, "THAWED");
    }
    pids.map(drop)
}

/// Kills everything in groups of ours and removes them; groups that are not there are fine.
///
/// # Errors
/// A directory that is not a control group of ours, or one that cannot be emptied.
pub(super) fn remove(paths: &[PathBuf]) -> Result<()> {
    let there: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).cloned().collect();
    if let Some(foreign) = there.iter().find(|path| !is_ours(path)) {
        return Err(Error::on(Exit::Machine, "this is not a control group of thaw's", foreign));
    }
    kill_everything(&there)?;
    let until = Instant::now() + PATIENCE;
    for dir in there.iter().flat_map(|dir| with_children(dir)) {
        loop {
            match fs::remove_dir(&dir) {
                Ok(()) => break,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => break,
                // The last process is on its way out.
                Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(cause) => {
                    return Err(Error::on(Exit::Machine, "cannot remove the control group", &dir).because(cause));
                }
            }
        }
    }
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    // CGROUP_SUPER_MAGIC and CGROUP2_SUPER_MAGIC.
    named && rustix::fs::statfs(path).is_ok_and(|found| matches!(found.f_type as u64, 0x0027_e0eb | 0x6367_7270))
}
