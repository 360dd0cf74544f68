//! Packing files where they lie: what is kept of a file, what is refused, how it comes back, and that no moment of a
//! kill leaves half of anything.

use pack::{Installed, Options, Outcome, Reason, Setuid, Space, Standing, Target, pack_file};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What this test binary does when it is started again, with a state directory of its own.
#[test]
fn a_process_of_its_own() {
    let Some(path) = std::env::var_os("THAW_TEST_FILE").map(PathBuf::from) else { return };
    let answer = match std::env::var("THAW_TEST_DO").unwrap().as_str() {
        "pack" => match pack_file(&path, &Target::InPlace, &Options::default()) {
            Ok(Outcome::Packed(_)) => "packed".to_owned(),
            Ok(Outcome::Refused(refusal)) => refusal.reason.name(),
            Err(error) => format!("error {error}"),
        },
        "restore" => match pack::restore_file(&path) {
            Ok(restored) => format!("restored {}", restored.size.0),
            Err(error) => format!("error {error}"),
        },
        "list" => serde_json::to_string(&pack::installed().unwrap()).unwrap(),
        "mend" => {
            let left = os::journal::leftovers().unwrap();
            left.iter().for_each(|left| os::journal::mend(left).unwrap());
            format!("mended {}", left.len())
        }
        other => panic!("{other}"),
    };
    println!("\nanswer: {answer}");
}

/// A directory with a library that is worth packing, and a state directory.
struct Ground {
    home: tempfile::TempDir,
    library: PathBuf,
    original: Vec<u8>,
}

impl Ground {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("lib")).unwrap();
        let library = home.path().join("lib/libground.so");
        let source = home.path().join("ground.c");
        let words: String = (0..2000).map(|number| format!("\"word {number}\",")).collect();
        fs::write(
            &source,
            format!(
                "#include <stdio.h>\nconst char *words[] = {{{words}}};\nint say(void) {{ return puts(words[7]); }}\n\
                 const char more[300000] = {{1}};\n"
            ),
        )
        .unwrap();
        let built = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
        assert!(built.status.success(), "{built:?}");
        let original = fs::read(&library).unwrap();
        Self { home, library, original }
    }

    fn command(&self, program: &Path, what: &str) -> Command {
        let mut command = Command::new(program);
        command.env("THAW_TEST_FILE", &self.library).env("THAW_TEST_DO", what);
        command.env("THAW_STATE_DIR", self.home.path().join("state"));
        command
    }

    fn ask(&self, what: &str) -> String {
        let mut command = self.command(&std::env::current_exe().unwrap(), what);
        answer(&command.args(ARGS).output().unwrap()).expect("an answer")
    }

    fn list(&self) -> Vec<Installed> {
        serde_json::from_str(&self.ask("list")).unwrap()
    }

    /// Everything in the directory of the library, and in the state directory.
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for directory in ["lib", "state/packed", "state/journal"] {
            let entries = fs::read_dir(self.home.path().join(directory));
            names.extend(
                entries
                    .into_iter()
                    .flatten()
                    .map(|entry| format!("{directory}/{}", entry.unwrap().file_name().to_string_lossy())),
            );
        }
        names
    }
}

const ARGS: [&str; 4] = ["--exact", "a_process_of_its_own", "--nocapture", "--test-threads=1"];

fn answer(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("answer: ").map(str::to_owned))
}

fn only_the_library() -> BTreeSet<String> {
    BTreeSet::from(["lib/libground.so".to_owned()])
}

#[test]
fn a_file_packed_in_place_comes_back_byte_for_byte() {
    let ground = Ground::new();
    fs::set_permissions(&ground.library, fs::Permissions::from_mode(0o751)).unwrap();
    let time = rustix::fs::Timespec { tv_sec: 981_173_106, tv_nsec: 123_456_789 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, &ground.library, &times, rustix::fs::AtFlags::empty()).unwrap();
    let xattr = rustix::fs::lsetxattr(&ground.library, "user.thaw", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let link = ground.home.path().join("lib/link.so");
    std::os::unix::fs::symlink("libground.so", &link).unwrap();
    let dressed = |path: &Path| {
        let about = path.metadata().unwrap();
        (about.mode(), about.uid(), about.gid(), about.mtime(), about.mtime_nsec())
    };
    let before = dressed(&ground.library);

    // By a symbolic link too: its target is packed.
    let output =
        ground.command(&std::env::current_exe().unwrap(), "pack").env("THAW_TEST_FILE", &link).args(ARGS).output();
    assert_eq!(answer(&output.unwrap()).as_deref(), Some("packed"));
    assert!(link.is_symlink());
    let packed = fs::read(&ground.library).unwrap();
    assert!(packed.len() + 4096 <= ground.original.len());
    assert_eq!(dressed(&ground.library), before);
    if xattr {
        let mut value = [0; 16];
        let len = rustix::fs::lgetxattr(&ground.library, "user.thaw", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"kept");
    } else {
        testing::skip("the file system has no extended attributes: they were not looked at");
    }
    let list = ground.list();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].path, ground.library.canonicalize().unwrap());
    assert_eq!((list[0].size_before.0, list[0].size_after.0), (ground.original.len() as u64, packed.len() as u64));
    assert_eq!(list[0].standing, Standing::Packed);

    assert_eq!(ground.ask("pack"), "already-relr");
    assert_eq!(ground.ask("restore"), format!("restored {}", ground.original.len()));
    assert_eq!(fs::read(&ground.library).unwrap(), ground.original);
    assert_eq!(dressed(&ground.library), before);
    assert_eq!(ground.list(), []);
    let mut left = only_the_library();
    left.insert("lib/link.so".to_owned());
    assert_eq!(ground.names(), left);
    assert!(ground.ask("restore").starts_with("error there is no kept original"));
}

#[test]
fn what_was_changed_since_is_not_overwritten() {
    let ground = Ground::new();
    assert_eq!(ground.ask("pack"), "packed");
    let mut upgraded = fs::read(&ground.library).unwrap();
    *upgraded.last_mut().unwrap() ^= 1;
    fs::write(&ground.library, &upgraded).unwrap();
    assert_eq!(ground.list()[0].standing, Standing::Changed);
    assert!(ground.ask("restore").contains("was changed since it was packed"));
    assert_eq!(fs::read(&ground.library).unwrap(), upgraded);
    // The next pack is of what it is now; the old original is no use any more.
    fs::write(&ground.library, [&ground.original[..], b"\0"].concat()).unwrap();
    assert_eq!(ground.ask("pack"), "packed");
    assert_eq!(ground.list().len(), 1);
    assert_eq!(ground.list()[0].size_before.0, ground.original.len() as u64 + 1);
    fs::remove_file(&ground.library).unwrap();
    assert_eq!(ground.list()[0].standing, Standing::Gone);
    // The original is still there for those who want it.
    let kept = fs::read_dir(ground.home.path().join("state/packed")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read(kept.join("original")).unwrap(), [&ground.original[..], b"\0"].concat());
}

#[test]
fn a_copy_leaves_the_original_and_a_plan_everything() {
    let ground = Ground::new();
    let copy = ground.home.path().join("lib/copy.so");
    let pack =
        |target: &Target, space| match pack_file(&ground.library, target, &Options { space, ..Options::default() }) {
            Ok(Outcome::Packed(packed)) => packed,
            other => panic!("{other:?}"),
        };
    let planned = pack(&Target::PlanOnly, Space::Shrink);
    assert_eq!(ground.names(), only_the_library());
    assert_eq!(pack(&Target::Copy(copy.clone()), Space::Shrink), planned);
    assert_eq!(fs::metadata(&copy).unwrap().len(), planned.size_after.0);
    assert_eq!(fs::read(&ground.library).unwrap(), ground.original);
    let error = pack_file(&ground.library, &Target::Copy(ground.library.clone()), &Options::default()).unwrap_err();
    assert_eq!(error.exit, model::Exit::Usage);

    let error = pack_file(&ground.library, &Target::Copy(copy.clone()), &Options::default()).unwrap_err();
    assert!(error.exit == model::Exit::Usage && error.to_string().contains("there is already"), "{error}");

    // Free bytes are zero, or holes.
    let kept = pack(&Target::CopyOver(copy.clone()), Space::Keep);
    let bytes = fs::read(&copy).unwrap();
    let punched = pack(&Target::CopyOver(copy.clone()), Space::Punch);
    assert_eq!(fs::read(&copy).unwrap(), bytes);
    assert_eq!(kept.freed, punched.freed);
    assert!(kept.freed.0 > 40_000 && bytes.len() >= ground.original.len(), "{}", kept.freed);
    let blocks = fs::metadata(&copy).unwrap().blocks() * 512;
    assert!(
        blocks + kept.freed.0 <= bytes.len() as u64 + 3 * 4096,
        "{blocks} of {} bytes are on the disk",
        bytes.len()
    );
}

#[test]
fn what_others_vouch_for_or_share_is_refused() {
    let ground = Ground::new();
    let reason = |path: &Path, target: &Target, options: &Options| match pack_file(path, target, options).unwrap() {
        Outcome::Refused(refusal) => {
            assert!(refusal.sentence.starts_with(path.canonicalize().unwrap().to_str().unwrap()), "{refusal}");
            Some(refusal.reason)
        }
        Outcome::Packed(_) => None,
    };
    let plan = |path: &Path| reason(path, &Target::PlanOnly, &Options::default());
    assert_eq!(plan(&ground.library), None);
    for (sum, name) in [("libground.chk", "libground.so"), (".libground.so.hmac", "libground.so"), ("none", "fips.so")]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::copy(&ground.library, &path).unwrap();
        fs::write(directory.path().join(sum), "sum").unwrap();
        assert_eq!(plan(&path), Some(Reason::Checksummed), "{sum}");
    }
    fs::set_permissions(&ground.library, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(plan(&ground.library), Some(Reason::Setuid));
    let asked = Options { setuid: Setuid::Pack, ..Options::default() };
    let copy = ground.home.path().join("lib/copy.so");
    assert_eq!(reason(&ground.library, &Target::CopyOver(copy.clone()), &asked), None);
    assert_eq!(copy.metadata().unwrap().mode() & 0o7777, 0o4755);
    fs::set_permissions(&ground.library, fs::Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(&ground.library, ground.home.path().join("lib/other.so")).unwrap();
    assert_eq!(reason(&ground.library, &Target::InPlace, &Options::default()), Some(Reason::HardLinks));
    assert_eq!(plan(&ground.library), None, "a copy leaves the other names alone");
    // What is appended may be looked for from the end.
    let mut bytes = ground.original.clone();
    bytes.extend(b"PAYLOAD");
    let appended = ground.home.path().join("appended.so");
    fs::write(&appended, &bytes).unwrap();
    assert_eq!(plan(&appended), Some(Reason::Payload));
    let keep = Options { space: Space::Keep, ..Options::default() };
    assert_eq!(reason(&appended, &Target::CopyOver(copy.clone()), &keep), None);
    let packed = fs::read(&copy).unwrap();
    assert!(packed.ends_with(b"PAYLOAD") && packed.len() == bytes.len());
}

/// System calls by which anything changes.
const CHANGES: [&str; 21] = [
    "openat",
    "linkat",
    "link",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "write",
    "pwrite64",
    "ftruncate",
    "fallocate",
    "fchown",
    "fchmod",
    "fsetxattr",
    "utimensat",
    "fsync",
    "flock",
];

fn has_strace() -> bool {
    let works =
        Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|output| output.status.success());
    if !works {
        testing::skip("needs strace");
    }
    works
}

/// Starts this binary under strace, which kills it as it begins one of its changes. Calls `judge` after each kill, with
/// what to say where it fails; ends when nothing is left to kill it at.
fn kill_at_each_change(ground: &Ground, what: &str, mut judge: impl FnMut(&str)) {
    for call in CHANGES {
        for when in 1.. {
            let mut command = ground.command(Path::new("strace"), what);
            command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:signal=KILL:when={when}")]);
            let output = command.arg(std::env::current_exe().unwrap()).args(ARGS).output().unwrap();
            judge(&format!("{what}, killed at {call} {when}"));
            if output.status.success() {
                assert!(answer(&output).is_some());
                break;
            }
        }
    }
}

#[test]
fn killed_at_any_change_the_file_is_the_old_or_the_new_one() {
    if !has_strace() {
        return;
    }
    let ground = Ground::new();
    assert_eq!(ground.ask("pack"), "packed");
    let packed = fs::read(&ground.library).unwrap();
    let restored = format!("restored {}", ground.original.len());
    assert_eq!(ground.ask("restore"), restored);

    let (mut old, mut new) = (0, 0);
    kill_at_each_change(&ground, "pack", |place| {
        let now = fs::read(&ground.library).unwrap();
        let list = ground.list();
        if now == ground.original {
            old += 1;
            assert!(list.iter().all(|one| one.standing == Standing::Original), "{place}: {list:?}");
            // The next one works, whatever was left.
            assert_eq!(ground.ask("pack"), "packed", "{place}");
        } else {
            new += 1;
            assert!(now == packed, "{place}: half-written");
        }
        let kept = ground.list().iter().filter(|one| one.standing == Standing::Packed).count();
        assert_eq!(kept, 1, "{place}");
        assert_eq!(ground.ask("restore"), restored, "{place}");
        assert!(fs::read(&ground.library).unwrap() == ground.original, "{place}");
        // What a killed pack left is mended as after any killed run.
        ground.ask("mend");
        assert_eq!(ground.names(), only_the_library(), "{place}");
    });
    assert!(old > 40 && new > 2, "the old one {old} times, the new one {new} times");
}

#[test]
fn killed_at_any_change_of_the_way_back_the_file_is_the_old_or_the_new_one() {
    if !has_strace() {
        return;
    }
    let ground = Ground::new();
    assert_eq!(ground.ask("pack"), "packed");
    let packed = fs::read(&ground.library).unwrap();
    let (mut back, mut not_yet) = (0, 0);
    kill_at_each_change(&ground, "restore", |place| {
        let now = fs::read(&ground.library).unwrap();
        if now == packed {
            not_yet += 1;
        } else {
            back += 1;
            assert!(now == ground.original, "{place}: half-written");
            assert_eq!(ground.ask("pack"), "packed", "{place}");
        }
        let kept = ground.list().iter().filter(|one| one.standing == Standing::Packed).count();
        assert_eq!(kept, 1, "{place}");
    });
    assert!(back > 2 && not_yet > 5, "back {back} times, not yet {not_yet} times");
}

#[test]
fn everything_is_on_the_disk_before_the_name_changes_hands() {
    if !has_strace() {
        return;
    }
    let ground = Ground::new();
    let log = ground.home.path().join("log");
    let mut command = ground.command(Path::new("strace"), "pack");
    command.args(["-f", "-y", "-e", &format!("trace={}", CHANGES.join(",")), "-o"]).arg(&log);
    let output = command.arg(std::env::current_exe().unwrap()).args(ARGS).output().unwrap();
    assert_eq!(answer(&output).as_deref(), Some("packed"));
    let log = fs::read_to_string(&log).unwrap();
    let calls: Vec<&str> = log.lines().collect();
    let at =
        |wanted: &dyn Fn(&str) -> bool| calls.iter().rposition(|line| wanted(line)).unwrap_or_else(|| panic!("{log}"));
    let fresh = |line: &str| line.contains(".libground.so.thaw-");
    let written = at(&|line| (line.contains("pwrite64(") || line.contains("fchmod(")) && fresh(line));
    let synced = at(&|line| line.contains("fsync(") && fresh(line));
    let kept = at(&|line| line.contains("fsync(") && line.contains("/state/packed/"));
    let renamed = at(&|line| line.contains("rename") && fresh(line) && line.contains("\"libground.so\""));
    let finished = at(&|line| line.contains("fsync(") && line.contains("/lib>"));
    assert!(written < synced && synced < renamed && kept < renamed && renamed < finished, "{log}");
}
