//! What is left when a system call fails: each of some calls once, by strace. `claims/faults` does the same at two
//! hundred places of each verb.

use crate::scratch::{Said, Scratch, alone};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a file must not lose.
const ATTRIBUTE: &str = "user.origin";

/// A call that is to fail: its name, which one of its kind, and the error.
type Place = (String, usize, &'static str);

fn error_of(call: &str) -> &'static str {
    match call {
        "clone" | "clone3" => "EAGAIN",
        "openat" | "openat2" | "pidfd_open" => "EMFILE",
        "fchmod" | "fchown" => "EPERM",
        "write" | "mkdir" | "linkat" => "ENOSPC",
        _ => "EIO",
    }
}

/// thaw under strace, which fails what `inject` says and writes down every call.
fn traced(scratch: &Scratch, words: &[&str], inject: Option<&Place>) -> Command {
    let mut command = scratch.command_of(Path::new("strace"));
    command.args(["-qq", "-o"]).arg(scratch.path("strace.log"));
    if let Some((call, number, error)) = inject {
        command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:error={error}:when={number}")]);
    }
    at_home(scratch, &mut command);
    command.arg(env!("CARGO_BIN_EXE_thaw")).args(words);
    command
}

fn at_home(scratch: &Scratch, command: &mut Command) {
    command
        .env("THAW_MACHINE_DIR", scratch.path("machine"))
        .env("XDG_DATA_HOME", scratch.path("home"))
        .env("XDG_DATA_DIRS", scratch.path("share"));
}

fn thaw(scratch: &Scratch, words: &[&str]) -> Said {
    let mut command = scratch.command();
    command.args(words);
    at_home(scratch, &mut command);
    Said::of(command)
}

/// Whether there is an strace that may trace; else the test is counted as skipped.
fn can_inject(scratch: &Scratch) -> bool {
    let tried = Command::new("strace").args(["-qq", "-o"]).arg(scratch.path("strace.log")).arg("true").status();
    let works = tried.is_ok_and(|status| status.success());
    if !works {
        testing::skip("needs strace, and the right to trace");
    }
    works
}

/// Every one of these calls that a good run makes after the language's own set-up, which ends with the stack for
/// signals.
fn places(scratch: &Scratch, words: &[&str], calls: &[&str]) -> Vec<Place> {
    Said::of(traced(scratch, words, None)).exits(0);
    let log = std::fs::read(scratch.path("strace.log")).unwrap();
    let (mut counts, mut places, mut begun) = (BTreeMap::<String, usize>::new(), Vec::new(), false);
    for line in String::from_utf8_lossy(&log).lines() {
        let Some((call, _)) = line.split_once('(') else { continue };
        let number = counts.entry(call.to_owned()).or_default();
        *number += 1;
        begun |= call == "sigaltstack";
        if begun && calls.contains(&call) {
            places.push((call.to_owned(), *number, error_of(call)));
        }
    }
    assert!(!places.is_empty());
    places
}

/// Mode, owner, an attribute and bytes of a file; of others no bytes.
type Seen = (u32, u32, u32, Vec<u8>, Vec<u8>);

/// Everything below these folders.
fn whole(scratch: &Scratch, folders: &[&str]) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| scratch.path(folder)).filter(|it| it.exists()).collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = std::fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                open.push(path.clone());
            }
            let bytes = if about.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            let mut value = vec![0; 64];
            let len = rustix::fs::lgetxattr(&path, ATTRIBUTE, &mut value[..]).unwrap_or(0);
            value.truncate(len);
            all.insert(path, (about.mode(), about.uid(), about.gid(), value, bytes));
        }
    }
    all
}

/// A verb that changes files, and how to take it back.
struct Change<'a> {
    words: &'a [&'a str],
    undo: &'a [&'a str],
    /// The user's files.
    folders: &'a [&'a str],
    calls: &'a [&'a str],
}

/// Each of the calls fails once: the answer is one of the README's, nothing is lost, nothing is left, and the verb
/// works afterwards.
fn nothing_is_lost(scratch: &Scratch, change: &Change<'_>) {
    let before = whole(scratch, change.folders);
    let places = places(scratch, change.words, change.calls);
    let after = whole(scratch, change.folders);
    assert!(before != after);
    thaw(scratch, change.undo).exits(0);
    assert!(whole(scratch, change.folders) == before);
    for place in places {
        let said = Said::of(traced(scratch, change.words, Some(&place)));
        let told = format!("{place:?}\n{}", said.framed());
        assert!(matches!(said.code(), Some(0..=5)), "{told}");
        thaw(scratch, &["doctor", "--mend"]).exits(0);
        let now = whole(scratch, change.folders);
        assert!(said.code() != Some(0) || now == after, "another result: {told}");
        for (path, seen) in &now {
            let is_known = [&before, &after].iter().any(|known| known.get(path) == Some(seen));
            assert!(is_known, "neither as before nor the new one: {}\n{told}", path.display());
        }
        // What was not done is done now, what was done is not done twice; either can be undone.
        let again = thaw(scratch, change.words);
        assert!(matches!(again.code(), Some(0..=2)), "{told}\n{}", again.framed());
        let undone = thaw(scratch, change.undo);
        assert_eq!(undone.code(), Some(0), "{told}\n{}", undone.framed());
        assert!(whole(scratch, change.folders) == before, "not as before: {told}");
        scratch.nothing_left();
    }
}

#[test]
fn a_file_that_is_packed_in_place_or_its_original_is_there_whatever_fails() {
    let scratch = Scratch::new();
    if !can_inject(&scratch) {
        return;
    }
    let Some(program) = crate::optimize::program(&scratch) else { return };
    // Where the file system has no attributes, there are none to lose.
    let _ = rustix::fs::setxattr(&program, ATTRIBUTE, b"here", rustix::fs::XattrFlags::CREATE);
    nothing_is_lost(
        &scratch,
        &Change {
            words: &["elf", "pack", "system/app/big", "--in-place"],
            undo: &["elf", "restore", "system/app/big"],
            folders: &["system"],
            calls: &[
                "clone3",
                "fchmod",
                "fgetxattr",
                "flistxattr",
                "fsync",
                "linkat",
                "renameat",
                "renameat2",
                "unlinkat",
            ],
        },
    );
}

#[test]
fn a_launcher_is_installed_as_it_should_be_or_not_at_all() {
    let scratch = Scratch::new();
    if !can_inject(&scratch) {
        return;
    }
    crate::preload::manifest(&scratch);
    scratch.write("share/applications/tool.desktop", "[Desktop Entry]\nType=Application\nName=Tool\nExec=tool %u\n");
    nothing_is_lost(
        &scratch,
        &Change {
            words: &["preload", "install", "a.preload", "--desktop", "tool.desktop"],
            undo: &["preload", "uninstall", "--desktop", "tool.desktop"],
            folders: &["home", "share"],
            calls: &["read", "fchmod", "fsync", "mkdir", "renameat", "renameat2", "unlinkat"],
        },
    );
}

#[test]
fn a_program_is_optimised_or_as_it_was_whatever_fails() {
    let scratch = Scratch::new();
    if !can_inject(&scratch) {
        return;
    }
    let Some(program) = crate::optimize::program(&scratch) else { return };
    crate::optimize::result(&scratch, &program);
    nothing_is_lost(
        &scratch,
        &Change {
            words: &["optimize", "--apply", "fast"],
            undo: &["optimize", "--undo", "fast"],
            folders: &["system"],
            calls: &["fsync", "renameat", "unlinkat"],
        },
    );
}

#[test]
fn a_recording_whose_start_fails_leaves_nothing_and_says_why() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    if !can_inject(&scratch) {
        return;
    }
    let words = ["record", "-q", "--force", "-o", "r.thaw", "--state", "app", "--runs", "1", "--trace-runs", "1"];
    let words: Vec<&str> = words.iter().chain(&["--needed", "no", "--", "true"]).copied().collect();
    let mut places = places(&scratch, &words, &["clone", "clone3", "eventfd2", "mkdir", "pidfd_open"]);
    places.sort();
    // Each is a whole recording: of each kind the first and the last.
    let kind = |index: usize| places.get(index).map(|place| &place.0);
    let is_end = |index: &usize| {
        let same = |other: Option<usize>| other.is_some_and(|other| kind(other) == kind(*index));
        !same(index.checked_sub(1)) || !same(index.checked_add(1))
    };
    for place in (0..places.len()).filter(is_end).map(|index| &places[index]) {
        let _ = std::fs::remove_file(scratch.path("r.thaw"));
        let said = Said::of(traced(&scratch, &words, Some(place)));
        let told = format!("{place:?}\n{}", said.framed());
        assert!(matches!(said.code(), Some(0..=5)), "{told}");
        thaw(&scratch, &["doctor", "--mend"]).exits(0);
        if scratch.path("r.thaw").exists() {
            assert_eq!(thaw(&scratch, &["report", "r.thaw"]).code(), Some(0), "{told}");
        }
        scratch.nothing_left();
    }
}
