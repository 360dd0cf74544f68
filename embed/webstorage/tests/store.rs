//! What a program sees of one storage.

mod common;

use common::{all, area, at_once, get, news_until, set, units, wait_for_news};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thaw_log::memory::{Memory, Op};
use thaw_webstorage::{Area, Error, News, Options, Storage, Urgency};

#[test]
fn what_was_set_is_there_after_a_start_in_its_order_and_units_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path(), Options::default()).unwrap();
    let a = area(&storage, "https://a.example");
    let odd: Vec<u16> = (0..=0xFFFF).collect();
    a.set(&odd, &[]).unwrap();
    a.set(&[], &odd).unwrap();
    a.set(&[0xDC00], &[0, 0xD800]).unwrap();
    a.set(&[0], &[0xFF, 0]).unwrap();
    a.set(&[0, 0], &units("gone")).unwrap();
    a.remove(&[0, 0]).unwrap();
    storage.close().unwrap();
    assert!(matches!(a.set(&[1], &[1]), Err(Error::Closed(_))));
    let storage = Storage::open(folder.path(), Options::default()).unwrap();
    let a = area(&storage, "https://a.example");
    let keys: Vec<Vec<u16>> = (0..).map_while(|at| a.key(at).unwrap()).map(|key| key.to_units()).collect();
    assert_eq!(keys, [odd.clone(), vec![], vec![0xDC00], vec![0]]);
    let values: Vec<Vec<u16>> = keys.iter().map(|key| a.get(key).unwrap().unwrap().to_units()).collect();
    assert_eq!(values, [vec![], odd, vec![0, 0xD800], vec![0xFF, 0]]);
    assert!(a.get(&[1]).unwrap().is_none());
}

#[test]
fn what_is_latin_1_takes_one_byte_a_unit() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    let a = area(&storage, "https://a.example");
    set(&a, "key", &"é".repeat(10_000));
    storage.flush_and_wait();
    let len = storage.stats().written;
    assert!((10_000..10_200).contains(&len), "{len}");
    set(&a, "key", &"€".repeat(10_000));
    storage.flush_and_wait();
    assert!((20_000..20_200).contains(&(storage.stats().written - len)));
}

#[test]
fn a_full_area_says_so_and_the_old_value_stays() {
    let storage = Storage::private(Options { quota: 100, ..Options::default() }).unwrap();
    let a = storage.area("https://top.example", "https://a.example", Urgency::Ahead).unwrap();
    set(&a, "key", "old");
    set(&a, "other", &"x".repeat(39));
    assert_eq!(a.used().unwrap(), 2 * (3 + 3 + 5 + 39));
    let refused = a.set(&units("key"), &units("longer")).unwrap_err();
    let Error::Quota { used: 100, limit: 100, wanted: 106, place } = &refused else { panic!("{refused:?}") };
    assert_eq!((&place.partition[..], &place.origin[..]), ("https://top.example", "https://a.example"));
    let said = refused.to_string();
    assert!(["https://a.example", "100 of 100", "106"].iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(get(&a, "key").unwrap(), "old");
    set(&a, "key", "new");
    a.remove(&units("other")).unwrap();
    set(&a, "key", "longer");
    assert_eq!(a.used().unwrap(), 18);
    a.clear().unwrap();
    assert_eq!((a.used().unwrap(), a.len().unwrap()), (0, 0));
}

#[test]
fn session_storage_is_copied_and_private_storage_has_no_file() {
    let one = Area::session("", "https://a.example", 10 << 20).unwrap();
    set(&one, "a", "1");
    let other = one.copied().unwrap();
    set(&other, "b", "2");
    set(&one, "a", "3");
    assert_eq!(all(&other), [("a".into(), "1".into()), ("b".into(), "2".into())]);
    assert_eq!(all(&one), [("a".into(), "3".into())]);
    assert_eq!(other.used().unwrap(), 8);
    let private = Storage::private(Options::default()).unwrap();
    let a = private.area("", "https://a.example", Urgency::Ahead).unwrap();
    set(&a, "a", "1");
    assert_eq!(get(&private.area("", "https://a.example", Urgency::Ahead).unwrap(), "a").unwrap(), "1");
    assert!(private.area("p", "https://a.example", Urgency::Ahead).unwrap().is_empty().unwrap());
    let ticket = private.flush();
    assert!(private.news().contains(&News::Flushed(ticket)));
    private.close().unwrap();
}

#[test]
fn origins_partitions_and_tables_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let storage = Storage::open(folder.path(), Options::default()).unwrap();
        let (a, b) = (area(&storage, "https://a.example"), area(&storage, "https://b.example"));
        let of_top = storage.area("https://top.example", "https://a.example", Urgency::Ahead).unwrap();
        let table = storage.table("", "https://a.example", Urgency::Ahead).unwrap();
        of_top.wait().unwrap();
        table.wait().unwrap();
        if round == 0 {
            set(&a, "k", "a");
            set(&b, "k", "b");
            set(&of_top, "k", "top");
            table.set(b"k", &[0, 255]).unwrap();
            table.set(b"gone", b"").unwrap();
            table.set(b"", b"empty").unwrap();
            table.remove(b"gone").unwrap();
        }
        assert_eq!([get(&a, "k"), get(&b, "k"), get(&of_top, "k")].map(Option::unwrap), ["a", "b", "top"]);
        assert_eq!(table.get(b"k").unwrap().unwrap(), [0, 255]);
        assert_eq!(table.all().unwrap(), [(b"k".to_vec(), vec![0, 255]), (b"".to_vec(), b"empty".to_vec())]);
        assert_eq!((table.len().unwrap(), table.key(1).unwrap()), (2, Some(b"".to_vec())));
        storage.close().unwrap();
    }
    assert!(matches!(
        Storage::private(Options::default()).unwrap().area("", "a\0b", Urgency::Ahead),
        Err(Error::NoOrigin(_))
    ));
}

#[test]
fn no_call_waits_for_a_disk_that_does_not_answer() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    let a = area(&storage, "https://a.example");
    set(&a, "k", "1");
    storage.flush_and_wait();
    disk.close_gate();
    set(&a, "k", "2");
    // The thread stands in a write of it, or of what is behind it.
    disk.wait_held();
    let cold = storage.area("", "https://cold.example", Urgency::Urgent).unwrap();
    for number in 0..10_000 {
        set(&a, &format!("k{}", number % 100), &format!("{number}"));
        assert_eq!(get(&a, "k").unwrap(), "2");
    }
    a.remove(&units("k99")).unwrap();
    assert_eq!((a.len().unwrap(), a.key(0).unwrap().unwrap().as_string().unwrap()), (100, "k".to_owned()));
    assert!(matches!(cold.get(&units("k")), Err(Error::NotLoaded(_))));
    assert!(matches!(cold.set(&units("k"), &[]), Err(Error::NotLoaded(_))));
    let ticket = storage.flush();
    assert!(!storage.news().contains(&News::Flushed(ticket)));
    let wanted = all(&a);
    disk.open_gate();
    news_until(&storage, |news| *news == News::Flushed(ticket));
    assert!(cold.wait().is_ok());
    storage.close().unwrap();
    let storage = Storage::on(Memory::new(disk.lock().files.clone()), at_once()).unwrap();
    assert_eq!(all(&area(&storage, "https://a.example")), wanted);
}

#[test]
fn an_urgent_load_overtakes_the_others() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    disk.close_gate();
    let areas: Vec<Area> =
        (0..50).map(|n| storage.area("", &format!("https://{n}.example"), Urgency::Ahead).unwrap()).collect();
    disk.wait_held();
    let _urgent = storage.area("", "https://urgent.example", Urgency::Urgent).unwrap();
    let _raised = storage.area("", "https://49.example", Urgency::Urgent).unwrap();
    disk.open_gate();
    let mut loaded = Vec::new();
    while loaded.len() < areas.len() + 1 {
        wait_for_news(&storage);
        loaded.extend(storage.news().into_iter().filter_map(|news| match news {
            News::Loaded(place) => Some(place.origin.clone()),
            _ => None,
        }));
    }
    let at = |origin: &str| loaded.iter().position(|one| one == origin).unwrap();
    // One was under way.
    assert!(at("https://urgent.example") <= 2 && at("https://49.example") <= 2, "{loaded:?}");
}

/// Writes to files that are appended to, and syncs.
fn appends_and_syncs(disk: &Memory) -> (usize, usize) {
    let inside = disk.lock();
    let appends = inside.ops.iter().filter(|op| matches!(op, Op::Write { at: 1.., .. })).count();
    (appends, inside.ops.iter().filter(|op| matches!(op, Op::Sync(_))).count())
}

#[test]
fn changes_are_coalesced_and_a_batch_is_one_record() {
    let disk = Memory::new(HashMap::new());
    let mut options = at_once();
    // It writes when it is asked to.
    options.write = Duration::from_secs(3600);
    let storage = Storage::on(disk.clone(), options).unwrap();
    let a = area(&storage, "https://a.example");
    set(&a, "k", "first");
    storage.flush_and_wait();
    let (appends, syncs) = appends_and_syncs(&disk);
    let written = storage.stats().written;
    for number in 0..1000 {
        set(&a, "k", &format!("{number:04}"));
        set(&a, "temporary", "value");
        a.remove(&units("temporary")).unwrap();
    }
    storage.flush_and_wait();
    assert_eq!(appends_and_syncs(&disk), (appends + 1, syncs + 1));
    assert_eq!(storage.stats().written - written, 24 + 1 + 9 + 2 + 5);
    let records = |disk: &Memory| {
        let inside = disk.lock();
        let (name, bytes) = inside.files.iter().next().unwrap();
        assert!(name.ends_with(".web") && inside.files.len() == 1);
        thaw_log::frame::open(bytes).unwrap().1.prefix
    };
    let before = records(&disk);
    (0..100).for_each(|number| set(&a, &format!("many {number}"), "value"));
    storage.flush_and_wait();
    assert_eq!(records(&disk), before + 1);
    (0..100).for_each(|number| a.remove(&units(&format!("many {number}"))).unwrap());
    storage.flush_and_wait();
    assert_eq!(records(&disk), before + 2);
    let (appends, syncs) = appends_and_syncs(&disk);
    // What changes nothing is not written.
    set(&a, "k", "0999");
    a.remove(&units("never")).unwrap();
    storage.flush_and_wait();
    assert_eq!(appends_and_syncs(&disk), (appends, syncs));
}

#[test]
fn what_is_set_comes_to_the_disk_by_itself() {
    let disk = Memory::new(HashMap::new());
    let options = Options { write: Duration::from_millis(1), sync: Duration::from_millis(2), ..Options::default() };
    let storage = Storage::on(disk.clone(), options).unwrap();
    let a = area(&storage, "https://a.example");
    for value in ["one", "two", "three"] {
        let (_, syncs) = appends_and_syncs(&disk);
        set(&a, "k", value);
        while appends_and_syncs(&disk).1 == syncs {
            std::thread::yield_now();
        }
        let copy = Storage::on(Memory::new(disk.lock().files.clone()), at_once()).unwrap();
        assert_eq!(get(&area(&copy, "https://a.example"), "k").unwrap(), value);
    }
}

#[test]
fn a_log_that_is_long_becomes_short() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    let a = area(&storage, "https://a.example");
    set(&a, "first", "1");
    for number in 0..200 {
        set(&a, &format!("key {}", number % 3), &format!("{number}").repeat(500));
        storage.flush_and_wait();
    }
    let (wanted, live) = (all(&a), storage.stats().bytes);
    assert!(storage.stats().written > 4 * live);
    storage.close().unwrap();
    let len: u64 = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(len < 2 * live + (70 << 10), "{len} for {live}");
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    assert_eq!(all(&area(&storage, "https://a.example")), wanted);
}

#[test]
fn what_nobody_holds_leaves_the_memory_when_it_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory: 25_000, ..at_once() };
    let storage = Storage::open(folder.path(), options).unwrap();
    let held = area(&storage, "https://held.example");
    set(&held, "k", &"h".repeat(10_000));
    for number in 0..20 {
        let a = area(&storage, &format!("https://{number}.example"));
        set(&a, "k", &format!("{number:02}").repeat(2500));
    }
    storage.flush_and_wait();
    // One more load, after all of them are clean.
    let last = area(&storage, "https://last.example");
    set(&last, "k", "last");
    drop(last);
    storage.flush_and_wait();
    // They go when nothing else is to be done.
    while storage.stats().bytes > 25_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stats = storage.stats();
    assert!(stats.unloaded >= 16 && stats.bytes >= 10_000, "no more than need be: {stats:?}");
    assert_eq!(get(&held, "k").unwrap(), "h".repeat(10_000));
    for number in 0..20 {
        let a = area(&storage, &format!("https://{number}.example"));
        assert_eq!(get(&a, "k").unwrap(), format!("{number:02}").repeat(2500));
    }
}

#[test]
fn two_places_whose_files_have_one_name_are_told_by_the_label() {
    let folder = tempfile::tempdir().unwrap();
    let of = |origin: &str| thaw_webstorage::place::Place::area("", origin).unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    set(&area(&storage, "https://b.example"), "k", "b");
    storage.close().unwrap();
    // As if both names had one hash.
    std::fs::rename(
        folder.path().join(of("https://b.example").file(0)),
        folder.path().join(of("https://a.example").file(0)),
    )
    .unwrap();
    for _ in 0..2 {
        let storage = Storage::open(folder.path(), at_once()).unwrap();
        let a = area(&storage, "https://a.example");
        assert_ne!(get(&a, "k").as_deref(), Some("b"));
        set(&a, "k", "a");
        storage.close().unwrap();
        assert!(folder.path().join(of("https://a.example").file(1)).exists());
    }
    std::fs::rename(
        folder.path().join(of("https://a.example").file(0)),
        folder.path().join(of("https://b.example").file(0)),
    )
    .unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    assert_eq!(get(&area(&storage, "https://b.example"), "k").unwrap(), "b", "it was not touched");
}

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u16),
    Remove(u8),
    Key(usize),
    Clear,
    Flush,
    Restart,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn it_is_as_a_list(steps in proptest::collection::vec(prop_oneof![
        12 => (0..30_u8, any::<u16>()).prop_map(|(key, value)| Step::Set(key, value)),
        6 => (0..30_u8).prop_map(Step::Remove),
        6 => (0..40_usize).prop_map(Step::Key),
        1 => Just(Step::Clear),
        2 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ], 0..150)) {
        let disk = Memory::new(HashMap::new());
        let open = || {
            let storage = Storage::on(disk.clone(), at_once()).unwrap();
            let area = area(&storage, "https://a.example");
            (storage, area)
        };
        let (mut storage, mut a) = open();
        let mut list = Vec::<(u8, Vec<u16>)>::new();
        for step in steps {
            match step {
                Step::Set(key, value) => {
                    // Of either form, and now and then long enough to be compacted.
                    let value = vec![value; if value % 7 == 0 { 20_000 } else { 3 }];
                    a.set(&[u16::from(key) * 20], &value).unwrap();
                    match list.iter_mut().find(|(other, _)| *other == key) {
                        Some((_, old)) => *old = value,
                        None => list.push((key, value)),
                    }
                }
                Step::Remove(key) => {
                    a.remove(&[u16::from(key) * 20]).unwrap();
                    list.retain(|(other, _)| *other != key);
                }
                Step::Key(at) => {
                    let key = a.key(at).unwrap().map(|key| key.to_units());
                    prop_assert_eq!(key, list.get(at).map(|(key, _)| vec![u16::from(*key) * 20]));
                }
                Step::Clear => {
                    a.clear().unwrap();
                    list.clear();
                }
                Step::Flush => prop_assert!(storage.flush_and_wait()),
                Step::Restart => {
                    storage.close().unwrap();
                    (storage, a) = open();
                }
            }
            prop_assert_eq!(a.len().unwrap(), list.len());
            let used: usize = list.iter().map(|(_, value)| 2 + 2 * value.len()).sum();
            prop_assert_eq!(a.used().unwrap(), used as u64);
        }
        for (at, (key, value)) in list.iter().enumerate() {
            let key = [u16::from(*key) * 20];
            prop_assert_eq!(a.key(at).unwrap().unwrap().to_units(), key);
            prop_assert_eq!(&a.get(&key).unwrap().unwrap().to_units(), value);
        }
    }
}

#[test]
fn many_threads_share_an_area() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(Storage::open(folder.path(), at_once()).unwrap());
    let a = area(&storage, "https://a.example");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let a = a.clone();
            scope.spawn(move || (0..500).for_each(|number| set(&a, &format!("{thread} {number}"), "v")));
        }
    });
    storage.close().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    assert_eq!(area(&storage, "https://a.example").len().unwrap(), 2000);
}
