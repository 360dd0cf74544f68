//! What a read costs the disk, and what needs no disk because the kernel has it in memory.

mod common;

use common::{Memory, body, key, open, plain};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use thaw_entrystore::{Blocking, Clear, Event, Get, Phase, Put};

const LEN: usize = 10_000;

/// A store that knows what it has.
fn serving(disk: &Arc<Memory>) -> Blocking {
    let store = open(disk);
    while store.store().stats().phase != Phase::Serving {
        std::thread::yield_now();
    }
    store
}

/// A store of entries, whose pages are all in memory or none of them.
fn filled(count: u64, group: impl Fn(u64) -> u64, resident: bool) -> (Arc<Memory>, Blocking) {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in 0..count {
        assert!(store.put(&key(number), Put { group: group(number), ..plain() }, body(number, 1, LEN)));
    }
    drop(store);
    let store = serving(&disk);
    let mut inside = disk.lock();
    let pages = |(name, file): (&String, &Vec<u8>)| {
        let name = name.clone();
        (0..file.len().div_ceil(4096) as u64).map(move |page| (name.clone(), page))
    };
    let all: BTreeSet<(String, u64)> = inside.files.iter().flat_map(pages).collect();
    inside.cached = Some(if resident { all } else { BTreeSet::new() });
    drop(inside);
    (disk, store)
}

#[test]
fn what_is_in_memory_is_read_while_the_disk_stands_still() {
    let (disk, mut store) = filled(10, |_| 0, true);
    disk.close_gate();
    for number in 0..10 {
        assert_eq!(store.get(&key(number)), Some(("meta".into(), body(number, 1, LEN))));
    }
    let (_, part) = store.get_with(&key(1), Get { range: 100..200, ..Get::default() }).unwrap();
    assert_eq!(part, body(1, 1, LEN).slice(100..200));
    // Within its credit.
    let ticket = store.store().get_with(&key(2), Get { credit: 5, ..Get::default() });
    assert!(matches!(store.wait(ticket), Event::Open { .. }));
    assert_eq!(store.wait(ticket), Event::Chunk { at: 0, bytes: body(2, 1, LEN).slice(..5) });
    assert!(store.store().cancel(ticket));
    assert_eq!(store.store().stats().counts.disk_hits, 12);
    disk.open_gate();
}

#[test]
fn what_changes_while_it_is_read_is_not_what_was_there() {
    for change in 0..4 {
        let (disk, store) = filled(3, |_| 0, true);
        let store = Arc::new(store);
        let theirs = store.clone();
        disk.lock().meanwhile = Some(Box::new(move || {
            match change {
                0 => theirs.store().put(&key(1), plain(), body(1, 2, LEN)),
                1 => theirs.store().remove(&key(1)),
                2 => theirs.store().clear(Clear::All),
                // It is done, and the index knows it.
                _ => {
                    let put = theirs.store().put(&key(1), plain(), body(1, 2, LEN));
                    while !theirs.store().completions().contains(&(put, Event::Done(true))) {}
                    put
                }
            };
        }));
        let ticket = store.store().get_with(&key(1), Get::default());
        assert!(disk.lock().meanwhile.is_none());
        let mut store = Arc::into_inner(store).unwrap();
        let newer = change == 0 || change == 3;
        match store.wait(ticket) {
            Event::Open { .. } if newer => {
                assert_eq!(store.wait(ticket), Event::Chunk { at: 0, bytes: body(1, 2, LEN) }, "{change}");
            }
            Event::Miss if !newer => {}
            other => panic!("{change}: {other:?}"),
        }
        assert_eq!(store.get(&key(1)).is_some(), newer);
    }
}

#[test]
fn a_record_in_memory_that_is_not_right_is_missed() {
    let (disk, mut store) = filled(2, |_| 0, true);
    for file in disk.lock().files.iter_mut().filter(|(name, _)| name.ends_with(".seg")).map(|(_, file)| file) {
        let middle = file.len() / 4;
        file[middle] ^= 1;
    }
    assert_eq!((store.get(&key(0)), store.get(&key(1)).is_some()), (None, true));
    assert_eq!(store.store().stats().counts.broken, 1);
}

#[test]
fn a_record_of_another_key_is_not_the_one() {
    let (disk, mut store) = filled(2, |_| 0, true);
    let (begin, record) = (24, 124 + LEN);
    for file in disk.lock().files.iter_mut().filter(|(name, _)| name.ends_with(".seg")).map(|(_, file)| file) {
        let (first, second) = file[begin..begin + 2 * record].split_at_mut(record);
        first.swap_with_slice(second);
    }
    assert_eq!((store.get(&key(0)), store.get(&key(1))), (None, None));
    assert_eq!(store.store().stats().counts.broken, 0, "both are whole records");
}

/// Requests of the device for entries that are asked for one behind the other, each when the one before it is there.
fn requests(disk: &Memory, store: &mut Blocking, numbers: impl Iterator<Item = u64>) -> usize {
    let before = disk.lock().requests;
    for number in numbers {
        assert_eq!(store.get(&key(number)), Some(("meta".into(), body(number, 1, LEN))));
    }
    disk.lock().requests - before
}

#[test]
fn a_group_is_a_few_long_reads_in_any_order() {
    let (disk, mut store) = filled(400, |number| 1 + number / 200, false);
    let forth = requests(&disk, &mut store, 0..200);
    assert!(forth <= 8, "{forth} requests for 2 MB");
    // As six connections ask.
    let (disk, mut store) = filled(400, |number| 1 + number / 200, false);
    let mixed = requests(&disk, &mut store, (0..200).map(|at| at / 6 * 6 + (at * 5) % 6).filter(|at| *at < 200));
    assert!(mixed <= 12, "{mixed} requests for 2 MB");
}

#[test]
fn entries_without_a_group_are_read_alone() {
    let (disk, mut store) = filled(400, |_| 0, false);
    // Pages at both ends are shared with others.
    assert_eq!(requests(&disk, &mut store, (0..40).map(|at| at * 10)), 40);
    assert!(disk.lock().cached.as_ref().unwrap().len() <= 40 * 5);
}

#[test]
fn what_waits_side_by_side_is_one_request() {
    let (disk, mut store) = filled(100, |_| 0, false);
    disk.close_gate();
    let far = store.store().get_with(&key(90), Get::default());
    disk.wait_held();
    let many: Vec<_> = (10..30).map(|number| store.store().get_with(&key(number), Get::default())).collect();
    disk.open_gate();
    for ticket in many.into_iter().chain([far]) {
        while store.wait(ticket) != Event::End {}
    }
    let inside = disk.lock();
    assert!(inside.requests == 2, "{} requests", inside.requests);
    assert!(inside.cached.as_ref().unwrap().len() <= 21 * LEN / 4096 + 8);
}

#[test]
fn a_large_body_is_asked_for_in_long_strides_and_no_further_than_it_is_wanted() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    let whole = body(1, 1, 6 << 20);
    assert!(store.put(&key(1), plain(), whole.clone()));
    drop(store);
    for (range, most) in [(0..u64::MAX, 9), (0..300_000, 4)] {
        let mut store = serving(&disk);
        disk.lock().cached = Some(BTreeSet::new());
        let before = disk.lock().requests;
        let (_, part) = store.get_with(&key(1), Get { range: range.clone(), ..Get::default() }).unwrap();
        assert_eq!(part, whole.slice(..whole.len().min(range.end as usize)));
        let inside = disk.lock();
        assert!(inside.requests - before <= most, "{} requests", inside.requests - before);
        let pages = inside.cached.as_ref().unwrap().len();
        assert!(pages <= part.len().next_multiple_of(256 << 10) / 4096 + 8, "{pages} pages");
    }
}
