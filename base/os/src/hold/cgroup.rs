//! The control group of a run: what it may use, what it used, what is charged to it, and its end.
//!
//! Version 1 (a group in each of memory, cpuacct, blkio and freezer), version 2 (one group) and both mixed look
//! the same from outside. Where a controller is missing, [`RunCgroup::missing`] says so and why; nothing is guessed.
//! Not a container: no limits but [`RunCgroup::throttle`].

mod control;
mod groups;
mod hierarchy;
mod members;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

pub use control::{CpuTimes, DeviceIo, Reclaimed, Throttle, Version};
pub use groups::Ability;

use super::journal::{Entry, Journal, Undo};
use crate::block::device::whole_disk;
use crate::proc::number::dev_text;
use groups::Groups;
use hierarchy::hierarchies;
use members::{PREFIX, kill_everything, members, signal_member};
use model::{Bytes, Error, Exit, Result};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A run's control group. Dropping it kills what is in it and removes it; after `kill -9` of thaw a
/// journal entry is left that does the same.
#[derive(Debug)]
pub struct RunCgroup {
    _entry: Entry,
    groups: Groups,
}

impl RunCgroup {
    /// Makes a group whose name holds this one (letters, digits, `-`, `_`, `.`), thaw's process id and a number.
    ///
    /// # Errors
    /// No control group could be made at all. A part that could not be made is in [`RunCgroup::missing`].
    pub fn create(name: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if name.is_empty() || name.len() > 100 || !name.chars().all(allowed) {
            return Err(Error::new(Exit::Usage, "not a name for a control group", name)
                .hint("use letters, digits, '-', '_' and '.'"));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{name}-{}-{number}", std::process::id());
        let hierarchies = hierarchies()?;
        let paths: Vec<PathBuf> =
            hierarchies.iter().filter(|one| one.is_of_use()).flat_map(|one| one.places(&name)).collect();
        if let Some(there) = paths.iter().find(|path| path.exists()) {
            return Err(Error::on(Exit::Machine, "there is already a control group", there).hint("run `thaw doctor`"));
        }
        let mut groups = Groups::default();
        let entry = Journal::own()?.hold(Undo::RemoveCgroup { paths }, undo, || {
            let trouble = groups.make(&hierarchies, &name);
            groups.explain(&hierarchies, &trouble);
            match groups.dirs.is_empty() {
                false => Ok(()),
                true => Err(Error::new(Exit::Machine, "cannot make a control group", &name)
                    .because(trouble.into_values().next().unwrap_or_else(|| "no hierarchy is mounted".to_owned()))
                    .hint(
                        "run thaw as root; without one, only programs that end by themselves can be measured safely",
                    )),
            }
        })?;
        Ok(Self { _entry: entry, groups })
    }

    /// Which kind of hierarchy holds the memory controller.
    pub fn version(&self) -> Version {
        match (&self.groups.memory, self.groups.dirs.len()) {
            (Some(memory), _) => memory.version(),
            (None, 1) if self.groups.unified.is_some() => Version::V2,
            (None, _) => Version::V1,
        }
    }

    /// What it can do on this machine.
    pub fn can(&self, ability: Ability) -> bool {
        self.groups.can(ability)
    }

    /// What it cannot do here and why, one sentence each.
    pub fn missing(&self) -> &[String] {
        &self.groups.missing
    }

    /// Its directories, one for each hierarchy.
    pub fn paths(&self) -> Vec<&Path> {
        self.groups.dirs.iter().map(PathBuf::as_path).collect()
    }

    /// `cgroup.procs` of each directory, open for writing: a process that writes `0` joins.
    /// For [`crate::spawn::Launch::cgroups`].
    ///
    /// # Errors
    /// Somebody removed the group.
    pub fn enter_fds(&self) -> Result<Vec<OwnedFd>> {
        let open = |dir: &PathBuf| {
            let path = dir.join("cgroup.procs");
            let opened = fs::File::options().write(true).open(&path);
            opened.map(OwnedFd::from).map_err(|cause| Error::on(Exit::Machine, "cannot open", &path).because(cause))
        };
        self.groups.dirs.iter().map(open).collect()
    }

    /// Processes in it and in groups that they made below it (zombies are not listed).
    ///
    /// # Errors
    /// Somebody removed the group.
    pub fn procs(&self) -> Result<Vec<u32>> {
        Ok(members(&self.groups.dirs)?.into_iter().collect())
    }

    /// SIGTERM to all (unless `grace` is zero), up to `grace` for them to end, then SIGKILL until nobody is
    /// left, also of those that fork meanwhile. Returns how many were killed because they did not end
    /// by themselves. Zombies that are children of thaw stay: [`crate::spawn::reap_all`].
    ///
    /// # Errors
    /// Somebody is still there after two minutes: it waits for a device.
    pub fn kill_all(&self, grace: Duration) -> Result<usize> {
        let dirs = &self.groups.dirs;
        if !grace.is_zero() {
            for pid in members(dirs)? {
                signal_member(pid, dirs, Signal::TERM);
            }
            let until = Instant::now() + grace;
            while !members(dirs)?.is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        kill_everything(dirs)
    }

    /// CPU time used so far; `None` without [`Ability::Cpu`].
    ///
    /// # Errors
    /// Somebody removed the group.
    pub fn cpu(&self) -> Result<Option<CpuTimes>> {
        for cpu in &self.groups.cpu {
            if let Some(times) = cpu.counted()? {
                return Ok(Some(times));
            }
        }
        Ok(None)
    }

    /// Block I/O so far by device; `None` without [`Ability::Io`].
    ///
    /// # Errors
    /// Somebody removed the group.
    pub fn io(&self) -> Result<Option<Vec<DeviceIo>>> {
        self.groups.io.as_ref().map(|io| io.counted()).transpose()
    }

    /// Limits reads from a disk (for a partition: its whole disk), packed by `makedev`.
    ///
    /// # Errors
    /// No [`Ability::Io`], or no such disk.
    pub fn throttle(&self, dev: u64, limits: &Throttle) -> Result<()> {
        let disk = dev_text(whole_disk(dev));
        match &self.groups.io {
            Some(io) => io.limit(&disk, limits),
            None => Err(Error::new(Exit::Machine, "cannot throttle the disk", disk)
                .because(self.groups.reason(Ability::Io))
                .hint("leave out `--disk throttle:...`")),
        }
    }

    /// Takes the limits away.
    ///
    /// # Errors
    /// As [`RunCgroup::throttle`].
    pub fn unthrottle(&self, dev: u64) -> Result<()> {
        self.throttle(dev, &Throttle::default())
    }

    /// The limits that are in force on reads from a disk; `None`: none.
    ///
    /// # Errors
    /// No [`Ability::Io`], or somebody removed the group.
    pub fn throttled(&self, dev: u64) -> Result<Option<Throttle>> {
        let Some(io) = &self.groups.io else { return Ok(None) };
        let found = io.limits(&dev_text(whole_disk(dev)))?;
        Ok(Some(found).filter(|found| *found != Throttle::default()))
    }

    /// Evicts what is charged to the group: page cache, file-system metadata, dentries, inodes. Nobody else's.
    /// Call it when no process is left in it.
    ///
    /// # Errors
    /// No [`Ability::Memory`].
    pub fn reclaim(&self) -> Result<Reclaimed> {
        let Some(memory) = &self.groups.memory else {
            return Err(Error::new(Exit::Machine, "cannot evict what is charged to the run", "")
                .because(self.groups.reason(Ability::Memory)));
        };
        if memory.stat()?.unwritten > 0 {
            // Pages that are not written yet cannot go.
            rustix::fs::sync();
        }
        let before = self.charged_cache()?;
        let mut last = u64::MAX;
        // One round leaves what was busy at that moment; rounds that change nothing end it.
        for _ in 0..20 {
            memory.reclaim_once()?;
            let now = memory.usage()?;
            if now == 0 || now >= last {
                break;
            }
            last = now;
        }
        Ok(Reclaimed { before, after: self.charged_cache()? })
    }

    /// Page cache of files charged to it now (without tmpfs).
    ///
    /// # Errors
    /// No [`Ability::Memory`].
    pub fn charged_cache(&self) -> Result<Bytes> {
        match &self.groups.memory {
            Some(memory) => Ok(Bytes(memory.stat()?.cache)),
            None => Err(Error::new(Exit::Machine, "cannot tell what is charged to the run", "")
                .because(self.groups.reason(Ability::Memory))),
        }
    }

    /// Directory of the group in the v2 hierarchy (for its pressure files), if there is one.
    pub fn v2_path(&self) -> Option<PathBuf> {
        self.groups.unified.clone()
    }
}

/// The directory in the v2 hierarchy of the [`RunCgroup`] that a process is in; `None`: it is in none.
pub fn run_group(pid: u32) -> Option<PathBuf> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let found = hierarchy::of(&own).ok()?.into_iter().find(|one| one.unified)?.own?;
    found.file_name()?.to_str()?.starts_with(PREFIX).then_some(found)
}

/// Processes in a group, and below; none of one that is not there.
pub fn processes(group: &Path) -> BTreeSet<u32> {
    members::members(&[group.to_owned()]).unwrap_or_default()
}

/// What control groups can do for a run on this machine, and what is missing and why: for `thaw doctor`.
/// Makes a group and removes it.
pub fn survey() -> (Vec<Ability>, Vec<String>) {
    match RunCgroup::create("survey") {
        Ok(group) => {
            (Ability::ALL.into_iter().filter(|ability| group.can(*ability)).collect(), group.groups.missing.clone())
        }
        Err(error) => (Vec::new(), vec![error.to_string()]),
    }
}

/// Kills and removes the groups that an entry of the journal names.
pub(super) fn undo(undo: &Undo, _entry: &Path) -> Result<()> {
    match undo {
        Undo::RemoveCgroup { paths } => members::remove(paths),
        other => Err(other.is_of_another_hand()),
    }
}
