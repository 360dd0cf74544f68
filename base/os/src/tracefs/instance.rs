//! Trace buffers of our own: tracepoints of a process tree without perf events.
//!
//! Two instances: one follows the tree by process id, the other one takes what happens in
//! anybody's context (a block request completes wherever the interrupt arrives).

use super::pages::{self, Layout};
use super::{Format, Tracefs};
use crate::hold::journal::{Entry, Journal, Undo};
use crate::perf::Stamp;
use model::{Bytes, Error, Exit, Nanos, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Every instance of ours begins with it; [`remove`] refuses others.
const PREFIX: &str = "thaw-";
/// How full a buffer is when its reader wakes: rarely enough not to disturb, early enough not to lose.
const WAKE_PERCENT: &str = "25";

/// What an instance logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceLog {
    /// Events in time order.
    pub events: Vec<Event>,
    /// Events that the kernel overwrote or dropped.
    pub lost: u64,
    /// Bytes read from the kernel.
    pub bytes: Bytes,
    /// CPU time of the threads that read, until they were stopped.
    pub own: Nanos,
}

/// A tracepoint hit. `stamp.pid` is 0: a trace buffer knows only the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When (CLOCK_MONOTONIC), which thread, which CPU.
    pub stamp: Stamp,
    /// Id of the tracepoint (its `common_type`).
    pub point: u16,
    /// Its fields; read them with [`Format`].
    pub raw: Vec<u8>,
}

/// Running trace buffers. Dropping them stops and removes them.
#[derive(Debug)]
pub struct Instance {
    buffers: Vec<Buffer>,
}

impl Instance {
    /// Starts to log a process (that waits at its gate) and all that it starts, with the tracepoints `tree`, and the
    /// hits of everybody with the tracepoints `system`, each with the size of its buffer per CPU. `name` tells it from
    /// others in `instances/`. Threads that the kernel makes for a process by itself (workers of io_uring) are not
    /// followed.
    ///
    /// # Errors
    /// The kernel allows no instances, or has no such tracepoint.
    pub fn start(
        tracefs: &Tracefs,
        name: &str,
        pid: u32,
        tree: (&[Format], Bytes),
        system: (&[Format], Bytes),
    ) -> Result<Self> {
        let mut buffers = Vec::new();
        for ((points, size), pid) in [(tree, Some(pid)), (system, None)] {
            if !points.is_empty() {
                buffers.push(Buffer::start(tracefs, name, pid, points, size)?);
            }
        }
        Ok(Self { buffers })
    }

    /// Stops it and hands over what was logged.
    ///
    /// # Errors
    /// The kernel refused to stop, or the instance could not be removed.
    pub fn stop(self) -> Result<InstanceLog> {
        let mut log = InstanceLog::default();
        for buffer in self.buffers {
            buffer.stop(&mut log)?;
        }
        log.events.sort_by_key(|event| event.stamp.time_ns);
        Ok(log)
    }
}

/// One instance in tracefs with its reader. Fields drop in this order: a buffer that is read cannot be removed.
#[derive(Debug)]
struct Buffer {
    reader: Reader,
    tracefs: Tracefs,
    directory: String,
    layout: Layout,
    entry: Entry,
}

impl Buffer {
    fn start(tracefs: &Tracefs, name: &str, pid: Option<u32>, points: &[Format], size: Bytes) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let plain = name.strip_prefix(PREFIX).unwrap_or(name).replace('/', "-");
        let name = format!("{PREFIX}{plain}-{}-{number}", std::process::id());
        let directory = format!("instances/{name}");
        let failed = |cause: io::Error| Error::new(Exit::Machine, "cannot trace with tracefs", &name).because(cause);
        let tracefs = Tracefs { root: tracefs.root.try_clone().map_err(failed)? };
        let layout = Layout::parse(&tracefs.read("events/header_page").map_err(failed)?).ok_or_else(|| {
            Error::new(Exit::Machine, "cannot read this kernel's trace buffers", "events/header_page")
                .hint("use another engine: `--engine perf` or `--engine probe`")
        })?;
        let entry = Journal::own()?.hold(Undo::RemoveTracefsInstance { name: name.clone() }, undo, || {
            rustix::fs::mkdirat(&tracefs.root, &directory, Mode::RWXU).map_err(|cause| failed(cause.into()))?;
            configure(&tracefs, &directory, pid, points, size)
        })?;
        let reader = Reader::start(&tracefs, &directory, layout).map_err(failed)?;
        tracefs.write(&format!("{directory}/tracing_on"), "1")?;
        Ok(Self { reader, tracefs, directory, layout, entry })
    }

    fn stop(mut self, log: &mut InstanceLog) -> Result<()> {
        self.tracefs.write(&format!("{}/tracing_on", self.directory), "0")?;
        let cpus = self.reader.finish();
        log.own += self.reader.own;
        let mut gap = pages::Gap::default();
        for cpu in &cpus {
            for page in &cpu.pages {
                log.bytes += Bytes(page.len() as u64);
                let here = pages::decode(page, &self.layout, |time_ns, data| {
                    if let Some(event) = event(time_ns, cpu.number, data) {
                        log.events.push(event);
                    }
                });
                gap.events += here.events;
                gap.more |= here.more;
            }
        }
        // What the kernel counted itself; what the pages say can only be less exact.
        let counted: u64 = cpus.iter().map(|cpu| lost(&self.stats(cpu.number))).sum();
        log.lost += counted.max(gap.events).max(u64::from(gap.more));
        // An instance with open files cannot be removed.
        drop(cpus);
        self.entry.undo()
    }

    fn stats(&self, cpu: u32) -> String {
        self.tracefs.read(&format!("{}/per_cpu/cpu{cpu}/stats", self.directory)).unwrap_or_default()
    }
}

fn event(time_ns: u64, cpu: u32, data: &[u8]) -> Option<Event> {
    // The common fields of all tracepoints: type (2 bytes), flags, preemption, thread (4 bytes).
    let point = u16::from_ne_bytes(data.get(..2)?.try_into().ok()?);
    let tid = u32::from_ne_bytes(data.get(4..8)?.try_into().ok()?);
    Some(Event { stamp: Stamp { time_ns, pid: 0, tid, cpu }, point, raw: data.to_vec() })
}

/// Sum of what `per_cpu/cpuN/stats` says is lost.
fn lost(stats: &str) -> u64 {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "overrun" | "commit overrun" | "dropped events")
            .then(|| value.trim().parse::<u64>().ok())?
    };
    stats.lines().filter_map(value).sum()
}

fn configure(tracefs: &Tracefs, directory: &str, pid: Option<u32>, points: &[Format], size: Bytes) -> Result<()> {
    let set = |file: &str, text: &str| tracefs.write(&format!("{directory}/{file}"), text);
    set("tracing_on", "0")?;
    set("trace_clock", "mono")?;
    set("buffer_size_kb", &size.0.div_ceil(1024).max(64).to_string())?;
    // Kernels before 5.0 do not have it; they wake the reader with every page.
    let _ = set("buffer_percent", WAKE_PERCENT);
    if let Some(pid) = pid {
        set("options/event-fork", "1")?;
        set("set_event_pid", &pid.to_string())?;
    }
    for point in points {
        set(&format!("events/{}/{}/enable", point.system, point.name), "1")?;
    }
    Ok(())
}

/// What was read from one CPU's buffer.
#[derive(Debug)]
struct Cpu {
    number: u32,
    file: File,
    pages: Vec<Box<[u8]>>,
}

impl Cpu {
    /// Reads all that is there; `false`: it cannot be read any more.
    fn drain(&mut self, layout: &Layout, page: &mut [u8]) -> bool {
        loop {
            match rustix::io::read(&self.file, &mut *page) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return true,
                Ok(len) => self.pages.push(layout.used(&page[..len]).into()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// The thread that empties the buffers.
#[derive(Debug)]
struct Reader {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<(Vec<Cpu>, Nanos)>>,
    /// CPU time that the thread had when it was stopped, once it has ended.
    own: Nanos,
}

impl Reader {
    fn start(tracefs: &Tracefs, directory: &str, layout: Layout) -> io::Result<Self> {
        let mut cpus = Vec::new();
        for name in tracefs.names(&format!("{directory}/per_cpu"))? {
            let Some(number) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) else { continue };
            let path = format!("{directory}/per_cpu/{name}/trace_pipe_raw");
            let file = tracefs.open_file(&path, OFlags::RDONLY | OFlags::NONBLOCK)?;
            cpus.push(Cpu { number, file, pages: Vec::new() });
        }
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("thaw-tracefs".to_owned())
            .spawn(move || read_until(&stopped, cpus, &layout))?;
        Ok(Self { stop, thread: Some(thread), own: Nanos(0) })
    }

    /// Reads what is left and ends.
    fn finish(&mut self) -> Vec<Cpu> {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let (cpus, own) = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        self.own += own;
        cpus
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What it read, and the CPU time that it had when it was stopped.
fn read_until(stop: &OwnedFd, mut cpus: Vec<Cpu>, layout: &Layout) -> (Vec<Cpu>, Nanos) {
    let mut page = vec![0u8; layout.page_size];
    let mut works = true;
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
        if works {
            fds.extend(cpus.iter().map(|cpu| PollFd::new(&cpu.file, PollFlags::IN)));
        }
        // Looks also without being woken: some kernels wake for whole pages only.
        let every = rustix::time::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let polled = rustix::event::poll(&mut fds, Some(&every));
        let stopped = !fds[0].revents().is_empty() || polled.is_err_and(|cause| cause != rustix::io::Errno::INTR);
        drop(fds);
        let own = crate::threads::own_cpu_time();
        // Files that fail would be "readable" for ever; their losses show in the kernel's statistics.
        for cpu in &mut cpus {
            works &= cpu.drain(layout, &mut page);
        }
        if stopped {
            return (cpus, own);
        }
    }
}

/// Removes what an entry of the journal names.
pub(crate) fn undo(undo: &Undo, _entry: &std::path::Path) -> Result<()> {
    match undo {
        Undo::RemoveTracefsInstance { name } => remove(name),
        other => Err(other.is_of_another_hand()),
    }
}

/// Removes an instance of ours; one that is not there is fine.
///
/// # Errors
/// A name that is not ours, no tracefs, or somebody is using it.
fn remove(name: &str) -> Result<()> {
    if !name.starts_with(PREFIX) || name.contains('/') {
        return Err(Error::new(Exit::Machine, "this is not a tracefs instance of thaw's", name));
    }
    let tracefs = Tracefs::open()?;
    let path = format!("instances/{name}");
    let mut removed = Err(rustix::io::Errno::BUSY);
    for _ in 0..500 {
        removed = rustix::fs::unlinkat(&tracefs.root, &path, AtFlags::REMOVEDIR);
        if removed != Err(rustix::io::Errno::BUSY) {
            break;
        }
        // A program that another thread starts at this moment holds copies of our files until its exec.
        std::thread::sleep(Duration::from_millis(10));
    }
    match removed {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(cause) => Err(Error::new(Exit::Machine, "cannot remove the tracefs instance", name)
            .because(io::Error::from(cause))
            .hint("somebody has one of its files open: `fuser -v` tells who")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::{Launch, spawn_gated};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const SIZE: Bytes = Bytes(4 << 20);

    #[test]
    fn losses_are_summed() {
        let stats = "entries: 5\noverrun: 1\ncommit overrun: 20\nbytes: 9\ndropped events: 300\nread events: 4\n";
        assert_eq!(lost(stats), 321);
        assert_eq!(lost(""), 0);
    }

    #[test]
    fn other_peoples_instances_are_refused() {
        assert!(remove("rasdaemon").is_err() && remove("thaw-/../x").is_err());
    }

    /// An evicted file on a disk.
    fn cold_file(dir: &Path, pages: usize) -> u64 {
        let path = dir.join("data");
        std::fs::write(&path, vec![b'x'; pages * 4096]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file.metadata().unwrap().ino()
    }

    fn points(tracefs: &Tracefs, names: &[(&str, &str)]) -> Option<Vec<Format>> {
        let found: Result<Vec<_>> = names.iter().map(|(system, name)| tracefs.tracepoint(system, name)).collect();
        found.map_err(|error| testing::skip(&error.to_string())).ok()
    }

    fn open() -> Option<Tracefs> {
        if !testing::root_or_skip() {
            return None;
        }
        Tracefs::open().map_err(|error| testing::skip(&error.to_string())).ok()
    }

    #[test]
    fn every_page_that_a_grandchild_brings_in_is_seen() {
        let Some(tracefs) = open() else { return };
        let Some(tree) = points(&tracefs, &[("filemap", "mm_filemap_add_to_page_cache"), ("task", "task_newtask")])
        else {
            return;
        };
        let Some(system) = points(&tracefs, &[("block", "block_rq_complete")]) else { return };
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let ino = cold_file(home.path(), 2048);
        let script = "cat \"$0\" >/dev/null; true".to_owned();
        let launch = Launch::new(["sh".into(), "-c".into(), script.into(), home.path().join("data").into_os_string()]);
        let gated = spawn_gated(launch).unwrap();
        let pid = gated.pid();
        let instance = Instance::start(&tracefs, "test", pid, (&tree, SIZE), (&system, SIZE)).unwrap();
        let mut running = gated.release().unwrap();
        let ended = running.wait().unwrap();
        let log = instance.stop().unwrap();

        assert_eq!(log.lost, 0);
        assert!(log.bytes > Bytes(0));
        let value = |event: &Event, name: &str| tree[0].field(name).unwrap().get(&event.raw).unwrap();
        let fills: Vec<_> = log
            .events
            .iter()
            .filter(|event| u64::from(event.point) == tree[0].id && value(event, "i_ino") == ino)
            .collect();
        let mut pages: Vec<u64> = fills
            .iter()
            .flat_map(|event| (0..1 << value(event, "order")).map(|page| value(event, "index") + page))
            .collect();
        pages.sort();
        assert_eq!(pages, (0..2048).collect::<Vec<_>>());
        assert!(fills.iter().all(|event| event.stamp.tid != pid && event.stamp.tid != 0), "cat is a child of sh");
        assert!(fills.iter().all(|event| (running.t0_ns()..ended.at_ns).contains(&event.stamp.time_ns)));
        assert!(log.events.iter().any(|event| u64::from(event.point) == tree[1].id), "sh forks");
        assert!(log.events.iter().any(|event| u64::from(event.point) == system[0].id), "the disk answered");
        assert!(log.events.is_sorted_by_key(|event| event.stamp.time_ns));
    }

    #[test]
    fn nothing_is_left_and_strangers_are_not_logged() {
        if open().is_none() {
            return;
        }
        let tracefs = Tracefs::detached().unwrap();
        let Some(tree) = points(&tracefs, &[("filemap", "mm_filemap_add_to_page_cache")]) else { return };
        let gated = spawn_gated(Launch::new(["true"])).unwrap();
        let instance = Instance::start(&tracefs, "thaw-quiet", gated.pid(), (&tree, SIZE), (&[], SIZE)).unwrap();
        let mine = format!("{PREFIX}quiet-{}-", std::process::id());
        let left = || tracefs.names("instances").unwrap().iter().filter(|name| name.starts_with(&mine)).count();
        assert_eq!(left(), 1);
        // This process is not of the tree.
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let ino = cold_file(home.path(), 16);
        std::fs::read(home.path().join("data")).unwrap();
        gated.release().unwrap().wait().unwrap();
        let log = instance.stop().unwrap();
        assert!(log.events.iter().all(|event| tree[0].field("i_ino").unwrap().get(&event.raw) != Some(ino)));
        assert_eq!(left(), 0);
        remove(&mine).unwrap();
    }

    #[test]
    fn a_buffer_that_is_too_small_says_how_much_it_lost() {
        let Some(tracefs) = open() else { return };
        let Some(system) = points(&tracefs, &[("raw_syscalls", "sys_enter")]) else { return };
        // A thread of its own: readers that the traced thread started would be traced too, and never run out of events.
        let (tell, told) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel();
        let traced = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            may_go.recv().unwrap();
            for _ in 0..50_000 {
                let _ = rustix::process::getppid();
            }
        });
        let thread = told.recv().unwrap();
        let buffer = Buffer::start(&tracefs, "small", Some(thread), &system, Bytes(64 << 10)).unwrap();
        // The reader is stopped first, so that the buffer must overflow.
        let Buffer { mut reader, tracefs, directory, layout, entry } = buffer;
        reader.finish();
        go.send(()).unwrap();
        traced.join().unwrap();
        let buffer =
            Buffer { reader: Reader::start(&tracefs, &directory, layout).unwrap(), tracefs, directory, layout, entry };
        let mut log = InstanceLog::default();
        buffer.stop(&mut log).unwrap();
        assert!(log.lost > 10_000, "{}", log.lost);
        assert!(!log.events.is_empty());
    }
}
