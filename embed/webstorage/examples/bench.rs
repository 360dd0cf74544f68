//! What calls cost, and the first access of an origin: `cargo run --release --example bench -p thawlab-webstorage`.
//! `bench DIRECTORY` keeps its files there, `bench DIRECTORY prepare`, then `bench DIRECTORY cold` (after the page cache
//! was dropped) reads an origin of 2 MB.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
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

fn calls(path: &Path) {
    let (storage, area) = open(path);
    let (keys, values) = (keys(), values());
    let began = Instant::now();
    for number in 0..CALLS {
        area.set(&keys[number % KEYS], &values[number % values.len()]).expect("room");
    }
    let each = began.elapsed().as_secs_f64() / CALLS as f64;
    println!("set: {:.2} M/s", 1e-6 / each);
    // With the time of each.
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|number| {
            let began = Instant::now();
            area.set(&keys[number % KEYS], &values[number % values.len()]).expect("room");
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    let at = |part: f64| took[((CALLS - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    println!("set: median {:.2} us, 99.99 % {:.2} us, worst {:.1} us", at(0.5), at(0.9999), at(1.0));
    let began = Instant::now();
    for number in 0..CALLS {
        black_box(area.get(&keys[number % KEYS]).expect("it is loaded"));
    }
    let each = began.elapsed().as_secs_f64() / CALLS as f64;
    println!("get: {:.2} M/s", 1e-6 / each);
    let mut units = [0; LEN];
    let began = Instant::now();
    for number in 0..CALLS {
        if let Some(value) = area.get(&keys[number % KEYS]).expect("it is loaded") {
            value.copy_to(black_box(&mut units));
        }
    }
    let each = began.elapsed().as_secs_f64() / CALLS as f64;
    println!("get, copied as UTF-16: {:.2} M/s", 1e-6 / each);
    storage.flush_and_wait();
    println!("{:?}", storage.stats());
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
