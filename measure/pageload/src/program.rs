//! A browser or a proxy that runs for a measurement, with all that it starts: what it reads from the disk, and its end.
//! Dropping it ends it, so that no way out of a function leaves one behind.

use model::{Bytes, Error, Exit, Result};
use os::cgroup::{RunCgroup, Throttle};
use os::spawn::{Gated, Launch, Running};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What was read from block devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Bytes.
    pub bytes: Bytes,
    /// Requests; `None`: counted by the control group only, and there is none.
    pub requests: Option<u64>,
}

impl Reads {
    /// What was read since an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        let requests = self.requests.zip(earlier.requests).map(|(now, then)| now.saturating_sub(then));
        Self { bytes: self.bytes - earlier.bytes, requests }
    }
}

/// A program with all processes below it.
#[derive(Debug)]
pub struct Program {
    name: String,
    running: Running,
    /// `None`: there are no control groups, or not for us.
    group: Option<RunCgroup>,
}

impl Program {
    /// Starts it, in a control group where that can be made.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, mut launch: Launch) -> Result<Self> {
        // Without a group all can be measured but the number of reads, which the report then lacks with the reason.
        let group = RunCgroup::create("pageload").ok();
        if let Some(group) = &group {
            launch.cgroups = group.enter_fds()?;
        }
        let running = os::spawn::spawn_gated(launch).and_then(Gated::release)?;
        Ok(Self { name: name.to_owned(), running, group })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its first process has ended.
    ///
    /// # Errors
    /// A bug.
    pub fn has_ended(&mut self) -> Result<bool> {
        self.running.try_wait().map(|ended| ended.is_some())
    }

    /// All its processes.
    pub fn processes(&self) -> Vec<u32> {
        if let Some(group) = &self.group {
            return group.procs().unwrap_or_default();
        }
        // It leads a session; whom it gave away to the reaper of orphans is still in there, or below it.
        let main = self.running.pid();
        let below: BTreeSet<u32> = os::process::descendants(main).into_iter().collect();
        // SAFETY: getsid takes a number and touches no memory. (rustix's panics at sessions of other namespaces.)
        let in_session = |pid: u32| unsafe { libc::getsid(pid as i32) } == main as i32;
        let is_zombie = |pid: u32| os::process::status_value(pid, "State").is_none_or(|state| state.starts_with('Z'));
        let all = os::process::all().into_iter();
        all.filter(|pid| *pid == main || below.contains(pid) || in_session(*pid))
            .filter(|pid| !is_zombie(*pid))
            .collect()
    }

    /// What all its processes read so far; with a control group, from device `dev` alone (packed by `makedev`) if that
    /// is known. `None`: the kernel does not tell.
    pub fn reads(&self, dev: Option<u64>) -> Option<Reads> {
        if let Some(devices) = self.group.as_ref().and_then(|group| group.io().ok().flatten()) {
            let wanted = devices.iter().filter(|device| dev.is_none_or(|dev| dev == device.dev));
            return Some(wanted.fold(Reads { bytes: Bytes(0), requests: Some(0) }, |sum, device| Reads {
                bytes: sum.bytes + device.read_bytes,
                requests: sum.requests.map(|sum| sum + device.read_requests),
            }));
        }
        let all: Vec<u64> = self.processes().into_iter().filter_map(os::process::read_bytes).collect();
        (!all.is_empty()).then(|| Reads { bytes: Bytes(all.iter().sum()), requests: None })
    }

    /// Limits what all its processes read from a device (packed by `makedev`) from now on; `None`: no more.
    ///
    /// # Errors
    /// There is no control group that can.
    pub fn throttle(&self, dev: u64, limits: Option<&Throttle>) -> Result<()> {
        let group = self.group.as_ref().ok_or_else(|| {
            Error::new(Exit::Machine, "cannot slow the disk down without a control group for", &self.name)
                .hint("run thaw as root, or without --disk")
        })?;
        match limits {
            Some(limits) => group.throttle(dev, limits),
            None => group.unthrottle(dev),
        }
    }

    /// Files that its processes map: itself, its libraries, fonts.
    pub fn maps(&self) -> BTreeSet<PathBuf> {
        let maps = self.processes().into_iter().filter_map(|pid| os::process::maps(pid).ok()).flatten();
        maps.filter(|mapping| !mapping.deleted && mapping.path.is_absolute()).map(|mapping| mapping.path).collect()
    }

    /// Waits until all its processes have ended by themselves, because somebody told it to; ends those that are left.
    ///
    /// # Errors
    /// Some are left even so.
    pub fn wait(mut self, grace: Duration) -> Result<()> {
        let until = Instant::now() + grace;
        while Instant::now() < until && !(self.has_ended()? && self.processes().is_empty()) {
            os::interrupt::check()?;
            std::thread::sleep(LOOK);
        }
        self.end()
    }

    /// Sends SIGTERM, then as [`Program::wait`].
    ///
    /// # Errors
    /// As [`Program::wait`].
    pub fn stop(self, grace: Duration) -> Result<()> {
        self.running.signal(libc::SIGTERM)?;
        self.wait(grace)
    }

    fn end(&mut self) -> Result<()> {
        if let Some(group) = &self.group {
            group.kill_all(Duration::ZERO)?;
            self.running.wait()?;
            return Ok(());
        }
        loop {
            let left = self.processes();
            if left.is_empty() && self.has_ended()? {
                return Ok(());
            }
            for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
                // One that ended meanwhile is what is wanted.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nobody is there to be told; what the control group still holds its own end takes care of.
        let _ = self.end();
    }
}

/// The last line that a program wrote to a file, for the error that it did not start.
pub fn last_line(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(300).collect()
}

/// A file for what a program says on stderr.
///
/// # Errors
/// It cannot be made.
pub fn log_file(path: &Path) -> Result<std::os::fd::OwnedFd> {
    let made = std::fs::File::create(path);
    made.map(Into::into).map_err(|cause| Error::on(Exit::Machine, "cannot make", path).because(cause))
}
