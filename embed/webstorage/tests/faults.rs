//! A disk that is full, fails, cannot be written to, is gone: reads go on, it is told once, and nothing is lost.

mod common;

use common::{all, area, at_once, get, news_until, set, units};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use thaw_log::memory::{Inside, Memory, Op};
use thaw_webstorage::{Error, News, Options, Storage, Urgency};

const A: &str = "https://a.example";

fn fails_and_works_again(fail: fn(&mut Inside, bool)) {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    let a = area(&storage, A);
    set(&a, "k", "before");
    storage.flush_and_wait();
    storage.news();
    for round in 0..3 {
        fail(&mut disk.lock(), true);
        set(&a, "k", &format!("round {round}"));
        a.remove(&units("other")).unwrap();
        let ticket = storage.flush();
        let told = news_until(&storage, |news| matches!(news, News::Trouble(..)));
        let Some(News::Trouble(place, what)) = told.last() else { panic!("{told:?}") };
        assert!(place.origin == A && what.contains(A), "{what}");
        // It tries again and again, and says nothing.
        for number in 0..5 {
            set(&a, &format!("{round} {number}"), &"v".repeat(100));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(get(&a, "k").unwrap(), format!("round {round}"));
        assert!(storage.news().is_empty());
        fail(&mut disk.lock(), false);
        let told = news_until(&storage, |news| matches!(news, News::Flushed(_)));
        assert!(told.contains(&News::Flushed(ticket)));
        let told = [told, if storage.flush_and_wait() { storage.news().into() } else { vec![] }].concat();
        assert_eq!(told.iter().filter(|news| matches!(news, News::Recovered(..))).count(), 1);
        assert!(!told.iter().any(|news| matches!(news, News::Trouble(..))));
        // It is on the medium: the power goes.
        let mut medium = thaw_log::memory::Medium::default();
        disk.lock().ops.iter().for_each(|op| medium.apply(op));
        let copy = Storage::on(Memory::new(medium.none()), at_once()).unwrap();
        assert_eq!(all(&area(&copy, A)), all(&a));
        set(&a, "other", "x");
        storage.flush_and_wait();
    }
}

#[test]
fn a_full_disk() {
    fails_and_works_again(|inside, fails| {
        let used: usize = inside.files.values().map(Vec::len).sum();
        inside.space = fails.then_some(used as u64 + 5);
    });
}

#[test]
fn writes_that_fail() {
    fails_and_works_again(|inside, fails| inside.fail_writes = fails);
}

#[test]
fn syncs_that_fail() {
    fails_and_works_again(|inside, fails| inside.fail_syncs = fails);
}

#[test]
fn after_a_sync_that_failed_a_flush_comes_only_when_all_was_written_anew() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    let a = area(&storage, A);
    set(&a, "k", "1");
    storage.flush_and_wait();
    disk.lock().fail_syncs = true;
    set(&a, "k", "2");
    let ticket = storage.flush();
    news_until(&storage, |news| matches!(news, News::Trouble(..)));
    disk.lock().fail_syncs = false;
    news_until(&storage, |news| *news == News::Flushed(ticket));
    let ops = disk.lock().ops.clone();
    // A later sync of the same file proves nothing: the kernel may have dropped what it could not write.
    assert!(matches!(ops[..], [.., Op::Rename(..), Op::Names]), "{ops:?}");
}

#[test]
fn an_area_that_cannot_be_read_says_so_and_is_read_later() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    set(&area(&storage, A), "k", "v");
    storage.close().unwrap();
    disk.lock().fail_reads = true;
    let storage = Storage::on(disk.clone(), at_once()).unwrap();
    let a = storage.area("", A, Urgency::Ahead).unwrap();
    assert!(matches!(a.wait(), Err(Error::Unreadable(..))));
    assert!(matches!(a.set(&units("k"), &units("w")), Err(Error::Unreadable(..))), "it would be lost");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let told = storage.news();
    assert_eq!(told.len(), 1, "{told:?}");
    disk.lock().fail_reads = false;
    news_until(&storage, |news| matches!(news, News::Loaded(..)));
    assert_eq!(get(&a, "k").unwrap(), "v");
}

#[test]
fn what_cannot_be_written_at_the_end_is_said() {
    let disk = Memory::new(HashMap::new());
    let storage = Storage::on(disk.clone(), Options { write: std::time::Duration::from_secs(9), ..at_once() }).unwrap();
    let (a, b) = (area(&storage, A), area(&storage, "https://b.example"));
    set(&a, "k", "v");
    storage.flush_and_wait();
    set(&b, "k", "v");
    disk.lock().fail_writes = true;
    let unsaved = storage.close().unwrap_err();
    assert_eq!(unsaved.0.len(), 1);
    assert!(unsaved.to_string().contains("https://b.example"), "{unsaved}");
    assert!(matches!(b.set(&units("k"), &[]), Err(Error::Closed(_))) && !storage.flush_and_wait());
    let other = storage.area("", "https://c.example", Urgency::Urgent).unwrap();
    assert!(matches!(other.wait(), Err(Error::Closed(_))));
}

#[test]
fn a_directory_that_is_taken_away_is_made_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("store");
    let storage = Storage::open(&path, at_once()).unwrap();
    let a = area(&storage, A);
    set(&a, "k", "v");
    storage.flush_and_wait();
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(get(&a, "k").unwrap(), "v");
    set(&a, "more", "w");
    storage.flush_and_wait();
    let copy = Storage::open(&path, at_once()).unwrap();
    assert_eq!(all(&area(&copy, A)), all(&a));
    // Changes of others are seen there, also when all has settled that the old one's end has set off.
    std::thread::sleep(std::time::Duration::from_millis(100));
    set(&area(&copy, A), "its", "x");
    news_until(&storage, |news| matches!(news, News::Changed { .. }));
    assert_eq!(get(&a, "its").unwrap(), "x");
}

#[test]
fn in_a_read_only_directory_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path(), at_once()).unwrap();
    set(&area(&storage, A), "k", "v");
    storage.close().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::set_permissions(entry.unwrap().path(), std::fs::Permissions::from_mode(0o444)).unwrap();
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    testing::as_ordinary_user(|| {
        let storage = Storage::open(folder.path(), at_once()).unwrap();
        let a = area(&storage, A);
        assert_eq!(get(&a, "k").unwrap(), "v");
        set(&a, "k", "w");
        news_until(&storage, |news| matches!(news, News::Trouble(..)));
        assert_eq!(get(&a, "k").unwrap(), "w");
        assert_eq!(storage.close().unwrap_err().0.len(), 1);
    });
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}
