//! The power goes at any moment: what was flushed is there, and never a value that nobody set.

mod common;

use common::{all, area, at_once, set, units};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_log::memory::{Medium, Memory, Random};
use thaw_webstorage::{News, Options, Storage};

type Content = Vec<(String, String)>;

const ORIGINS: [&str; 2] = ["https://a.example", "https://b.example"];

/// All that an origin held, one after another, with how many operations the disk had done when it was flushed.
#[derive(Default)]
struct Past {
    states: Vec<Content>,
    flushed: Vec<(usize, usize)>,
}

impl Past {
    /// The state that is sure to be there when this many operations were done.
    fn sure(&self, ops: usize) -> usize {
        self.flushed.iter().rfind(|(done, _)| *done <= ops).map_or(0, |(_, state)| *state)
    }
}

fn one_step(storage: &Storage, past: &mut [Past; 2], random: &mut Random, number: usize) {
    for (origin, past) in ORIGINS.iter().zip(past) {
        let a = area(storage, origin);
        let key = format!("key {}", random.below(6));
        let mut content = past.states.last().unwrap().clone();
        match random.below(12) {
            0..=1 => {
                a.remove(&units(&key)).unwrap();
                content.retain(|(other, _)| *other != key);
            }
            2 if number.is_multiple_of(10) => {
                a.clear().unwrap();
                content.clear();
            }
            kind => {
                // Of one origin alone; some so long that files are compacted.
                let len = if kind == 3 { 30_000 } else { random.below(40) as usize };
                let value = format!("{origin} {number} {}", "x".repeat(len));
                set(&a, &key, &value);
                match content.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, old)) => *old = value,
                    None => content.push((key, value)),
                }
            }
        }
        past.states.push(content);
    }
}

fn check(files: HashMap<String, Vec<u8>>, past: &[Past; 2], ops: usize, done: bool, whole: bool) {
    let disk = Memory::new(files);
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    for (origin, past) in ORIGINS.iter().zip(past) {
        let content = all(&area(&storage, origin));
        let sure = past.sure(ops);
        assert!(
            past.states[sure..].contains(&content),
            "{origin} after {ops} operations is none of its states from {sure} on: {content:?}"
        );
        assert!(!done || past.states.last() == Some(&content));
    }
    if whole {
        let damaged = storage.news().into_iter().find(|news| matches!(news, News::Damaged(..)));
        assert_eq!(damaged, None);
    }
    // It goes on.
    for origin in ORIGINS {
        set(&area(&storage, origin), "after", origin);
    }
    storage.close().unwrap();
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    for origin in ORIGINS {
        assert!(all(&area(&storage, origin)).contains(&("after".into(), origin.into())));
    }
}

fn run(options: Options, steps: usize, seed: u64) {
    assert!(!steps.is_multiple_of(4), "the end has something to write");
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), options).unwrap();
    let mut past: [Past; 2] = Default::default();
    past.iter_mut().for_each(|past| past.states.push(Content::new()));
    let mut random = Random(seed);
    for number in 0..steps {
        one_step(&storage, &mut past, &mut random, number);
        if number % 4 == 3 {
            storage.flush_and_wait();
            past.iter_mut().for_each(|past| past.flushed.push((disk.len(), past.states.len() - 1)));
        }
    }
    storage.close().unwrap();
    let ops = disk.lock().ops.clone();
    assert!(storage.stats().rewritten > 2, "it has compacted");
    let mut medium = Medium::default();
    for at in 0..=ops.len() {
        // The process is killed: the kernel has all that it was given. Behind the end, the medium has.
        check(medium.all(), &past, at, at == ops.len(), true);
        check(medium.none(), &past, at, at == ops.len(), true);
        for _ in 0..6 {
            // Without one of two appends, the other is kept aside.
            check(medium.some(&mut random), &past, at, false, false);
        }
        if let Some(op) = ops.get(at) {
            medium.apply(op);
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_state_that_was_with_all_that_was_flushed() {
    run(at_once(), 62, 11);
}

#[test]
fn and_where_changes_are_gathered() {
    run(Options { write: std::time::Duration::from_secs(3600), ..at_once() }, 82, 12);
}

#[test]
fn damage_in_one_origin_keeps_its_prefix_and_touches_no_other() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    for origin in ORIGINS {
        for number in 0..5 {
            set(&area(&storage, origin), &format!("{number}"), origin);
            storage.flush_and_wait();
        }
    }
    storage.close().unwrap();
    let place = thaw_webstorage::place::Place::area("", ORIGINS[0]).unwrap();
    let (name, files) = (place.file(0), disk.lock().files.clone());
    let whole = files[&name].clone();
    let mut fewest = 5;
    for at in 0..whole.len() {
        let mut files = files.clone();
        files.get_mut(&name).unwrap()[at] ^= 0x10;
        let disk = Memory::new(files.clone());
        let storage = Storage::on(disk.clone(), at_once()).unwrap();
        let content = all(&area(&storage, ORIGINS[0]));
        let wanted: Content = (0..content.len()).map(|n| (n.to_string(), ORIGINS[0].to_owned())).collect();
        assert_eq!(content, wanted, "with a wrong byte at {at}");
        fewest = fewest.min(content.len());
        assert_eq!(all(&area(&storage, ORIGINS[1])).len(), 5);
        let damaged: Vec<String> = storage
            .news()
            .into_iter()
            .filter_map(|news| match news {
                News::Damaged(of, aside) if *of == place => Some(aside),
                _ => None,
            })
            .collect();
        // The last record may as well be the end of a write.
        assert_eq!(damaged.len(), usize::from(content.len() < 4), "at {at}: {damaged:?}");
        for aside in &damaged {
            let aside = disk.lock().files[aside].clone();
            assert!(files[&name].ends_with(&aside) && aside.len() > 24);
        }
        set(&area(&storage, ORIGINS[0]), "new", "value");
        storage.close().unwrap();
        let storage = Storage::on(Memory::new(disk.lock().files.clone()), at_once()).unwrap();
        assert_eq!(all(&area(&storage, ORIGINS[0])).len(), content.len() + 1);
        assert_eq!(all(&area(&storage, ORIGINS[1])).len(), 5);
    }
    assert_eq!(fewest, 0, "the head was hit too");
}

#[test]
fn a_record_that_says_nothing_to_this_version_is_kept_aside_and_said() {
    use thaw_log::book::Book;
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    set(&area(&storage, ORIGINS[0]), "k", "v");
    storage.close().unwrap();
    let place = Arc::new(thaw_webstorage::place::Place::area("", ORIGINS[0]).unwrap());
    let (mut book, _) = Book::load(&*disk, &place.file(0), true).unwrap().unwrap();
    book.append(&*disk, &[b"\x07from the future"]).unwrap();
    let whole = disk.lock().files[&place.file(0)].clone();
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    assert_eq!(all(&area(&storage, ORIGINS[0])), [("k".into(), "v".into())]);
    let aside = storage.news().into_iter().find_map(|news| match news {
        News::Damaged(of, aside) if of == place => Some(aside),
        _ => None,
    });
    assert_eq!(disk.lock().files[&aside.unwrap()], whole);
    set(&area(&storage, ORIGINS[0]), "more", "w");
    storage.close().unwrap();
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    assert_eq!(all(&area(&storage, ORIGINS[0])).len(), 2);
    assert!(!storage.news().iter().any(|news| matches!(news, News::Damaged(..))));
}
