//! Directories are put back before every run, at the end, and after `kill -9`.

mod common;

use bench::conduct::Host;
use bench::record::{Lab, LabOptions};
use bench::restore::{Snapshot, check, refuse_nested};
use common::{acts, alone, part, scratch, try_start};
use model::{CacheState, Exit};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A tree as text: path, mode, size, time and content of each entry.
fn picture(root: &Path) -> Vec<String> {
    fn walk(at: &Path, root: &Path, out: &mut Vec<String>) {
        let meta = at.symlink_metadata().unwrap();
        let content = match (meta.is_file(), meta.is_symlink()) {
            (true, _) => String::from_utf8_lossy(&std::fs::read(at).unwrap()).into_owned(),
            (_, true) => std::fs::read_link(at).unwrap().display().to_string(),
            _ => String::new(),
        };
        let (path, time) = (at.strip_prefix(root).unwrap().display(), (meta.mtime(), meta.mtime_nsec()));
        out.push(format!("{path} {:o} {} {time:?} {content:?}", meta.mode(), meta.nlink()));
        if meta.is_dir() {
            for entry in std::fs::read_dir(at).unwrap() {
                walk(&entry.unwrap().path(), root, out);
            }
        }
    }
    let mut out = Vec::new();
    walk(root, root, &mut out);
    out.sort();
    out
}

fn profile(place: &Path) -> PathBuf {
    let live = place.join("live");
    std::fs::create_dir_all(live.join("sub")).unwrap();
    std::fs::write(live.join("prefs"), "first").unwrap();
    std::fs::write(live.join("sub/cookies"), "one").unwrap();
    std::os::unix::fs::symlink("prefs", live.join("link")).unwrap();
    live
}

fn beside(place: &Path) -> Vec<String> {
    let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".thaw-")).collect()
}

#[test]
fn a_directory_is_put_back_and_the_copy_goes_in_the_end() {
    let _alone = alone();
    let place = scratch("restore");
    let live = profile(place.path());
    let before = picture(&live);
    let mut snapshot = Snapshot::take(&live, None).unwrap();
    assert_eq!(beside(place.path()).len(), 1, "the copy is beside the directory");
    for _ in 0..3 {
        std::fs::write(live.join("prefs"), "second and longer").unwrap();
        std::fs::write(live.join("leak"), "one more").unwrap();
        std::fs::remove_dir_all(live.join("sub")).unwrap();
        assert_ne!(picture(&live), before);
        snapshot.put_back().unwrap();
        assert_eq!(picture(&live), before);
    }
    assert_eq!(snapshot.put_back().unwrap(), os::tree::Copied::default(), "nothing was left to do");
    std::fs::write(live.join("leak"), "the last run's").unwrap();
    snapshot.close().unwrap();
    assert_eq!(picture(&live), before);
    assert!(beside(place.path()).is_empty());
}

#[test]
fn a_start_has_its_own_directories_put_back_and_the_end_all_of_them() {
    let _alone = alone();
    let place = scratch("own");
    let lives = ["one", "two"].map(|name| {
        let live = place.path().join(name);
        std::fs::create_dir(&live).unwrap();
        std::fs::write(live.join("prefs"), name).unwrap();
        live
    });
    let programs = lives.iter().map(|live| {
        let mut program = acts(&[], &["exit"]);
        program.restore = vec![live.clone()];
        program
    });
    let (mut lab, _) = Lab::open(programs.collect(), LabOptions::default()).unwrap();
    let change = || lives.iter().for_each(|live| std::fs::write(live.join("prefs"), "changed by a start").unwrap());
    let prefs = || lives.each_ref().map(|live| std::fs::read_to_string(live.join("prefs")).unwrap());
    change();
    lab.prepare(0, CacheState::Hot, &mut |_| {}).unwrap();
    assert_eq!(prefs(), ["one", "changed by a start"]);
    lab.prepare(1, CacheState::Hot, &mut |_| {}).unwrap();
    assert_eq!(prefs(), ["one", "two"]);
    change();
    lab.close();
    assert_eq!(prefs(), ["one", "two"]);
}

#[test]
fn a_change_that_is_hidden_behind_its_old_time_is_seen() {
    let _alone = alone();
    let place = scratch("hidden");
    let live = profile(place.path());
    let file = live.join("prefs");
    let untouched = live.join("sub/cookies").metadata().unwrap().ino();
    let before = picture(&live);
    let mut snapshot = Snapshot::take(&live, None).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    std::fs::write(&file, "FIRST").unwrap();
    std::fs::File::open(&file).unwrap().set_modified(time).unwrap();
    snapshot.put_back().unwrap();
    assert_eq!(picture(&live), before);
    assert_eq!(live.join("sub/cookies").metadata().unwrap().ino(), untouched, "what was not changed is not written");
}

#[test]
fn the_copy_goes_where_it_is_told() {
    let _alone = alone();
    let (place, elsewhere) = (scratch("live"), scratch("elsewhere"));
    let live = profile(place.path());
    let snapshot = Snapshot::take(&live, Some(elsewhere.path())).unwrap();
    assert!(beside(place.path()).is_empty() && beside(elsewhere.path()).len() == 1);
    drop(snapshot);
    assert!(beside(elsewhere.path()).is_empty());
}

#[test]
fn directories_that_must_not_be_put_back_are_refused_with_the_reason() {
    let _alone = alone();
    let place = scratch("refused");
    let live = profile(place.path());
    let refused = |directory: &Path, recording: Option<&Path>, reason: &str| {
        let error = check(directory, recording, None).unwrap_err();
        assert!(error.to_string().contains(reason) && error.hint.is_some(), "{}: {error}", directory.display());
    };
    refused(Path::new("/"), None, "whole system");
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()) {
        refused(&home, None, "home directory");
        refused(
            home.parent().unwrap(),
            None,
            if home.parent() == Some(Path::new("/")) { "whole system" } else { "home directory" },
        );
    }
    refused(&live, Some(&live.join("sub/new/out.thaw")), "the recording");
    refused(&live.join("prefs"), None, "it is a file");
    refused(&live.join("nothing"), None, "No such file");
    refused(&os::journal::state_dir().unwrap(), None, "");
    assert_eq!(check(&live.join("sub/.."), Some(Path::new("out.thaw")), None).unwrap(), live.canonicalize().unwrap());
    let error = refuse_nested(&[live.join("sub"), live.clone()]).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    refuse_nested(&[live.join("sub"), live.join("subtle")]).unwrap();
}

#[test]
fn a_directory_that_a_program_uses_is_refused_with_its_name() {
    let _alone = alone();
    let place = scratch("used");
    let live = profile(place.path());
    let mut user = std::process::Command::new("sleep");
    let mut user = user.arg("1000").stdin(std::fs::File::open(live.join("prefs")).unwrap()).spawn().unwrap();
    let error = Snapshot::take(&live, None).unwrap_err();
    let pid = user.id().to_string();
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(error.to_string().contains(&pid) && error.to_string().contains("sleep"), "{error}");
    assert!(beside(place.path()).is_empty());
}

#[test]
fn doctor_brings_back_what_a_killed_thaw_was_at() {
    let _alone = alone();
    let place = scratch("killed");
    let live = profile(place.path());
    let before = picture(&live);
    let up = place.path().join("up");
    let state = place.path().join("state");
    let mut killed = part("part_that_is_killed")
        .env("LIVE", &live)
        .env("UP", &up)
        .env("THAW_STATE_DIR", &state)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !up.exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_ne!(picture(&live), before);
    assert_eq!(beside(place.path()).len(), 1);

    let pid = std::fs::read_to_string(&up).unwrap();
    let journal = os::journal::Journal::at(&state);
    let leftovers = journal.leftovers().unwrap();
    assert!(!leftovers.is_empty());
    for leftover in &leftovers {
        os::journal::mend(leftover).unwrap();
    }
    assert_eq!(picture(&live), before);
    assert!(beside(place.path()).is_empty());
    assert!(journal.leftovers().unwrap().is_empty());
    assert!(!common::is_alive(&pid), "process {pid} is still there");
}

#[test]
#[ignore = "a part of another test: it is killed"]
fn part_that_is_killed() {
    let _alone = alone();
    let (live, up) = (std::env::var("LIVE").unwrap(), std::env::var("UP").unwrap());
    let mut program =
        acts(&["append", &format!("{live}/prefs"), "make", &format!("{live}/leak"), "daemon", &up], &["line:never"]);
    program.restore = vec![live.into()];
    let (mut lab, _) = Lab::open(vec![program], LabOptions::default()).unwrap();
    lab.prepare(0, CacheState::Hot, &mut |_| {}).unwrap();
    let _ = try_start(&mut lab);
}
