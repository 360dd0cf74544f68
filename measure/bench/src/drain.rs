//! Takes away what a limited disk would grant at once. The kernel grants a limit in slices of time (100 ms: twenty
//! requests at 200 a second), and a group that asked for nothing finds whole slices waiting: the first requests of a
//! start would come without any delay. So thaw joins the run's group and reads past the page cache until a read is held
//! back; at that moment the clock starts. What follows comes at the rate of the limit, and no sooner.

use crate::inside::{Controller, Door};
use model::{Bytes, Error, Exit, Result, Warning, WarningKind};
use os::cgroup::{RunCgroup, Throttle};
use os::disk::Disk;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A read that is under way for so long is held back by the limit, if the limit's share was read before.
const HELD: Duration = Duration::from_millis(10);

/// A disk that is not held back for so long is slower than its limit.
const ENOUGH: Duration = Duration::from_secs(2);

/// O_DIRECT wants buffers and lengths in blocks.
const BLOCK: u64 = 4096;

/// What one read takes where bytes are limited.
const LARGE: u64 = 64 << 10;

/// The way to empty the limits of some disks.
#[derive(Debug)]
pub(crate) struct Drain {
    door: Door,
    sources: Vec<Source>,
    limits: Throttle,
}

/// Something on a disk that can be read past the page cache.
#[derive(Clone, Debug)]
struct Source {
    file: Arc<File>,
    size: u64,
}

/// Reads that are under way when the clock starts; they end by themselves.
#[derive(Debug)]
pub(crate) struct Draining {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing but read.
            let _ = thread.join();
        }
    }
}

impl Drain {
    /// The ways to the disks; what there is none to is a warning.
    ///
    /// # Errors
    /// Thaw got into the group and not out again.
    pub fn open(group: &RunCgroup, disks: &[Disk], limits: Throttle) -> Result<(Option<Self>, Vec<Warning>)> {
        let mut warnings = Vec::new();
        let mut sources = Vec::new();
        for disk in disks {
            match source(disk) {
                Some(source) => sources.push(source),
                None => warnings.push(cannot(&format!("nothing on {} can be read past the page cache", disk.name))),
            }
        }
        let Some(door) = Door::open(group, Controller::Io)? else {
            return Ok((None, vec![cannot("thaw cannot join the run's control group")]));
        };
        let drain = (!sources.is_empty()).then_some(Self { door, sources, limits });
        Ok((drain, warnings))
    }

    /// Reads until every disk holds a read back. Returns with these reads under way.
    ///
    /// # Errors
    /// Interrupted; no more threads can be started.
    pub fn empty(&self) -> Result<Draining> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut draining = Draining { stop: stop.clone(), threads: Vec::new() };
        let Some(_inside) = self.door.enter() else { return Ok(draining) };
        let began = Instant::now();
        let mut counts = Vec::new();
        for source in &self.sources {
            let (source, stop, length) = (source.clone(), stop.clone(), self.length());
            let count = Arc::new(Count::default());
            counts.push(count.clone());
            let read = std::thread::Builder::new().spawn(move || source.read_until(&stop, length, began, &count));
            // Those that were begun end with `draining`.
            let cannot = |cause| {
                Error::new(Exit::Machine, "cannot start a thread that empties the disk's limit", "").because(cause)
            };
            draining.threads.push(read.map_err(cannot)?);
        }
        let rate = self.reads_per_second();
        while began.elapsed() < ENOUGH && !counts.iter().all(|count| count.is_held(began, rate)) {
            os::interrupt::check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        // The last one that was begun is the last.
        stop.store(true, Ordering::Relaxed);
        Ok(draining)
    }

    /// As [`Door::is_left`].
    pub fn is_left(&self) -> Result<()> {
        self.door.is_left()
    }

    fn length(&self) -> u64 {
        if self.limits.bps.is_some() { LARGE } else { BLOCK }
    }

    fn reads_per_second(&self) -> f64 {
        let by_bytes = self.limits.bps.map(|Bytes(bps)| bps as f64 / self.length() as f64);
        let by_count = self.limits.iops.map(|iops| iops as f64);
        by_bytes.into_iter().chain(by_count).fold(f64::INFINITY, f64::min)
    }
}

fn cannot(why: &str) -> Warning {
    let text = format!(
        "the limit on the disk lets the first requests of each start through at once, as many as it grants in about \
            0.2 s: {why}"
    );
    Warning::new(WarningKind::NoControl, text).hint("--disk NAME simulates a slow disk without that")
}

/// How far a reader is.
#[derive(Debug, Default)]
struct Count {
    done: AtomicU64,
    /// When the read that is under way began, nanoseconds.
    began_ns: AtomicU64,
}

impl Count {
    fn is_held(&self, began: Instant, rate: f64) -> bool {
        let elapsed = began.elapsed();
        let this = Duration::from_nanos(self.began_ns.load(Ordering::Relaxed));
        // A busy machine delays a read, too: what the limit grants must have been used up.
        let used_up = self.done.load(Ordering::Relaxed) as f64 >= 0.9 * rate * this.as_secs_f64();
        elapsed.saturating_sub(this) >= HELD && used_up
    }
}

impl Source {
    fn read_until(&self, stop: &AtomicBool, length: u64, began: Instant, count: &Count) {
        let mut memory = vec![0; (length + BLOCK) as usize];
        let start = memory.as_ptr().align_offset(BLOCK as usize);
        let buffer = &mut memory[start..start + length as usize];
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            count.began_ns.store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
            if self.file.read_at(buffer, at).is_err() {
                return;
            }
            count.done.fetch_add(1, Ordering::Relaxed);
            at = if at + 2 * length > self.size { 0 } else { at + length };
        }
    }
}

/// The disk itself; where that is refused (containers, some virtual machines), thaw's own file, if it lies there: it is
/// in memory, so that opening it changes nothing that a run could notice.
fn source(disk: &Disk) -> Option<Source> {
    let node = PathBuf::from("/dev").join(&disk.name);
    [node, PathBuf::from("/proc/self/exe")].into_iter().find_map(|path| {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC).open(&path).ok()?;
        let about = file.metadata().ok()?;
        let (dev, size) = if about.is_file() { (about.dev(), about.len()) } else { (about.rdev(), disk.size.0) };
        let here = Disk::of_dev(dev).is_ok_and(|it| it.dev == disk.dev) && size >= LARGE;
        here.then(|| Source { file: Arc::new(file), size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_held_when_it_takes_long_and_the_share_was_used() {
        let began = Instant::now() - Duration::from_millis(150);
        let count = |done: u64, began_ms: u64| Count { done: done.into(), began_ns: (began_ms * 1_000_000).into() };
        assert!(count(20, 100).is_held(began, 200.0), "under way for 50 ms after twenty reads in 100 ms");
        assert!(!count(5, 100).is_held(began, 200.0), "the machine is busy: only five reads were made");
        assert!(!count(30, 149).is_held(began, 200.0), "it has just begun");
    }
}
