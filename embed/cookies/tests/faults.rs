//! A disk that is full, fails, is used by another, or has damaged bytes: it is said, and costs as little as can be.

mod common;

use common::*;
use std::time::Duration;
use thaw_cookies::{Jar, News, Options};

fn troubles(jar: &Jar) -> Vec<String> {
    let told = |news| match news {
        News::Trouble(why) => Some(why),
        News::Damaged(name) => Some(name),
        _ => None,
    };
    jar.news().into_iter().filter_map(told).collect()
}

#[test]
fn what_did_not_fit_is_written_when_there_is_space_again() {
    let disk = empty();
    let one = Jar::on(disk.clone(), Options { retry: Duration::from_millis(1), delay: Duration::ZERO, ..options() });
    let one = one.unwrap();
    set(&one, "a=1; Max-Age=100", "https://example.com/", NOW);
    flush(&one);
    let used = disk.used();
    disk.lock().space = Some(used + 30);
    set(&one, "b=2; Max-Age=100", "https://example.com/", NOW);
    let told = one.wait_for(one.flush()).unwrap_err();
    assert!(told.contains("/test/cookies cannot be written"), "{told}");
    assert_eq!(disk.used(), used, "nothing half-written is left");
    assert!(troubles(&one).iter().any(|why| why.contains("/test/cookies")));
    assert_eq!(sent(&one, "https://example.com/", NOW), "a=1; b=2");
    disk.lock().space = None;
    while !holds(&disk, "b") {
        std::thread::yield_now();
    }
    drop(one);
    assert_eq!(sent(&jar(&disk), "https://example.com/", NOW), "a=1; b=2");
}

#[test]
fn forgetting_that_failed_is_said_and_tried_again() {
    let disk = empty();
    let one = Jar::on(disk.clone(), Options { retry: Duration::from_millis(1), delay: Duration::ZERO, ..options() });
    let one = one.unwrap();
    set(&one, "a=alpha; Max-Age=100", "https://example.com/", NOW);
    flush(&one);
    disk.lock().fail_writes = true;
    assert!(one.wait_for(one.forget("example.com")).is_err());
    assert!(holds(&disk, "alpha"));
    disk.lock().fail_writes = false;
    while holds(&disk, "alpha") {
        std::thread::yield_now();
    }
}

#[test]
fn after_a_sync_that_failed_all_is_written_anew() {
    let disk = empty();
    let one = jar(&disk);
    set(&one, "a=1; Max-Age=100", "https://example.com/", NOW);
    flush(&one);
    disk.lock().fail_syncs = true;
    set(&one, "b=2; Max-Age=100", "https://example.com/", NOW);
    assert!(one.wait_for(one.flush()).is_err());
    disk.lock().fail_syncs = false;
    let renames = disk.lock().made;
    flush(&one);
    assert_eq!(disk.lock().made, renames + 1);
    drop(one);
    assert_eq!(sent(&jar(&disk), "https://example.com/", NOW), "a=1; b=2");
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let disk = empty();
    let one = jar(&disk);
    set(&one, "a=1; Max-Age=100", "https://example.com/", NOW);
    drop(one);
    let before = disk.lock().files.clone();
    disk.lock().fail_reads = true;
    let one = jar(&disk);
    assert_eq!(sent(&one, "https://example.com/", NOW), "");
    set(&one, "b=2; Max-Age=100", "https://example.com/", NOW);
    let told = one.wait_for(one.flush()).unwrap_err();
    assert!(told.contains("/test/cookies cannot be read"), "{told}");
    assert_eq!(troubles(&one).len(), 1);
    assert_eq!(sent(&one, "https://example.com/", NOW), "b=2", "in memory it works");
    drop(one);
    assert_eq!(disk.lock().files, before);
}

#[test]
fn a_jar_that_another_process_uses_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let one = Jar::open(Options::new(folder.path())).unwrap();
    one.wait_whole();
    let two = Jar::open(Options::new(folder.path())).unwrap();
    two.wait_whole();
    assert!(troubles(&two).concat().contains("another process uses it"));
    set(&two, "a=1; Max-Age=100", "https://example.com/", NOW);
    assert!(two.wait_for(two.flush()).unwrap_err().contains("another process uses it"));
    set(&one, "b=1; Max-Age=100", "https://example.com/", NOW);
    drop((two, one));
    let one = Jar::open(Options::new(folder.path())).unwrap();
    assert_eq!(sent(&one, "https://example.com/", NOW), "b=1");
}

#[test]
fn each_damaged_byte_costs_one_record_which_is_put_aside() {
    let disk = empty();
    let one = jar(&disk);
    for host in 0..200 {
        let text = format!("a={}; Max-Age=100", "v".repeat(300));
        set(&one, &text, &format!("https://h{host}.example/"), NOW);
    }
    flush(&one);
    for host in 0..4 {
        set(&one, "later=1; Max-Age=100", &format!("https://h{host}.example/"), NOW);
        flush(&one);
    }
    drop(one);
    let whole = disk.lock().files["cookies"].clone();
    for at in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let disk = thaw_log::memory::Memory::new([("cookies".into(), bytes.clone())].into());
        let one = jar(&disk);
        let there = all(&one).len();
        // The head, whose salt all sums begin from, costs all; any other record itself.
        let (head, most) = (at < 52, 65);
        assert!(there >= 204 - most || head, "{there} are left, with a wrong byte at {at}");
        let told = troubles(&one);
        let in_last = told.is_empty();
        if in_last {
            assert_eq!(there, 203, "the end of a write that a power cut");
        } else {
            let aside = disk.lock().files[&told[0]].clone();
            assert!(bytes.ends_with(&aside) && aside.len() >= whole.len() - at, "from the damage on, as it was");
        }
        drop(one);
        // What was read is in order again.
        let two = jar(&disk);
        assert_eq!((all(&two).len(), troubles(&two)), (there, vec![]));
    }
}

fn of_another_store() -> Vec<u8> {
    let (disk, mut book) = (empty(), thaw_log::book::Book::new("cookies"));
    let head = thaw_log::frame::Head { kind: *b"SESS", generation: 1, made_ms: 0, salt: 0, label: vec![] };
    book.replace(&*disk, head, &[b"of a session"]).unwrap();
    disk.lock().files.remove("cookies").unwrap()
}

#[test]
fn a_file_of_something_else_is_put_aside() {
    for bytes in [b"not ours".to_vec(), of_another_store()] {
        let disk = thaw_log::memory::Memory::new([("cookies".into(), bytes.clone())].into());
        let one = jar(&disk);
        set(&one, "a=1; Max-Age=100", "https://example.com/", NOW);
        flush(&one);
        let told = troubles(&one);
        assert_eq!(disk.lock().files[&told[0]], bytes);
        drop(one);
        assert_eq!(sent(&jar(&disk), "https://example.com/", NOW), "a=1");
    }
}
