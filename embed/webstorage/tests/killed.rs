//! A process is killed before it has synced: what the next one has seen of it is on the medium when that one flushes.

mod common;

use common::{all, area, at_once, news_until, set};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_log::memory::{Medium, Memory, Op};
use thaw_webstorage::{News, Storage};

const A: &str = "https://a.example";
const B: &str = "https://b.example";

/// What a storage finds in these files.
fn content(files: HashMap<String, Vec<u8>>) -> Vec<(String, String)> {
    let storage = Storage::on(Memory::new(files), at_once()).unwrap();
    all(&area(&storage, A))
}

/// All that a storage does to a disk in which it makes a file, appends to it, and writes it anew.
fn life() -> Vec<Op> {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    let a = area(&storage, A);
    for number in 0..12 {
        set(&a, &format!("key {}", number % 3), &format!("{number} {}", "x".repeat(20_000)));
        storage.flush_and_wait();
    }
    storage.close().unwrap();
    disk.lock().ops.clone()
}

/// The next one does nothing but read, and perhaps change, before its flush; then the power fails.
fn next(changes: bool) {
    let ops = life();
    let renamed = ops.iter().filter(|op| matches!(op, Op::Rename(..))).count();
    assert!(renamed > 1, "a file was made and written anew");
    for killed in 0..=ops.len() {
        let mut medium = Medium::default();
        ops[..killed].iter().for_each(|op| medium.apply(op));
        let disk = Memory::new(medium.all());
        let storage = Storage::on(disk.clone(), at_once()).unwrap();
        let a = area(&storage, A);
        if changes {
            set(&a, "of the next", "1");
        }
        let seen = all(&a);
        assert!(storage.flush_and_wait());
        disk.lock().ops.iter().for_each(|op| medium.apply(op));
        assert_eq!(content(medium.none()), seen, "killed after {killed} operations: {:?}", ops.get(killed));
    }
}

#[test]
fn what_a_killed_process_had_not_synced_is_there_after_a_flush_of_the_next() {
    next(false);
}

#[test]
fn and_what_the_next_one_has_changed() {
    next(true);
}

/// Two storages on one disk; the first has a value in the kernel alone, and never syncs it.
fn two() -> (Arc<Memory>, Storage, Storage) {
    let disk = Memory::new(HashMap::new());
    let dead = Storage::on(disk.clone(), at_once()).unwrap();
    let a = area(&dead, A);
    set(&a, "synced", "1");
    dead.flush_and_wait();
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    // It has the area in memory before the value comes.
    let held = area(&storage, A);
    assert!(storage.flush_and_wait());
    let batches = dead.stats().batches;
    set(&a, "not synced", "2");
    while dead.stats().batches == batches {
        std::thread::yield_now();
    }
    // They live on as long as the test does.
    std::mem::forget((a, held));
    (disk, dead, storage)
}

fn left(disk: &Memory) -> Vec<(String, String)> {
    let mut medium = Medium::default();
    disk.lock().ops.iter().for_each(|op| medium.apply(op));
    content(medium.none())
}

#[test]
fn and_what_a_storage_that_had_it_in_memory_has_taken_over() {
    let (disk, dead, storage) = two();
    assert_eq!(left(&disk).len(), 1, "not on the medium yet");
    // On this disk, a storage looks for changes when it loads.
    drop(area(&storage, B));
    news_until(&storage, |news| matches!(news, News::Changed { .. }));
    assert!(storage.flush_and_wait());
    assert_eq!(left(&disk).len(), 2);
    std::mem::forget((dead, storage));
}

#[test]
fn what_leaves_the_memory_is_on_the_medium() {
    let (disk, dead, storage) = two();
    let small = thaw_webstorage::Options { memory: 0, ..at_once() };
    let reader = Storage::on(disk.clone(), small).unwrap();
    drop(area(&reader, A));
    while reader.stats().unloaded == 0 {
        std::thread::yield_now();
    }
    assert_eq!(left(&disk).len(), 2);
    std::mem::forget((dead, storage));
}

#[test]
fn a_file_that_was_taken_away_and_only_read_here_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let first = Storage::open(folder.path(), at_once()).unwrap();
    set(&area(&first, A), "k", "v");
    first.close().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    let a = area(&storage, A);
    storage.news();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert!(storage.flush_and_wait());
    assert!(storage.news().into_iter().all(|news| !matches!(news, News::Trouble(..))), "nothing of it was ours");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(files.filter(|name| name != "turn").count(), 0);
    drop(a);
}
