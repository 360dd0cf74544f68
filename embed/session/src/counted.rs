//! A disk that counts what is done to it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thaw_log::disk::{About, Disk};

/// What was done to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that were read.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Calls that wrote them.
    pub writes: u64,
    /// Syncs of files and of the directory.
    pub syncs: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.read += more.read;
        self.written += more.written;
        self.writes += more.writes;
        self.syncs += more.syncs;
    }
}

const MINUTES: usize = 60;

#[derive(Default)]
struct Inside {
    all: Counts,
    /// The last minutes that something was done in.
    minutes: VecDeque<(u64, Counts)>,
    /// How long a sync takes lately.
    sync: Duration,
}

/// The disk.
pub struct Counted {
    disk: Arc<dyn Disk>,
    begun: Instant,
    inside: Mutex<Inside>,
}

impl Counted {
    /// One that counts what is done to another.
    pub fn new(disk: Arc<dyn Disk>) -> Counted {
        Counted { disk, begun: Instant::now(), inside: Mutex::default() }
    }

    fn count(&self, more: Counts, sync: Option<Duration>) {
        let minute = self.begun.elapsed().as_secs() / 60;
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.all.add(more);
        if let Some(sync) = sync {
            inside.sync = (inside.sync * 7 + sync) / 8;
        }
        if inside.minutes.back().is_none_or(|last| last.0 != minute) {
            inside.minutes.push_back((minute, Counts::default()));
        }
        if inside.minutes.len() > MINUTES {
            inside.minutes.pop_front();
        }
        if let Some(last) = inside.minutes.back_mut() {
            last.1.add(more);
        }
    }

    /// All that was done, and what was done in the last hour.
    pub fn counts(&self) -> (Counts, Counts) {
        let minute = self.begun.elapsed().as_secs() / 60;
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hour = Counts::default();
        let late = inside.minutes.iter().filter(|(at, _)| at + MINUTES as u64 > minute);
        late.for_each(|(_, counts)| hour.add(*counts));
        (inside.all, hour)
    }

    /// How long a sync takes lately.
    pub fn sync_time(&self) -> Duration {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).sync
    }

    fn timed(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let from = Instant::now();
        sync()?;
        self.count(Counts { syncs: 1, ..Counts::default() }, Some(from.elapsed()));
        Ok(())
    }
}

impl Disk for Counted {
    fn lock(&self) -> io::Result<bool> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.list()
    }

    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.disk.read(name, at, buffer)?;
        self.count(Counts { read: read as u64, ..Counts::default() }, None);
        Ok(read)
    }

    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.disk.write(name, at, parts)?;
        let written = parts.iter().map(|part| part.len() as u64).sum();
        self.count(Counts { written, writes: 1, ..Counts::default() }, None);
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.timed(|| self.disk.sync(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.timed(|| self.disk.sync_names())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.disk.unlink(name)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        self.disk.truncate(name, len)
    }

    fn about(&self, name: &str) -> io::Result<Option<About>> {
        self.disk.about(name)
    }

    fn forget(&self, name: &str) {
        self.disk.forget(name);
    }
}

/// How long a change waits until it is saved: never less than `delay`; with syncs that take long, so long that a
/// twentieth of the time is spent in them; five times as long on battery.
pub fn pace(delay: Duration, battery: bool, sync: Duration) -> Duration {
    delay.max(sync.saturating_mul(20)).saturating_mul(if battery { 5 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_syncs_and_batteries_make_saves_rarer() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        assert_eq!(pace(second, false, ms), second);
        assert_eq!(pace(second, true, ms), 5 * second);
        assert_eq!(pace(second, false, 400 * ms), 8 * second);
        assert_eq!(pace(second, true, 400 * ms), 40 * second);
    }

    #[test]
    fn what_is_done_is_counted() {
        let disk = Counted::new(thaw_log::memory::Memory::new(Default::default()));
        disk.write("a", 0, &[b"one", b"two"]).and_then(|()| disk.sync("a")).and_then(|()| disk.sync_names()).unwrap();
        disk.read("a", 1, &mut [0; 9]).unwrap();
        let all = Counts { read: 5, written: 6, writes: 1, syncs: 2 };
        assert_eq!(disk.counts(), (all, all));
    }
}
