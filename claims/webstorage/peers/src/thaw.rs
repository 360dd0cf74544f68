//! thaw's web storage as one of the stores: an area of a store on disk, loaded.

use crate::{Anything, KEYS, Kv, VALUE, key};
use std::path::Path;
use std::time::{Duration, Instant};
use thaw_webstorage::{Area, Options, Storage, Urgency};

struct Thaw {
    area: Area,
    /// Kept open.
    _storage: Storage,
    keys: Vec<Vec<u16>>,
    units: [u16; VALUE],
}

pub fn open(path: &Path) -> Anything<Box<dyn Kv>> {
    let storage = Storage::open(path, Options::default())?;
    let area = storage.area("", "https://a.example", Urgency::Urgent)?;
    area.wait()?;
    let keys = (0..KEYS).map(|number| key(number).encode_utf16().collect()).collect();
    Ok(Box::new(Thaw { area, _storage: storage, keys, units: [0; VALUE] }))
}

impl Kv for Thaw {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        // A caller of web storage has UTF-16.
        for (unit, byte) in self.units.iter_mut().zip(value) {
            *unit = u16::from(*byte);
        }
        Ok(self.area.set(&self.keys[key], &self.units)?)
    }

    fn get(&mut self, key: usize) -> Anything<usize> {
        Ok(self.area.get(&self.keys[key])?.ok_or("a key is gone")?.len())
    }
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

fn area(path: &Path) -> Anything<(Storage, Area)> {
    let storage = Storage::open(path, Options::default())?;
    let area = storage.area("", "https://a.example", Urgency::Urgent)?;
    Ok((storage, area))
}

/// Takes the file's pages out of memory.
fn drop_pages(path: &Path) -> Anything {
    for entry in path.read_dir()? {
        let file = std::fs::File::open(entry?.path())?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// The first get of an area of 1,000 keys with values of 1,000 units, when it was loaded before and when nothing of it
/// is in memory.
pub fn first(path: &Path) -> Anything {
    let (storage, filled) = area(path)?;
    filled.wait()?;
    for number in 0..1000 {
        filled.set(&units(&format!("key {number}")), &units(&"\u{445}".repeat(1000)))?;
    }
    storage.close()?;
    let (mut loaded, mut cold) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let (storage, area) = area(path)?;
        area.wait()?;
        let since = Instant::now();
        area.get(&units("key 500"))?.ok_or("a key is gone")?;
        loaded.push(since.elapsed().as_secs_f64() * 1e3);
        drop(area);
        storage.close()?;
        drop_pages(path)?;
        let storage = Storage::open(path, Options::default())?;
        let since = Instant::now();
        let area = storage.area("", "https://a.example", Urgency::Urgent)?;
        area.wait()?;
        area.get(&units("key 500"))?.ok_or("a key is gone")?;
        cold.push(since.elapsed().as_secs_f64() * 1e3);
        drop(area);
        storage.close()?;
    }
    for (what, mut times) in [("loaded", loaded), ("cold", cold)] {
        times.sort_by(f64::total_cmp);
        println!("first access of 2 MB, {what}: {:.4} ms, median of 21 ({:.4} to {:.4})", times[10], times[0], times[20]);
    }
    Ok(())
}

/// Sets a key each 100 ms, and says so, for ever.
pub fn writes(path: &Path) -> Anything {
    let (_storage, area) = area(path)?;
    area.wait()?;
    for number in 1_u64.. {
        std::thread::sleep(Duration::from_millis(100));
        area.set(&units("number"), &units(&number.to_string()))?;
        println!("{number}");
    }
    Ok(())
}

/// Kills that at random moments.
pub fn kill(folder: &Path, rounds: u32) -> Anything {
    use std::io::{BufRead, BufReader, Read};
    let mut lost = Vec::new();
    for round in 0..rounds {
        let path = folder.join(round.to_string());
        std::fs::create_dir_all(&path)?;
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .arg("writes")
            .arg(&path)
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut line = String::new();
        for _ in 0..10 + round % 5 {
            line.clear();
            said.read_line(&mut line)?;
        }
        // Somewhere in the 100 ms until the next.
        std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 100)));
        child.kill()?;
        child.wait()?;
        let mut rest = String::new();
        said.read_to_string(&mut rest)?;
        let written: u64 = rest.lines().last().unwrap_or(line.trim()).parse()?;
        let (storage, area) = area(&path)?;
        area.wait()?;
        let kept: u64 = area.get(&units("number"))?.ok_or("it has lost all")?.as_string().ok_or("no text")?.parse()?;
        drop(area);
        storage.close()?;
        lost.push((written - kept) as f64 / 10.0);
    }
    println!("{{\"thaw\": {rounds}, \"lost_s_most\": {:?}, \"lost_s\": {lost:?}}}", lost.iter().copied().fold(0.0, f64::max));
    Ok(())
}
