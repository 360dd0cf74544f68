//! Everything that can be wrong: each is one clear error with a hint and the exit code of the table; nothing is left
//! behind.

use crate::made;
use crate::scratch::{Said, Scratch, alone};
use std::path::{Path, PathBuf};

#[test]
fn an_unknown_program_is_no_recording() {
    let scratch = Scratch::new();
    let said = scratch.thaw(["record", "--state", "hot", "--", "no-such-program-at-all"]).exits(2);
    said.complains("no-such-program-at-all");
    assert!(!scratch.path("thaw.thaw").exists());
    scratch.write("plain", "text");
    let said = scratch.thaw(["record", "--state", "hot", "--", "./plain"]);
    assert!(said.err().starts_with("thaw: ") && said.err().contains("plain"), "{}", said.framed());
    scratch.nothing_left();
}

#[test]
fn a_program_that_fails_shows_what_it_said_last() {
    let _machine = alone();
    let scratch = Scratch::new();
    let said =
        scratch.thaw(["record", "--state", "hot", "--", "sh", "-c", "echo the disk is on fire >&2; exit 3"]).exits(4);
    said.complains("the disk is on fire").complains("3").hints("--ok-exit");
    assert!(!scratch.path("thaw.thaw").exists(), "an empty recording would be in the way");
    // What it prints is not how it ended.
    let killed =
        scratch.thaw(["record", "--state", "hot", "--", "sh", "-c", "echo exit code 3 >&2; kill -9 $$"]).exits(4);
    assert!(killed.err().contains("exit code 3") && !killed.err().contains("--ok-exit"), "{}", killed.framed());
    scratch.thaw(["record", "--state", "hot", "--runs", "2", "--ok-exit", "0,3", "--", "sh", "-c", "exit 3"]).exits(0);
    scratch.nothing_left();
}

#[test]
fn a_program_that_never_gets_ready_is_ended_and_shows_what_it_said_last() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("slow", "echo $$ > pid; echo still warming up; sleep 600");
    let words = ["record", "--state", "hot", "--ready", "line:Ready", "--timeout", "1s", "--grace", "1s", "--"];
    let said = scratch.thaw(words.into_iter().chain([program.to_str().unwrap()])).exits(4);
    said.complains("still warming up").hints("--timeout");
    let pid = std::fs::read_to_string(scratch.path("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "no child is left");
    scratch.nothing_left();
}

#[test]
fn without_root_the_error_says_what_still_works() {
    let scratch = Scratch::new();
    for state in ["cold", "boot"] {
        let Some(said) = scratch.thaw_as_nobody(["record", "--state", state, "--", "/bin/true"]) else { return };
        said.exits(3).complains(&format!("cannot reach the cache state '{state}'")).hints("--state app,hot");
    }
    let throttle = ["record", "--state", "hot", "--disk", "throttle:iops=100", "--", "/bin/true"];
    let Some(said) = scratch.thaw_as_nobody(throttle) else { return };
    assert!(said.err().starts_with("thaw: "), "{}", said.framed());
    said.exits(3);
    scratch.nothing_left();
}

#[test]
fn option_values_say_what_would_be_right() {
    let scratch = Scratch::new();
    let wrong = [
        (vec!["--state", "lukewarm"], "cold, boot, app and hot"),
        (vec!["--runs", "0"], "1..=100000"),
        (vec!["--disk", "throttle:seek=3"], "throttle:iops=200,bps=30M"),
        (vec!["--disk", "floppy"], "laptop2010"),
        (vec!["--disk", "a floppy"], "thaw io model --list"),
        (vec!["--disks-file", "x"], "--disk"),
        (vec!["--readahead", "much"], "128K"),
        (vec!["--precision", "0%"], "5% or 0.05"),
        (vec!["--budget", "a while"], "30s, 10m"),
        (vec!["--ready", "when it is done"], "line:REGEX"),
        (vec!["--ready", "line:("], "line:("),
        (vec!["--ok-exit", "999"], "0,3 or 0-2"),
        (vec!["--variant", "no name"], "NAME=COMMANDLINE"),
        (vec!["--engine", "steam"], "perf"),
        (vec!["--restore", "/"], "/"),
    ];
    for (options, part) in wrong {
        let words = ["record"].into_iter().chain(options.iter().copied()).chain(["--state", "hot", "--", "/bin/true"]);
        let words: Vec<&str> = if options[0] == "--state" {
            ["record"].into_iter().chain(options.iter().copied()).chain(["--", "/bin/true"]).collect()
        } else {
            words.collect()
        };
        let said = scratch.thaw(words);
        let code = said.err();
        assert!(code.starts_with("thaw: "), "{options:?}: {}", said.framed());
        said.exits(2).complains(part);
    }
    assert!(!scratch.path("thaw.thaw").exists());
}

#[test]
fn a_directory_to_restore_must_be_there() {
    let scratch = Scratch::new();
    let said = scratch.thaw(["record", "--state", "hot", "--restore", "missing", "--", "/bin/true"]);
    assert!(said.err().starts_with("thaw: ") && said.err().contains("missing"), "{}", said.framed());
    scratch.write("file", "");
    scratch.thaw(["record", "--state", "hot", "--restore", "file", "--", "/bin/true"]).complains("file");
    scratch.nothing_left();
}

#[test]
fn a_file_in_the_way_is_kept() {
    let scratch = Scratch::new();
    scratch.write("letter.txt", "dear diary");
    let words = |force: bool| {
        let mut words = vec!["record", "-o", "letter.txt", "--state", "hot", "--runs", "1"];
        words.extend(force.then_some("--force"));
        words.extend(["--", "/bin/true"]);
        words
    };
    scratch.thaw(words(false)).exits(2).complains("already there 'letter.txt'").hints("--force");
    let said = scratch.thaw(words(true));
    assert!(said.err().starts_with("thaw: "), "only recordings are replaced: {}", said.framed());
    assert_eq!(std::fs::read_to_string(scratch.path("letter.txt")).unwrap(), "dear diary");
}

#[test]
fn a_directory_that_is_not_there_holds_no_recording() {
    let _machine = alone();
    let scratch = Scratch::new();
    let said = scratch.thaw(["record", "-o", "missing/x.thaw", "--state", "hot", "--", "/bin/true"]);
    assert!(said.err().starts_with("thaw: ") && said.err().contains("missing/x.thaw"), "{}", said.framed());
    scratch.nothing_left();
}

/// Every verb that reads recordings says the same about a bad one.
fn refuses(scratch: &Scratch, file: &str, code: i32, part: &str) {
    for words in [
        vec!["report", file],
        vec!["compare", file, file],
        vec!["gate", file, file],
        vec!["query", file, "select 1"],
        vec!["io", "model", file],
        vec!["io", "replay", file],
    ] {
        let said = scratch.thaw(&words);
        assert!(said.out().is_empty() && said.err().starts_with("thaw: "), "{}", said.framed());
        assert!(said.err().contains("hint: "), "{}", said.framed());
        said.exits(code).complains(file).complains(part);
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let scratch = Scratch::new();
    refuses(&scratch, "missing.thaw", 2, "No such file");
    scratch.write("letter.txt", "dear diary, ".repeat(1000));
    refuses(&scratch, "letter.txt", 5, "");
    scratch.write("empty.thaw", "");
    refuses(&scratch, "empty.thaw", 5, "");
    std::fs::create_dir(scratch.path("folder.thaw")).unwrap();
    scratch.thaw(["report", "folder.thaw"]).exits(5).complains("folder.thaw");
}

#[test]
fn a_truncated_recording_is_refused_or_read_but_never_half_believed() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("whole.thaw"), &[900, 910, 905], &[300, 310, 305]);
    let whole = std::fs::read(scratch.path("whole.thaw")).unwrap();
    for part in [10, 100, 4096, whole.len() / 2, whole.len() - 1] {
        scratch.write("cut.thaw", &whole[..part]);
        let said = scratch.thaw(["report", "cut.thaw"]).exits(5);
        assert!(said.err().contains("cut.thaw") && said.err().contains("hint: "), "{}", said.framed());
    }
}

#[test]
fn a_recording_of_a_newer_thaw_says_so() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("newer.thaw"), &[900, 910], &[300, 310]);
    // user_version: four bytes, big-endian, at offset 60 of an SQLite file.
    let mut bytes = std::fs::read(scratch.path("newer.thaw")).unwrap();
    bytes[60..64].copy_from_slice(&(recording::SCHEMA_VERSION + 1).to_be_bytes());
    scratch.write("newer.thaw", bytes);
    refuses(&scratch, "newer.thaw", 5, "newer");
}

#[test]
fn an_unreadable_recording_is_named() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("secret.thaw"), &[900, 910], &[300, 310]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(scratch.path("secret.thaw"), mode).unwrap();
    let Some(said) = scratch.thaw_as_nobody(["report", "secret.thaw"]) else { return };
    said.exits(5).complains("secret.thaw").complains("ermission denied");
}

/// A tiny file system; unmounted when dropped.
pub struct TinyDisk(PathBuf);

impl TinyDisk {
    pub fn new(path: PathBuf, bytes: u64) -> Option<Self> {
        if !testing::root_or_skip() {
            return None;
        }
        std::fs::create_dir(&path).unwrap();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let mounted =
            rustix::mount::mount("thaw-test", &path, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str());
        match mounted {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                testing::skip(&format!("cannot mount a tmpfs: {error}"));
                None
            }
        }
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_says_so() {
    let _machine = alone();
    let scratch = Scratch::new();
    for bytes in [16 << 10, 192 << 10] {
        let Some(_disk) = TinyDisk::new(scratch.path(format!("tiny{bytes}")), bytes) else { return };
        let output = format!("tiny{bytes}/full.thaw");
        let words = ["record", "-o", &output, "--state", "hot", "--runs", "2000", "--quiet", "--", "/bin/true"];
        let said: Said = scratch.thaw(words);
        assert!(said.err().starts_with("thaw: ") && said.err().contains("full"), "{}", said.framed());
        let said = said.exits(3);
        if scratch.path(&output).exists() {
            let report = scratch.thaw(["report", &output]);
            assert!(report.out().contains("the recording was interrupted"), "{}{}", said.framed(), report.framed());
        }
        scratch.nothing_left();
    }
}

/// thaw under `ulimit -f`, which counts blocks of 512 bytes.
fn limited(scratch: &Scratch, blocks: u32, words: &[&str]) -> Said {
    let mut command = scratch.command_of(Path::new("/bin/sh"));
    command.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_thaw")]).args(words);
    Said::of(command)
}

#[test]
fn a_file_that_reaches_its_limit_is_an_error_that_names_it() {
    let _machine = alone();
    let scratch = Scratch::new();
    made::recording(&scratch.path("app.thaw"), &[1200; 10], &[300; 10]);
    let whole = |said: Said, file: &str| {
        said.exits(3).complains(file).complains("File too large");
        assert!(!scratch.path(file).exists(), "{file}: nothing takes the name of what is not whole");
        let hidden: Vec<String> = scratch.names("").into_iter().filter(|name| name.starts_with('.')).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        scratch.nothing_left();
    };
    whole(limited(&scratch, 64, &["report", "app.thaw", "-o", "page.html"]), "page.html");
    if !crate::heap::guest() {
        return;
    }
    // The limit is for the program too, and its signal is as it was.
    let said =
        limited(&scratch, 4000, &["heap", "run", "-o", "x.heap", "--", "sh", "-c", "grep SigIgn /proc/$$/status"]);
    said.says("0000000000000000");
}
