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

#[test]
fn a_start_after_an_end_reads_the_snapshot_alone_and_one_after_a_crash_no_sealed_record() {
    let (mut store, disk) = filled(5000, |options| options.segment = 64 << 10);
    assert!(store.flush());
    let crashed = Memory::new(disk.lock().files.clone());
    drop(store);
    let reads = |disk: &Arc<Memory>| {
        disk.lock().note_reads = true;
        let before = disk.len();
        let store = open(disk);
        while store.store().stats().phase != Phase::Serving {
            std::thread::yield_now();
        }
        let ops = disk.lock().ops[before..].to_vec();
        ops.into_iter().filter_map(|op| match op {
            Op::Read { name, len, .. } => Some((name, len)),
            _ => None,
        })
    };
    assert_eq!(reads(&disk).map(|(name, _)| name).collect::<Vec<_>>(), ["index"]);
    // One segment is read whole, the others' footers, and the heads of 33 side records and their bases.
    let bytes: usize = reads(&crashed).map(|(_, len)| len).sum();
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
