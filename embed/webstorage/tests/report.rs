//! What a storage reports of its memory is what was put into it.

mod common;

use common::{area, at_once, set};
use std::collections::HashMap;
use thaw_log::memory::Memory;
use thaw_memreport::Collected;
use thaw_webstorage::report::report;
use thaw_webstorage::{Options, Storage};

const VALUE: usize = 5_000;
/// What an allocator adds to a block, and `Arc` to what it holds, at most.
const MORE: i64 = 64;

fn asked() -> Collected {
    thaw_memreport::collect("test").unwrap()
}

/// A figure of the storage by this name. What was measured is what was said, and each pointer is a block.
fn figure(collected: &Collected, name: &str, what: &str) -> i64 {
    let reporter = format!("webstorage {name}");
    assert!(collected.wrong_pointers.iter().all(|wrong| wrong.reporter != reporter), "{:?}", collected.wrong_pointers);
    assert!(collected.shared.iter().flat_map(|shared| &shared.reports).all(|(by, _)| *by != reporter), "counted twice");
    let one = collected.reporters.iter().find(|one| one.name == reporter).unwrap();
    assert_eq!(one.measured_bytes as i64, one.reported_heap_bytes);
    assert!(collected.broken_rules.is_empty(), "{:?}", collected.broken_rules);
    let of = |root: &str| collected.reports.iter().find(|one| one.path == format!("{root}webstorage/{name}/{what}"));
    of("explicit/").or_else(|| of("")).unwrap_or_else(|| panic!("no {what}")).amount
}

fn fill(storage: &Storage, areas: usize, keys: usize) {
    for one in 0..areas {
        let a = area(storage, &format!("https://{one}.example"));
        (0..keys).for_each(|key| set(&a, &format!("key {key:04}"), &"v".repeat(VALUE)));
    }
}

#[test]
fn it_is_what_was_put_in_and_leaves_with_the_areas() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), Options { memory: 0, ..at_once() }).unwrap();
    let reporter = report(&storage, "one");
    let none = asked();
    assert_eq!(
        ["values", "events", "areas", "keys", "waiting", "texts"].map(|what| figure(&none, "one", what)),
        [0; 6]
    );
    // They cannot be written, and so cannot go.
    disk.lock().fail_writes = true;
    fill(&storage, 3, 40);
    let (blocks, bytes) = (2 * 3 * 40, 3 * 40 * (VALUE as i64 + 8));
    let full = asked();
    let values = figure(&full, "one", "values");
    assert!(values >= bytes && values < bytes + blocks * MORE + 3 * 64 * 32, "{values} of {bytes}");
    assert_eq!((figure(&full, "one", "areas"), figure(&full, "one", "keys")), (3, 120));
    let waiting = figure(&full, "one", "waiting");
    assert!(waiting >= bytes && waiting < bytes + blocks * MORE, "{waiting} of {bytes}, wherever the changes are");
    disk.lock().fail_writes = false;
    assert!(storage.flush_and_wait());
    while storage.stats().areas > 0 {
        std::thread::yield_now();
    }
    let gone = asked();
    assert_eq!(["values", "events", "areas", "keys", "waiting"].map(|what| figure(&gone, "one", what)), [0; 5]);
    drop(reporter);
    assert!(asked().reporters.iter().all(|one| one.name != "webstorage one"));
}

#[test]
fn changes_that_nobody_takes_are_in_it_and_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = [0, 1].map(|_| Storage::open(folder.path(), at_once()).unwrap());
    let _reporter = report(&two, "two/of us");
    let (mine, its) = (area(&one, "https://a.example"), area(&two, "https://a.example"));
    for number in 0..4 {
        set(&mine, "k", &number.to_string().repeat(VALUE));
        one.flush_and_wait();
        while its.get(&[u16::from(b'k')]).unwrap().is_none_or(|text| text.bytes()[0] != b'0' + number) {
            std::thread::yield_now();
        }
    }
    // Behind all that was told.
    area(&two, "https://b.example");
    let collected = asked();
    // The last value is the area's, three are the news' alone.
    let events = figure(&collected, "two\\of us", "events");
    let wanted = 3 * VALUE as i64;
    assert!(events >= wanted && events < wanted + 12 * MORE, "{events}");
    let values = figure(&collected, "two\\of us", "values");
    assert!((VALUE as i64..VALUE as i64 + 1000).contains(&values), "{values}");
    // Four keys, three old values, four new ones.
    assert_eq!(figure(&collected, "two\\of us", "texts"), 11);
    two.news();
    let taken = asked();
    assert_eq!(["events", "texts"].map(|what| figure(&taken, "two\\of us", what)), [0, 0]);
}

#[test]
fn a_reporter_does_not_keep_a_storage() {
    let disk = Memory::new(HashMap::new());
    let options = Options { write: std::time::Duration::from_secs(3600), ..at_once() };
    let storage = Storage::on(disk.clone(), options).unwrap();
    let _reporter = report(&storage, "three");
    fill(&storage, 1, 1);
    drop(storage);
    assert!(disk.used() > VALUE as u64, "it was written when the program let go of it");
    assert!(asked().reports.iter().all(|one| !one.path.contains("webstorage/three")));
    let private = Storage::private(Options::default()).unwrap();
    let _reporter = report(&private, "four");
    fill(&private, 2, 1);
    let collected = asked();
    assert_eq!((figure(&collected, "four", "areas"), figure(&collected, "four", "waiting")), (2, 0));
    assert!(figure(&collected, "four", "values") > 2 * VALUE as i64);
}
