//! Processes: which there are, what they are called, whose children they are.
//!
//! A process can end between any two looks: a function that finds it gone answers `None`, not an error.

use super::stat::stat;
use std::path::PathBuf;

/// Its name; `None`: it is gone.
pub fn comm(pid: u32) -> Option<String> {
    let text = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(&text)).into_owned())
}

/// Value of a line of `/proc/PID/status`, trimmed: `status_value(pid, "VmLck")` is `0 kB`. `None`: no such line
/// (kernel threads have no `Vm` lines), or the process is gone.
pub fn status_value(pid: u32, key: &str) -> Option<String> {
    let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

/// Bytes that it had read from block devices; `None`: it is gone, or not for us to see.
pub fn read_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

/// What it executes, `None`: gone, a kernel thread, or not for us to see.
pub fn exe(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// All process numbers, rising.
pub fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Children, grandchildren and so on of a process, without itself, parents before children. A look at a moving
/// thing: what forks meanwhile may be missed; where nothing may be, use a control group.
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    tree_below(pid, &parents)
}

/// `parents`: (process, its parent).
fn tree_below(pid: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        for &(child, its_parent) in parents {
            // Numbers are reused while we look: a ring must not keep us here.
            if its_parent == parent && !found.contains(&child) {
                found.push(child);
            }
        }
        next += 1;
    }
    found.split_off(1)
}

/// What a signal that ends programs is called: `SIGSEGV`. `None`: another one.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [(i32, &str); 15] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::super::{cpu::machine_cpu, maps::maps, stat::start_ticks};
    use super::*;

    #[test]
    fn the_tree_below_a_process() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 10), (13, 12), (20, 1), (30, 31), (31, 30)];
        assert_eq!(tree_below(10, &parents), [11, 12, 13]);
        assert!(tree_below(13, &parents).is_empty());
        assert_eq!(tree_below(30, &parents), [31], "a ring ends");
    }

    #[test]
    fn sees_itself_and_its_children() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let below = descendants(me);
        let parent = stat(child.id()).map(|stat| stat.parent);
        let start = start_ticks(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(below.contains(&child.id()));
        assert_eq!(parent, Some(me));
        assert!(start >= start_ticks(me), "a child starts after its parent");
        assert_eq!(stat(child.id()), None, "gone");
        assert!(maps(me).unwrap().iter().any(|mapping| Some(&mapping.path) == exe(me).as_ref()));
        assert_eq!(status_value(me, "Pid"), Some(me.to_string()));
        assert_eq!(status_value(me, "Pi"), None, "only whole keys");
        assert!(machine_cpu().unwrap().cpus >= 1);
    }
}
