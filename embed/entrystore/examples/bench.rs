//! What the store costs: puts and gets of 16 kB beside a file for each entry, in turns in the same run; bytes of memory
//! an entry; how long a start takes with many small entries, after an end, after SIGKILL, and by the segments alone;
//! and puts that evict others all the time.
//!
//! `cargo run --release --example bench [FOLDER [ENTRIES]]`; by default a new folder beside the current one, and
//! 1,000,000 entries for the starts. What is timed runs in the page cache; nothing is dropped from it.

use bytes::Bytes;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};
use thaw_entrystore::{Blocking, Event, Get, Key, Options, Phase, Put, Store};

const COUNT: u64 = 4000;
const LEN: usize = 16_384;
const ROUNDS: usize = 5;
/// Calls under way at a time.
const DEPTH: usize = 64;

type Anything = Result<(), Box<dyn std::error::Error>>;

fn key(number: u64) -> Key {
    Key::new(b"https://site.example", format!("https://site.example/{number}").as_bytes()).expect("a short key")
}

fn options(path: &Path) -> Options {
    Options { memory: 0, pending: 1 << 30, budget: 8 << 30, ..Options::new(path) }
}

/// A rate: calls per second, and microseconds of processor time each.
type Rate = (f64, f64);

/// When something began, by both clocks.
struct Since(Instant, Duration);

fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Since {
    fn now() -> Since {
        Since(Instant::now(), processor())
    }

    fn rate(&self, count: u64) -> Rate {
        let used = processor() - self.1;
        (count as f64 / self.0.elapsed().as_secs_f64(), used.as_secs_f64() * 1e6 / count as f64)
    }
}

fn median(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0], all[all.len() - 1])
}

/// Waits until `left` ends have come.
fn ends(store: &Store, mut left: usize) -> Anything {
    while left > 0 {
        rustix::event::poll(&mut [rustix::event::PollFd::new(&store.fd(), rustix::event::PollFlags::IN)], None)?;
        for (_, event) in store.completions() {
            match event {
                Event::Done(true) | Event::End => left -= 1,
                Event::Open { .. } | Event::Chunk { .. } => {}
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
    Ok(())
}

fn puts(store: &Store, bodies: &[Bytes]) -> Result<Rate, Box<dyn std::error::Error>> {
    let since = Since::now();
    for numbers in (0..COUNT).collect::<Vec<_>>().chunks(DEPTH) {
        for number in numbers {
            store.put(&key(*number), Put::default(), bodies[*number as usize].clone());
        }
        ends(store, numbers.len())?;
    }
    Ok(since.rate(COUNT))
}

fn gets(store: &Store, depth: usize) -> Result<Rate, Box<dyn std::error::Error>> {
    let since = Since::now();
    for numbers in (0..COUNT).collect::<Vec<_>>().chunks(depth) {
        for number in numbers {
            store.get_with(&key(number * 7919 % COUNT), Get::default());
        }
        ends(store, numbers.len())?;
    }
    Ok(since.rate(COUNT))
}

/// A file for each entry: its name a hash, in it a checksum and the body, made beside and renamed.
fn file_puts(path: &Path, bodies: &[Bytes]) -> Result<Rate, Box<dyn std::error::Error>> {
    let since = Since::now();
    for number in 0..COUNT {
        let name = path.join(format!("{:016x}", key(number).hash(1)));
        let new = path.join("new");
        let body = &bodies[number as usize];
        let whole = [&crc32fast::hash(body).to_le_bytes()[..], body].concat();
        std::fs::write(&new, whole)?;
        std::fs::rename(&new, name)?;
    }
    Ok(since.rate(COUNT))
}

fn file_gets(path: &Path) -> Result<Rate, Box<dyn std::error::Error>> {
    let since = Since::now();
    for number in 0..COUNT {
        let whole = std::fs::read(path.join(format!("{:016x}", key(number * 7919 % COUNT).hash(1))))?;
        if whole.len() != LEN + 4 || crc32fast::hash(&whole[4..]).to_le_bytes() != whole[..4] {
            return Err("a wrong byte".into());
        }
    }
    Ok(since.rate(COUNT))
}

/// Bytes of memory that are this process' own.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn start(path: &Path) -> Result<(Duration, Blocking), Box<dyn std::error::Error>> {
    let since = Instant::now();
    let store = Store::open(options(path))?;
    while store.stats().phase != Phase::Serving {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok((since.elapsed(), Blocking::new(store)))
}

fn fill(path: &Path, entries: u64) -> Result<Store, Box<dyn std::error::Error>> {
    let store = Store::open(options(path))?;
    let (mut waiting, body) = (0, Bytes::from_static(&[7; 64]));
    for number in 0..entries {
        store.put(&key(number), Put::default(), body.clone());
        waiting += 1;
        if waiting == 1024 {
            ends(&store, waiting)?;
            waiting = 0;
        }
    }
    ends(&store, waiting)?;
    Ok(store)
}

fn starts(path: &Path, entries: u64) -> Anything {
    // Each in a process of its own.
    let again = |what: &str, path: &Path, ended: bool| -> Anything {
        let number = entries.to_string();
        let status = std::process::Command::new(std::env::current_exe()?).arg(what).arg(path).arg(number).status()?;
        let done = if ended { status.success() } else { status.signal() == Some(9) };
        if done { Ok(()) } else { Err(format!("{what} failed").into()) }
    };
    for round in 0..3 {
        let killed = path.join(format!("killed{round}"));
        std::fs::create_dir_all(&killed)?;
        again("--fill", &killed, false)?;
        again("--start-after-a-kill", &killed, true)?;
    }
    let ended = path.join("killed0");
    (0..3).try_for_each(|_| again("--start-after-an-end", &ended, true))?;
    for _ in 0..3 {
        // As after a kill before the first snapshot: all is told by the footers.
        std::fs::remove_file(ended.join("index"))?;
        again("--start-without-a-snapshot", &ended, true)?;
    }
    Ok(())
}

/// Puts into a store that becomes full, and what is in its files then.
fn evictions(path: &Path, bodies: &[Bytes]) -> Anything {
    const BUDGET: u64 = 256 << 20;
    const ALL: u64 = 4 * BUDGET / LEN as u64;
    let store = Store::open(Options { budget: BUDGET, ..options(path) })?;
    let (mut rates, mut most, mut since) = (Vec::new(), 0, Since::now());
    for number in 0..ALL {
        store.put(&key(number), Put::default(), bodies[(number % COUNT) as usize].clone());
        if (number + 1) % DEPTH as u64 == 0 {
            ends(&store, DEPTH)?;
            most = most.max(store.stats().counts.disk);
        }
        // The last part of the first quarter evicts already.
        if (number + 1) % (ALL / 8) == 0 {
            rates.push(since.rate(ALL / 8).0);
            since = Since::now();
        }
    }
    let evicted = store.stats().counts.evicted;
    let full = median(rates[2..].to_vec());
    println!(
        "put 16 kB into a store of 256 MiB: {:.0} a second before it is full, {:.0} ({:.0}, {:.0}) while it evicts;\n  \
         {evicted} of {ALL} evicted, none dropped; at most {:.1} % of the budget",
        rates[0],
        full.0,
        full.1,
        full.2,
        most as f64 * 100.0 / BUDGET as f64
    );
    Ok(())
}

/// A start, timed.
fn one(what: &str, path: &Path) -> Anything {
    let before = memory();
    let (took, store) = start(path)?;
    let (stats, used) = (store.store().stats(), memory().saturating_sub(before));
    let each = |bytes: u64| bytes as f64 / stats.entries as f64;
    println!(
        "{}: {:.1} ms, {} entries in {} MB; index {:.1} bytes an entry, process {:.1}",
        what.trim_start_matches('-').replace('-', " "),
        took.as_secs_f64() * 1e3,
        stats.entries,
        stats.counts.disk / 1_000_000,
        each(stats.index),
        each(used)
    );
    Ok(())
}

fn main() -> Anything {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    if let Some(what) = first.as_deref().filter(|what| what.starts_with("--start")) {
        return one(what, Path::new(&args.next().ok_or("no folder")?));
    }
    if first.as_deref() == Some("--fill") {
        let (path, entries) = (args.next().ok_or("no folder")?, args.next().ok_or("no number")?);
        let _store = fill(Path::new(&path), entries.parse()?)?;
        return Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?);
    }
    let folder = first.map_or_else(|| "bench-of-entrystore".into(), std::path::PathBuf::from);
    let entries: u64 = args.next().map_or(Ok(1_000_000), |number| number.parse())?;
    std::fs::create_dir(&folder)?;
    let bodies: Vec<Bytes> = (0..COUNT).map(|number| vec![number as u8; LEN].into()).collect();
    let mut all: [Vec<Rate>; 5] = Default::default();
    for round in 0..ROUNDS {
        let (ours, files) = (folder.join(format!("store{round}")), folder.join(format!("files{round}")));
        std::fs::create_dir(&files)?;
        let store = Store::open(options(&ours))?;
        all[0].push(puts(&store, &bodies)?);
        all[1].push(file_puts(&files, &bodies)?);
        all[2].push(gets(&store, DEPTH)?);
        all[3].push(file_gets(&files)?);
        all[4].push(gets(&store, 1)?);
    }
    let labels = ["put 16 kB", "  a file for each", "get 16 kB", "  a file for each", "get 16 kB, one at a time"];
    println!("a second, median of {ROUNDS} (least, most), {DEPTH} under way; files: one at a time");
    for (label, rates) in labels.into_iter().zip(all) {
        let (rates, used): (Vec<f64>, Vec<f64>) = rates.into_iter().unzip();
        let ((middle, least, most), (used, ..)) = (median(rates), median(used));
        println!("{label:26}{middle:10.0} ({least:.0}, {most:.0})   {used:.1} us of processor time");
    }
    evictions(&folder.join("full"), &bodies)?;
    starts(&folder.join("many"), entries)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
