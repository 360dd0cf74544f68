//! The entry store beside cacache and SQLite: entries of 16 kB put and got in the page cache, and what a get costs the
//! disk when nothing is in memory.
//!
//! `entrystore-peers warm FOLDER` or `entrystore-peers cold FOLDER DEVICE`: FOLDER on the file system of DEVICE (`loop0`),
//! whose reads are counted.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use thaw_entrystore::{Event, Get, Key, Options, Phase, Put, Store};

const COUNT: u64 = 4000;
const LEN: usize = 16_384;
const ROUNDS: usize = 5;
const DEPTH: usize = 64;
const GROUP: u64 = 32;

type Anything<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn name(number: u64) -> String {
    format!("https://site.example/{number}")
}

fn key(number: u64) -> Key {
    Key::new(b"https://site.example", name(number).as_bytes()).expect("a short key")
}

fn body(number: u64) -> Bytes {
    // Not two of them are the same: cacache keeps one of those.
    let mut body = vec![number as u8; LEN];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body.into()
}

fn check(number: u64, bytes: &[u8]) -> Anything {
    if bytes.len() == LEN && bytes[..8] == number.to_le_bytes() { Ok(()) } else { Err("a wrong byte".into()) }
}

fn open(path: &Path) -> Anything<Store> {
    let store = Store::open(Options { memory: 0, pending: 1 << 30, budget: 8 << 30, ..Options::new(path) })?;
    while store.stats().phase != Phase::Serving {
        std::thread::yield_now();
    }
    Ok(store)
}

/// Waits until `left` ends have come.
fn ends(store: &Store, mut left: usize) -> Anything {
    while left > 0 {
        rustix::event::poll(&mut [rustix::event::PollFd::new(&store.fd(), rustix::event::PollFlags::IN)], None)?;
        for (_, event) in store.completions() {
            match event {
                Event::Done(true) | Event::End => left -= 1,
                Event::Open { body, .. } if body == LEN as u64 => {}
                Event::Chunk { bytes, .. } if bytes.len() == LEN => {}
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
    Ok(())
}

/// In an order that jumps about.
fn mixed(number: u64) -> u64 {
    number * 7919 % COUNT
}

fn sqlite(path: &Path) -> Anything<Connection> {
    let base = Connection::open(path)?;
    base.pragma_update(None, "journal_mode", "WAL")?;
    base.pragma_update(None, "synchronous", "NORMAL")?;
    base.execute_batch("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, meta BLOB, body BLOB)")?;
    Ok(base)
}

const INSERT: &str = "INSERT OR REPLACE INTO entries VALUES (?1, x'', ?2)";
const SELECT: &str = "SELECT body FROM entries WHERE key = ?1";

fn sqlite_get(base: &Connection, number: u64) -> Anything {
    let mut select = base.prepare_cached(SELECT)?;
    let found: Option<Vec<u8>> = select.query_row([name(number)], |row| row.get(0)).optional()?;
    check(number, &found.ok_or("a miss")?)
}

fn rate(work: impl FnOnce() -> Anything) -> Anything<f64> {
    let since = Instant::now();
    work()?;
    Ok(COUNT as f64 / since.elapsed().as_secs_f64())
}

fn warm(folder: &Path) -> Anything {
    let bodies: Vec<Bytes> = (0..COUNT).map(body).collect();
    let of = |number: u64| bodies[number as usize].clone();
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        let path = folder.join(round.to_string());
        std::fs::create_dir_all(&path)?;
        let store = open(&path.join("store"))?;
        let mut note = |what, rate: f64| all.entry(what).or_default().push(rate);
        let put_many = |depth: usize| {
            rate(|| {
                for numbers in (0..COUNT).collect::<Vec<_>>().chunks(depth) {
                    for number in numbers {
                        store.put(&key(*number), Put::default(), of(*number));
                    }
                    ends(&store, numbers.len())?;
                }
                Ok(())
            })
        };
        let get_many = |depth: usize| {
            rate(|| {
                for numbers in (0..COUNT).collect::<Vec<_>>().chunks(depth) {
                    for number in numbers {
                        store.get_with(&key(mixed(*number)), Get::default());
                    }
                    ends(&store, numbers.len())?;
                }
                Ok(())
            })
        };
        note("put thaw, 64 under way", put_many(DEPTH)?);
        note("put thaw, one at a time", put_many(1)?);
        let cache = path.join("cacache");
        note(
            "put cacache",
            rate(|| {
                (0..COUNT).try_for_each(|number| cacache::write_sync(&cache, name(number), of(number)).map(drop))?;
                Ok(())
            })?,
        );
        let base = sqlite(&path.join("sqlite"))?;
        note(
            "put SQLite, a transaction each",
            rate(|| {
                (0..COUNT).try_for_each(|number| {
                    base.prepare_cached(INSERT)?.execute((name(number), &of(number)[..])).map(drop)
                })?;
                Ok(())
            })?,
        );
        let other = sqlite(&path.join("sqlite-batch"))?;
        note(
            "put SQLite, 64 in a transaction",
            rate(|| {
                for numbers in (0..COUNT).collect::<Vec<_>>().chunks(DEPTH) {
                    let change = other.unchecked_transaction()?;
                    for number in numbers {
                        change.prepare_cached(INSERT)?.execute((name(*number), &of(*number)[..]))?;
                    }
                    change.commit()?;
                }
                Ok(())
            })?,
        );
        note("get thaw, 64 under way", get_many(DEPTH)?);
        note("get thaw, one at a time", get_many(1)?);
        note(
            "get cacache",
            rate(|| {
                (0..COUNT).map(mixed).try_for_each(|number| check(number, &cacache::read_sync(&cache, name(number))?))
            })?,
        );
        note("get SQLite", rate(|| (0..COUNT).map(mixed).try_for_each(|number| sqlite_get(&base, number)))?);
        drop(store);
        std::fs::remove_dir_all(&path)?;
    }
    println!("16 kB, calls a second, median of {ROUNDS} (all)");
    for (what, mut rates) in all {
        let raw: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        rates.sort_by(f64::total_cmp);
        println!("{what:34}{:10.0}   ({})", rates[rates.len() / 2], raw.join(" "));
    }
    Ok(())
}

/// Reads that the device has done, and their sectors.
fn reads(device: &str) -> Anything<(u64, u64)> {
    let all = std::fs::read_to_string(format!("/sys/block/{device}/stat"))?;
    let words: Vec<u64> = all.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    Ok((words[0], words[2]))
}

fn drop_caches() -> Anything {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    Ok(())
}

fn counted(what: &str, device: &str, count: u64, work: impl FnOnce() -> Anything) -> Anything {
    let before = reads(device)?;
    let since = Instant::now();
    work()?;
    let after = reads(device)?;
    println!(
        "{what:46}{:8.3} reads an entry, {:6.1} kB each entry, {count} entries in {:.0} ms",
        (after.0 - before.0) as f64 / count as f64,
        (after.1 - before.1) as f64 * 0.512 / count as f64,
        since.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

fn cold(folder: &Path, device: &str) -> Anything {
    // Entries of many groups come mixed, as pages that load at the same time, and DEPTH wait for the disk together.
    let groups = COUNT / GROUP;
    let of_group = |group: u64| (0..GROUP).map(move |at| at * groups + group);
    let path = folder.join("store");
    let store = open(&path)?;
    let bulk: Vec<u64> = (0..groups).collect();
    for eight in bulk.chunks(8) {
        for at in 0..GROUP {
            for group in eight {
                let put = Put { group: group + 1, ..Put::default() };
                store.put(&key(at * groups + group), put, body(at * groups + group));
            }
            if at % 8 == 7 {
                ends(&store, 8 * eight.len())?;
            }
        }
    }
    store.flush();
    ends(&store, 1)?;
    drop(store);
    let cache = folder.join("cacache");
    let base = sqlite(&folder.join("sqlite"))?;
    for number in 0..COUNT {
        cacache::write_sync(&cache, name(number), body(number))?;
        base.prepare_cached(INSERT)?.execute((name(number), &body(number)[..]))?;
    }
    base.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    drop(base);
    const SOME: u64 = 1000;
    drop_caches()?;
    let mut store = None;
    counted("start of thaw (in all, not each)", device, 1, || {
        store = Some(open(&path)?);
        Ok(())
    })?;
    let store = store.ok_or("no store")?;
    counted("random get, thaw", device, SOME, || {
        (0..SOME).map(mixed).try_for_each(|number| {
            store.get_with(&key(number), Get::default());
            ends(&store, 1)
        })
    })?;
    drop(store);
    drop_caches()?;
    let store = open(&path)?;
    counted("a group of 32 asked for together, thaw", device, groups * GROUP, || {
        (0..groups).map(|group| group * 37 % groups).try_for_each(|group| {
            of_group(group).for_each(|number| {
                store.get_with(&key(number), Get::default());
            });
            ends(&store, GROUP as usize)
        })
    })?;
    drop(store);
    drop_caches()?;
    counted("random get, cacache", device, SOME, || {
        (0..SOME).map(mixed).try_for_each(|number| check(number, &cacache::read_sync(&cache, name(number))?))
    })?;
    drop_caches()?;
    counted("random get, SQLite", device, SOME, || {
        let base = sqlite(&folder.join("sqlite"))?;
        (0..SOME).map(mixed).try_for_each(|number| sqlite_get(&base, number))
    })
}

fn main() -> Anything {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["warm", folder] => warm(Path::new(folder)),
        ["cold", folder, device] => cold(Path::new(folder), device),
        _ => Err("usage: entrystore-peers warm FOLDER | cold FOLDER DEVICE".into()),
    }
}
