//! Faults of the disk: a miss and dropped writes, never an error, never a wrong byte, never a call that waits.

mod common;

use bytes::Bytes;
use common::{Memory, Op, Random, body, key, open, open_with, plain};
use std::collections::HashMap;
use std::path::Path;
use thaw_entrystore::{Blocking, Clear, Event, Get, Options, Phase, Put, Store, Urgency};

const MB: usize = 1 << 20;

#[test]
fn no_call_waits_for_a_disk_that_does_not_answer() {
    for started in [false, true] {
        let disk = Memory::new(HashMap::new());
        if !started {
            disk.close_gate();
        }
        let mut store = open(&disk);
        if started {
            for number in 0..10 {
                store.put(&key(number), plain(), body(number, 1, 1000));
            }
            disk.close_gate();
        }
        let one = store.store();
        let held = one.get(&key(0), Urgency::Normal);
        if started {
            disk.wait_held();
        }
        // While the gate is closed no operation of the disk returns: if one of these waited for it, this test would not
        // end.
        let reads: Vec<_> = (1..10).map(|number| one.get_with(&key(number), Get::default())).collect();
        let put = one.put(&key(20), plain(), body(20, 1, 5000));
        let large = one.put(&key(21), plain(), body(21, 1, 3 * MB));
        let update = one.update_meta(&key(1), "x".into());
        let remove = one.remove(&key(2));
        let clear = one.clear(Clear::Prefix(b"https://site.example/9".to_vec()));
        let flush = one.flush();
        let visit = one.visit(Clear::All, 0, 5);
        let mut writer = one.write(&key(22), plain());
        let mut refused = false;
        for _ in 0..40 {
            refused |= writer.push(body(22, 1, 100_000)).is_err();
        }
        assert!(refused, "a writer's bytes are bounded");
        let writer = writer.finish();
        assert!(one.raise(reads[0], Urgency::Urgent) && one.cancel(reads[1]));
        one.more(held, 10);
        assert!(one.completions().iter().all(|(_, event)| !matches!(event, Event::Chunk { .. })));
        let _ = one.stats();
        disk.open_gate();
        for ticket in [put, large, remove, clear, flush, writer] {
            assert!(store.done(ticket));
        }
        assert_eq!(store.done(update), started);
        assert!(matches!(store.wait(visit), Event::Visited { .. }));
    }
}

#[test]
fn an_urgent_read_waits_for_the_one_under_way_alone() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in 0..402 {
        store.put(&key(number), plain(), body(number, 1, 1000));
    }
    disk.lock().note_reads = true;
    let before = disk.len();
    disk.close_gate();
    let mut tickets = vec![store.store().get_with(&key(0), Get::default())];
    disk.wait_held();
    tickets.extend((1..401).map(|number| store.store().get_with(&key(number), Get::default())));
    for number in 500..600 {
        tickets.push(store.store().put(&key(number), plain(), body(number, 1, 1000)));
    }
    let urgent = store.store().get_with(&key(401), Get { urgency: Urgency::Urgent, ..Get::default() });
    let raised = tickets[399];
    disk.open_gate();
    let mut order = Vec::new();
    while order.len() < 401 {
        for (ticket, event) in store.store().completions() {
            if matches!(event, Event::Open { .. }) {
                order.push(ticket);
            }
        }
    }
    assert_eq!(order[1], urgent, "after the one under way");
    assert!(order.contains(&raised));
    let ops = disk.lock().ops[before..].to_vec();
    let writes = ops.iter().position(|op| matches!(op, Op::Write { .. })).unwrap_or(ops.len());
    assert!(writes > 2, "no write goes before it");
}

#[test]
fn a_wrong_byte_is_never_handed_over() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    let (small, large) = (body(1, 1, 5000), body(2, 1, 3 * MB));
    let mut random = Random(77);
    let mut aborted = 0;
    for round in 0..60 {
        store.put(&key(1), plain(), small.clone());
        store.put(&key(2), plain(), large.clone());
        {
            let mut inside = disk.lock();
            let last = |inside: &common::Inside, end: &str| {
                inside.files.keys().filter(|name| name.ends_with(end)).max().cloned().unwrap()
            };
            let name = last(&inside, if round % 2 == 0 { "seg" } else { "big" });
            let file = inside.files.get_mut(&name).unwrap();
            let len = file.len();
            let at =
                if round % 2 == 0 { len - 1 - random.below(5100) as usize } else { random.below(len as u64) as usize };
            file[at] ^= 1 << random.below(8);
        }
        for (number, whole) in [(1, &small), (2, &large)] {
            let ticket = store.store().get_with(&key(number), Get::default());
            let mut had = 0;
            loop {
                match store.wait(ticket) {
                    Event::Open { meta, .. } => assert_eq!(&meta[..], b"meta"),
                    Event::Chunk { bytes, .. } => {
                        assert_eq!(bytes, whole.slice(had..had + bytes.len()));
                        had += bytes.len();
                    }
                    Event::Aborted => {
                        aborted += 1;
                        assert_eq!(store.get(&key(number)), None, "it is gone from then on");
                        break;
                    }
                    _ => break,
                }
            }
        }
    }
    let broken = store.store().stats().counts.broken;
    assert!(aborted > 10 && broken > 50, "{aborted} of {broken}");
}

#[test]
fn a_disk_that_fails_to_read_misses() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    store.put(&key(1), plain(), body(1, 1, 5000));
    store.put(&key(2), plain(), body(2, 1, 2 * MB));
    disk.lock().fail_reads = true;
    assert_eq!((store.get(&key(1)), store.get(&key(2)), store.get(&key(3))), (None, None, None));
    assert!(!store.update_meta(&key(1), "x".into()));
    disk.lock().fail_reads = false;
    assert!(store.put(&key(1), plain(), body(1, 2, 5000)) && store.get(&key(1)).unwrap().1 == body(1, 2, 5000));
}

#[test]
fn what_cannot_be_written_is_gone_and_does_not_come_back() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in [1, 2, 3, 4] {
        store.put(&key(number), plain(), body(number, 1, 2000));
    }
    assert!(store.flush());
    disk.lock().fail_writes = true;
    assert!(!store.put(&key(1), plain(), body(1, 2, 2000)) && !store.put(&key(2), plain(), body(2, 2, 2 * MB)));
    assert!(!store.remove(&key(3)));
    let mut writer = store.store().write(&key(4), plain());
    for _ in 0..100 {
        let _ = writer.push(body(4, 2, 100_000));
    }
    let ticket = writer.finish();
    assert!(!store.done(ticket));
    assert!([1, 2, 3, 4].iter().all(|number| store.get(&key(*number)).is_none()));
    disk.lock().fail_writes = false;
    assert!(store.put(&key(5), plain(), body(5, 1, 2000)));
    let mut store = open(&Memory::new(disk.lock().files.clone()));
    assert!([1, 2, 3, 4].iter().all(|number| store.get(&key(*number)).is_none()), "an older one came back");
    assert!(store.get(&key(5)).is_some());
}

#[test]
fn a_failed_sync_is_told_and_seals_nothing() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.segment = 32 << 10);
    for number in 0..20 {
        store.put(&key(number), plain(), body(number, 1, 3000));
    }
    disk.lock().fail_syncs = true;
    assert!(!store.flush());
    disk.lock().fail_syncs = false;
    assert!(store.flush());
    for number in 20..40 {
        store.put(&key(number), plain(), body(number, 1, 3000));
    }
    assert!(store.flush());
    assert!((0..40).all(|number| store.get(&key(number)).is_some()));
    let inside = disk.lock();
    let sealed = |name: &str| {
        let file = &inside.files[name];
        file[file.len() - 24..].starts_with(b"TFTR")
    };
    assert!(!sealed("00000001.seg"), "its data may not be there");
    assert!(sealed("00000003.seg"));
}

#[test]
fn a_full_disk_drops_what_does_not_fit_and_its_space_is_used_again() {
    let disk = Memory::new(HashMap::new());
    disk.lock().space = Some(300 << 10);
    let mut store = open_with(&disk, |options| options.segment = 32 << 10);
    let mut random = Random(5);
    let mut now: HashMap<u64, u64> = HashMap::new();
    let mut dropped = 0;
    for version in 0..1500 {
        let number = random.below(300);
        if store.put(&key(number), plain(), body(number, version, 2000)) {
            now.insert(number, version);
        } else {
            now.remove(&number);
            dropped += 1;
        }
        let other = random.below(300);
        if let Some((_, bytes)) = store.get(&key(other)) {
            assert_eq!(bytes, body(other, now[&other], 2000));
        }
        if version % 50 == 49 {
            // Killed now, nothing older comes back.
            let files = disk.lock().files.clone();
            let mut store = open(&Memory::new(files));
            for number in 0..300 {
                if let Some((_, bytes)) = store.get(&key(number)) {
                    let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    assert_eq!(Some(&found), now.get(&number), "{number} at {version}");
                }
            }
        }
    }
    assert!(dropped < 150, "{dropped} of 1500 dropped");
    assert!(store.store().stats().entries > 60, "{:?}", store.store().stats());
}

#[test]
fn files_stay_within_the_budget_and_what_is_used_stays() {
    let disk = Memory::new(HashMap::new());
    let budget = 1 << 20;
    let mut store = open_with(&disk, |options| (options.segment, options.budget) = (64 << 10, budget));
    for number in 0..180 {
        // What is used lies between what is not.
        let number = if number % 9 == 0 { number / 9 } else { 5000 + number };
        store.put(&key(number), plain(), body(number, 1, 4000));
    }
    let pinned = Put { pinned: true, ..plain() };
    for number in 20..25 {
        store.put(&key(number), pinned.clone(), body(number, 1, 4000));
    }
    let mut most = 0;
    for number in 100..2000 {
        assert!(store.put(&key(number), plain(), body(number, 1, 4000)));
        for hot in 0..20 {
            if number % 10 == 0 {
                assert!(store.get(&key(hot)).is_some(), "{hot} of {number} {:?}", store.store().stats());
            }
        }
        most = most.max(disk.used());
    }
    assert!(most <= budget + (128 << 10), "{most}");
    assert!((20..25).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 4000)));
    let stats = store.store().stats();
    assert!(stats.entries > 180 && stats.counts.evicted > 1500 && stats.counts.evacuated > 100_000, "{stats:?}");
    drop(store);
    let mut store = open(&disk);
    assert!((0..25).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 4000)));
}

#[test]
fn a_store_full_of_what_is_never_evicted_drops_the_rest() {
    let disk = Memory::new(HashMap::new());
    let budget = 512 << 10;
    let mut store = open_with(&disk, |options| (options.segment, options.budget) = (64 << 10, budget));
    let pinned = Put { pinned: true, ..plain() };
    let stored = (0..300).filter(|number| store.put(&key(*number), pinned.clone(), body(*number, 1, 4000))).count();
    assert!(stored > 100 && disk.used() < budget + (130 << 10), "{stored}");
    let there = (0..300).filter(|number| store.get(&key(*number)).is_some()).count();
    assert_eq!(stored, there);
    assert!(store.clear(Clear::All) && store.put(&key(1), plain(), body(1, 1, 4000)));
}

#[test]
fn a_segment_goes_after_the_commit_of_what_was_moved_out_of_it() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| (options.segment, options.budget) = (64 << 10, 512 << 10));
    for number in 0..600 {
        store.put(&key(number), plain(), body(number, 1, 4000));
        for hot in 0..20 {
            store.get(&key(hot));
        }
    }
    let mut dirty = std::collections::HashSet::new();
    let mut unlinked = 0;
    for op in &disk.lock().ops {
        match op {
            Op::Write { name, bytes, .. } if bytes.windows(4).any(|part| part == b"TREC") => {
                // Only records that were moved: their number is over that of the entry's first record.
                let moved = (0..20).any(|hot| {
                    let name = format!("https://site.example/{hot}meta");
                    bytes.windows(name.len()).any(|part| part == name.as_bytes())
                });
                if moved {
                    dirty.insert(name.clone());
                }
            }
            Op::Sync(name) => drop(dirty.remove(name)),
            Op::Unlink(name) if name.ends_with("seg") => {
                unlinked += 1;
                dirty.remove(name);
                assert!(dirty.is_empty(), "{name} goes before {dirty:?} is synced");
            }
            _ => {}
        }
    }
    assert!(unlinked > 10);
}

/// A store in a directory that becomes unusable in some way.
fn in_folder(spoil: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::create_dir(&path).unwrap();
    spoil(&path);
    let mut store = Blocking::new(Store::open(Options::new(&path)).unwrap());
    assert!(store.get(&key(1)).is_none() && !store.put(&key(1), plain(), "x".into()));
    assert!(!store.flush() && store.get(&key(1)).is_none());
    assert_eq!(store.store().stats().phase, Phase::Dead);
}

#[test]
fn a_directory_that_cannot_be_used_is_a_store_that_misses() {
    in_folder(|path| {
        std::fs::remove_dir(path).unwrap();
        std::fs::write(path, "a file").unwrap();
    });
    in_folder(|path| std::fs::create_dir(path.join("lock")).unwrap());
    let disk = Memory::new(HashMap::new());
    disk.lock().fail_list = true;
    let mut store = open(&disk);
    assert!(store.get(&key(1)).is_none() && !store.put(&key(1), plain(), "x".into()));
}

#[test]
fn a_directory_deleted_under_a_store_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut options = Options::new(&path);
    (options.segment, options.memory) = (64 << 10, 0);
    let mut store = Blocking::new(Store::open(options).unwrap());
    assert!(store.put(&key(1), plain(), body(1, 1, 1000)));
    std::fs::remove_dir_all(&path).unwrap();
    for number in 2..200 {
        store.put(&key(number), plain(), body(number, 1, 4000));
        if let Some((_, bytes)) = store.get(&key(number)) {
            assert_eq!(bytes, body(number, 1, 4000));
        }
    }
    store.flush();
    drop(store);
    assert!(!path.exists());
}

#[test]
fn pending_changes_are_bounded_and_what_is_dropped_is_gone() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.pending = 100_000);
    assert!(store.put(&key(30), plain(), body(30, 1, 1000)));
    disk.close_gate();
    let tickets: Vec<_> =
        (0..40).map(|number| (number, store.store().put(&key(number), plain(), body(number, 2, 10_000)))).collect();
    assert!(store.store().stats().pending < 110_000);
    assert_eq!(store.get(&key(30)), None, "the old one is not what was put");
    disk.open_gate();
    let stored: Vec<u64> =
        tickets.into_iter().filter(|(_, ticket)| store.done(*ticket)).map(|(number, _)| number).collect();
    assert!((8..=12).contains(&stored.len()), "{stored:?}");
    for number in 0..40 {
        assert_eq!(store.get(&key(number)).is_some(), stored.contains(&number));
    }
    assert_eq!(store.store().stats().pending, 0);
}

#[test]
fn a_small_file_system_that_is_full() {
    if !testing::root_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
        .arg(folder.path())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        return testing::skip("cannot mount a tmpfs");
    }
    let filled = std::panic::catch_unwind(|| {
        let mut options = Options::new(folder.path());
        options.memory = 0;
        let mut store = Blocking::new(Store::open(options).unwrap());
        let (mut stored, mut there) = (0, 0);
        for number in 0..4000 {
            stored += u64::from(store.put(&key(number), plain(), body(number, 1, 16_384)));
        }
        for number in 0..4000 {
            if let Some((_, bytes)) = store.get(&key(number)) {
                assert_eq!(bytes, body(number, 1, 16_384));
                there += 1;
            }
        }
        (stored, there)
    });
    let _ = std::process::Command::new("umount").arg(folder.path()).status();
    let (stored, there) = filled.unwrap();
    assert!(stored > 3500 && there > 500, "{stored} stored, {there} there");
}

#[test]
fn puts_of_bytes_cost_no_copy_of_a_hit() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.memory = MB);
    let whole: Bytes = body(1, 1, 10_000);
    store.put(&key(1), plain(), whole.clone());
    assert_eq!(store.get(&key(1)).unwrap().1.as_ptr(), whole.as_ptr());
}
