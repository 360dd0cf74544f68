//! image: from a recorded start to a program that starts from one; above all that it always starts, from what was
//! checked, and that nothing stays mounted.

use crate::made;
use crate::scratch::{Said, Scratch, alone};
use model::Bytes;
use std::path::Path;
use std::process::Command;

/// A directory with a program in it that prints files, and its image by a recording that names two parts of one file;
/// `None`: counted as skipped.
fn made(scratch: &Scratch) -> Option<()> {
    if !testing::root_or_skip() {
        return None;
    }
    if !std::fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("\terofs\n") {
        testing::skip("needs a kernel with EROFS");
        return None;
    }
    // Lines that differ, so that they become smaller and no two pages are the same.
    let lines: String = (0..60_000).map(|line| format!("line {line} of what the program reads\n")).collect();
    let data = scratch.write("app/data", lines);
    scratch.write("app/lib/unused", vec![b'x'; 300_000]);
    testing::copy_program("/bin/cat", scratch.path("app/cat"));
    let mut trace = made::trace_of(2);
    trace.files[0].size = Bytes(std::fs::metadata(&data).unwrap().len());
    trace.files[0].path = data;
    made::with_trace(&scratch.path("a.thaw"), &[900], &[300], Some(&trace));
    let said = scratch.thaw(["image", "make", "app", "--from", "a.thaw", "-o", "a.img"]).exits(0);
    said.says("A start needs the first").says_not("warning");
    Some(())
}

/// What of this machine's mounts is an image.
fn mounted() -> usize {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().filter(|line| line.contains(" - erofs ")).count()
}

#[test]
fn a_recorded_start_becomes_an_image_from_which_the_program_starts() {
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(()) = made(&scratch) else { return };
    // A start as it is really recorded, to the page.
    Command::new("sync").status().unwrap();
    let program = scratch.path("app/cat");
    let record = ["record", "-q", "--state", "app", "--runs", "1", "--trace-runs", "1", "--readahead", "0", "--"];
    let words: Vec<&str> = record.into_iter().chain([program.to_str().unwrap(), "app/data"]).collect();
    scratch.thaw(words).exits(0);
    scratch.thaw(["image", "make", "app", "--from", "thaw.thaw", "-o", "real.img"]).exits(0);
    let stat = scratch.thaw(["image", "stat", "real.img", "--json"]).exits(0).json();
    let about = &stat["about"];
    let number = |name: &str| about[name].as_u64().unwrap();
    assert_eq!((&stat["schema"], &about["source"]), (&"thaw.image-stat/1".into(), &"exact".into()));
    assert!(number("start") < number("image") && number("metadata") < number("start"), "{stat:#}");
    let needed = std::fs::metadata(scratch.path("app/data")).unwrap().len();
    assert!(stat["clusters"]["needed_content"].as_u64().unwrap() >= needed, "{stat:#}");
    assert_eq!(number("files"), 3);

    let verified = scratch.thaw(["image", "verify", "a.img", "--json"]).exits(0).json();
    assert_eq!(verified["differences"], serde_json::json!([]), "{verified:#}");
    let kernel = &verified["kernel"];
    if let Some(why) = kernel["not-asked"].as_str() {
        return testing::skip(why);
    }
    assert_eq!(kernel["sees"], serde_json::json!([]), "{verified:#}");
    // Equal input, equal bytes; and nothing is replaced unasked.
    scratch.thaw(["image", "make", "app", "--from", "a.thaw", "-o", "b.img"]).exits(0);
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == std::fs::read(scratch.path("b.img")).unwrap());
    scratch.thaw(["image", "make", "app", "--from", "a.thaw", "-o", "b.img"]).exits(2).complains("there is already");
    // In the order of an older image it is the same.
    scratch.thaw(["image", "make", "app", "--like", "a.img", "-o", "like.img"]).exits(0).says("by an older image");
    let [older, like] = ["a.img", "like.img"].map(|image| scratch.thaw(["image", "stat", image, "--json"]).json());
    assert_eq!(like["clusters"], older["clusters"]);
    for name in ["by_all", "start", "data_sum", "starts", "recordings"] {
        assert_eq!(like["about"][name], older["about"][name], "{name}");
    }
    scratch
        .thaw(["image", "make", "app", "--from", "a.thaw", "-o", "app/c.img"])
        .exits(2)
        .complains("its own directory");

    let run = |words: &[&str]| {
        let words: Vec<&str> = ["image", "run", "a.img", "--"].into_iter().chain(words.iter().copied()).collect();
        scratch.thaw(words)
    };
    let said = run(&[program.to_str().unwrap(), "app/data"]).exits(0);
    assert!(
        said.out().as_bytes() == std::fs::read(scratch.path("app/data")).unwrap() && said.err().is_empty(),
        "{}",
        said.err()
    );
    let mounts = run(&[program.to_str().unwrap(), "/proc/self/mountinfo"]).exits(0).out();
    let line = mounts.lines().find(|line| line.contains(" - erofs ")).unwrap();
    assert!(line.contains(scratch.path("app").to_str().unwrap()), "{line}");
    // Nothing is read around faults while it starts.
    let around = run(&["sh", "-c", "cat /sys/class/bdi/erofs*/read_ahead_kb"]).exits(0).out();
    assert!(around.lines().any(|line| line == "0"), "{around}");
    assert!(run(&["sh", "-c", "echo x > app/new"]).out().is_empty() && !scratch.path("app/new").exists());
    assert_eq!(run(&["sh", "-c", "exit 42"]).code(), Some(42));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).code(), None, "ended by the signal");
    run(&["no-such-program"]).exits(127);
    assert_eq!(mounted(), 0);
    scratch.thaw(["image", "extract", "a.img", "-o", "again"]).exits(0).says("3 files");
    scratch.thaw(["image", "verify", "a.img", "--against", "again"]).exits(0).says("It holds what again holds");
    scratch.nothing_left();
}

#[test]
fn what_was_changed_or_damaged_is_said_and_the_directory_itself_is_used() {
    let scratch = Scratch::new();
    let Some(()) = made(&scratch) else { return };
    let program = scratch.path("app/cat");
    let started = |words: &[&str], why: &str| {
        let words: Vec<&str> =
            words.iter().copied().chain(["--", program.to_str().unwrap(), "/proc/self/mountinfo"]).collect();
        let said = scratch.thaw(words).exits(0).complains("starts from its directory").complains(why);
        assert!(!said.out().contains(" - erofs "), "{why}: nothing is mounted");
    };
    started(&["image", "run", "missing.img"], "missing.img");
    let bytes = std::fs::read(scratch.path("a.img")).unwrap();
    let stat = scratch.thaw(["image", "stat", "a.img", "--json"]).exits(0).json();
    let (metadata, image) =
        (stat["about"]["metadata"].as_u64().unwrap() as usize, stat["about"]["image"].as_u64().unwrap() as usize);
    scratch.write("cut.img", &bytes[..bytes.len() - 1]);
    started(&["image", "run", "cut.img"], "cut off");
    let with = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        changed
    };
    scratch.write("front.img", with(metadata / 2));
    started(&["image", "run", "front.img"], "its metadata were changed");
    scratch.write("data.img", with((metadata + image) / 2));
    started(&["image", "run", "data.img", "--check"], "its data were changed");
    scratch.thaw(["image", "verify", "data.img"]).exits(5).complains("its data were changed");
    // Without that the kernel finds it as it unpacks the cluster: an error, and never other content.
    let text = ["app/data", "app/lib/unused"].map(|name| std::fs::read_to_string(scratch.path(name)).unwrap()).concat();
    let mut failed = 0;
    for part in 1..8 {
        scratch.write("part.img", with(metadata + (image - metadata) * part / 8));
        let said = scratch.thaw(["image", "run", "part.img", "--", "cat", "app/data", "app/lib/unused"]);
        failed += usize::from(said.code() != Some(0));
        assert!(said.code() != Some(0) || said.out() == text, "part {part}");
    }
    assert!(failed > 0, "nothing was hit");
    scratch.write("letter.img", "dear diary");
    started(&["image", "run", "letter.img"], "no image of thaw's");
    // Somebody else could put anything there.
    let open = scratch.write("open.img", &bytes);
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    started(&["image", "run", "open.img"], "everybody may write it");
    scratch.write("app/lib/new", "of an upgrade");
    started(&["image", "run", "a.img"], "lib/new is new");
    scratch.thaw(["image", "verify", "a.img"]).exits(1).says("lib/new");
    std::fs::remove_dir_all(scratch.path("app/lib")).unwrap();
    started(&["image", "run", "a.img"], "is gone");
    assert_eq!(mounted(), 0);
    scratch.nothing_left();
}

#[test]
fn a_killed_program_leaves_nothing_mounted() {
    let scratch = Scratch::new();
    let Some(()) = made(&scratch) else { return };
    let mut command = scratch.command();
    let mut child = command.args(["image", "run", "a.img", "--", "sleep", "1000"]).spawn().unwrap();
    let place = scratch.path("app");
    let sees = |process: &Path| {
        let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        mounts.lines().any(|line| line.contains(" - erofs ") && line.contains(place.to_str().unwrap()))
    };
    let all = || std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let own = format!("/proc/{}", child.id());
    let name = |process: &Path| std::fs::read_to_string(process.join("comm")).unwrap_or_default();
    while name(Path::new(&own)) != "sleep\n" {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    if !sees(Path::new(&own)) {
        child.kill().unwrap();
        child.wait().unwrap();
        return testing::skip("the kernel cannot mount an image from a file");
    }
    assert_eq!(mounted(), 0, "nobody else sees it");
    child.kill().unwrap();
    child.wait().unwrap();
    // What waits for the program's end ends with it.
    while all().any(|process| sees(&process)) {
        std::thread::yield_now();
    }
    scratch.nothing_left();
}

#[test]
fn the_program_runs_as_who_asked() {
    let scratch = Scratch::new();
    let Some(()) = made(&scratch) else { return };
    let mut command = scratch.command();
    let uid = testing::SECOND_USER.to_string();
    command.args(["image", "run", "a.img", "--", "id", "-u"]).env("SUDO_UID", &uid).env_remove("SUDO_USER");
    assert_eq!(Said::of(command).exits(0).out().trim(), uid);
    // What a user can put over files must not decide what a program with rights of its own does.
    let privileges = || {
        let mut command = scratch.command();
        command.args(["image", "run", "a.img", "--", "grep", "NoNewPrivs", "/proc/self/status"]);
        command.env("SUDO_UID", &uid).env_remove("SUDO_USER");
        let said = Said::of(command).exits(0);
        assert_eq!(said.err(), "");
        said.out()
    };
    assert_eq!(privileges(), "NoNewPrivs:\t0\n");
    std::os::unix::fs::chown(scratch.path("a.img"), Some(testing::SECOND_USER), None).unwrap();
    assert_eq!(privileges(), "NoNewPrivs:\t1\n");
    std::os::unix::fs::chown(scratch.path("a.img"), Some(0), None).unwrap();
    let asked = scratch.thaw(["image", "run", "a.img", "--user", "nobody-of-this-name", "--", "id"]);
    asked.exits(126).complains("there is no user");
    // Who is not root cannot mount: the program starts from its directory.
    std::fs::set_permissions(scratch.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if let Some(said) = scratch.thaw_as_nobody(["image", "run", "a.img", "--", "echo", "started"]) {
        said.exits(0).says("started").complains("starts from its directory").complains("only root can mount");
    }
    scratch.nothing_left();
}

#[test]
fn a_recording_that_says_nothing_of_the_directory_makes_no_image() {
    let scratch = Scratch::new();
    scratch.write("app/data", "content");
    made::recording(&scratch.path("gone.thaw"), &[900], &[300]);
    let said = scratch.thaw(["image", "make", "app", "--from", "gone.thaw", "-o", "a.img"]).exits(1);
    said.complains("read nothing of the directory").hints("record");
    scratch.thaw(["image", "make", "missing", "--from", "gone.thaw", "-o", "a.img"]).exits(2).complains("missing");
    scratch
        .thaw(["image", "make", "app", "--from", "gone.thaw", "-o", "a.img", "--compression", "zstd:99"])
        .exits(2)
        .complains("zstd:22");
    assert!(!scratch.path("a.img").exists());
}

/// Whether the directory is as it was costs few requests on a cold disk: not one for each directory.
#[test]
fn a_cold_directory_is_looked_at_in_few_requests() {
    let scratch = Scratch::new();
    let Some(()) = made(&scratch) else { return };
    let disk = testing::LoopDisk::new(&scratch.path(""), "mkfs.ext4", &["-q", "-b", "4096"], 64 << 20);
    let Some(disk) = disk else { return };
    for number in 0..300 {
        let place = disk.point.join(format!("app/{number}/deeper"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("file"), "content").unwrap();
    }
    let mut trace = made::trace_of(1);
    (trace.files[0].size, trace.files[0].path) = (Bytes(7), disk.point.join("app/7/deeper/file"));
    made::with_trace(&scratch.path("b.thaw"), &[900], &[300], Some(&trace));
    scratch.thaw(["image", "make", "disk/app", "--from", "b.thaw", "-o", "b.img"]).exits(0);
    let requests = |options: &[&str]| {
        disk.remount("loop");
        let before = disk.counts()[0];
        let words = [&["image", "run", "b.img"], options, &["--", "cat", "disk/app/299/deeper/file"]].concat();
        let said = scratch.thaw(words).exits(0);
        assert_eq!((said.out().as_str(), said.err().as_str()), ("content", ""));
        disk.counts()[0] - before
    };
    let [by_name, looked_at, not] = [&["--copied"][..], &[], &["--unchanged"]].map(requests);
    println!("requests: {by_name} by name, {looked_at} as usual, {not} where nobody looks");
    assert!(by_name > 600 && looked_at < 150 && not < 30, "{by_name} {looked_at} {not}");
}
