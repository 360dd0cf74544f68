//! store: what files of records tell, and what a repair does to a damaged one.

use crate::scratch::Scratch;
use std::path::Path;
use thaw_log::book::Book;
use thaw_log::disk::{Disk, Folder};
use thaw_log::frame::Head;

const KIND: [u8; 4] = *b"WEBS";

fn fill(folder: &Path, name: &str, contents: &[&[u8]]) {
    std::fs::create_dir_all(folder).unwrap();
    let (disk, mut book) = (Folder::new(folder), Book::new(name));
    let head = Head { kind: KIND, generation: 4, made_ms: 0, salt: 0, label: b"\0https://a.example".to_vec() };
    book.replace(&disk, head, &contents[..1]).unwrap();
    book.append(&disk, &contents[1..]).unwrap();
}

/// Changes a byte of the second of three records.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(6).position(|at| at == b"second").unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

const THREE: [&[u8]; 3] = [b"first", b"second", b"third"];

#[test]
fn what_is_there_is_told_and_what_is_damaged_is_named_and_repaired() {
    let scratch = Scratch::new();
    let folder = scratch.path("storage");
    fill(&folder, "one", &THREE);
    fill(&folder, "two", &THREE);
    let listed = scratch.thaw(["store", "ls", "storage"]).exits(0);
    listed.says("web storage").says("https://a.example").says_not("damaged");
    let json = scratch.thaw(["store", "ls", "storage/one", "--json"]).exits(0).json();
    let file = &json["files"][0];
    assert_eq!(
        (&json["schema"], &file["generation"], &file["records"]),
        (&"thaw.store/1".into(), &4.into(), &3.into())
    );
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 files with 6 records read; 0 damaged");
    damage(&folder.join("one"));
    let before = std::fs::read(folder.join("one")).unwrap();
    let said = scratch.thaw(["store", "verify", "storage"]).exits(5).says("1 damaged");
    said.says("one: bytes").says("1 record before that can be read, 1 record behind");
    assert_eq!(std::fs::read(folder.join("one")).unwrap(), before, "looking changes nothing");
    scratch.thaw(["store", "repair", "storage"]).exits(0).says("kept in one.damaged-1");
    let kept = [std::fs::read(folder.join("one")).unwrap(), std::fs::read(folder.join("one.damaged-1")).unwrap()];
    assert_eq!(kept.concat(), before, "no byte is lost");
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 files with 4 records read; 0 damaged");
    scratch.thaw(["store", "ls", "storage"]).exits(0).says("kept by a repair");
    scratch.thaw(["store", "repair", "storage"]).exits(0).says("Nothing was damaged");
}

#[test]
fn a_write_that_did_not_end_is_no_damage() {
    let scratch = Scratch::new();
    let folder = scratch.path("storage");
    fill(&folder, "one", &THREE);
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("one")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 records").says("1 file ends with a write");
    scratch.thaw(["store", "ls", "storage"]).exits(0).says("did not end");
    scratch.thaw(["store", "repair", "storage/one"]).exits(0).says("28 B cut off, of a write that did not end");
    scratch.thaw(["store", "verify", "storage"]).exits(0).says_not("ends with a write");
}

#[test]
fn what_is_in_use_is_not_repaired_and_what_is_no_store_is_left_as_it_is() {
    let scratch = Scratch::new();
    let folder = scratch.path("session");
    fill(&folder, "current", &THREE);
    let disk = Folder::new(&folder);
    assert!(disk.lock().unwrap());
    damage(&folder.join("current"));
    scratch.thaw(["store", "repair", "session"]).exits(2).complains("a program uses it");
    scratch.thaw(["store", "verify", "session"]).exits(5);
    drop(disk);
    scratch.thaw(["store", "repair", "session"]).exits(0).says("current.damaged-1");

    scratch.thaw(["store", "ls", "nowhere"]).exits(2).complains("nowhere");
    scratch.write("diary/today.txt", "dear diary");
    for verb in ["ls", "verify", "repair"] {
        scratch.thaw(["store", verb, "diary"]).exits(2).complains("no file of records is in it");
        scratch.thaw(["store", verb, "diary/today.txt"]).exits(2).complains("it is no file of records");
    }
    assert_eq!(std::fs::read_dir(scratch.path("diary")).unwrap().count(), 1);
    std::os::unix::fs::symlink(folder.join("current"), scratch.path("link")).unwrap();
    scratch.thaw(["store", "repair", "link"]).exits(2).complains("neither a directory nor a file");
}
