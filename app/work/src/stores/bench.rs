//! What the calls of web storage cost on this disk: set, get, flush, and the first access of an origin.

use model::{Bytes, Error, Exit, FileOffset, Result};
use os::interrupt;
use os::mounts::{Backing, Mounts};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thaw_webstorage::{Area, Options, Storage, Urgency};

/// Rounds; each figure is the median of them.
const ROUNDS: usize = 7;
/// Calls of a round.
const CALLS: usize = 20_000;
/// Keys that the calls go to.
const KEYS: usize = 1000;
/// UTF-16 units of a value.
const UNITS: usize = 100;
/// Flushes of a round.
const FLUSHES: usize = 3;
/// Bytes of the origin that is read: two for each unit.
const READ: usize = 2_000_000;
const ORIGIN: &str = "https://bench.example";

/// What it came to.
#[derive(Debug, Serialize)]
pub struct BenchDocument {
    /// `thaw.store-bench/1`.
    pub schema: &'static str,
    /// Where the files were.
    pub directory: PathBuf,
    /// The file system's type, as the mount table has it.
    pub filesystem: String,
    /// Its options.
    pub options: String,
    /// What is there after the power went, if a flush was answered.
    pub durable: &'static str,
    /// thaw was built without optimization: calls cost more than a program's.
    pub unoptimized: bool,
    /// Rounds.
    pub rounds: u64,
    /// What was measured.
    pub rows: Vec<BenchRow>,
    /// Why the cold first access was not measured.
    pub not_cold: Option<String>,
}

/// A figure.
#[derive(Debug, Serialize)]
pub struct BenchRow {
    /// `set`, `longest_set`, `get`, `flush`, `first_access_preloaded`, `first_access_cached`, `first_access_cold`.
    pub call: &'static str,
    /// Seconds of a call: the median of the rounds.
    pub median_s: f64,
    /// The lowest round.
    pub lowest_s: f64,
    /// The highest.
    pub highest_s: f64,
}

fn row(call: &'static str, rounds: &[f64]) -> BenchRow {
    let at = |p| stats::quantile(rounds, p);
    BenchRow { call, median_s: at(0.5), lowest_s: at(0.0), highest_s: at(1.0) }
}

/// The files of the measurement, which go with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(beside: &Path) -> Result<Self> {
        let path = beside.join(format!("thaw-store-bench-{}", std::process::id()));
        let made = std::fs::create_dir(&path);
        made.map_err(|cause| Error::on(Exit::Machine, "cannot make", &path).because(cause))?;
        Ok(Self(path))
    }

    fn remove(self) -> Result<()> {
        let gone = std::fs::remove_dir_all(&self.0);
        gone.map_err(|cause| Error::on(Exit::Machine, "cannot remove", &self.0).because(cause))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After `remove` there is nothing; else another error is told already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures in a new directory inside of this one, which is removed.
///
/// # Errors
/// It is no directory, or cannot be written; a signal came.
pub fn bench(directory: &Path) -> Result<BenchDocument> {
    interrupt::install()?;
    let wrong = |exit, cause: String| Error::on(exit, "cannot measure in", directory).because(cause);
    let about = directory.metadata().map_err(|cause| wrong(Exit::of_unreadable(&cause), cause.to_string()))?;
    if !about.is_dir() {
        return Err(wrong(Exit::Usage, "it is no directory".into()));
    }
    let mounts = Mounts::load()?;
    let mount = mounts.of_path(directory);
    let backing = mount.map_or(Backing::Disk, |mount| mount.backing());
    let scratch = Scratch::new(directory)?;
    let mut rows = calls(&scratch.0)?;
    let (first, not_cold) = first_access(&scratch.0, backing)?;
    rows.extend(first);
    scratch.remove()?;
    Ok(BenchDocument {
        schema: "thaw.store-bench/1",
        directory: directory.to_owned(),
        filesystem: mount.map(|mount| mount.fstype.clone()).unwrap_or_default(),
        options: mount.map(|mount| mount.options.clone()).unwrap_or_default(),
        durable: match backing {
            Backing::Memory => "nothing: it is in memory, and a flush costs what the calls do",
            Backing::Remote => "what the other side keeps: a flush ends when it says so",
            _ => "what was flushed, if the device keeps what it was told to",
        },
        unoptimized: cfg!(debug_assertions),
        rounds: ROUNDS as u64,
        rows,
        not_cold,
    })
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::new(Exit::Machine, "cannot measure", "web storage").because(cause.to_string())
}

fn open(path: &Path) -> Result<(Storage, Area)> {
    let storage = Storage::open(path, Options::default()).map_err(failed)?;
    let area = storage.area("", ORIGIN, Urgency::Urgent).map_err(failed)?;
    area.wait().map_err(failed)?;
    Ok((storage, area))
}

fn flush(storage: &Storage) -> Result<()> {
    if storage.flush_and_wait() { Ok(()) } else { Err(failed("it is closed")) }
}

fn texts(count: usize, first: &str, units: usize) -> Vec<Vec<u16>> {
    (0..count).map(|at| format!("{first}{at:_<units$}").encode_utf16().take(units).collect()).collect()
}

fn calls(scratch: &Path) -> Result<Vec<BenchRow>> {
    let path = scratch.join("calls");
    let (storage, area) = open(&path)?;
    let keys = texts(KEYS, "", 12);
    // One more than keys: a call changes what the one before it on this key left.
    let values = texts(KEYS + 1, "", UNITS);
    let (mut set, mut longest, mut get, mut flushed) = (vec![], vec![], vec![], vec![]);
    let mut call = 0;
    for _ in 0..ROUNDS {
        interrupt::check()?;
        let (mut worst, start) = (0.0_f64, Instant::now());
        let mut before = start;
        for _ in 0..CALLS {
            area.set(&keys[call % KEYS], &values[call % (KEYS + 1)]).map_err(failed)?;
            let now = Instant::now();
            worst = worst.max((now - before).as_secs_f64());
            before = now;
            call += 1;
        }
        set.push((before - start).as_secs_f64() / CALLS as f64);
        longest.push(worst);
        let start = Instant::now();
        let mut units = 0;
        for at in 0..CALLS {
            units += area.get(&keys[at % KEYS]).map_err(failed)?.map_or(0, |value| value.len());
        }
        get.push(start.elapsed().as_secs_f64() / CALLS as f64);
        if units != CALLS * UNITS {
            return Err(Error::new(Exit::Bug, "a value did not come back as it was set:", ORIGIN));
        }
        flush(&storage)?;
        for _ in 0..FLUSHES {
            area.set(&keys[call % KEYS], &values[call % (KEYS + 1)]).map_err(failed)?;
            call += 1;
            let start = Instant::now();
            flush(&storage)?;
            flushed.push(start.elapsed().as_secs_f64());
        }
    }
    drop(area);
    storage.close().map_err(failed)?;
    Ok(vec![row("set", &set), row("longest_set", &longest), row("get", &get), row("flush", &flushed)])
}

/// From asking for an origin to its first value.
fn first_access(scratch: &Path, backing: Backing) -> Result<(Vec<BenchRow>, Option<String>)> {
    let path = scratch.join("read");
    let (storage, area) = open(&path)?;
    let keys = texts(READ / 2 / UNITS / 2, "", UNITS);
    keys.iter().try_for_each(|key| area.set(key, key)).map_err(failed)?;
    flush(&storage)?;
    drop(area);
    storage.close().map_err(failed)?;
    let access = |storage: &Storage| -> Result<f64> {
        let start = Instant::now();
        let area = storage.area("", ORIGIN, Urgency::Urgent).map_err(failed)?;
        area.wait().map_err(failed)?;
        area.get(&keys[0]).map_err(failed)?.ok_or_else(|| failed("a key that was flushed is gone"))?;
        Ok(start.elapsed().as_secs_f64())
    };
    let mut not_cold = (backing == Backing::Memory).then(|| "the file system is in memory".to_owned());
    let (mut preloaded, mut cached, mut cold) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        interrupt::check()?;
        let storage = Storage::open(&path, Options::default()).map_err(failed)?;
        cached.push(access(&storage)?);
        let held = storage.area("", ORIGIN, Urgency::Ahead).map_err(failed)?;
        held.wait().map_err(failed)?;
        preloaded.push(access(&storage)?);
        drop(held);
        storage.close().map_err(failed)?;
        if not_cold.is_none() {
            match evicted(&path) {
                Ok(()) => {
                    let storage = Storage::open(&path, Options::default()).map_err(failed)?;
                    cold.push(access(&storage)?);
                    storage.close().map_err(failed)?;
                }
                Err(why) => not_cold = Some(why),
            }
        }
    }
    let mut rows = vec![row("first_access_preloaded", &preloaded), row("first_access_cached", &cached)];
    if not_cold.is_none() {
        rows.push(row("first_access_cold", &cold));
    }
    Ok((rows, not_cold))
}

/// Takes all files of a directory out of the page cache, and looks whether they went.
fn evicted(path: &Path) -> std::result::Result<(), String> {
    let evict = || -> std::io::Result<bool> {
        let mut all_gone = true;
        for entry in path.read_dir()? {
            let file = File::open(entry?.path())?;
            os::cache::evict(&file)?;
            let len = Bytes(file.metadata()?.len());
            all_gone &= os::cache::residency(&file, FileOffset(0), len)?.resident == 0;
        }
        Ok(all_gone)
    };
    match evict() {
        Ok(true) => Ok(()),
        Ok(false) => Err("the files stay in the page cache".into()),
        Err(error) => Err(format!("the files cannot be taken out of the page cache: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_middle_and_both_ends() {
        let row = row("set", &[3.0, 1.0, 2.0, 10.0, 4.0]);
        assert_eq!((row.lowest_s, row.median_s, row.highest_s), (1.0, 3.0, 10.0));
    }

    #[test]
    fn texts_differ_and_have_their_length() {
        let all = texts(KEYS + 1, "", 12);
        assert!(all.iter().all(|text| text.len() == 12));
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), KEYS + 1);
    }
}
