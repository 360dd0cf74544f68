//! What calls cost, and the first access of an origin: `cargo run --release --example bench -p thawlab-webstorage`.
//! `bench DIRECTORY` keeps its files there; `bench DIRECTORY prepare`, then `bench DIRECTORY cold` (after the page
//! cache was dropped) reads an origin of 2 MB.

use std::collections::HashMap;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thaw_log::disk::{About, Disk, Folder};
use thaw_webstorage::{Area, Options, Storage, Urgency};

const KEYS: usize = 1000;
const LEN: usize = 100;
const CALLS: usize = 2_000_000;
const ORIGIN: &str = "https://bench.example";

fn keys() -> Vec<Vec<u16>> {
    (0..KEYS).map(|number| format!("key{number}").encode_utf16().collect()).collect()
}

/// Values that differ from one call to the next.
fn values() -> Vec<Vec<u16>> {
    (0..KEYS + 7).map(|number| vec![u16::from(b'a') + (number % 26) as u16; LEN]).collect()
}

fn open(path: &Path) -> (Storage, Area) {
    let storage = Storage::open(path, Options::default()).expect("a thread and descriptors");
    let area = storage.area("", ORIGIN, Urgency::Urgent).expect("an origin");
    area.wait().expect("a directory that can be read");
    (storage, area)
}

/// A disk of 20 requests a second: each call that may touch it takes 50 ms.
struct Slow(Folder);

impl Slow {
    fn request() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Disk for Slow {
    fn lock(&self) -> std::io::Result<bool> {
        self.0.lock()
    }
    fn list(&self) -> std::io::Result<Vec<(String, u64)>> {
        self.0.list()
    }
    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        Slow::request();
        self.0.read(name, at, buffer)
    }
    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> std::io::Result<()> {
        Slow::request();
        self.0.write(name, at, parts)
    }
    fn sync(&self, name: &str) -> std::io::Result<()> {
        Slow::request();
        self.0.sync(name)
    }
    fn sync_names(&self) -> std::io::Result<()> {
        Slow::request();
        self.0.sync_names()
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn unlink(&self, name: &str) -> std::io::Result<()> {
        self.0.unlink(name)
    }
    fn truncate(&self, name: &str, len: u64) -> std::io::Result<()> {
        self.0.truncate(name, len)
    }
    fn about(&self, name: &str) -> std::io::Result<Option<About>> {
        self.0.about(name)
    }
    fn forget(&self, name: &str) {
        self.0.forget(name);
    }
    fn turn(&self) -> std::io::Result<Box<dyn Send>> {
        self.0.turn()
    }
    fn watch(&self) -> std::io::Result<Option<OwnedFd>> {
        self.0.watch()
    }
}

/// How often this thread has waited for something, and how often another was put in its place.
fn switches() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    })
}

/// How long each of many calls takes.
fn each(what: &str, mut call: impl FnMut(usize)) {
    let before = switches();
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|number| {
            let began = Instant::now();
            call(number);
            began.elapsed()
        })
        .collect();
    let after = switches();
    took.sort_unstable();
    let at = |part: f64| took[((CALLS - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    let long = took.iter().filter(|took| took.as_micros() >= 100).count();
    let (median, most, worst) = (at(0.5), at(0.9999), at(1.0));
    println!("{what}: median {median:.2} us, 99.99 % {most:.1} us, worst {worst:.1} us, {long} above 100 us");
    println!("  the thread waited {} times, and lost its core {} times", after[0] - before[0], after[1] - before[1]);
}

/// Calls in a second.
fn rate(what: &str, mut call: impl FnMut(usize)) {
    let began = Instant::now();
    (0..CALLS).for_each(&mut call);
    println!("{what}: {:.2} M/s", 1e-6 * CALLS as f64 / began.elapsed().as_secs_f64());
}

fn calls(path: &Path) {
    let (storage, area) = open(path);
    let (keys, values) = (keys(), values());
    let set = |area: &Area, number: usize| {
        area.set(&keys[number % KEYS], &values[number % values.len()]).expect("room");
    };
    rate("set", |number| set(&area, number));
    rate("get", |number| drop(black_box(area.get(&keys[number % KEYS]).expect("it is loaded"))));
    let mut units = [0; LEN];
    rate("get, copied as UTF-16", |number| {
        if let Some(value) = area.get(&keys[number % KEYS]).expect("it is loaded") {
            value.copy_to(black_box(&mut units));
        }
    });
    // What the machine does to a thread that has no storage.
    let mut map = HashMap::new();
    each("set in a HashMap", |number| {
        black_box(map.insert(&keys[number % KEYS], values[number % values.len()].clone()));
    });
    each("set", |number| set(&area, number));
    storage.flush_and_wait();
    println!("{:?}", storage.stats());
    let disk = Arc::new(Slow(Folder::new(&path.join("slow"))));
    let slow = Storage::on(disk, Options::default()).expect("a thread and descriptors");
    let area = slow.area("", ORIGIN, Urgency::Urgent).expect("an origin");
    area.wait().expect("a directory that can be read");
    each("set, disk of 20 requests a second", |number| set(&area, number));
    println!("{:?}", slow.stats());
}

fn prepare(path: &Path) {
    let (storage, area) = open(path);
    for key in keys() {
        area.set(&key, &vec![u16::from(b'v'); 2000]).expect("room");
    }
    storage.close().expect("room on the disk");
}

fn first_access(path: &Path, what: &str) {
    let keys = keys();
    let began = Instant::now();
    let (_storage, area) = open(path);
    black_box(area.get(&keys[500]).expect("it is loaded"));
    println!("first access, 2 MB, {what}: {:.2} ms", began.elapsed().as_secs_f64() * 1e3);
    let began = Instant::now();
    black_box(area.get(&keys[501]).expect("it is loaded"));
    println!("first access, loaded before: {:.5} ms", began.elapsed().as_secs_f64() * 1e3);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let own = std::env::temp_dir().join(format!("webstorage-bench-{}", std::process::id()));
    let path = args.first().map_or(own.clone(), PathBuf::from);
    match args.get(1).map(String::as_str) {
        Some("prepare") => prepare(&path),
        Some("cold") => first_access(&path, "not in memory before"),
        _ => {
            calls(&path.join("calls"));
            prepare(&path.join("access"));
            first_access(&path.join("access"), "in the page cache");
        }
    }
    if path == own {
        let _ = std::fs::remove_dir_all(own);
    }
}
