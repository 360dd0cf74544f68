//! Two storages on one directory: they see each other's changes, and come to the same content.

mod common;

use common::{all, area, at_once, get, news_until, set, units};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use thaw_log::memory::Random;
use thaw_webstorage::{Area, News, Options, Storage, Text};

const A: &str = "https://a.example";
const FOLDER: &str = "WEBSTORAGE_TEST_FOLDER";
const NAME: &str = "WEBSTORAGE_TEST_NAME";

fn text(text: &Option<Text>) -> Option<String> {
    text.as_ref().map(|text| text.as_string().unwrap())
}

/// Key, old, new of changes.
fn changes(news: &[News]) -> Vec<(String, Option<String>, Option<String>)> {
    let each = news.iter().filter_map(|news| match news {
        News::Changed { place, key, old, new } => {
            assert_eq!(place.origin, A);
            Some((key.as_string().unwrap(), text(old), text(new)))
        }
        _ => None,
    });
    each.collect()
}

fn until_key(storage: &Storage, key: &str) -> Vec<News> {
    news_until(storage, |news| matches!(news, News::Changed { key: one, .. } if one.as_string().unwrap() == key))
}

#[test]
fn what_another_does_is_seen_and_told_with_key_old_and_new() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) =
        (Storage::open(folder.path(), at_once()).unwrap(), Storage::open(folder.path(), at_once()).unwrap());
    let (mine, its) = (area(&one, A), area(&two, A));
    let gathered = Storage::open(folder.path(), Options { write: Duration::from_secs(9), ..at_once() }).unwrap();
    let theirs = area(&gathered, A);
    for storage in [&one, &two, &gathered] {
        storage.news();
    }
    set(&theirs, "a", "1");
    set(&theirs, "b", "2");
    gathered.flush_and_wait();
    let told = until_key(&two, "b");
    assert_eq!(changes(&told), [("a".into(), None, Some("1".into())), ("b".into(), None, Some("2".into()))]);
    assert_eq!(all(&its), all(&theirs));
    set(&theirs, "a", "3");
    theirs.remove(&units("b")).unwrap();
    gathered.flush_and_wait();
    let told = until_key(&two, "b");
    let wanted = [("a".into(), Some("1".into()), Some("3".into())), ("b".into(), Some("2".into()), None)];
    assert_eq!(changes(&told), wanted);
    theirs.clear().unwrap();
    gathered.flush_and_wait();
    let told = until_key(&two, "a");
    assert_eq!(changes(&told), [("a".into(), Some("3".into()), None)]);
    assert!(its.is_empty().unwrap());
    drop((one, mine));
    assert!(changes(&Vec::from(gathered.news())).is_empty(), "its own changes are no news");
}

#[test]
fn own_changes_that_wait_win_over_what_comes_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let gathered = || Options { write: Duration::from_secs(3600), ..at_once() };
    let (one, two) =
        (Storage::open(folder.path(), gathered()).unwrap(), Storage::open(folder.path(), gathered()).unwrap());
    let (mine, its) = (area(&one, A), area(&two, A));
    for key in ["a", "b", "c", "d", "e"] {
        set(&mine, key, "0");
    }
    one.flush_and_wait();
    until_key(&two, "e");
    // Of each of the same keys both know only their own change.
    set(&mine, "new", "mine");
    set(&mine, "a", "mine");
    mine.remove(&units("b")).unwrap();
    set(&mine, "c", "mine");
    mine.remove(&units("d")).unwrap();
    set(&mine, "d", "mine");
    set(&its, "its", "its");
    set(&its, "a", "its");
    set(&its, "b", "its");
    its.remove(&units("c")).unwrap();
    its.remove(&units("d")).unwrap();
    set(&its, "e", "its");
    set(&its, "new", "its");
    two.flush_and_wait();
    let told = changes(&until_key(&one, "e"));
    let wanted = [("its".into(), None, Some("its".into())), ("e".into(), Some("0".into()), Some("its".into()))];
    assert_eq!(told, wanted);
    let wanted: Vec<(String, String)> =
        [("a", "mine"), ("e", "its"), ("its", "its"), ("new", "mine"), ("c", "mine"), ("d", "mine")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
    assert_eq!(all(&mine), wanted);
    one.flush_and_wait();
    until_key(&two, "d");
    assert_eq!(all(&its), wanted);
    let third = Storage::open(folder.path(), at_once()).unwrap();
    assert_eq!(all(&area(&third, A)), wanted);
    // What one clears is gone, whatever came meanwhile; and what another clears is not what waits here.
    mine.clear().unwrap();
    set(&mine, "after", "mine");
    set(&its, "e", "more");
    set(&its, "last", "its");
    two.flush_and_wait();
    one.flush_and_wait();
    let wanted = [("after".to_owned(), "mine".to_owned())];
    assert_eq!(all(&mine), wanted);
    until_key(&two, "after");
    assert_eq!(all(&its), wanted);
    set(&mine, "after", "again");
    its.clear().unwrap();
    two.flush_and_wait();
    one.flush_and_wait();
    until_key(&two, "after");
    assert_eq!(all(&mine), [("after".into(), "again".into())]);
    assert_eq!(all(&its), all(&mine));
}

#[test]
fn what_another_writes_anew_becomes_changes() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { write: Duration::from_secs(9), ..at_once() };
    let (one, two) =
        (Storage::open(folder.path(), options()).unwrap(), Storage::open(folder.path(), at_once()).unwrap());
    let mine = area(&one, A);
    set(&mine, "stays", "s");
    set(&mine, "goes", "g");
    set(&mine, "moves", "m");
    one.flush_and_wait();
    let its = area(&two, A);
    assert_eq!(its.len().unwrap(), 3);
    two.news();
    // It does not look meanwhile: all at once, as another process may be slow.
    let place = thaw_webstorage::place::Place::area("", A).unwrap();
    let (path, aside) = (folder.path().join(place.file(0)), folder.path().join("aside"));
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(&path, other.path().join(place.file(0))).unwrap();
    let third = Storage::open(other.path(), options()).unwrap();
    let a = area(&third, A);
    a.remove(&units("goes")).unwrap();
    a.remove(&units("moves")).unwrap();
    set(&a, "new", &"n".repeat(70_000));
    third.flush_and_wait();
    set(&a, "new", "short");
    set(&a, "moves", "m");
    third.flush_and_wait();
    third.close().unwrap();
    std::fs::copy(other.path().join(place.file(0)), &aside).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    let told = changes(&until_key(&two, "new"));
    assert!(told.contains(&("goes".into(), Some("g".into()), None)), "{told:?}");
    assert!(told.contains(&("new".into(), None, Some("short".into()))), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
    let keys: Vec<String> = all(&its).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["stays", "new", "moves"]);
    // Both go on in the new file.
    set(&its, "k", "two");
    two.flush_and_wait();
    set(&mine, "k2", "one");
    one.flush_and_wait();
    until_key(&two, "k2");
    assert_eq!(all(&its), all(&mine));
    assert_eq!(all(&its).len(), 5);
}

#[test]
fn its_own_writes_wake_it_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    let a = area(&storage, A);
    for number in 0..50 {
        set(&a, "k", &number.to_string());
        storage.flush_and_wait();
    }
    // All that comes of it has come when it does not look any more.
    let mut before = storage.stats().looks;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let looks = storage.stats().looks;
        if looks == before {
            break;
        }
        assert!(looks < 200, "it keeps waking itself");
        before = looks;
    }
    assert!(before <= 110, "{before} looks for 50 writes");
    assert!(changes(&Vec::from(storage.news())).is_empty());
}

/// Changes at random: of few keys, so that both change the same ones.
fn disturb(area: &Area, random: &mut Random, name: &str, number: u64) {
    let key = format!("k{}", random.below(8));
    match random.below(16) {
        0..=4 => area.remove(&units(&key)).unwrap(),
        5 => area.clear().unwrap(),
        6 => set(area, &key, &format!("{name}{number}").repeat(3000)),
        _ => set(area, &key, &format!("{name}{number}")),
    }
}

#[test]
fn two_storages_that_change_the_same_keys_end_with_the_same_content_in_the_same_order() {
    for (seed, write) in [(1, 0), (2, 1), (3, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let options = || Options { write: Duration::from_millis(write), ..at_once() };
        let storages = [0, 1].map(|_| Storage::open(folder.path(), options()).unwrap());
        let areas = [0, 1].map(|at: usize| area(&storages[at], A));
        std::thread::scope(|scope| {
            for (at, area) in areas.iter().enumerate() {
                scope.spawn(move || {
                    let mut random = Random(seed * 1000 + at as u64 + 1);
                    for number in 0..400 {
                        disturb(area, &mut random, ["one ", "two "][at], number);
                        std::thread::sleep(Duration::from_micros(random.below(300)));
                    }
                });
            }
        });
        // Each writes all, and the first one sees what the second has written last.
        storages.iter().for_each(|storage| assert!(storage.flush_and_wait()));
        set(&areas[1], "end", "two");
        storages[1].flush_and_wait();
        until_key(&storages[0], "end");
        assert_eq!(all(&areas[0]), all(&areas[1]), "seed {seed}");
        let third = Storage::open(folder.path(), at_once()).unwrap();
        assert_eq!(all(&area(&third, A)), all(&areas[0]), "seed {seed}: what is in the file");
    }
}

/// A process of its own: changes at random, then says that it is done by a key.
#[test]
fn child() {
    let (Ok(folder), Ok(name)) = (std::env::var(FOLDER), std::env::var(NAME)) else { return };
    let options = Options { write: Duration::from_millis(2), ..at_once() };
    let storage = Storage::open(Path::new(&folder), options).unwrap();
    let a = area(&storage, A);
    let mut random = Random(name.len() as u64 * 77 + 5);
    for number in 0..500 {
        disturb(&a, &mut random, &name, number);
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
    // The key is the child's own, and only its end is of use.
    set(&a, &format!("end {name}"), "");
    storage.close().unwrap();
}

#[test]
fn two_processes_that_change_the_same_keys_end_with_the_same_content() {
    let folder = tempfile::tempdir().unwrap();
    let watching = Storage::open(folder.path(), at_once()).unwrap();
    let mine = area(&watching, A);
    let start = |name: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--test-threads=1"])
            .envs([(FOLDER, folder.path().as_os_str()), (NAME, name.as_ref())])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children = [start("one"), start("three")];
    let mut random = Random(3);
    for number in 0..300 {
        disturb(&mine, &mut random, "mine", number);
        std::thread::sleep(Duration::from_micros(random.below(500)));
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // A change of this one is behind all of theirs: it has read them.
    set(&mine, "end", "");
    watching.flush_and_wait();
    let third = Storage::open(folder.path(), at_once()).unwrap();
    assert_eq!(all(&area(&third, A)), all(&mine));
    assert!(get(&mine, "end").is_some());
}
