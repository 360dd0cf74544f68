//! What a store promises to its callers, but for faults and crashes.

mod common;

use bytes::Bytes;
use common::{Memory, Op, body, key, open, open_with, plain};
use std::collections::HashMap;
use thaw_entrystore::{Clear, Event, Get, Key, Phase, Put, Urgency};

const MB: usize = 1 << 20;

#[test]
fn entries_of_all_sizes_come_back_also_from_a_second_start() {
    let disk = Memory::new(HashMap::new());
    let sizes = [0, 1, 16_384, 262_143, 262_144, 262_145, 400_000, MB, MB + 1, 5 * MB + 7, 9 * MB];
    let mut store = open(&disk);
    for (number, size) in sizes.into_iter().enumerate() {
        let number = number as u64;
        assert!(store.put(&key(number), plain(), body(number, 1, size)));
        assert_eq!(store.get(&key(number)), Some(("meta".into(), body(number, 1, size))), "{size}");
    }
    assert_eq!(store.get(&key(100)), None);
    drop(store);
    let mut store = open(&disk);
    for (number, size) in sizes.into_iter().enumerate() {
        let number = number as u64;
        assert_eq!(store.get(&key(number)), Some(("meta".into(), body(number, 1, size))), "{size}");
    }
    assert_eq!(store.store().stats().counts.disk_hits, sizes.len() as u64);
}

#[test]
fn reads_see_what_was_put_updated_and_removed_before_it_is_on_disk() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.memory = 1 << 20);
    assert!(store.put(&key(1), plain(), body(1, 1, 1000)) && store.put(&key(2), plain(), body(2, 1, 1000)));
    disk.close_gate();
    let put = store.store().put(&key(1), plain(), body(1, 2, 2000));
    assert_eq!(store.get(&key(1)).unwrap().1, body(1, 2, 2000));
    let update = store.store().update_meta(&key(1), "newer".into());
    assert_eq!(store.get(&key(1)).unwrap(), ("newer".into(), body(1, 2, 2000)));
    let remove = store.store().remove(&key(2));
    assert_eq!(store.get(&key(2)), None);
    disk.open_gate();
    assert!(store.done(put) && store.done(update) && store.done(remove));
    drop(store);
    let mut store = open(&disk);
    assert_eq!((store.get(&key(1)), store.get(&key(2))), (Some(("newer".into(), body(1, 2, 2000))), None));
}

#[test]
fn the_metadata_changes_and_the_body_is_not_written_again() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for (number, size) in [(1, 1000), (2, 700_000), (3, 3 * MB)] {
        store.put(&key(number), plain(), body(number, 1, size));
        let before = disk.used();
        disk.lock().note_reads = true;
        let from = disk.len();
        assert!(store.update_meta(&key(number), "304".into()) && store.update_meta(&key(number), "304 again".into()));
        assert!(disk.used() - before < 500);
        // Each reads one head and writes one record.
        let ops = disk.lock().ops[from..].to_vec();
        assert!(ops.len() == 4 && ops.iter().all(|op| !matches!(op, Op::Read { len, .. } if *len > 4096)), "{ops:?}");
        disk.lock().note_reads = false;
        assert_eq!(store.get(&key(number)), Some(("304 again".into(), body(number, 1, size))));
    }
    assert!(!store.update_meta(&key(9), "of nothing".into()));
    // By the snapshot, and by the records.
    drop(store);
    for snapshot in [true, false] {
        if !snapshot {
            disk.lock().files.remove("index").unwrap();
        }
        let mut store = open(&disk);
        for (number, size) in [(1, 1000), (2, 700_000), (3, 3 * MB)] {
            assert_eq!(store.get(&key(number)), Some(("304 again".into(), body(number, 1, size))));
        }
    }
}

#[test]
fn a_miss_is_answered_without_the_disk_and_memory_hits_too() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.memory = 1 << 20);
    assert!(store.put(&key(1), plain(), body(1, 1, 16_384)));
    disk.close_gate();
    assert_eq!(store.get(&key(2)), None);
    assert_eq!(store.get(&key(1)).unwrap().1, body(1, 1, 16_384));
    disk.open_gate();
    let counts = store.store().stats().counts;
    assert_eq!((counts.misses, counts.memory_hits, counts.disk_hits), (1, 1, 0));
}

#[test]
fn parts_of_a_body_are_read_without_the_rest() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    let whole = body(1, 1, 3 * MB);
    store.put(&key(1), plain(), whole.clone());
    store.put(&key(2), plain(), whole.slice(..9000));
    disk.lock().note_reads = true;
    for range in [0..0, 0..1, 300_000..900_000, 3_000_000..9_000_000, 5_000_000..6_000_000] {
        let reads = disk.len();
        let (_, part) = store.get_with(&key(1), Get { range: range.clone(), ..Get::default() }).unwrap();
        let (from, to) = (range.start.min(3 * MB as u64) as usize, range.end.min(3 * MB as u64) as usize);
        assert_eq!(part, whole.slice(from..to));
        assert!(disk.len() - reads <= 2 + (to - from).div_ceil(256 << 10) + 1);
        let (_, part) = store.get_with(&key(2), Get { range, ..Get::default() }).unwrap();
        assert_eq!(part, whole.slice(from.min(9000)..to.min(9000)));
    }
}

#[test]
fn a_consumer_is_never_handed_more_than_its_credit() {
    for memory in [0, 50_000_000] {
        let disk = Memory::new(HashMap::new());
        let mut store = open_with(&disk, |options| options.memory = memory);
        for (number, size) in [(1, 5 * MB), (2, 90_000)] {
            let whole = body(number, 1, size);
            store.put(&key(number), plain(), whole.clone());
            let ticket = store.store().get(&key(number), Urgency::Normal);
            assert_eq!(store.wait(ticket), Event::Open { meta: "meta".into(), body: size as u64 });
            let (mut had, mut credit, mut ended) = (0, 0, false);
            let mut random = common::Random(7);
            while !ended {
                let more = 1 + random.below(400_000) as usize;
                store.store().more(ticket, more as u64);
                credit += more;
                while had < credit.min(size) {
                    let Event::Chunk { at, bytes } = store.wait(ticket) else { panic!("no chunk") };
                    assert!(at == had as u64 && bytes.len() <= 256 << 10);
                    assert_eq!(bytes, whole.slice(had..had + bytes.len()));
                    had += bytes.len();
                    assert!(had <= credit, "{had} of {credit}");
                }
                if had == size {
                    assert_eq!(store.wait(ticket), Event::End);
                    ended = true;
                }
            }
        }
    }
}

#[test]
fn a_writer_has_room_for_2_mib_and_its_entry_is_seen_when_it_is_whole() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    assert!(store.put(&key(1), plain(), body(1, 0, 500)));
    let whole = body(1, 1, 6 * MB);
    disk.close_gate();
    let mut writer = store.store().write(&key(1), plain());
    let ticket = writer.ticket();
    let (mut at, mut refused, mut most) = (0, 0, 0);
    while at < whole.len() {
        let part = whole.slice(at..whole.len().min(at + 100_000));
        let len = part.len();
        match writer.push(part) {
            Ok(()) => at += len,
            Err(_) => {
                refused += 1;
                disk.open_gate();
                assert!(matches!(store.wait(ticket), Event::Room(room) if room > 0));
            }
        }
        most = most.max(2 * MB - writer.room());
        if refused > 0 {
            assert_eq!(store.get(&key(1)).unwrap().1, body(1, 0, 500), "the old one, until the new one is whole");
        }
    }
    assert!(refused > 0 && most <= 2 * MB);
    let ticket = writer.finish();
    assert!(store.done(ticket));
    assert_eq!(store.get(&key(1)).unwrap().1, whole);
    // One that is given up leaves nothing, small or large.
    assert!(store.flush());
    let (used, files) = (disk.used(), disk.lock().files.len());
    for size in [1000, 3 * MB / 2] {
        let mut writer = store.store().write(&key(5), plain());
        writer.push(body(5, 1, size)).unwrap();
        drop(writer);
        assert!(store.flush());
    }
    assert_eq!((disk.lock().files.len(), store.get(&key(5))), (files, None));
    assert!(disk.used() <= used + 1000);
}

#[test]
fn small_streams_share_a_segment() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in 0..20 {
        let mut writer = store.store().write(&key(number), plain());
        for at in 0..10 {
            writer.push(body(number, 1, 10_000).slice(at * 1000..at * 1000 + 1000)).unwrap();
        }
        let ticket = writer.finish();
        assert!(store.done(ticket));
    }
    assert_eq!(disk.lock().files.len(), 1);
    assert!((0..20).all(|number| store.get(&key(number)).unwrap().1 == body(number, 1, 10_000)));
}

#[test]
fn clearing_takes_what_it_names_and_nothing_else() {
    let site = |site: u64, number: u64| {
        Key::new(format!("site{site}").as_bytes(), format!("https://o{}.example/{number}", number % 3).as_bytes())
            .unwrap()
    };
    for again in [false, true] {
        let disk = Memory::new(HashMap::new());
        let mut store = open_with(&disk, |options| options.memory = 1 << 20);
        let all: Vec<Key> = (0..4).flat_map(|one| (0..60).map(move |number| site(one, number))).collect();
        for key in &all {
            store.put(key, plain(), body(1, 1, 500));
        }
        let old = store.store().put(&all[3], plain(), body(1, 2, 500));
        let clears = [Clear::Partition(b"site2".to_vec()), Clear::Prefix(b"https://o1.example/".to_vec())];
        let tickets = clears.clone().map(|clear| store.store().clear(clear));
        let new = store.store().put(&all[4], plain(), body(4, 3, 500));
        let gone = |key: &Key| key.partition() == b"site2" || key.name().starts_with(b"https://o1.example/");
        let check = |store: &mut thaw_entrystore::Blocking| {
            for (number, key) in all.iter().enumerate() {
                assert_eq!(store.get(key).is_some(), !gone(key) || number == 4, "{number}");
            }
        };
        check(&mut store);
        assert!(tickets.into_iter().all(|ticket| store.done(ticket)) && store.done(old) && store.done(new));
        check(&mut store);
        let files = disk.lock().files.clone();
        drop(store);
        let disk = if again { Memory::new(files) } else { disk };
        let mut store = open(&disk);
        check(&mut store);
        assert!(store.clear(Clear::All));
        assert!(all.iter().all(|key| store.get(key).is_none()));
        let files = disk.lock().files.clone();
        assert!(!files.keys().any(|name| name.ends_with("seg")), "{:?}", files.keys());
        let mut store = open(&Memory::new(files));
        assert!(all.iter().all(|key| store.get(key).is_none()));
        assert!(store.put(&all[0], plain(), "new".into()) && store.get(&all[0]).is_some());
    }
}

#[test]
fn what_is_cleared_is_missed_from_then_on_before_the_disk_knows() {
    for clear in [Clear::All, Clear::Prefix(b"https://site.example/1".to_vec())] {
        let disk = Memory::new(HashMap::new());
        let mut store = open(&disk);
        store.put(&key(1), plain(), body(1, 1, 100));
        disk.close_gate();
        let flush = store.store().flush();
        disk.wait_held();
        let clear = store.store().clear(clear);
        assert_eq!(store.get(&key(1)), None);
        disk.open_gate();
        assert!(store.done(flush) && store.done(clear));
        assert_eq!(store.get(&key(1)), None);
    }
}

#[test]
fn a_visit_shows_every_entry_once_page_by_page() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    for number in 0..500 {
        store.put(&key(number), plain(), body(number, 1, 100));
    }
    store.update_meta(&key(7), "other".into());
    let (mut seen, mut from) = (HashMap::new(), Some(0));
    while let Some(place) = from {
        let ticket = store.store().visit(Clear::All, place, 64);
        let Event::Visited { entries, next } = store.wait(ticket) else { panic!("no page") };
        assert!(entries.len() <= 64);
        for entry in entries {
            assert_eq!(entry.body, 100);
            assert!(seen.insert(entry.key, entry.meta).is_none());
        }
        from = next;
    }
    assert_eq!(seen.len(), 500);
    assert_eq!((&seen[&key(7)][..], &seen[&key(8)][..]), (&b"other"[..], &b"meta"[..]));
    let ticket = store.store().visit(Clear::Partition(b"elsewhere".to_vec()), 0, 64);
    assert_eq!(store.wait(ticket), Event::Visited { entries: Vec::new(), next: None });
}

#[test]
fn entries_of_a_group_written_together_lie_side_by_side() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    disk.close_gate();
    let held = store.store().flush();
    let put = |group| Put { group, ..plain() };
    let tickets: Vec<_> =
        (0..90).map(|number| store.store().put(&key(number), put(1 + number % 3), body(number, 1, 100))).collect();
    disk.open_gate();
    store.done(held);
    tickets.into_iter().for_each(|ticket| assert!(store.done(ticket)));
    let place = |number: u64| {
        let inside = disk.lock();
        let name = format!("https://site.example/{number}\u{6d}");
        inside.files.values().find_map(|file| file.windows(name.len()).position(|part| part == name.as_bytes()))
    };
    let mut all: Vec<u64> = (0..90).collect();
    all.sort_by_key(|number| place(*number).unwrap());
    let changes = all.windows(2).filter(|pair| pair[0] % 3 != pair[1] % 3).count();
    assert!(changes <= 5, "{changes} changes of group");
}

#[test]
fn a_cancelled_read_says_nothing_more() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    store.put(&key(1), plain(), body(1, 1, 3 * MB));
    disk.close_gate();
    let whole = Get::default();
    let (one, two) = (store.store().get_with(&key(1), whole.clone()), store.store().get_with(&key(1), whole));
    assert!(store.store().cancel(one) && !store.store().cancel(one));
    assert!(store.store().raise(two, Urgency::Urgent) && !store.store().raise(one, Urgency::Urgent));
    disk.open_gate();
    while store.wait(two) != Event::End {}
    assert!(store.flush());
    assert!(store.store().completions().iter().all(|(ticket, _)| *ticket != one));
}

#[test]
fn the_descriptor_is_readable_while_something_waits() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    store.flush();
    let ready = |store: &thaw_entrystore::Blocking| {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&store.store().fd(), PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    assert!(!ready(&store));
    let miss = store.store().get(&key(1), Urgency::Normal);
    assert!(ready(&store) && ready(&store));
    assert_eq!(store.store().completions(), [(miss, Event::Miss)]);
    assert!(!ready(&store));
}

#[test]
fn a_second_store_in_the_same_directory_misses() {
    let folder = tempfile::tempdir().unwrap();
    let open = || thaw_entrystore::Store::open(thaw_entrystore::Options::new(folder.path())).unwrap();
    let mut one = thaw_entrystore::Blocking::new(open());
    assert!(one.put(&key(1), plain(), "body".into()));
    let mut two = thaw_entrystore::Blocking::new(open());
    assert_eq!(two.get(&key(1)), None);
    assert!(!two.put(&key(2), plain(), "body".into()) && !two.flush() && !two.clear(Clear::All));
    assert!(!two.remove(&key(1)) && !two.update_meta(&key(1), "x".into()));
    let mut writer = two.store().write(&key(3), plain());
    writer.push(Bytes::from(vec![0; 2 * MB])).unwrap();
    let ticket = writer.finish();
    assert!(!two.done(ticket));
    assert_eq!(two.store().stats().phase, Phase::Dead);
    drop(two);
    assert!(one.get(&key(1)).is_some());
    drop(one);
    let mut two = thaw_entrystore::Blocking::new(open());
    assert!(two.get(&key(1)).is_some() && two.get(&key(2)).is_none());
}

#[test]
fn what_a_commit_interval_is_for_happens_by_itself() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.commit = std::time::Duration::from_millis(1));
    store.put(&key(1), plain(), body(1, 1, 100));
    while store.store().stats().counts.commits == 0 {
        std::thread::yield_now();
    }
    assert!(disk.lock().ops.iter().any(|op| matches!(op, Op::Sync(name) if name.ends_with(".seg"))));
}

#[test]
fn what_is_being_read_stays_on_disk_until_it_is_read() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    let whole = body(1, 1, 3 * MB);
    store.put(&key(1), plain(), whole.clone());
    store.flush();
    let ticket = store.store().get(&key(1), Urgency::Normal);
    assert!(matches!(store.wait(ticket), Event::Open { .. }));
    store.put(&key(1), plain(), body(1, 2, 3 * MB));
    assert!(store.flush() && store.flush() && store.flush());
    let large = |disk: &Memory| disk.lock().files.keys().filter(|name| name.ends_with("big")).count();
    assert_eq!(large(&disk), 2);
    store.store().more(ticket, u64::MAX);
    let mut had = 0;
    while let Event::Chunk { bytes, .. } = store.wait(ticket) {
        assert_eq!(bytes, whole.slice(had..had + bytes.len()));
        had += bytes.len();
    }
    assert_eq!(had, whole.len());
    assert!(store.flush() && large(&disk) == 1);
}
