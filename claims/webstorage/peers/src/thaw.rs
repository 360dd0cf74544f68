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

/// What thaw_webstorage.h has, as far as it is called here.
mod c {
    // The library that has them.
    use thaw_webstorage_c as _;

    use std::ffi::{c_char, c_int, c_void};
    unsafe extern "C" {
        pub fn thaw_webstorage_open(options: *const Options, storage: *mut *mut c_void) -> c_int;
        pub fn thaw_webstorage_close(storage: *mut c_void) -> c_int;
        pub fn thaw_webstorage_area(
            storage: *mut c_void,
            partition: *const c_char,
            origin: *const c_char,
            urgent: c_int,
            area: *mut *mut c_void,
        ) -> c_int;
        pub fn thaw_area_wait(area: *const c_void) -> c_int;
        pub fn thaw_area_free(area: *mut c_void) -> c_int;
        pub fn thaw_area_set(
            area: *const c_void,
            key: *const u16,
            keys: usize,
            value: *const u16,
            values: usize,
        ) -> c_int;
        pub fn thaw_area_get(
            area: *const c_void,
            key: *const u16,
            keys: usize,
            to: *mut u16,
            room: usize,
            length: *mut usize,
        ) -> c_int;
    }

    #[repr(C)]
    pub struct Options {
        pub size: usize,
        pub directory: *const c_char,
        pub numbers: [u64; 7],
    }

    /// Of a call that must work.
    pub fn ok(code: c_int) -> crate::Anything {
        if code == 0 { Ok(()) } else { Err(format!("thaw_webstorage.h: code {code}").into()) }
    }
}

/// The same by the header's functions: the value is copied into the caller's memory.
struct ThroughC {
    storage: *mut std::ffi::c_void,
    area: *mut std::ffi::c_void,
    keys: Vec<Vec<u16>>,
    units: [u16; VALUE],
}

pub fn open_through_c(path: &Path) -> Anything<Box<dyn Kv>> {
    let directory = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let options =
        c::Options { size: std::mem::size_of::<c::Options>(), directory: directory.as_ptr(), numbers: [0; 7] };
    let (mut storage, mut area) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: what is handed in lives as long as the calls.
    unsafe {
        c::ok(c::thaw_webstorage_open(&raw const options, &raw mut storage))?;
        let origin = c"https://a.example".as_ptr();
        c::ok(c::thaw_webstorage_area(storage, std::ptr::null(), origin, 1, &raw mut area))?;
        c::ok(c::thaw_area_wait(area))?;
    }
    let keys = (0..KEYS).map(|number| key(number).encode_utf16().collect()).collect();
    Ok(Box::new(ThroughC { storage, area, keys, units: [0; VALUE] }))
}

impl Drop for ThroughC {
    fn drop(&mut self) {
        // SAFETY: both are this struct's.
        unsafe {
            c::thaw_area_free(self.area);
            c::thaw_webstorage_close(self.storage);
        }
    }
}

impl Kv for ThroughC {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        for (unit, byte) in self.units.iter_mut().zip(value) {
            *unit = u16::from(*byte);
        }
        let key = &self.keys[key];
        // SAFETY: pointers with the lengths of what they point to.
        c::ok(unsafe { c::thaw_area_set(self.area, key.as_ptr(), key.len(), self.units.as_ptr(), VALUE) })
    }

    fn get(&mut self, key: usize) -> Anything<usize> {
        let (key, mut length) = (&self.keys[key], 0);
        let to = self.units.as_mut_ptr();
        // SAFETY: as above; `units` is written by this call alone.
        c::ok(unsafe { c::thaw_area_get(self.area, key.as_ptr(), key.len(), to, VALUE, &raw mut length) })?;
        Ok(length)
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
        println!(
            "first access of 2 MB, {what}: {:.4} ms, median of 21 ({:.4} to {:.4})",
            times[10], times[0], times[20]
        );
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
    println!(
        "{{\"thaw\": {rounds}, \"lost_s_most\": {:?}, \"lost_s\": {lost:?}}}",
        lost.iter().copied().fold(0.0, f64::max)
    );
    Ok(())
}
