//! What a start finds out: by the snapshot, by footers, by records, and while it does.

mod common;

use common::{Memory, Op, body, key, open, open_with, plain};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_entrystore::{Event, Phase, Put, Urgency};

/// The disk of a store with so many entries of which the first are overwritten, changed and removed.
fn filled(number: u64, set: impl FnOnce(&mut thaw_entrystore::Options)) -> (thaw_entrystore::Blocking, Arc<Memory>) {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, set);
    let mut tickets = Vec::new();
    for number in 0..number {
        tickets.push(store.store().put(&key(number), Put::default(), body(number, 1, 100)));
    }
    assert!(tickets.into_iter().all(|ticket| store.done(ticket)));
    for number in 0..100 {
        match number % 3 {
            0 => assert!(store.put(&key(number), Put::default(), body(number, 2, 50))),
            1 => assert!(store.update_meta(&key(number), "new".into())),
            _ => assert!(store.remove(&key(number))),
        }
    }
    (store, disk)
}

fn check(disk: &Arc<Memory>, count: u64, each: u64) {
    let mut store = open(disk);
    for number in (0..100).chain((100..count).step_by(each as usize)) {
        let expected = match (number < 100, number % 3) {
            (true, 0) => Some(("".into(), body(number, 2, 50))),
            (true, 1) => Some(("new".into(), body(number, 1, 100))),
            (true, _) => None,
            _ => Some(("".into(), body(number, 1, 100))),
        };
        assert_eq!(store.get(&key(number)), expected, "{number}");
    }
    assert_eq!(store.get(&key(count)), None);
    assert_eq!(store.store().stats().entries, count - 33);
}

#[test]
fn an_index_of_100_000_entries_is_right_after_an_end_and_after_a_crash() {
    const COUNT: u64 = 100_000;
    let (store, disk) = filled(COUNT, |_| {});
    let crashed = Memory::new(disk.lock().files.clone());
    drop(store);
    let ended = disk.lock().files.clone();
    let mut without = ended.clone();
    without.remove("index").unwrap();
    let mut torn = ended.clone();
    let index = torn.get_mut("index").unwrap();
    let middle = index.len() / 2;
    index[middle] ^= 1;
    for disk in [crashed, Memory::new(ended), Memory::new(without), Memory::new(torn)] {
        check(&disk, COUNT, 37);
    }
}

/// What a start reads: names and lengths.
fn reads(disk: &Arc<Memory>) -> Vec<(String, usize)> {
    disk.lock().note_reads = true;
    let before = disk.len();
    let store = open(disk);
    while store.store().stats().phase != Phase::Serving {
        std::thread::yield_now();
    }
    let ops = disk.lock().ops[before..].to_vec();
    disk.lock().note_reads = false;
    let read = |op| match op {
        Op::Read { name, len, .. } => Some((name, len)),
        _ => None,
    };
    ops.into_iter().filter_map(read).collect()
}

#[test]
fn a_start_after_an_end_reads_the_snapshot_alone_and_one_after_a_crash_no_sealed_record() {
    let (mut store, disk) = filled(5000, |options| options.segment = 64 << 10);
    assert!(store.flush());
    let crashed = Memory::new(disk.lock().files.clone());
    drop(store);
    assert_eq!(reads(&disk).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["index"]);
    // One segment is read whole, the others' footers, and the heads of 33 side records and their bases.
    let bytes: usize = reads(&crashed).into_iter().map(|(_, len)| len).sum();
    let whole = crashed.used() as usize;
    assert!(bytes < whole / 2 + 66 * 4096, "{bytes} of {whole}");
    check(&crashed, 5000, 7);
}

#[test]
fn what_is_newer_than_the_snapshot_counts() {
    let (store, disk) = filled(3000, |options| options.segment = 64 << 10);
    drop(store);
    let old = disk.lock().files["index"].clone();
    let mut store = open_with(&disk, |options| options.segment = 64 << 10);
    for number in 1000..1500 {
        store.put(&key(number), plain(), body(number, 3, 80));
        store.remove(&key(number + 1000));
    }
    let files = disk.lock().files.clone();
    drop(store);
    let mut ended = disk.lock().files.clone();
    ended.insert("index".into(), old);
    for files in [files, ended] {
        let mut store = open(&Memory::new(files));
        for number in 100..3000 {
            let expected = match number {
                1000..1500 => Some(("meta".into(), body(number, 3, 80))),
                2000..2500 => None,
                _ => Some(("".into(), body(number, 1, 100))),
            };
            assert_eq!(store.get(&key(number)), expected, "{number}");
        }
    }
}

#[test]
fn it_serves_what_it_has_found_while_it_looks_for_the_rest() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.segment = 64 << 10);
    for number in 0..1000 {
        store.put(&key(number % 900), plain(), body(number % 900, number, 1000));
    }
    let crashed = Memory::new(disk.lock().files.clone());
    crashed.lock().note_reads = true;
    // It stops at the first segment that it looks through: the newest one.
    let newest = crashed.lock().files.keys().max().cloned().unwrap();
    crashed.lock().stop_after = Some(newest);
    let mut store = open(&crashed);
    let late = store.store().get_with(&key(500), thaw_entrystore::Get::default());
    crashed.wait_held();
    while store.store().stats().phase != Phase::Rebuilding {
        std::thread::yield_now();
    }
    let newer = store.store().get(&key(99), Urgency::Normal);
    assert!(store.store().completions().is_empty());
    // One operation at a time: the read goes before the next segment.
    let before = crashed.len();
    crashed.open_gate();
    assert!(matches!(store.wait(newer), Event::Open { .. }));
    assert!(matches!(store.wait(late), Event::Open { .. }));
    let ops = crashed.lock().ops[before..].to_vec();
    let segments: Vec<String> = ops
        .into_iter()
        .filter_map(|op| match op {
            Op::Read { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    assert!(segments.len() > 10, "{segments:?}");
    // What it read of other segments before it read the entry.
    let newest = segments.iter().max().unwrap().clone();
    let first = segments.iter().position(|name| *name == newest).unwrap();
    assert!(first <= 2, "{segments:?}");
}

/// What the disk holds when a store is killed of which a commit with a snapshot knows the first entries.
fn killed(known: u64, all: u64) -> Arc<Memory> {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.snapshot = std::time::Duration::ZERO);
    for number in 0..known {
        store.put(&key(number), plain(), body(number, 1, 4000));
    }
    assert!(store.flush());
    for number in known..all {
        store.put(&key(number), plain(), body(number, 1, 4000));
    }
    Memory::new(disk.lock().files.clone())
}

#[test]
fn of_an_unsealed_segment_a_start_reads_what_came_after_the_snapshot() {
    for (known, all) in [(300, 300), (300, 310)] {
        let disk = killed(known, all);
        let used = reads(&disk).into_iter().filter(|(name, _)| name != "index").map(|(_, len)| len).sum::<usize>();
        let most = (all - known) as usize * 4200 + if all > known { 24 + 24 } else { 0 };
        assert!(used <= most, "{used} of {most}");
        // And again after the end of the one that did so: it has not sealed what it has not read.
        assert_eq!(reads(&disk).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["index"]);
        let mut store = open(&disk);
        assert!((0..all).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 4000)));
        drop(store);
        disk.lock().files.remove("index").unwrap();
        let mut store = open(&disk);
        assert!((0..all).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 4000)));
    }
}

#[test]
fn much_that_was_written_brings_a_snapshot_before_its_time() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in 0..2000 {
        store.put(&key(number), plain(), body(number, 1, 4000));
        if number % 10 == 9 {
            assert!(store.flush());
        }
    }
    let disk = Memory::new(disk.lock().files.clone());
    let bytes: usize = reads(&disk).into_iter().filter(|(name, _)| name != "index").map(|(_, len)| len).sum();
    assert!(bytes < (1 << 20) + 20 * 4200, "{bytes} of {}", disk.used());
}

#[test]
fn a_store_that_is_shared_can_be_ended_and_misses_from_then_on() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    let tickets: Vec<_> =
        (0..50).map(|number| store.store().put(&key(number), plain(), body(number, 1, 4000))).collect();
    // A read that waits for credit, and a writer that has not finished, end with it.
    let read = store.store().get(&key(1), Urgency::Normal);
    assert!(matches!(store.wait(read), Event::Open { .. }));
    let mut writer = store.store().write(&key(60), plain());
    writer.push(body(60, 1, 2 << 20)).unwrap();
    assert!(store.close());
    assert_eq!(store.wait(read), Event::Aborted);
    let written = writer.finish();
    assert!(!store.done(written));
    assert!(tickets.into_iter().all(|ticket| store.done(ticket)));
    assert!(store.get(&key(1)).is_none() && !store.put(&key(1), plain(), "x".into()) && !store.close());
    let disk = Memory::new(disk.lock().files.clone());
    assert_eq!(reads(&disk).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["index"]);
    let mut store = open(&disk);
    assert!((0..50).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 4000)));
    // A disk that fails says so.
    store.put(&key(1), plain(), "y".into());
    disk.lock().fail_syncs = true;
    assert!(!store.close());
}

#[test]
fn what_an_earlier_process_left_unsealed_is_evicted_by_its_records() {
    for spoiled in [false, true] {
        let disk = Memory::new(HashMap::new());
        let mut store = open_with(&disk, |options| options.snapshot = std::time::Duration::ZERO);
        for number in 0..200 {
            let put = Put { pinned: number % 5 == 1, ..plain() };
            store.put(&key(number), put, body(number, 1, 4000));
        }
        assert!(store.flush());
        let disk = Memory::new(disk.lock().files.clone());
        if spoiled {
            disk.lock().files.get_mut("00000001.seg").unwrap()[400_000] ^= 1;
        }
        let mut store = open_with(&disk, |options| (options.segment, options.budget) = (128 << 10, 1 << 20));
        disk.lock().note_reads = true;
        for number in 1000..1400 {
            store.put(&key(number), plain(), body(number, 1, 4000));
        }
        assert!(!disk.lock().files.contains_key("00000001.seg"));
        let entries = store.store().stats().entries;
        let there = (0..1400).filter(|number| store.get(&key(*number)).is_some()).count() as u64;
        assert_eq!(entries, there, "what lay behind a wrong byte is in the index still");
        let pinned = (0..200).filter(|number| number % 5 == 1 && store.get(&key(*number)).is_some()).count();
        assert!(if spoiled { (15..40).contains(&pinned) } else { pinned == 40 }, "{pinned} of what is never evicted");
    }
}
