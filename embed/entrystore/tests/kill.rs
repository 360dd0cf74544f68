//! A process that is killed while it fills a store: nothing that was acknowledged is lost, and no byte is wrong.

mod common;

use common::{Random, body, key};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use thaw_entrystore::{Blocking, Event, Options, Put, Store, Ticket};

const KEYS: u64 = 1000;
const LEN: usize = 16_384;
const FOLDER: &str = "ENTRYSTORE_TEST_KILLED_IN";
const FIRST: &str = "ENTRYSTORE_TEST_FIRST_VERSION";

fn store(path: &Path) -> Blocking {
    let mut options = Options::new(path);
    (options.memory, options.commit) = (0, std::time::Duration::from_millis(20));
    options.snapshot = std::time::Duration::from_millis(50);
    Blocking::new(Store::open(options).unwrap())
}

/// The part of the process that is killed: puts, says what it puts before and what is acknowledged after.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let store = store(Path::new(&folder));
    let store = store.store();
    let mut random = Random(first + 1);
    let mut out = std::io::stdout().lock();
    let mut waiting: HashMap<Ticket, (u64, u64)> = HashMap::new();
    for version in first.. {
        // First all, then some again and again.
        let number = if version - first < KEYS { version - first } else { random.below(KEYS) };
        writeln!(out, "\nput {number} {version}").unwrap();
        let ticket = store.put(&key(number), Put::default(), body(number, version, LEN));
        waiting.insert(ticket, (number, version));
        loop {
            for (ticket, event) in store.completions() {
                let (number, version) = waiting.remove(&ticket).unwrap();
                assert_eq!(event, Event::Done(true));
                writeln!(out, "\ndone {number} {version}").unwrap();
            }
            if waiting.len() < 16 {
                break;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn killed_while_it_fills_it_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(std::process::id().into());
    let mut done: HashMap<u64, u64> = HashMap::new();
    let mut asked: HashMap<u64, Vec<u64>> = HashMap::new();
    let (mut first, mut acknowledged) = (0, 0);
    for round in 0..20 {
        let upto = 200 + random.below(2 * KEYS);
        let began = first.to_string();
        // What it says after it was killed counts too.
        testing::killed(&[(FOLDER, folder.path().as_os_str()), (FIRST, began.as_ref())], upto, |words| {
            let [what @ ("put" | "done"), number, version] = words[..] else { return false };
            let (Ok(number), Ok(version)) = (number.parse::<u64>(), version.parse::<u64>()) else { return false };
            first = first.max(version + 1);
            if what == "put" {
                asked.entry(number).or_default().push(version);
            } else {
                let last = done.entry(number).or_default();
                *last = version.max(*last);
                acknowledged += 1;
            }
            true
        });
        if round % 3 == 1 {
            // The next one begins after a crash, not after the end of the one that looks.
            continue;
        }
        let mut store = store(folder.path());
        for number in 0..KEYS {
            let Some((_, bytes)) = store.get(&key(number)) else {
                assert!(!done.contains_key(&number), "round {round}: {number} is lost");
                continue;
            };
            let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, body(number, version, LEN), "round {round}: a wrong byte");
            assert!(asked[&number].contains(&version));
            assert!(version >= done.get(&number).copied().unwrap_or(0), "round {round}: {number} is an old one");
        }
    }
    assert!(acknowledged > 4000, "{acknowledged}");
}
