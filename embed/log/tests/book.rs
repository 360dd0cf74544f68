//! Files of records on a disk that fails, is full, loses its power, and beside other processes.

use std::collections::HashMap;
use std::sync::Arc;
use thaw_log::book::{Book, Loaded};
use thaw_log::disk::{Disk, Folder};
use thaw_log::frame::Head;
use thaw_log::memory::{Medium, Memory, Random};

const NAME: &str = "a";

fn head(generation: u64) -> Head {
    Head { kind: *b"TEST", generation, made_ms: 0, salt: 0, label: b"a test".to_vec() }
}

fn contents(loaded: &Loaded) -> Vec<String> {
    loaded.contents().map(|content| String::from_utf8(content.to_vec()).unwrap()).collect()
}

fn read(disk: &dyn Disk) -> Option<(Book, Loaded)> {
    Book::load(disk, NAME, true).unwrap()
}

fn made(disk: &dyn Disk) -> Book {
    let mut book = Book::new(NAME);
    book.replace(disk, head(1), &[b"first"]).unwrap();
    book
}

#[test]
fn what_was_written_is_read_and_a_file_of_something_else_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Folder::new(folder.path());
    assert!(read(&disk).is_none());
    let mut book = made(&disk);
    book.append(&disk, &[b"second", b"third"]).unwrap();
    book.sync(&disk).unwrap();
    let (_, loaded) = read(&disk).unwrap();
    assert_eq!(contents(&loaded), ["first", "second", "third"]);
    assert_eq!(loaded.head.unwrap().label, b"a test");
    std::fs::write(folder.path().join(NAME), "not ours").unwrap();
    let (mut book, loaded) = read(&disk).unwrap();
    assert!(loaded.head.is_none() && !book.is_sound() && book.is_empty());
    assert_eq!(std::fs::read(folder.path().join(loaded.aside.unwrap())).unwrap(), b"not ours");
    book.replace(&disk, head(2), &[]).unwrap();
    assert!(book.append(&disk, &[b"on"]).is_ok());
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_prefix_with_all_that_was_synced() {
    let disk = Memory::new(HashMap::new());
    let mut book = made(&*disk);
    // How many records are there when this many operations were done, and how many of them are synced.
    let mut counts = vec![(disk.len(), 1, 1)];
    let (mut written, mut synced, mut all) = (1, 1, vec!["first".to_owned()]);
    for number in 0..40_u32 {
        if number % 9 == 8 {
            let contents: Vec<&[u8]> = all.iter().map(|one| one.as_bytes()).collect();
            book.replace(&*disk, head(2 + u64::from(number)), &contents).unwrap();
            synced = written;
        } else if number % 3 == 2 {
            book.sync(&*disk).unwrap();
            synced = written;
        } else {
            all.push(format!("record {number} {}", "x".repeat(number as usize * 7)));
            book.append(&*disk, &[all[written].as_bytes()]).unwrap();
            written += 1;
        }
        counts.push((disk.len(), written, synced));
    }
    let (ops, mut random) = (disk.lock().ops.clone(), Random(7));
    let mut medium = Medium::default();
    for at in 0..=ops.len() {
        let begun = counts.iter().find(|count| count.0 >= at).map_or(written, |count| count.1);
        let sure = counts.iter().rfind(|count| count.0 <= at).map_or(0, |count| count.2);
        for cut in 0..20 {
            let files = if cut == 0 { medium.all() } else { medium.some(&mut random) };
            let disk = Memory::new(files);
            let Some((mut book, loaded)) = read(&*disk) else {
                assert_eq!(sure, 0, "all is gone at {at}");
                continue;
            };
            let there = contents(&loaded);
            assert!(there.len() >= sure && there.len() <= begun, "{} of {sure} to {begun} at {at}", there.len());
            assert_eq!(there, all[..there.len()], "at {at}");
            // It goes on behind what is there.
            if book.is_sound() {
                book.append(&*disk, &[b"more"]).unwrap();
                assert_eq!(contents(&read(&*disk).unwrap().1).last().unwrap(), "more");
            }
        }
        if let Some(op) = ops.get(at) {
            medium.apply(op);
        }
    }
}

#[test]
fn damage_in_the_middle_keeps_what_is_before_it_and_sets_the_rest_aside() {
    let disk = Memory::new(HashMap::new());
    let mut book = made(&*disk);
    let from = book.append(&*disk, &[b"second"]).unwrap() as usize;
    book.append(&*disk, &[b"third"]).unwrap();
    let whole = disk.lock().files[NAME].clone();
    let at = whole.len() - 2 * from + 3;
    disk.lock().files.get_mut(NAME).unwrap()[at] ^= 4;
    let (_, loaded) = read(&*disk).unwrap();
    assert_eq!(contents(&loaded), ["first"]);
    assert_eq!(loaded.found.frames.len(), 3, "the third one is readable");
    let aside = disk.lock().files[&loaded.aside.unwrap()].clone();
    assert_eq!([&disk.lock().files[NAME][..], &aside].concat().len(), whole.len());
    // Again, and it has another name.
    disk.lock().files.insert(NAME.into(), whole[1..].to_vec());
    assert!(read(&*disk).unwrap().1.aside.unwrap().ends_with("-2"));
}

#[test]
fn a_write_that_fails_leaves_nothing_of_it() {
    let disk = Memory::new(HashMap::new());
    let mut book = made(&*disk);
    let used = disk.used();
    disk.lock().space = Some(used + 10);
    assert!(book.append(&*disk, &[b"too long for this disk"]).is_err());
    disk.lock().space = None;
    book.append(&*disk, &[b"second"]).unwrap();
    assert_eq!(contents(&read(&*disk).unwrap().1), ["first", "second"]);
    assert!(book.replace(&*disk, head(2), &[b"first", b"second"]).is_ok());
    disk.lock().fail_writes = true;
    assert!(book.replace(&*disk, head(3), &[]).is_err());
    disk.lock().fail_writes = false;
    assert_eq!(contents(&read(&*disk).unwrap().1), ["first", "second"]);
    assert_eq!(disk.lock().files.len(), 1, "nothing half-written is left");
}

#[test]
fn after_a_sync_that_failed_it_has_to_be_written_anew() {
    let disk = Memory::new(HashMap::new());
    let mut book = made(&*disk);
    book.append(&*disk, &[b"second"]).unwrap();
    disk.lock().fail_syncs = true;
    assert!(book.sync(&*disk).is_err());
    disk.lock().fail_syncs = false;
    assert!(!book.is_sound() && book.append(&*disk, &[b"third"]).is_err());
    book.replace(&*disk, head(2), &[b"first", b"second"]).unwrap();
    assert!(book.append(&*disk, &[b"third"]).is_ok() && book.sync(&*disk).is_ok());
}

#[test]
fn what_another_process_appends_and_writes_anew_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Folder::new(folder.path()), Folder::new(folder.path()));
    let mut mine = made(&one);
    let (mut its, _) = read(&two).unwrap();
    assert!(its.others(&two).unwrap().is_none());
    mine.append(&one, &[b"second"]).unwrap();
    let seen = its.others(&two).unwrap().unwrap();
    assert!(seen.head.is_none() && contents(&seen) == ["second"]);
    its.append(&two, &[b"third"]).unwrap();
    assert_eq!(contents(&mine.others(&one).unwrap().unwrap()), ["third"]);
    mine.replace(&one, head(2), &[b"all"]).unwrap();
    let seen = its.others(&two).unwrap().unwrap();
    assert!(seen.head.is_some() && contents(&seen) == ["all"]);
    its.append(&two, &[b"more"]).unwrap();
    assert_eq!(contents(&read(&one).unwrap().1), ["all", "more"]);
}

#[test]
fn a_turn_is_one_processes_and_a_change_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Arc::new(Folder::new(folder.path())), Folder::new(folder.path()));
    let mut book = made(&*one);
    let turn = two.turn().unwrap();
    let watch = two.watch().unwrap().unwrap();
    assert!(rustix::io::read(&watch, &mut [0; 4096]).is_err(), "nothing has happened");
    let (say, said) = std::sync::mpsc::channel();
    let waits = std::thread::spawn(move || {
        let _turn = one.turn().unwrap();
        say.send(()).unwrap();
        book.append(&*one, &[b"second"]).unwrap();
    });
    assert!(said.recv_timeout(std::time::Duration::from_millis(50)).is_err());
    drop(turn);
    waits.join().unwrap();
    assert!(rustix::io::read(&watch, &mut [0; 4096]).unwrap() > 0);
}

#[test]
fn a_file_that_is_gone_is_written_anew_also_in_a_directory_that_was_taken_away() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("store");
    let disk = Folder::new(&path);
    drop(disk.turn().unwrap());
    let mut book = made(&disk);
    std::fs::remove_dir_all(&path).unwrap();
    drop(disk.turn().unwrap());
    assert!(book.others(&disk).unwrap().is_none());
    assert!(!book.is_sound() && book.is_empty() && book.append(&disk, &[b"second"]).is_err());
    book.replace(&disk, head(2), &[b"first", b"second"]).unwrap();
    assert!(path.join(NAME).exists());
    book.append(&disk, &[b"third"]).unwrap();
    assert_eq!(contents(&read(&disk).unwrap().1), ["first", "second", "third"]);
}

#[test]
fn another_file_of_the_same_number_is_told_by_its_salt() {
    let disk = Memory::new(HashMap::new());
    let mut mine = made(&*disk);
    let (mut its, _) = read(&*disk).unwrap();
    let number = disk.about(NAME).unwrap().unwrap().id;
    its.replace(&*disk, head(2), &[b"all", b"of another file", b"that is longer"]).unwrap();
    disk.lock().ids.insert(NAME.into(), number);
    let seen = mine.others(&*disk).unwrap().unwrap();
    assert!(seen.head.is_some() && contents(&seen).len() == 3);
    mine.append(&*disk, &[b"more"]).unwrap();
    assert_eq!(contents(&read(&*disk).unwrap().1).last().unwrap(), "more");
}

#[test]
fn a_file_that_its_reader_has_read_by_itself_is_appended_to() {
    let disk = Memory::new(HashMap::new());
    made(&*disk);
    let (_, loaded) = read(&*disk).unwrap();
    let (about, head) = (disk.about(NAME).unwrap().unwrap(), loaded.head.unwrap());
    let mut book = Book::resume(NAME, about, &head, 2);
    assert!(book.is_sound() && book.len() == about.len);
    book.append(&*disk, &[b"second"]).unwrap();
    assert_eq!(contents(&read(&*disk).unwrap().1), ["first", "second"]);
}
