//! perf events: counters of a process tree, and a sampler that logs tracepoints of it without loss.
//!
//! One ring per CPU; a software event that counts nothing owns it and contributes the records about processes and
//! mappings; all tracepoints write into the same rings. Children inherit the events. A thread empties the
//! rings into memory; nothing is interpreted before the end.
//!
//! Where threads are when a clock ticks, when they leave their CPU or hit a tracepoint ([`StackEvent`]) is in a second
//! ring per CPU: its samples are large, and look otherwise. They hold registers and a piece of the stack; who called
//! whom in the program is found out elsewhere.

mod counter;
mod drain;
mod group;
mod record;
mod ring;
mod stacks;
mod sys;

pub use counter::{Count, Counter};
pub use group::GroupFilter;
pub use record::stack::{StackSample, UserRegisters};
pub use record::{Body, Record, RecordReader, Stamp, parse};
pub use stacks::{Moment, StackEvent};

use counter::refused;
use drain::{Drain, Drained};
use model::{Bytes, Error, Exit, Nanos, Result};
use ring::Ring;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Whose hits are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The process and all that it starts.
    Tree,
    /// Everybody's (block requests complete in somebody else's context).
    System,
}

/// A tracepoint to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its id, from [`crate::tracefs::Format::id`].
    pub id: u64,
    /// Whose hits are sampled.
    pub scope: Scope,
    /// A kernel-side filter (`"order > 0"`), if any.
    pub filter: Option<String>,
}

/// Which mappings are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mappings {
    /// Executable ones: programs and libraries.
    Code,
    /// All: also data files and anonymous memory.
    All,
}

/// What is sampled, and how large the buffers are.
#[derive(Clone, Debug)]
pub struct SamplerOptions {
    /// The tracepoints whose hits are sampled.
    pub points: Vec<Point>,
    /// Data of the ring of each CPU; rounded up to a power of two of pages. Default 4 MiB: a burst of 40,000
    /// records while the thread that empties it does not run.
    pub ring: Bytes,
    /// Which mappings are logged. Default: all.
    pub mappings: Mappings,
    /// Whose processes, names and mappings are logged. Everybody's cost a program less than its own, which follow each
    /// of its threads on and off the CPU. Default: the tree's.
    pub records: Scope,
    /// At what moments registers and stacks of the tree are taken. Default: never.
    pub stacks: Vec<StackEvent>,
    /// Whose clocks and leaves are taken where these are of [`Scope::System`]. Default: everybody's.
    pub group: Option<Arc<GroupFilter>>,
    /// Data of the ring of each CPU for these, rounded up too. Default 16 MiB: 4000 samples with 4 KiB of stack.
    pub stack_ring: Bytes,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            ring: Bytes(4 << 20),
            mappings: Mappings::All,
            records: Scope::Tree,
            stacks: Vec::new(),
            group: None,
            stack_ring: Bytes(16 << 20),
        }
    }
}

/// A running sampler. Dropping it stops it.
#[derive(Debug)]
pub struct Sampler {
    events: Arc<Events>,
    drain: Option<Drain>,
}

/// What a sampler logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The records of each CPU as the kernel wrote them.
    pub cpus: Vec<Vec<u8>>,
    /// The samples with stacks of each CPU as the kernel wrote them; empty: there were no [`SamplerOptions::stacks`].
    pub stacks: Vec<Vec<u8>>,
    /// Which of the [`SamplerOptions::stacks`] an identifier in a sample stands for.
    pub events: HashMap<u64, usize>,
    /// Records that the kernel could not write because a ring was full.
    pub lost: u64,
    /// Sum of the lengths.
    pub bytes: Bytes,
    /// CPU time of the thread that emptied the rings, until it was stopped.
    pub own: Nanos,
}

impl Log {
    /// All records in time order.
    pub fn records(&self) -> Vec<Record<'_>> {
        let mut records: Vec<Record<'_>> = self.cpus.iter().flat_map(|cpu| parse(cpu)).collect();
        // Stable: what a CPU wrote at the same nanosecond stays in its order.
        records.sort_by_key(|record| record.stamp.time_ns);
        records
    }

    /// All samples with stacks in time order, each with the index of its event in [`SamplerOptions::stacks`].
    ///
    /// A tracepoint about another task (`sched_waking`) also says what strangers did to a thread of the tree: the
    /// sample is then of the stranger. Where both are of the tree the kernel delivers the hit twice; it is told once.
    pub fn samples(&self) -> Vec<(usize, StackSample<'_>)> {
        let told_once = self.stacks.iter().flat_map(|cpu| record::stack::once(record::stack::parse(cpu)));
        let mut samples: Vec<_> =
            told_once.filter_map(|sample| Some((*self.events.get(&sample.event)?, sample))).collect();
        samples.sort_by_key(|(_, sample)| sample.stamp.time_ns);
        samples
    }
}

impl Sampler {
    /// Starts to log a process (that waits at its gate) and all that it starts.
    ///
    /// # Errors
    /// Not permitted, no such process, not enough file descriptors (one per CPU and tracepoint) or locked memory.
    pub fn start(pid: u32, options: &SamplerOptions) -> Result<Self> {
        let (events, rings) = Events::open(pid, options)?;
        let events = Arc::new(events);
        let drain = Drain::start(&events, rings)
            .map_err(|cause| Error::new(Exit::Machine, "cannot start a thread", "thaw-perf").because(cause))?;
        let sampler = Self { events, drain: Some(drain) };
        sampler.events.enable()?;
        Ok(sampler)
    }

    /// Stops and hands over what was logged.
    ///
    /// # Errors
    /// The kernel refused to stop, or the thread that empties the rings died.
    pub fn stop(mut self) -> Result<Log> {
        self.events.disable()?;
        let drained = self.drain.take().and_then(Drain::finish);
        let drained = drained.ok_or_else(|| Error::bug("the thread that empties the perf rings died"))?;
        Ok(log(drained, &self.events, self.events.lost()?))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some(drain) = self.drain.take() {
            let _ = self.events.disable();
            drain.finish();
        }
    }
}

/// `lost`: what the kernel counted, if it counts; the records about losses then say the same in other words.
fn log(drained: Drained, events: &Events, lost: Option<u64>) -> Log {
    let Drained { logs: mut cpus, own } = drained;
    let stacks = cpus.split_off(events.plain.min(cpus.len()));
    let told = || -> u64 {
        let count = |record: Record<'_>| if let Body::Lost { count } = record.body { count } else { 0 };
        let plain: u64 = cpus.iter().flat_map(|cpu| parse(cpu)).map(count).sum();
        plain + stacks.iter().map(|cpu| record::stack::lost(cpu)).sum::<u64>()
    };
    // Bytes that are no records would be a loss, too.
    let torn = cpus.iter().chain(&stacks).filter(|cpu| parse(cpu).skip_all() > 0).count() as u64;
    let lost = lost.unwrap_or_else(told) + torn;
    let bytes = Bytes(cpus.iter().chain(&stacks).map(|cpu| cpu.len() as u64).sum());
    Log { cpus, stacks, events: events.stacks.clone(), lost, bytes, own }
}

/// All events of a sampler.
#[derive(Debug)]
struct Events {
    /// Owners of the rings, in the order of the rings: one per CPU, then those with stacks, one per CPU.
    owners: Vec<OwnedFd>,
    /// So many rings are without stacks.
    plain: usize,
    points: Vec<OwnedFd>,
    /// Which of the events with stacks an identifier stands for.
    stacks: HashMap<u64, usize>,
    /// `true`: reading an event tells its losses.
    counts_losses: bool,
}

impl Events {
    fn open(pid: u32, options: &SamplerOptions) -> Result<(Self, Vec<Ring>)> {
        let failed = |cause| refused("cannot open perf events of process", pid, cause);
        let cpus = sys::online_cpus().map_err(failed)?;
        let size = ring_size(options.ring);
        let counts_losses = counts_losses(pid, size);
        let mut events =
            Self { owners: Vec::new(), plain: 0, points: Vec::new(), stacks: HashMap::new(), counts_losses };
        let mut rings = Vec::new();
        for &cpu in &cpus {
            let attr = owner_attr(size, options.mappings, events.read_format());
            let pid_of_records = if options.records == Scope::Tree { pid as i32 } else { -1 };
            let owner = match sys::open(&attr, pid_of_records, cpu) {
                Ok(owner) => owner,
                // Switched off since we asked.
                Err(cause) if cause.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(cause) => return Err(failed(cause)),
            };
            rings.push(map_ring(&owner, size)?);
            for point in &options.points {
                let event = open_point(point, pid, cpu, size, events.read_format());
                let event =
                    event.map_err(|cause| refused("cannot open the perf event of tracepoint", point.id, cause))?;
                sys::set_output(&event, &owner).map_err(failed)?;
                if let Some(filter) = &point.filter {
                    sys::set_filter(&event, filter).map_err(|cause| {
                        Error::new(Exit::Machine, "the kernel does not take the filter", filter).because(cause)
                    })?;
                }
                events.points.push(event);
            }
            events.owners.push(owner);
        }
        events.plain = rings.len();
        for &cpu in &cpus {
            rings.extend(events.open_stacks(pid, cpu, options)?);
        }
        Ok((events, rings))
    }

    /// The events with stacks of a CPU. The first one owns the ring of all.
    fn open_stacks(&mut self, pid: u32, cpu: i32, options: &SamplerOptions) -> Result<Option<Ring>> {
        let size = ring_size(options.stack_ring);
        let mut ring = None;
        for (index, stack) in options.stacks.iter().enumerate() {
            let attr = stack.attr(base_attr(size, self.read_format()));
            let pid = if stack.scope == Scope::Tree { pid as i32 } else { -1 };
            let event = match sys::open(&attr, pid, cpu) {
                Ok(event) => event,
                Err(cause) if cause.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
                Err(cause) => return Err(stack.refused(cause)),
            };
            if let Some(filter) = stack.filter {
                sys::set_filter(&event, filter).map_err(|cause| {
                    Error::new(Exit::Machine, "the kernel does not take the filter", filter).because(cause)
                })?;
            }
            if let Some(group) = options.group.as_ref().filter(|_| stack.takes_group()) {
                group.set(&event).map_err(|cause| stack.refused(cause))?;
            }
            self.stacks.insert(sys::id(&event).map_err(|cause| stack.refused(cause))?, index);
            match self.owners.last().filter(|_| ring.is_some()) {
                Some(owner) => {
                    sys::set_output(&event, owner).map_err(|cause| stack.refused(cause))?;
                    self.points.push(event);
                }
                None => {
                    ring = Some(map_ring(&event, size)?);
                    self.owners.push(event);
                }
            }
        }
        Ok(ring)
    }

    fn read_format(&self) -> u64 {
        if self.counts_losses { sys::FORMAT_LOST } else { 0 }
    }

    fn each(&self, what: &str, act: impl Fn(&OwnedFd) -> io::Result<()>) -> Result<()> {
        self.owners.iter().chain(&self.points).try_for_each(act).map_err(|cause| refused(what, "", cause))
    }

    fn enable(&self) -> Result<()> {
        self.each("cannot start perf events", sys::enable)
    }

    fn disable(&self) -> Result<()> {
        self.each("cannot stop perf events", sys::disable)
    }

    /// Records that did not fit, if this kernel counts them.
    fn lost(&self) -> Result<Option<u64>> {
        let mut lost = 0;
        if !self.counts_losses {
            return Ok(None);
        }
        for event in self.owners.iter().chain(&self.points) {
            let mut numbers = [0; 2];
            sys::read_numbers(event, &mut numbers).map_err(|cause| {
                Error::new(Exit::Machine, "cannot read the losses of a perf event", "").because(cause)
            })?;
            lost += numbers[1];
        }
        Ok(Some(lost))
    }
}

fn ring_size(asked: Bytes) -> usize {
    (asked.0.min(1 << 30) as usize).max(rustix::param::page_size()).next_power_of_two()
}

fn base_attr(size: usize, read_format: u64) -> sys::Attr {
    sys::Attr {
        sample_type: record::SAMPLE_TYPE,
        read_format,
        flags: sys::DISABLED | sys::SAMPLE_ID_ALL | sys::USE_CLOCKID | sys::WATERMARK,
        clockid: libc::CLOCK_MONOTONIC,
        wakeup_watermark: ring::watermark(size) as u32,
        ..sys::Attr::default()
    }
}

/// The event that owns a ring: counts nothing, tells about processes and mappings.
fn owner_attr(size: usize, mappings: Mappings, read_format: u64) -> sys::Attr {
    let base = base_attr(size, read_format);
    // It looks nowhere; who has no rights may have it only if it says so.
    let modest = sys::EXCLUDE_KERNEL | sys::EXCLUDE_HV;
    let tells = modest | sys::INHERIT | sys::MMAP | sys::MMAP2 | sys::COMM | sys::COMM_EXEC | sys::TASK;
    let data = if mappings == Mappings::All { sys::MMAP_DATA } else { 0 };
    sys::Attr { kind: sys::TYPE_SOFTWARE, config: sys::SW_DUMMY, flags: base.flags | tells | data, ..base }
}

fn open_point(point: &Point, pid: u32, cpu: i32, size: usize, read_format: u64) -> io::Result<OwnedFd> {
    let base = base_attr(size, read_format);
    let (pid, inherit) = match point.scope {
        Scope::Tree => (pid as i32, sys::INHERIT),
        Scope::System => (-1, 0),
    };
    let flags = base.flags | inherit;
    let attr = sys::Attr { kind: sys::TYPE_TRACEPOINT, config: point.id, sample_period: 1, flags, ..base };
    sys::open(&attr, pid, cpu)
}

fn counts_losses(pid: u32, size: usize) -> bool {
    sys::open(&owner_attr(size, Mappings::Code, sys::FORMAT_LOST), pid as i32, -1).is_ok()
}

/// A ring of that size, or of the largest smaller one that the limit on locked memory allows.
fn map_ring(owner: &OwnedFd, size: usize) -> Result<Ring> {
    let mut size = size;
    loop {
        match Ring::map(owner, size) {
            Ok(ring) => return Ok(ring),
            Err(cause) if cause.raw_os_error() == Some(libc::EPERM) && size > 32 << 10 => size /= 2,
            Err(cause) => {
                return Err(Error::new(Exit::Machine, "cannot map a perf ring of bytes", size)
                    .because(cause)
                    .hint("run thaw as root, or raise `sysctl kernel.perf_event_mlock_kb`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::{Launch, Running, Stream, spawn_gated};
    use crate::tracefs::{Format, Tracefs};
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    #[test]
    fn rings_are_powers_of_two_of_pages() {
        let page = rustix::param::page_size();
        assert_eq!([1, 4096, 5000, 4 << 20].map(|size| ring_size(Bytes(size))), [page, page.max(4096), 8192, 4 << 20]);
    }

    #[test]
    fn losses_are_told_by_records_where_the_kernel_does_not_count_them() {
        // LOST with identifier, 17 records, and the part that follows every body.
        let mut lost = [&2u32.to_ne_bytes()[..], &0u16.to_ne_bytes(), &56u16.to_ne_bytes()].concat();
        lost.extend([0u64, 17, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
        let events = |plain| Events {
            owners: Vec::new(),
            plain,
            points: Vec::new(),
            stacks: HashMap::new(),
            counts_losses: false,
        };
        let log = |logs: Vec<Vec<u8>>, lost| {
            let plain = logs.len();
            super::log(Drained { logs, own: Nanos(0) }, &events(plain), lost)
        };
        assert_eq!(log(vec![lost.clone(), lost.clone()], None).lost, 34);
        assert_eq!(log(vec![lost.clone()], Some(3)).lost, 3);
        assert_eq!(log(vec![lost[..50].to_vec()], Some(0)).lost, 1, "a torn log is not a whole one");
        let both = Drained { logs: vec![lost.clone(), lost.clone()], own: Nanos(0) };
        assert_eq!(super::log(both, &events(1), None).lost, 34, "those with stacks are counted, too");
    }

    /// A tracepoint, or the reason why this test cannot run.
    fn point(system: &str, name: &str) -> Option<Format> {
        if !testing::root_or_skip() {
            return None;
        }
        let format = Tracefs::open().and_then(|tracefs| tracefs.tracepoint(system, name));
        let format = format.map_err(|error| testing::skip(&error.to_string())).ok()?;
        let allowed = Counter::open(Count::Tracepoint(format.id), std::process::id());
        if !matches!(allowed, Ok(Some(_))) {
            testing::skip(&format!("no perf events: {allowed:?}"));
            return None;
        }
        Some(format)
    }

    fn quiet(argv: &[&str]) -> Launch {
        let mut launch = Launch::new(argv);
        launch.stdout = Stream::Null;
        launch
    }

    #[test]
    fn counters_follow_the_whole_tree_from_exec_on() {
        let Some(exec) = point("sched", "sched_process_exec") else { return };
        let gated = spawn_gated(quiet(&["sh", "-c", "sh -c 'cat /dev/null; true'; cat /dev/null; true"])).unwrap();
        let counter = |count| Counter::open(count, gated.pid()).unwrap();
        let execs = counter(Count::Tracepoint(exec.id)).unwrap();
        let clock = counter(Count::TaskClock).unwrap();
        let faults = counter(Count::PageFaults).unwrap();
        let instructions = counter(Count::Instructions);
        gated.release().unwrap().wait().unwrap();
        assert_eq!(execs.read().unwrap(), 4, "two shells and two cats");
        assert!(clock.read().unwrap() > 0 && faults.read().unwrap() > 100);
        match instructions {
            Some(instructions) => assert!(instructions.read().unwrap() > 100_000),
            None => testing::skip("no hardware counters"),
        }
        assert!(Counter::open(Count::TaskClock, u32::MAX >> 2).is_err(), "there is no such process");
    }

    const PAGES: usize = 2048;

    /// A file of [`PAGES`] pages on a disk, evicted, and its inode number.
    fn cold_file(dir: &Path) -> (PathBuf, u64) {
        let path = dir.join("data");
        std::fs::write(&path, vec![b'x'; PAGES * 4096]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let ino = file.metadata().unwrap().ino();
        (path, ino)
    }

    fn reader(path: &Path) -> Launch {
        let mut launch = quiet(&["sh", "-c", "cat \"$0\"; true"]);
        launch.argv.push(path.into());
        launch
    }

    /// Pages of the file that came into the cache, in order, and who brought them.
    fn fills(log: &Log, format: &Format, ino: u64) -> (Vec<u64>, Vec<Stamp>) {
        let (mut pages, mut stamps) = (Vec::new(), Vec::new());
        for record in log.records() {
            let Body::Sample { point, raw } = record.body else { continue };
            let value = |name: &str| format.field(name).unwrap().get(raw).unwrap();
            if u64::from(point) == format.id && value("i_ino") == ino {
                pages.extend((0..1 << value("order")).map(|page| value("index") + page));
                stamps.push(record.stamp);
            }
        }
        pages.sort();
        (pages, stamps)
    }

    fn tree(format: &Format) -> Point {
        Point { id: format.id, scope: Scope::Tree, filter: None }
    }

    #[test]
    fn every_page_that_a_grandchild_brings_in_is_logged() {
        let Some(add) = point("filemap", "mm_filemap_add_to_page_cache") else { return };
        let Some(done) = point("block", "block_rq_complete") else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, ino) = cold_file(home.path());
        let gated = spawn_gated(reader(&path)).unwrap();
        let pid = gated.pid();
        let system = Point { id: done.id, scope: Scope::System, filter: None };
        let options = SamplerOptions { points: vec![tree(&add), system], ..SamplerOptions::default() };
        let sampler = Sampler::start(pid, &options).unwrap();
        // This process is not of the tree.
        let other = tempfile::tempdir_in("/var/tmp").unwrap();
        let (other, other_ino) = cold_file(other.path());
        std::fs::read(other).unwrap();
        let mut running: Running = gated.release().unwrap();
        let ended = running.wait().unwrap();
        let log = sampler.stop().unwrap();

        assert_eq!(log.lost, 0);
        assert_eq!(log.bytes, Bytes(log.cpus.iter().map(|cpu| cpu.len() as u64).sum()));
        let (pages, stamps) = fills(&log, &add, ino);
        assert_eq!(pages, (0..PAGES as u64).collect::<Vec<_>>());
        assert_eq!(fills(&log, &add, other_ino).0, [] as [u64; 0]);
        let records = log.records();
        assert!(records.is_sorted_by_key(|record| record.stamp.time_ns));
        let cat = stamps[0].pid;
        assert!(stamps.iter().all(|stamp| stamp.pid == cat && stamp.tid == cat && cat != pid));
        assert!(stamps.iter().all(|stamp| (running.t0_ns()..ended.at_ns).contains(&stamp.time_ns)));
        let has = |wanted: &dyn Fn(&Body<'_>) -> bool| records.iter().any(|record| wanted(&record.body));
        assert!(has(&|body| matches!(body, Body::Fork { pid, parent, .. } if *pid == cat && *parent == running.pid())));
        assert!(has(&|body| matches!(body, Body::Comm { pid, comm: b"cat", exec: true, .. } if *pid == cat)));
        assert!(has(&|body| matches!(body, Body::Exit { pid, .. } if *pid == cat)));
        assert!(has(&|body| matches!(body, Body::Mmap2 { path, ino, .. } if path.ends_with(b"/cat") && *ino > 0)));
        assert!(has(&|body| matches!(body, Body::Sample { point, .. } if u64::from(*point) == done.id)));
    }

    #[test]
    fn what_does_not_fit_is_counted_exactly() {
        let Some(add) = point("filemap", "mm_filemap_add_to_page_cache") else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, ino) = cold_file(home.path());
        // Only fills of this file, so that the sum is known; the owner's own records may be lost, too.
        let filter = Some(format!("i_ino == {ino}"));
        let gated = spawn_gated(reader(&path)).unwrap();
        let points = vec![Point { id: add.id, scope: Scope::Tree, filter }];
        let options = SamplerOptions { points, ring: Bytes(4096), ..SamplerOptions::default() };
        // No thread empties these rings.
        let (events, mut rings) = Events::open(gated.pid(), &options).unwrap();
        events.enable().unwrap();
        gated.release().unwrap().wait().unwrap();
        events.disable().unwrap();
        if !events.counts_losses {
            return testing::skip("this kernel does not count the losses of an event");
        }
        let mut logs = vec![Vec::new(); rings.len()];
        rings.iter_mut().zip(&mut logs).for_each(|(ring, log)| ring.drain(log));
        let lost_points: u64 = events
            .points
            .iter()
            .map(|event| {
                let mut numbers = [0; 2];
                sys::read_numbers(event, &mut numbers).unwrap();
                numbers[1]
            })
            .sum();
        let log = log(Drained { logs, own: Nanos(0) }, &events, events.lost().unwrap());
        let (_, stamps) = fills(&log, &add, ino);
        assert!(log.lost >= lost_points && lost_points > 0);
        // Large folios make fewer records than pages.
        let hits: u64 = events
            .points
            .iter()
            .map(|event| {
                let mut numbers = [0; 2];
                sys::read_numbers(event, &mut numbers).unwrap();
                numbers[0]
            })
            .sum();
        assert_eq!(stamps.len() as u64 + lost_points, hits);
    }

    #[test]
    fn clocks_of_cpus_tick_for_a_control_group_alone_where_they_are_told_to() {
        if !testing::root_or_skip() {
            return;
        }
        let group = match crate::cgroup::RunCgroup::create("test-perf") {
            Ok(group) => group,
            Err(error) => return testing::skip(&error.to_string()),
        };
        let spins = || quiet(&["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"]);
        let ticked = |with_filter: bool| {
            let mut launch = spins();
            launch.cgroups = group.enter_fds().unwrap();
            let (ours, strange) = (spawn_gated(launch).unwrap(), spawn_gated(spins()).unwrap());
            let (pid, stranger) = (ours.pid(), strange.pid());
            assert_eq!(crate::cgroup::run_group(stranger), None);
            let Some(directory) = crate::cgroup::run_group(pid) else {
                return Err("no control groups of version 2".into());
            };
            assert_eq!(Some(&directory), group.v2_path().as_ref());
            let filter = GroupFilter::load(&directory).map_err(|error| error.to_string())?;
            let clock = StackEvent {
                moment: Moment::Clock(Nanos(1_000_000)),
                stack: Bytes(512),
                frames: 0,
                kernel: true,
                filter: None,
                scope: Scope::System,
            };
            clock.check().map_err(|error| error.to_string())?;
            let group = with_filter.then(|| Arc::new(filter));
            let sampler =
                Sampler::start(pid, &SamplerOptions { stacks: vec![clock], group, ..SamplerOptions::default() });
            let sampler = sampler.unwrap();
            let both = [ours, strange].map(|gated| gated.release().unwrap());
            both.into_iter().for_each(|mut running| assert_eq!(running.wait().unwrap().code, Some(0)));
            let log = sampler.stop().unwrap();
            let of = |wanted: u32| log.samples().iter().filter(|(_, sample)| sample.stamp.pid == wanted).count();
            let all = log.samples().len();
            Ok::<_, String>((of(pid), of(stranger), all))
        };
        match (ticked(true), ticked(false)) {
            (Ok((ours, strange, all)), Ok((_, strange_too, _))) => {
                assert!(ours > 0 && strange_too > 0, "{ours} {strange_too}");
                assert_eq!((strange, all), (0, ours), "only the group's");
            }
            (Err(why), _) | (_, Err(why)) => testing::skip(&why),
        }
    }

    #[test]
    fn a_filter_that_the_kernel_does_not_know_is_an_error() {
        let Some(add) = point("filemap", "mm_filemap_add_to_page_cache") else { return };
        let filter = Some("no_such_field == 1".to_owned());
        let points = vec![Point { id: add.id, scope: Scope::Tree, filter }];
        let error = Sampler::start(std::process::id(), &SamplerOptions { points, ..SamplerOptions::default() });
        assert_eq!(error.unwrap_err().object, "no_such_field == 1");
    }

    #[test]
    fn a_sampler_that_is_dropped_ends_its_thread() {
        let Some(add) = point("filemap", "mm_filemap_add_to_page_cache") else { return };
        let gated = spawn_gated(quiet(&["true"])).unwrap();
        let options = SamplerOptions { points: vec![tree(&add)], ..SamplerOptions::default() };
        let sampler = Sampler::start(gated.pid(), &options).unwrap();
        let events = Arc::downgrade(&sampler.events);
        drop(sampler);
        assert_eq!(events.strong_count(), 0, "the thread still holds the events");
    }
}
