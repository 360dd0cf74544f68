//! frag: the table, and what is put together or left alone.

use crate::scratch::{Mortal, Scratch};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// Two files written in turn, each piece to the disk.
pub fn interleaved(scratch: &Scratch, directory: &str) {
    let files = ["one", "two"].map(|name| File::create(scratch.write(&format!("{directory}/{name}"), "")).unwrap());
    for turn in 0..6_u64 {
        for file in &files {
            file.write_all_at(&vec![turn as u8 + 1; 300_000], turn * 300_000).unwrap();
            file.sync_all().unwrap();
        }
    }
}

#[test]
fn pieces_are_counted_and_a_file_is_put_together_or_left_with_a_reason() {
    let scratch = Scratch::new();
    interleaved(&scratch, "data");
    let before = std::fs::read(scratch.path("data/one")).unwrap();
    scratch.thaw(["frag", "data"]).exits(0).says("2 files of 3.6 MB lie in ");
    let json = scratch.thaw(["frag", "data", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["disk"]), (&"thaw.frag/1".into(), &"laptop2010".into()));
    assert_eq!(json["summary"]["files"], 2);
    let scattered = json["summary"]["scattered"].as_u64().unwrap();
    let fixed = scratch.thaw(["frag", "--fix", "data", "--json"]).json();
    let outcomes = fixed["fixed"].as_array().unwrap();
    assert_eq!(outcomes.len() as u64, scattered, "{fixed}");
    for outcome in outcomes {
        match outcome["outcome"].as_str() {
            Some("fixed") => assert!(outcome["pieces_after"].as_u64() < outcome["pieces_before"].as_u64(), "{outcome}"),
            _ => assert!(outcome["sentence"].as_str().is_some_and(|it| it.contains("is left as it is: ")), "{outcome}"),
        }
    }
    assert!(std::fs::read(scratch.path("data/one")).unwrap() == before);
    scratch.nothing_left();
}

#[test]
fn files_in_memory_are_told_and_mistakes_are_named() {
    let scratch = Scratch::new();
    scratch.thaw(["frag", "nowhere"]).exits(2).complains("cannot look at 'nowhere'");
    scratch.thaw(["frag"]).exits(2).complains("required");
    scratch.write("data/empty", "");
    scratch.thaw(["frag", "data", "--disk", "floppy"]).exits(2).complains("floppy");
    scratch.thaw(["frag", "data"]).exits(0).says("0 files").says("1 file without a place on the disk");
    if std::path::Path::new("/dev/shm").is_dir() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), "x").unwrap();
        scratch.thaw(["frag", file.path().to_str().unwrap()]).exits(0).says("1 file whose file system does not tell");
    } else {
        testing::skip("needs /dev/shm");
    }
}

#[test]
fn a_killed_fix_leaves_the_file_whole() {
    let scratch = Scratch::new();
    for pause in 0..8 {
        interleaved(&scratch, "data");
        let before = std::fs::read(scratch.path("data/one")).unwrap();
        let mut command = scratch.command();
        command.args(["frag", "--fix", "data"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Mortal(command.spawn().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(pause * 4));
        // It may have ended by itself.
        let _ = child.0.kill();
        child.0.wait().unwrap();
        assert!(std::fs::read(scratch.path("data/one")).unwrap() == before, "after {} ms", pause * 4);
    }
    scratch.thaw(["doctor", "--mend"]);
    assert_eq!(scratch.names("data"), ["one", "two"], "doctor removes what a killed thaw left");
}
