//! flush and resident: files and the page cache.

use crate::scratch::{Mortal, Scratch, alone};

#[test]
fn flush_evicts_what_resident_lists() {
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.write("data/big", vec![7; 1 << 20]);
    scratch.write("data/empty", "");
    // Not yet on disk: flush must write it out first.
    let listed = scratch.thaw(["resident", "data"]).exits(0).out();
    assert!(listed.starts_with("# thaw base list 1"), "{listed}");
    assert!(listed.contains("1048576\t1048576\t"), "{listed}");
    scratch.thaw(["flush", "data"]).exits(0).says("2 files: 1.0 MB left the page cache, 0 B stayed.");
    assert_eq!(scratch.thaw(["resident", "data"]).exits(0).out().lines().count(), 1, "only the head is left");
}

#[test]
fn flush_names_who_keeps_a_file() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.path("sleeper");
    testing::copy_program("/bin/sleep", &program);
    let child = Mortal(std::process::Command::new(&program).arg("600").spawn().unwrap());
    let pid = child.0.id();
    // It maps its file once it has executed it.
    while std::fs::read_link(format!("/proc/{pid}/exe")).ok().as_deref() != Some(&*program) {
        std::thread::yield_now();
    }
    let said = scratch.thaw(["flush", "sleeper"]);
    let json = scratch.thaw(["flush", "sleeper", "--json"]).json();
    drop(child);
    said.exits(1).says(&format!("mapped by sleeper {pid}"));
    assert_eq!(json["schema"], "thaw.flush/1");
    assert_eq!(json["kept"][0]["why"]["reason"], "mapped");
    scratch.thaw(["flush", "sleeper"]).exits(0);
}

#[test]
fn the_resident_document_is_versioned() {
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.write("data/file", vec![1; 8192]);
    let json = scratch.thaw(["resident", "data", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.resident/1");
    assert_eq!(json["resident_bytes"], 8192);
    assert_eq!(json["files"].as_array().unwrap().len(), 1);
}

#[test]
fn a_path_that_is_not_there_is_a_mistake() {
    let scratch = Scratch::new();
    for verb in ["flush", "resident"] {
        scratch.thaw([verb, "nowhere"]).exits(2).complains("cannot look at 'nowhere': No such file");
        scratch.thaw([verb]).exits(2).complains("required");
    }
}

#[test]
fn another_user_may_flush_what_it_may_open() {
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.write("data/file", vec![1; 8192]);
    let Some(said) = scratch.thaw_as_nobody(["flush", "data"]) else { return };
    assert!(said.out().contains("data/file") || said.out().contains("left the page cache"), "{}", said.framed());
}
