//! The control group of a run: what it may use, what it used, what is charged to it, and its end.
//!
//! Version 1 (a group in each of memory, cpuacct, blkio and freezer), version 2 (one group) and both mixed look
//! the same from outside. Where a controller is missing, [`RunCgroup::missing`] says so and why; nothing is guessed.
//! Not a container: no limits but [`RunCgroup::throttle`].

use crate::journal::{self, Entry, Undo};
use model::{Bytes, Error, Exit, Nanos, Result};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Every group of ours begins with it; [`remove`] refuses others.
const PREFIX: &str = "thaw-";
/// How long killed processes may take to go away: a disk that is throttled holds them for a while.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which kind of hierarchy holds the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A thing that a run group may be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// Charge page cache to the run and evict what is charged.
    Memory,
    /// Count CPU time of the whole tree.
    Cpu,
    /// Count and throttle block I/O of the whole tree.
    Io,
    /// Kill all processes at once, also those that fork meanwhile.
    KillAtOnce,
}

impl Ability {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Io, Self::KillAtOnce];

    fn needed_for(self) -> &'static str {
        match self {
            Self::Memory => "the `app` state evicts own files one by one instead of all that the program brought in",
            Self::Cpu => "CPU time is known only of processes that are waited for",
            Self::Io => "bytes and requests read are unknown, and the disk cannot be throttled",
            Self::KillAtOnce => "processes that fork while they are killed may take several rounds",
        }
    }
}

/// CPU time of everything that ever ran in the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
    /// Both, as the scheduler counted it.
    pub total: Nanos,
}

/// Block I/O of everything that ever ran in the group, on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceIo {
    /// The device, packed by `makedev`.
    pub dev: u64,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Read requests.
    pub read_requests: u64,
    /// Bytes written.
    pub written_bytes: Bytes,
    /// Write requests.
    pub write_requests: u64,
}

/// Limits on reads from one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Requests per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bps: Option<Bytes>,
}

/// What [`RunCgroup::reclaim`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Charged page cache before.
    pub before: Bytes,
    /// Charged page cache after: what other processes use and what could not be written back.
    pub after: Bytes,
}

/// A controller of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Control {
    V1(PathBuf),
    V2(PathBuf),
}

/// A run's control group. Dropping it kills what is in it and removes it; after `kill -9` of thaw a
/// journal entry is left that does the same.
#[derive(Debug)]
pub struct RunCgroup {
    _entry: Entry,
    groups: Groups,
}

#[derive(Debug, Default)]
struct Groups {
    dirs: Vec<PathBuf>,
    unified: Option<PathBuf>,
    memory: Option<Control>,
    io: Option<Control>,
    cpuacct: Option<PathBuf>,
    missing: Vec<String>,
    /// Why something is missing, without what that means.
    reasons: BTreeMap<Ability, String>,
}

/// A mounted hierarchy and where we are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Where it is mounted.
    mount: PathBuf,
    /// Controllers by name; empty for the unified one.
    controllers: Vec<String>,
    unified: bool,
    /// Directory of the group that thaw itself is in, if it is visible below the mount.
    own: Option<PathBuf>,
}

impl Hierarchy {
    /// Where a new group may go, the best place first: below the root nobody else's limits apply.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        let mut places = vec![self.mount.join(name)];
        places.extend(self.own.as_ref().filter(|own| **own != self.mount).map(|own| own.join(name)));
        places
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|cause| Error::on(Exit::Machine, "cannot write to", path).because(cause))
}

fn hierarchies() -> Result<Vec<Hierarchy>> {
    Ok(parse_hierarchies(&read(Path::new("/proc/self/mountinfo"))?, &read(Path::new("/proc/self/cgroup"))?))
}

fn parse_hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let own: Vec<(&str, &str)> = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((front, back)) = line.split_once(" - ") else { continue };
        let (front, back): (Vec<&str>, Vec<&str>) = (front.split(' ').collect(), back.split(' ').collect());
        let (&[_, _, _, root, point, ..], &[kind, _, options, ..]) = (&front[..], &back[..]) else { continue };
        if kind != "cgroup" && kind != "cgroup2" {
            continue;
        }
        let (unified, mount) = (kind == "cgroup2", PathBuf::from(unescape(point)));
        let controllers: Vec<String> = if unified {
            Vec::new()
        } else {
            options.split(',').filter(|word| !matches!(*word, "rw" | "ro")).map(str::to_owned).collect()
        };
        let mine = own.iter().find(|(names, _)| match unified {
            true => names.is_empty(),
            false => names.split(',').any(|name| controllers.iter().any(|other| other == name)),
        });
        let own = mine.and_then(|(_, path)| Path::new(path).strip_prefix(unescape(root)).ok());
        let own = own.map(|below| mount.join(below));
        // The same hierarchy may be mounted several times; the first one will do.
        if !found.iter().any(|other| other.unified == unified && other.controllers == controllers) {
            found.push(Hierarchy { mount, controllers, unified, own });
        }
    }
    found
}

/// Blanks and such are written as `\040` in mountinfo.
fn unescape(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                plain.push(byte);
                at += 4;
            }
            _ => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

impl Groups {
    /// Makes a directory in every hierarchy that is of use. Returns why not, by controller.
    fn make(&mut self, hierarchies: &[Hierarchy], name: &str) -> BTreeMap<String, String> {
        let mut trouble = BTreeMap::new();
        for hierarchy in hierarchies.iter().filter(|hierarchy| is_of_use(hierarchy)) {
            let mut failure = None;
            let made = hierarchy.places(name).into_iter().find(|place| match fs::create_dir(place) {
                Ok(()) => true,
                Err(cause) => {
                    failure.get_or_insert(format!("cannot create {}: {cause}", place.display()));
                    false
                }
            });
            let Some(made) = made else {
                let names = if hierarchy.unified { vec!["unified".to_owned()] } else { hierarchy.controllers.clone() };
                trouble.extend(names.into_iter().zip(std::iter::repeat(failure.unwrap_or_default())));
                continue;
            };
            self.dirs.push(made.clone());
            let has = |controller: &str| hierarchy.controllers.iter().any(|name| name == controller);
            if hierarchy.unified {
                self.unified = Some(made);
                continue;
            }
            if has("memory") {
                self.memory = Some(Control::V1(made.clone()));
            }
            if has("blkio") {
                count_io(&made);
                self.io = Some(Control::V1(made.clone()));
            }
            if has("cpuacct") {
                self.cpuacct = Some(made);
            }
        }
        trouble
    }

    /// Adds the controllers that the unified group turned out to have.
    fn adopt_unified(&mut self) {
        let Some(unified) = &self.unified else { return };
        let controllers = fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &str| controllers.split_ascii_whitespace().any(|word| word == name);
        if self.memory.is_none() && has("memory") {
            self.memory = Some(Control::V2(unified.clone()));
        }
        if self.io.is_none() && has("io") {
            self.io = Some(Control::V2(unified.clone()));
        }
    }

    fn can(&self, ability: Ability) -> bool {
        let has = |dir: &PathBuf, file: &str| dir.join(file).exists();
        match ability {
            Ability::Memory => self.memory.is_some(),
            Ability::Io => self.io.is_some(),
            Ability::Cpu => self.cpuacct.is_some() || self.unified.as_ref().is_some_and(|dir| has(dir, "cpu.stat")),
            Ability::KillAtOnce => self.dirs.iter().any(|dir| has(dir, "cgroup.kill") || has(dir, "freezer.state")),
        }
    }

    /// Writes down what cannot be done, and why.
    fn explain(&mut self, hierarchies: &[Hierarchy], trouble: &BTreeMap<String, String>) {
        let cannot: Vec<Ability> = Ability::ALL.into_iter().filter(|ability| !self.can(*ability)).collect();
        for ability in cannot {
            let (v1, v2) = match ability {
                Ability::Memory => ("memory", "memory"),
                Ability::Cpu => ("cpuacct", "cpu"),
                Ability::Io => ("blkio", "io"),
                Ability::KillAtOnce => ("freezer", "unified"),
            };
            let mounted = |name: &str| hierarchies.iter().any(|one| one.controllers.iter().any(|other| other == name));
            let reason = if let Some(reason) = trouble.get(v1).or_else(|| trouble.get("unified")) {
                reason.clone()
            } else if mounted(v1) || hierarchies.iter().any(|one| one.unified) {
                format!("the controller {v2} is not enabled for new control groups")
            } else {
                format!("no control group hierarchy with {v1} or {v2} is mounted")
            };
            self.missing.push(format!("{reason}: {}", ability.needed_for()));
            self.reasons.insert(ability, reason);
        }
    }

    fn reason(&self, ability: Ability) -> String {
        self.reasons.get(&ability).cloned().unwrap_or_default()
    }
}

fn is_of_use(hierarchy: &Hierarchy) -> bool {
    let useful = |name: &String| matches!(name.as_str(), "memory" | "cpuacct" | "blkio" | "freezer");
    hierarchy.unified || hierarchy.controllers.iter().any(useful)
}

/// Enables the controllers that a v2 group needs in its parent, as far as that is allowed. They stay enabled: nobody
/// is limited by that, and somebody else may have come to rely on it when we end.
fn enable_controllers(group: &Path) {
    let Some(parent) = group.parent() else { return };
    let words = |file: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(parent.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().map(str::to_owned).collect()
    };
    for name in words("cgroup.controllers").difference(&words("cgroup.subtree_control")) {
        if matches!(name.as_str(), "memory" | "io" | "cpu") {
            // A refusal (processes in the parent, not permitted) leaves the ability missing, and that is said.
            let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{name}"));
        }
    }
}

/// Kernels from 6.10 on count a group's requests to a disk only once some limit was ever set on that disk.
/// "No limit" counts as one, so it is set for all disks; that is never seen again by anybody.
fn count_io(group: &Path) {
    let Ok(disks) = fs::read_dir("/sys/block") else { return };
    for disk in disks.flatten() {
        let text = |file: &str| fs::read_to_string(disk.path().join(file)).unwrap_or_default();
        if text("size").trim() != "0" {
            let _ = fs::write(group.join("blkio.throttle.read_bps_device"), format!("{} 0", text("dev").trim()));
        }
    }
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
            hierarchies.iter().filter(|one| is_of_use(one)).flat_map(|one| one.places(&name)).collect();
        if let Some(there) = paths.iter().find(|path| path.exists()) {
            return Err(Error::on(Exit::Machine, "there is already a control group", there).hint("run `thaw doctor`"));
        }
        let mut groups = Groups::default();
        let entry = journal::hold(Undo::RemoveCgroup { paths }, || {
            let trouble = groups.make(&hierarchies, &name);
            groups.unified.iter().for_each(|group| enable_controllers(group));
            groups.adopt_unified();
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

    /// Its kind.
    pub fn version(&self) -> Version {
        match (&self.groups.memory, self.groups.dirs.len()) {
            (Some(Control::V2(_)), _) | (None, 1) if self.groups.unified.is_some() => Version::V2,
            _ => Version::V1,
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

    /// Its directories.
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
        // The unified hierarchy counts exactly also without a controller; v1 counts the parts in clock ticks.
        if let Some(dir) = &self.groups.unified
            && let Some(times) = cpu_from_stat(&read(&dir.join("cpu.stat"))?)
        {
            return Ok(Some(times));
        }
        let Some(dir) = &self.groups.cpuacct else { return Ok(None) };
        let number = |file: &str| Ok(read(&dir.join(file))?.trim().parse().unwrap_or(0));
        Ok(Some(cpu_from_ticks(number("cpuacct.usage")?, number("cpuacct.usage_user")?, number("cpuacct.usage_sys")?)))
    }

    /// Block I/O so far by device; `None` without [`Ability::Io`].
    ///
    /// # Errors
    /// Somebody removed the group.
    pub fn io(&self) -> Result<Option<Vec<DeviceIo>>> {
        Ok(match &self.groups.io {
            None => None,
            Some(Control::V2(dir)) => Some(io_from_stat(&read(&dir.join("io.stat"))?)),
            Some(Control::V1(dir)) => Some(io_from_blkio(
                &read(&dir.join("blkio.throttle.io_service_bytes_recursive"))?,
                &read(&dir.join("blkio.throttle.io_serviced_recursive"))?,
            )),
        })
    }

    /// Limits reads from a disk (for a partition: its whole disk), packed by `makedev`.
    ///
    /// # Errors
    /// No [`Ability::Io`], or no such disk.
    pub fn throttle(&self, dev: u64, limits: &Throttle) -> Result<()> {
        let disk = whole_disk(dev);
        let disk = format!("{}:{}", rustix::fs::major(disk), rustix::fs::minor(disk));
        let set = |file: PathBuf, text: String| {
            write(&file, &text).map_err(|error| {
                error.hint(format!("is {disk} a disk? `lsblk` shows the numbers (tmpfs and overlays have none)"))
            })
        };
        match &self.groups.io {
            None => Err(Error::new(Exit::Machine, "cannot throttle the disk", disk)
                .because(self.groups.reason(Ability::Io))
                .hint("leave out `--disk throttle:...`")),
            Some(Control::V1(dir)) => {
                let value = |limit: Option<u64>| format!("{disk} {}", limit.unwrap_or(0));
                set(dir.join("blkio.throttle.read_iops_device"), value(limits.iops))?;
                set(dir.join("blkio.throttle.read_bps_device"), value(limits.bps.map(|bps| bps.0)))
            }
            Some(Control::V2(dir)) => {
                let value = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
                let (iops, bps) = (value(limits.iops), value(limits.bps.map(|bps| bps.0)));
                set(dir.join("io.max"), format!("{disk} riops={iops} rbps={bps}"))
            }
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
        let disk = whole_disk(dev);
        let disk = format!("{}:{}", rustix::fs::major(disk), rustix::fs::minor(disk));
        let found = match &self.groups.io {
            None => return Ok(None),
            Some(Control::V1(dir)) => {
                let value = |file: &str| Ok::<_, Error>(limit_v1(&read(&dir.join(file))?, &disk));
                Throttle {
                    iops: value("blkio.throttle.read_iops_device")?,
                    bps: value("blkio.throttle.read_bps_device")?.map(Bytes),
                }
            }
            Some(Control::V2(dir)) => limit_v2(&read(&dir.join("io.max"))?, &disk),
        };
        Ok(Some(found).filter(|found| *found != Throttle::default()))
    }

    /// Evicts what is charged to the group: page cache, file-system metadata, dentries, inodes. Nobody else's.
    /// Call it when no process is left in it.
    ///
    /// # Errors
    /// No [`Ability::Memory`].
    pub fn reclaim(&self) -> Result<Reclaimed> {
        let Some(control) = &self.groups.memory else {
            return Err(Error::new(Exit::Machine, "cannot evict what is charged to the run", "")
                .because(self.groups.reason(Ability::Memory)));
        };
        if memory_stat(control)?.unwritten > 0 {
            // Pages that are not written yet cannot go.
            rustix::fs::sync();
        }
        let before = self.charged_cache()?;
        let mut last = u64::MAX;
        // One round leaves what was busy at that moment; rounds that change nothing end it.
        for _ in 0..20 {
            reclaim_once(control)?;
            let now = usage(control)?;
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
            Some(control) => Ok(Bytes(memory_stat(control)?.cache)),
            None => Err(Error::new(Exit::Machine, "cannot tell what is charged to the run", "")
                .because(self.groups.reason(Ability::Memory))),
        }
    }

    /// Directory of the group in the v2 hierarchy (for its pressure files), if there is one.
    pub fn v2_path(&self) -> Option<PathBuf> {
        self.groups.unified.clone()
    }
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

fn reclaim_once(control: &Control) -> Result<()> {
    let (file, text) = match control {
        Control::V1(dir) => (dir.join("memory.force_empty"), "0".to_owned()),
        Control::V2(dir) => (dir.join("memory.reclaim"), usage(control)?.to_string()),
    };
    match fs::write(&file, text) {
        Ok(()) => Ok(()),
        // It could not evict all of it: the caller looks at what is left.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) => Ok(()),
        Err(cause) => Err(Error::on(Exit::Machine, "cannot write to", &file)
            .because(cause)
            .hint("this kernel cannot evict by control group (v2 needs Linux 5.19)")),
    }
}

/// All that is charged, in bytes.
fn usage(control: &Control) -> Result<u64> {
    let file = match control {
        Control::V1(dir) => dir.join("memory.usage_in_bytes"),
        Control::V2(dir) => dir.join("memory.current"),
    };
    Ok(read(&file)?.trim().parse().unwrap_or(0))
}

#[derive(Debug, PartialEq, Eq)]
struct MemoryStat {
    cache: u64,
    unwritten: u64,
}

fn memory_stat(control: &Control) -> Result<MemoryStat> {
    Ok(match control {
        Control::V1(dir) => parse_memory_stat(&read(&dir.join("memory.stat"))?, Version::V1),
        Control::V2(dir) => parse_memory_stat(&read(&dir.join("memory.stat"))?, Version::V2),
    })
}

fn parse_memory_stat(text: &str, version: Version) -> MemoryStat {
    let value = |name: &str| -> u64 {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        found.unwrap_or(0)
    };
    let (cache, shmem, dirty, writeback) = match version {
        Version::V1 => ("total_cache", "total_shmem", "total_dirty", "total_writeback"),
        Version::V2 => ("file", "shmem", "file_dirty", "file_writeback"),
    };
    MemoryStat { cache: value(cache).saturating_sub(value(shmem)), unwritten: value(dirty) + value(writeback) }
}

fn cpu_from_stat(text: &str) -> Option<CpuTimes> {
    let value = |name: &str| -> Option<Nanos> {
        let micros: u64 = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())?;
        Some(Nanos(micros * 1000))
    };
    Some(CpuTimes { user: value("user_usec")?, system: value("system_usec")?, total: value("usage_usec")? })
}

/// The total is exact; the parts are sampled by the clock tick, so they only say how to divide it.
fn cpu_from_ticks(total: u64, user: u64, system: u64) -> CpuTimes {
    let share = if user + system == 0 { 0.0 } else { user as f64 / (user + system) as f64 };
    let user = ((total as f64 * share) as u64).min(total);
    CpuTimes { user: Nanos(user), system: Nanos(total - user), total: Nanos(total) }
}

/// `254:0` as the number that `stat` gives.
fn device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn io_from_stat(text: &str) -> Vec<DeviceIo> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(dev) = words.next().and_then(device) else { continue };
        let mut io = DeviceIo { dev, ..DeviceIo::default() };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let value = value.parse().unwrap_or(0);
            match name {
                "rbytes" => io.read_bytes = Bytes(value),
                "wbytes" => io.written_bytes = Bytes(value),
                "rios" => io.read_requests = value,
                "wios" => io.write_requests = value,
                _ => {}
            }
        }
        all.push(io);
    }
    all
}

fn io_from_blkio(bytes: &str, requests: &str) -> Vec<DeviceIo> {
    let mut all: BTreeMap<u64, DeviceIo> = BTreeMap::new();
    let mut take = |text: &str, set: fn(&mut DeviceIo, &str, u64)| {
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // "254:0 Read 8388608"; the last line, "Total 8388608", has no device.
            let &[dev, what, value] = &words[..] else { continue };
            let (Some(dev), Ok(value)) = (device(dev), value.parse()) else { continue };
            set(all.entry(dev).or_insert(DeviceIo { dev, ..DeviceIo::default() }), what, value);
        }
    };
    take(bytes, |io, what, value| match what {
        "Read" => io.read_bytes = Bytes(value),
        "Write" => io.written_bytes = Bytes(value),
        _ => {}
    });
    take(requests, |io, what, value| match what {
        "Read" => io.read_requests = value,
        "Write" => io.write_requests = value,
        _ => {}
    });
    all.into_values().collect()
}

/// `254:0 200` of a file that has a line for each disk with a limit.
fn limit_v1(text: &str, disk: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(disk)?.trim().parse().ok()).filter(|limit| *limit > 0)
}

/// `254:0 rbps=max wbps=max riops=200 wiops=max`
fn limit_v2(text: &str, disk: &str) -> Throttle {
    let line = text.lines().find_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
    let value =
        |name: &str| line.unwrap_or_default().split(' ').find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    Throttle { iops: value("riops="), bps: value("rbps=").map(Bytes) }
}

/// The disk that a partition is on; a disk itself as it is.
fn whole_disk(dev: u64) -> u64 {
    let device_dir = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let parent = || {
        fs::metadata(format!("{device_dir}/partition")).ok()?;
        // Resolved first: ".." of the link's own directory is not the disk.
        let disk = fs::canonicalize(&device_dir).ok()?;
        device(fs::read_to_string(disk.parent()?.join("dev")).ok()?.trim())
    };
    parent().unwrap_or(dev)
}

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
fn members(dirs: &[PathBuf]) -> Result<BTreeSet<u32>> {
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
fn signal_member(pid: u32, dirs: &[PathBuf], signal: Signal) {
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
fn kill_everything(dirs: &[PathBuf]) -> Result<usize> {
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
pub(crate) fn remove(paths: &[PathBuf]) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::{Launch, Running, Stream, spawn_gated};
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    const MIXED: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/one /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hierarchies_are_found_with_our_own_place_in_them() {
        let own = "4:memory:/docker/one/two\n2:cpu,cpuacct:/\n8:pids:/user\n0::/user.slice/a.scope\n";
        let found = parse_hierarchies(MIXED, own);
        let picture: Vec<_> = found.iter().map(|one| (one.controllers.join("+"), one.places("thaw-x"))).collect();
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            picture,
            [
                ("cpu+cpuacct".to_owned(), paths(&["/sys/fs/cgroup/cpu,cpuacct/thaw-x"])),
                ("memory".to_owned(), paths(&["/sys/fs/cgroup/memory/thaw-x", "/sys/fs/cgroup/memory/two/thaw-x"])),
                ("pids".to_owned(), paths(&["/sys/fs/cgroup/pids/thaw-x", "/sys/fs/cgroup/pids/user/thaw-x"])),
                (
                    String::new(),
                    paths(&["/sys/fs/cgroup/uni fied/thaw-x", "/sys/fs/cgroup/uni fied/user.slice/a.scope/thaw-x"])
                ),
            ]
        );
        assert_eq!(found.iter().map(is_of_use).collect::<Vec<_>>(), [true, true, false, true]);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_not_used() {
        let found = parse_hierarchies(MIXED, "4:memory:/../other\n");
        assert!(found.iter().all(|one| one.own.is_none()));
    }

    #[test]
    fn block_io_is_read_by_device() {
        let bytes = "254:0 Read 8388608\n254:0 Write 4096\n254:0 Sync 8388608\n254:0 Total 8392704\n7:1 Read 5\nTotal 8392709\n";
        let requests = "254:0 Read 4\n254:0 Write 1\n254:0 Discard 0\nTotal 5\n";
        let dev = rustix::fs::makedev(254, 0);
        let vda = DeviceIo {
            dev,
            read_bytes: Bytes(8388608),
            read_requests: 4,
            written_bytes: Bytes(4096),
            write_requests: 1,
        };
        let lo = DeviceIo { dev: rustix::fs::makedev(7, 1), read_bytes: Bytes(5), ..DeviceIo::default() };
        assert_eq!(io_from_blkio(bytes, requests), [lo, vda]);
        assert_eq!(io_from_blkio("Total 0\n", "Total 0\n"), []);
        let v2 = "254:0 rbytes=8388608 wbytes=4096 rios=4 wios=1 dbytes=0 dios=0\n7:1 rbytes=5\n7:2 \n";
        let none = DeviceIo { dev: rustix::fs::makedev(7, 2), ..DeviceIo::default() };
        assert_eq!(io_from_stat(v2), [vda, lo, none]);
    }

    #[test]
    fn cpu_time_of_both_versions() {
        let v2 = "usage_usec 3585\nuser_usec 585\nsystem_usec 3000\nnice_usec 0\n";
        let times = CpuTimes { user: Nanos(585_000), system: Nanos(3_000_000), total: Nanos(3_585_000) };
        assert_eq!(cpu_from_stat(v2), Some(times));
        assert_eq!(cpu_from_stat("nr_periods 0\n"), None);
        let v1 = CpuTimes { user: Nanos(750), system: Nanos(250), total: Nanos(1000) };
        assert_eq!(cpu_from_ticks(1000, 30, 10), v1);
        assert_eq!(cpu_from_ticks(7, 0, 0).total, Nanos(7));
    }

    #[test]
    fn charged_cache_does_not_count_tmpfs() {
        let v1 = "cache 1\nshmem 1\ndirty 1\ntotal_cache 100\ntotal_shmem 40\ntotal_dirty 2\ntotal_writeback 3\n";
        assert_eq!(parse_memory_stat(v1, Version::V1), MemoryStat { cache: 60, unwritten: 5 });
        let v2 = "anon 9\nfile 100\nfile_mapped 7\nfile_dirty 2\nfile_writeback 0\nshmem 40\n";
        assert_eq!(parse_memory_stat(v2, Version::V2), MemoryStat { cache: 60, unwritten: 2 });
    }

    /// A group, or the reason why this test cannot run.
    fn group(name: &str, needed: &[Ability]) -> Option<RunCgroup> {
        if !testing::root_or_skip() {
            return None;
        }
        let group = match RunCgroup::create(name) {
            Ok(group) => group,
            Err(error) => {
                testing::skip(&error.to_string());
                return None;
            }
        };
        if let Some(missing) = needed.iter().find(|ability| !group.can(**ability)) {
            testing::skip(&format!("control groups without {missing:?}: {:?}", group.missing()));
            return None;
        }
        Some(group)
    }

    fn start(group: &RunCgroup, script: &str, argument: &Path) -> (Running, io::PipeReader) {
        let (read, write) = io::pipe().unwrap();
        let mut launch = Launch::new(["sh", "-c", script]);
        launch.argv.push(argument.into());
        launch.stdout = Stream::Fd(write.into());
        launch.cgroups = group.enter_fds().unwrap();
        (spawn_gated(launch).unwrap().release().unwrap(), read)
    }

    fn say(pipe: &mut io::PipeReader) -> String {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn names_are_checked() {
        for name in ["", "a/b", "..\n", "a b"] {
            assert_eq!(RunCgroup::create(name).unwrap_err().exit, Exit::Usage, "{name:?}");
        }
    }

    #[test]
    fn a_program_is_in_its_group_from_its_first_instruction_and_the_group_goes_away() {
        let Some(group) = group("join", &[]) else { return };
        let (mut running, mut out) = start(&group, "cat /proc/self/cgroup; (cat /proc/self/cgroup &)", Path::new(""));
        running.wait().unwrap();
        let text = say(&mut out);
        let paths: Vec<PathBuf> = group.paths().iter().map(|path| path.to_path_buf()).collect();
        let name = paths[0].file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(text.matches(&name).count(), 2 * paths.len(), "{text}");
        drop(group);
        assert!(paths.iter().all(|path| !path.exists()));
    }

    /// A tree that is hard to kill: sleepers, some deaf to SIGTERM, and comets, processes that end at once
    /// after they started the next one, so that a list of processes is old before it is used.
    const HYDRA: &str = "
        comet() { [ -e \"$0\" ] && comet & }
        comet; comet
        sleep 1000 & (setsid sleep 1000 &) ; (trap '' TERM; sleep 1000 & sleep 1000) &
        echo ready; exec >&-; sleep 1000";

    #[test]
    fn a_tree_that_forks_while_it_is_killed_is_emptied() {
        let Some(group) = group("hydra", &[Ability::KillAtOnce]) else { return };
        let all = group.groups.dirs.clone();
        let frozen_only: Vec<PathBuf> = all.iter().filter(|dir| dir.join("freezer.state").exists()).cloned().collect();
        for dirs in [&all, &frozen_only] {
            if dirs.is_empty() {
                testing::skip("no v1 freezer: only cgroup.kill was tested");
                continue;
            }
            // The comets end when this file is gone, whatever becomes of the test.
            let alive = tempfile::NamedTempFile::new().unwrap();
            let (mut running, mut out) = start(&group, HYDRA, alive.path());
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            assert!(group.procs().unwrap().len() >= 5);
            assert!(kill_everything(dirs).unwrap() >= 5);
            assert!(group.procs().unwrap().is_empty());
            assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
        }
    }

    #[test]
    fn those_who_listen_to_sigterm_are_not_killed() {
        let Some(group) = group("polite", &[]) else { return };
        let (mut running, mut out) =
            start(&group, "trap 'exit 5' TERM; echo ready; exec >&-; while :; do sleep 0.01; done", Path::new(""));
        assert_eq!(say(&mut out), "ready\n");
        assert_eq!(group.kill_all(Duration::from_secs(600)).unwrap(), 0);
        assert_eq!(running.wait().unwrap().code, Some(5));
    }

    #[test]
    fn those_who_do_not_are() {
        let Some(group) = group("deaf", &[]) else { return };
        let (mut running, mut out) =
            start(&group, "trap '' TERM; echo ready; exec >&-; while :; do sleep 1000; done", Path::new(""));
        assert_eq!(say(&mut out), "ready\n");
        assert!(group.kill_all(Duration::from_millis(10)).unwrap() >= 1);
        assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
        assert_eq!(group.kill_all(Duration::ZERO).unwrap(), 0, "nobody is left");
    }

    #[test]
    fn groups_that_the_program_made_go_too() {
        let Some(group) = group("nested", &[]) else { return };
        let below = group.paths()[0].join("below");
        let script = "mkdir \"$0\"; echo 0 > \"$0/cgroup.procs\"; sleep 1000 >&- & echo ready; exec >&-; wait";
        let (running, mut out) = start(&group, script, &below);
        assert_eq!(say(&mut out), "ready\n");
        assert!(group.procs().unwrap().contains(&running.pid()));
        drop(group);
        assert!(!below.exists());
    }

    #[test]
    fn what_a_killed_thaw_left_is_mended() {
        let Some(group) = group("left", &[]) else { return };
        let paths: Vec<PathBuf> = group.paths().iter().map(|path| path.to_path_buf()).collect();
        let (mut running, mut out) = start(&group, "sleep 1000 >&- & echo ready; exec >&-; wait", Path::new(""));
        assert_eq!(say(&mut out), "ready\n");
        // What `thaw doctor` does with the entry, here while its owner lives.
        remove(&paths).unwrap();
        assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
        assert!(paths.iter().all(|path| !path.exists()));
        remove(&paths).unwrap();
    }

    #[test]
    fn other_peoples_groups_and_directories_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("thaw-not-a-group");
        fs::create_dir(&path).unwrap();
        assert!(remove(std::slice::from_ref(&path)).is_err());
        assert!(path.exists());
        if let Some(own) = hierarchies().unwrap().into_iter().find_map(|one| one.own) {
            assert!(remove(&[own]).is_err());
        }
    }

    #[test]
    fn cpu_time_of_the_whole_tree_is_counted() {
        let Some(group) = group("burn", &[Ability::Cpu]) else { return };
        let script = "(i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done) & wait";
        let (mut running, _out) = start(&group, script, Path::new(""));
        running.wait().unwrap();
        let times = group.cpu().unwrap().unwrap();
        assert!(times.total > Nanos(0));
        assert!(times.user.0.abs_diff(times.total.0 - times.system.0) <= 2000, "{times:?}");
    }

    /// A file of 8 MiB on a disk, written out and evicted.
    fn cold_file(dir: &Path) -> Option<fs::File> {
        let path = dir.join("data");
        fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        if !Path::new(&format!("/sys/dev/block/{}", numbers(file.metadata().unwrap().dev()))).exists() {
            testing::skip("the temporary directory is not on a disk");
            return None;
        }
        evict(&file);
        Some(file)
    }

    fn evict(file: &fs::File) {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    fn numbers(dev: u64) -> String {
        format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
    }

    fn resident(path: &Path) -> usize {
        // SAFETY: a private read-only mapping of a file that nobody truncates; mincore fills one byte per page.
        unsafe {
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            let len = file.metadata().unwrap().len() as usize;
            let map = rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::PRIVATE,
                &file,
                0,
            )
            .unwrap();
            let mut pages = vec![0u8; len.div_ceil(4096)];
            assert_eq!(libc::mincore(map, len, pages.as_mut_ptr()), 0);
            rustix::mm::munmap(map, len).unwrap();
            pages.iter().filter(|page| **page & 1 == 1).count()
        }
    }

    #[test]
    fn block_io_of_the_tree_is_counted() {
        let Some(group) = group("io", &[Ability::Io]) else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(_file) = cold_file(home.path()) else { return };
        let (mut running, _out) = start(&group, "cat \"$0\" >/dev/null", &home.path().join("data"));
        running.wait().unwrap();
        let io = group.io().unwrap().unwrap();
        let read: Bytes = io.iter().map(|io| io.read_bytes).sum();
        assert!(read >= Bytes(8 << 20), "{io:?}");
        assert!(io.iter().any(|io| io.read_requests > 0));
    }

    #[test]
    fn limits_are_set_and_taken_away() {
        let Some(group) = group("throttle", &[Ability::Io]) else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let dev = fs::metadata(home.path()).unwrap().dev();
        let limits = Throttle { iops: Some(200), bps: Some(Bytes(30_000_000)) };
        if let Err(error) = group.throttle(dev, &limits) {
            return testing::skip(&error.to_string());
        }
        let disk = numbers(whole_disk(dev));
        let shows = |file: &str| {
            fs::read_to_string(group.paths().iter().find(|dir| dir.join(file).exists()).unwrap().join(file)).unwrap()
        };
        match &group.groups.io {
            Some(Control::V1(_)) => {
                assert_eq!(shows("blkio.throttle.read_iops_device"), format!("{disk} 200\n"));
                assert_eq!(shows("blkio.throttle.read_bps_device"), format!("{disk} 30000000\n"));
                group.unthrottle(dev).unwrap();
                assert_eq!(shows("blkio.throttle.read_iops_device") + &shows("blkio.throttle.read_bps_device"), "");
            }
            _ => {
                assert!(shows("io.max").contains("rbps=30000000") && shows("io.max").contains("riops=200"));
                group.unthrottle(dev).unwrap();
                assert_eq!(shows("io.max"), "");
            }
        }
        assert!(group.throttle(rustix::fs::makedev(0, 1), &limits).unwrap_err().hint.is_some(), "not a disk");
    }

    #[test]
    fn reclaim_evicts_what_the_program_read_and_nothing_else() {
        let Some(group) = group("reclaim", &[Ability::Memory]) else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(theirs) = cold_file(home.path()) else { return };
        let (their_path, our_path) = (home.path().join("data"), home.path().join("ours"));
        fs::write(&our_path, vec![b'y'; 4 << 20]).unwrap();
        let ours = fs::File::open(&our_path).unwrap();
        ours.sync_all().unwrap();
        evict(&theirs);
        let (mut running, _out) = start(&group, "cat \"$0\" >/dev/null", &their_path);
        running.wait().unwrap();
        assert_eq!((resident(&their_path), resident(&our_path)), (2048, 1024));
        assert!(group.charged_cache().unwrap() >= Bytes(8 << 20));

        let done = group.reclaim().unwrap();
        assert!(done.before >= Bytes(8 << 20) && done.after < done.before, "{done:?}");
        assert_eq!((resident(&their_path), resident(&our_path)), (0, 1024));
    }

    #[test]
    fn the_survey_leaves_nothing() {
        if !testing::root_or_skip() {
            return;
        }
        let (can, missing) = survey();
        assert!(!can.is_empty() || !missing.is_empty());
        let left = |one: Hierarchy| fs::read_dir(one.mount).into_iter().flatten().flatten();
        let mine = format!("{PREFIX}survey-{}-", std::process::id());
        assert!(
            !hierarchies()
                .unwrap()
                .into_iter()
                .flat_map(left)
                .any(|entry| entry.file_name().to_string_lossy().starts_with(&mine))
        );
    }
}
