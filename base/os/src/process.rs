//! What `/proc` says of processes and of the machine's CPU time.
//!
//! A process can end between any two looks: a function that finds it gone answers `None`, not an error.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// `/proc/PID/stat`, the parts that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// Its name (at most 15 bytes; may hold blanks and parentheses).
    pub comm: String,
    /// `R`, `S`, `D`, `Z` ...
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// It runs no code of its program any more (`PF_EXITING`, or a zombie): its control group lists it no longer,
    /// although its state may be `R` for a moment.
    pub is_ending: bool,
    /// Start, in clock ticks since boot: together with the number it names a process for good.
    pub start_ticks: u64,
    /// CPU time in user mode, clock ticks; see [`ticks_to_ns`].
    pub user_ticks: u64,
    /// CPU time in the kernel, clock ticks.
    pub system_ticks: u64,
}

/// Parses the text of a `stat` file; `None`: it is not one.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses, and may hold more of them: only the last closing one ends it.
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest: Vec<&str> = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace().collect();
    // proc(5) counts from 1 and `rest` begins with field 3.
    let field = |number: usize| rest.get(number - 3).copied();
    const PF_EXITING: u32 = 4; // include/linux/sched.h
    let state = field(3)?.chars().next()?;
    Some(Stat {
        pid,
        comm,
        state,
        is_ending: matches!(state, 'Z' | 'X') || field(9)?.parse::<u32>().ok()? & PF_EXITING != 0,
        parent: field(4)?.parse().ok()?,
        user_ticks: field(14)?.parse().ok()?,
        system_ticks: field(15)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
    })
}

/// `None`: it is gone.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Its name; `None`: it is gone.
pub fn comm(pid: u32) -> Option<String> {
    let text = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(&text)).into_owned())
}

/// Start in clock ticks since boot; `None`: it is gone.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.start_ticks)
}

/// Value of a line of `/proc/PID/status`, trimmed: `status_value(pid, "VmLck")` is `0 kB`. `None`: no such line
/// (kernel threads have no `Vm` lines), or the process is gone.
pub fn status_value(pid: u32, key: &str) -> Option<String> {
    let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
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

/// A line of `/proc/PID/maps` that maps a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// `r-xp`
    pub permissions: String,
    /// Offset in the file.
    pub offset: u64,
    /// Device, packed by `makedev`. On btrfs that of the volume, where `stat` shows that of the subvolume.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Path as the process sees it, without ` (deleted)`.
    pub path: PathBuf,
    /// The file is deleted. (A file whose name ends with ` (deleted)` cannot be told from one that is.)
    pub deleted: bool,
}

/// File mappings of a process, by address. Empty for kernel threads.
pub fn maps(pid: u32) -> std::io::Result<Vec<Mapping>> {
    Ok(parse_maps(&std::fs::read(format!("/proc/{pid}/maps"))?))
}

/// Parses the text of a `maps` file; anonymous mappings and lines that make no sense are left out.
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(parse_mapping).collect()
}

/// `7f1c-7f1d r-xp 00001000 fe:00 1234          /usr/lib/libc.so.6`
fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let path_at = line.iter().position(|byte| *byte == b'/')?;
    let mut fields = std::str::from_utf8(&line[..path_at]).ok()?.split_ascii_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.to_owned();
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let ino = fields.next()?.parse().ok()?;
    // `[anon:name/with/slash]` is no path.
    if fields.next().is_some() {
        return None;
    }
    let part = |text| u32::try_from(hex(text)?).ok();
    let dev = libc::makedev(part(major)?, part(minor)?);
    let name = &line[path_at..];
    let (name, deleted) = match name.strip_suffix(b" (deleted)") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let path = OsString::from_vec(unescape_newlines(name)).into();
    Some(Mapping { start: hex(start)?, end: hex(end)?, permissions, offset, dev, ino, path, deleted })
}

/// The kernel escapes newlines here, and nothing else (so `\\012` in a name reads as one; that cannot be helped).
fn unescape_newlines(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        rest = match rest.strip_prefix(br"\012") {
            Some(after) => {
                plain.push(b'\n');
                after
            }
            None => {
                plain.push(*first);
                after
            }
        };
    }
    plain
}

/// CPU time of the whole machine, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCpu {
    /// Nanoseconds that any CPU was busy, summed over CPUs.
    pub busy_ns: u64,
    /// Nanoseconds that CPUs were idle or waited for the disk.
    pub idle_ns: u64,
    /// Of the busy ones, those that the hypervisor gave to others.
    pub steal_ns: u64,
    /// CPUs online.
    pub cpus: u32,
}

/// CPU time of the machine since boot; `None`: no `/proc/stat`.
pub fn machine_cpu() -> Option<MachineCpu> {
    parse_machine_cpu(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse_machine_cpu(text: &str) -> Option<MachineCpu> {
    let total = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = total.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else { return None };
    let cpus = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    Some(MachineCpu {
        busy_ns: ticks_to_ns(user + nice + system + irq + softirq + steal),
        idle_ns: ticks_to_ns(idle + iowait),
        steal_ns: ticks_to_ns(steal),
        cpus: cpus as u32,
    })
}

/// Clock ticks (10 ms on every machine of today) as nanoseconds.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
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
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn a_process_may_be_called_anything() {
        let text = b"42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 11 12 0 0 20 0 1 0 9876 1 2 3\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.pid, stat.comm.as_str(), stat.state, stat.parent), (42, "a) b (c", 'S', 7));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (11, 12, 9876));
        assert!(!stat.is_ending);
        assert!(parse_stat(b"42 (a) R 7 42 42 0 -1 4194308 1 0 0 0 11 12 0 0 20 0 1 0 9876 1\n").unwrap().is_ending);
        assert_eq!(parse_stat(b"42 (a S 7"), None);
        assert_eq!(parse_stat(b"42 )a( S 7"), None);
        assert_eq!(parse_stat(b"42 (a) S 7 1 2"), None, "cut off");
    }

    #[test]
    fn maps_lines_name_files_and_nothing_else() {
        let text = b"55d0-55d1 r--p 00002000 fe:11 131090                     /usr/bin/a b\n\
            7f00-7f01 rw-p 00000000 00:00 0 \n\
            7f02-7f03 rw-p 00000000 00:00 0                          [heap]\n\
            7f04-7f05 rw-p 00000000 00:00 0                          [anon:some/name]\n\
            7f06-7f07 rw-s 00000000 00:01 1024                       /memfd:x (deleted)\n\
            7f08-7f09 r-xp 00001000 103:02 7                         /with\\012line (deleted)\n\
            nonsense / here\n";
        let maps = parse_maps(text);
        let paths: Vec<_> = maps.iter().map(|mapping| (mapping.path.as_path(), mapping.deleted)).collect();
        assert_eq!(
            paths,
            [(Path::new("/usr/bin/a b"), false), (Path::new("/memfd:x"), true), (Path::new("/with\nline"), true)]
        );
        assert_eq!((maps[0].start, maps[0].end, maps[0].offset), (0x55d0, 0x55d1, 0x2000));
        assert_eq!((maps[0].dev, maps[0].ino), (libc::makedev(0xfe, 0x11), 131090));
        assert_eq!(maps[2].dev, libc::makedev(0x103, 2));
        assert_eq!(maps[2].permissions, "r-xp");
    }

    #[test]
    fn the_tree_below_a_process() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 10), (13, 12), (20, 1), (30, 31), (31, 30)];
        assert_eq!(tree_below(10, &parents), [11, 12, 13]);
        assert!(tree_below(13, &parents).is_empty());
        assert_eq!(tree_below(30, &parents), [31], "a ring ends");
    }

    #[test]
    fn cpu_time_of_the_machine_counts_guests_once_and_steal_as_busy() {
        let text = "cpu  100 10 50 1000 40 1 2 7 60 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n";
        let cpu = parse_machine_cpu(text).unwrap();
        assert_eq!(cpu.busy_ns, ticks_to_ns(170));
        assert_eq!((cpu.idle_ns, cpu.steal_ns, cpu.cpus), (ticks_to_ns(1040), ticks_to_ns(7), 2));
        assert_eq!(parse_machine_cpu("cpu  1 2 3\n"), None);
        assert_eq!(parse_machine_cpu("intr 5\n"), None);
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

    proptest! {
        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            parse_stat(&text);
            parse_maps(&text);
        }

        #[test]
        fn any_name_is_read_back(name in "[^\n]{0,15}", pid in 1u32.., parent: u32, ticks: u32) {
            let text = format!("{pid} ({name}) R {parent} 1 1 0 -1 0 1 0 0 0 3 4 0 0 20 0 1 0 {ticks} 1");
            let stat = parse_stat(text.as_bytes()).unwrap();
            prop_assert_eq!((stat.pid, stat.parent), (pid, parent));
            prop_assert_eq!((stat.comm, stat.start_ticks), (name, u64::from(ticks)));
        }
    }
}
