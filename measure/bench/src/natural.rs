//! A start as it is: nothing is prepared, no rights are needed, and the program is not thaw's child. It is looked at
//! from a process beside it until it is ready, and then left alone.
//!
//! What it used until then is read from `/proc` at that moment: CPU time in clock ticks (10 ms), faults and bytes of
//! the processes that are there.

use crate::ready::{self, Fired, Probe, Ready, Tree, View};
use crate::start::poll;
use model::{Bytes, Error, Exit, Milestone, Nanos, Result};
use os::spawn::Launch;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Longest sleep.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// A look may be late by this part of the time since the start: 1 of 100. Looks take CPU time from the start that they
/// look at, and so there are a few hundred of them however long it takes.
const LATE: u32 = 100;

/// A start that came to be ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Natural {
    /// From just before exec until the first probe fired.
    pub wall: Nanos,
    /// The probes that fired, by time.
    pub milestones: Vec<Milestone>,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Page faults served without the disk.
    pub minor_faults: u64,
    /// Page faults that waited for the disk.
    pub major_faults: u64,
    /// Bytes from block devices; `None`: the kernel did not tell of every process.
    pub read: Option<Bytes>,
    /// The largest resident set of one process.
    pub max_rss: Bytes,
}

/// What looks at a start.
pub struct Eyes {
    probes: Vec<Box<dyn Probe>>,
    /// Milestones; the first stops the clock.
    names: Vec<String>,
}

/// What a process used before it became the program: that is not the program's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    user_ticks: u64,
    system_ticks: u64,
    minor_faults: u64,
    major_faults: u64,
    read_bytes: u64,
}

impl Before {
    /// Of this process, now.
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        let Some(stat) = os::process::stat(pid) else { return Self::default() };
        Self {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            read_bytes: os::process::read_bytes(pid).unwrap_or(0),
        }
    }
}

/// Variables for the program; `None` removes one.
pub type Variables = Vec<(OsString, Option<OsString>)>;

impl Eyes {
    /// Opens what the probes need, and says what the program is to have in its environment.
    ///
    /// # Errors
    /// Usage: a probe that would change what the program is given, or that needs rights.
    pub fn open(ready: &[Ready]) -> Result<(Self, Variables)> {
        for way in ready {
            if !matches!(way, Ready::Listen(_) | Ready::Http(_) | Ready::File(_) | Ready::Notify | Ready::X11) {
                let fit = "those that change nothing for it are listen:PORT, http:URL, file:PATH, notify and x11";
                return Err(Error::new(Exit::Usage, "a natural start cannot be looked at by", way).hint(fit));
            }
        }
        let mut launch = Launch::new(Vec::<OsString>::new());
        let mut probes = ready::probes(ready);
        probes.iter_mut().try_for_each(|probe| probe.prepare(&mut launch))?;
        Ok((Self { probes, names: ready::milestones(ready) }, launch.env))
    }

    /// Looks at process `main`, which had used `before` when it began its program at `t0_ns` (CLOCK_MONOTONIC), until
    /// all probes have fired. `None`: it ended before, or the time was over; with some milestones, if the first one
    /// fired.
    ///
    /// # Errors
    /// There is no such process; a probe that does not work.
    pub fn until_ready(
        mut self,
        (main, before): (u32, Before),
        t0_ns: u64,
        timeout: Duration,
    ) -> Result<Option<Natural>> {
        let gone = |cause: rustix::io::Errno| Error::new(Exit::Target, "there is no process", main).because(cause);
        let number = i32::try_from(main).ok().and_then(Pid::from_raw).ok_or_else(|| gone(rustix::io::Errno::SRCH))?;
        let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty()).map_err(gone)?;
        let tree = Tree::below(main);
        self.probes.iter_mut().try_for_each(|probe| probe.arm(&tree))?;
        let began = Instant::now();
        let until = began + timeout;
        let mut fired: Vec<Fired> = Vec::new();
        let mut natural = None;
        loop {
            let mut new = Vec::new();
            let view = View { tree: &tree, exit_at_ns: None };
            self.probes.iter_mut().try_for_each(|probe| probe.look(&view, &mut new))?;
            fired.extend(new);
            if natural.is_none() && fired.iter().any(|fired| fired.name == self.names[0]) {
                natural = Some(used_by(&tree, before));
            }
            if self.names.iter().all(|name| fired.iter().any(|fired| fired.name == *name)) || Instant::now() >= until {
                break;
            }
            let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
            let wakers = self.probes.iter().flat_map(|probe| probe.wakers());
            fds.extend(wakers.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
            let soon = self.probes.iter().filter_map(|probe| probe.interval()).min().unwrap_or(LONGEST_SLEEP);
            let soon = soon.max(began.elapsed() / LATE).min(LONGEST_SLEEP);
            poll(&mut fds, until.min(Instant::now() + soon))?;
            let has_ended = !fds[0].revents().is_empty();
            if has_ended {
                break;
            }
        }
        let mut milestones: Vec<Milestone> = fired
            .into_iter()
            .map(|fired| Milestone { name: fired.name, at_ns: Nanos(fired.at_ns.saturating_sub(t0_ns)) })
            .collect();
        milestones.sort_by_key(|milestone| milestone.at_ns);
        let wall = milestones.iter().find(|milestone| milestone.name == self.names[0]).map(|milestone| milestone.at_ns);
        Ok(natural.zip(wall).map(|(natural, wall)| Natural { wall, milestones, ..natural }))
    }
}

/// What the processes of a tree used so far.
fn used_by(tree: &Tree, before: Before) -> Natural {
    let mut sum = Natural {
        wall: Nanos(0),
        milestones: Vec::new(),
        user: Nanos(0),
        system: Nanos(0),
        minor_faults: 0,
        major_faults: 0,
        read: Some(Bytes(0)),
        max_rss: Bytes(0),
    };
    for pid in tree.pids() {
        // One that has ended meanwhile is in the sums of nobody.
        let Some(stat) = os::process::stat(pid) else { continue };
        let before = if pid == tree.main { before } else { Before::default() };
        let since = |now: u64, then: u64| now.saturating_sub(then);
        sum.user += Nanos(os::process::ticks_to_ns(since(stat.user_ticks, before.user_ticks)));
        sum.system += Nanos(os::process::ticks_to_ns(since(stat.system_ticks, before.system_ticks)));
        sum.minor_faults += since(stat.minor_faults, before.minor_faults);
        sum.major_faults += since(stat.major_faults, before.major_faults);
        sum.read =
            sum.read.zip(os::process::read_bytes(pid)).map(|(sum, read)| Bytes(sum.0 + since(read, before.read_bytes)));
        let peak = os::process::status_value(pid, "VmHWM");
        let peak = peak.and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
        sum.max_rss = sum.max_rss.max(Bytes(peak * 1024));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn looked(script: &str, ready: &[&str], place: &std::path::Path) -> Option<Natural> {
        let ready: Vec<Ready> = ready.iter().map(|word| word.parse().unwrap()).collect();
        let (eyes, _) = Eyes::open(&ready).unwrap();
        let t0_ns = os::spawn::monotonic_ns();
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).current_dir(place).stdout(Stdio::null()).spawn().unwrap();
        let natural = eyes.until_ready((child.id(), Before::default()), t0_ns, Duration::from_secs(60)).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        natural
    }

    #[test]
    fn a_start_is_looked_at_until_it_is_ready() {
        let room = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("file:{}", room.path().join(name).display());
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; : > one; : > two; sleep 100";
        let natural = looked(script, &[&file("one"), &file("two")], room.path()).unwrap();
        assert_eq!(natural.milestones.len(), 2);
        assert_eq!(natural.wall, natural.milestones[0].at_ns);
        assert!(natural.minor_faults > 0 && natural.max_rss.0 > 100_000, "{natural:?}");
    }

    #[test]
    fn a_start_that_ends_before_it_is_ready_is_none() {
        let room = tempfile::tempdir().unwrap();
        let file = format!("file:{}", room.path().join("never").display());
        assert_eq!(looked("exit 0", &[&file], room.path()), None);
    }

    #[test]
    fn what_would_change_the_program_is_refused() {
        for way in ["line:x", "fd", "beacon", "settled", "exit"] {
            let Err(error) = Eyes::open(&[way.parse().unwrap()]) else { panic!("{way}") };
            assert!(error.hint.unwrap().contains("listen:PORT"));
        }
        let (_, variables) = Eyes::open(&[Ready::Notify]).unwrap();
        assert_eq!(variables[0].0, "NOTIFY_SOCKET");
    }
}
