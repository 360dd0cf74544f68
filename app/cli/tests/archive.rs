//! archive: what is shown, reordered, packed and refused, and what Firefox says of its own archives in a new order.

use crate::made;
use crate::scratch::{Mortal, Scratch, alone};
use model::{Bytes, FileId, FileKind, FileOffset, FileRow, Nanos, Owner, TouchEngine, TouchRow, TraceRows};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 400 files of 4,000 bytes or so, packed by name.
pub fn archive(scratch: &Scratch) -> PathBuf {
    for number in 0..400_u32 {
        let line = format!("{number} {}\n", number.wrapping_mul(2_654_435_761));
        scratch.write(&format!("tree/{:03}.js", number), line.repeat(4000 / line.len()));
    }
    scratch.thaw(["archive", "pack", "tree", "-o", "app.jar", "--store"]).exits(0).says("400 entries");
    scratch.path("app.jar")
}

/// A recording of a start that touched these pages of the archive, in this order.
pub fn touched(scratch: &Scratch, archive: &Path, pages: &[u64]) {
    let size = archive.metadata().unwrap().len();
    let file = FileRow {
        path: archive.to_owned(),
        kind: FileKind::Regular,
        owner: Owner::App,
        dev: 1,
        ino: 1,
        size: Bytes(size),
        extents: None,
        build_id: None,
    };
    let touch = |(order, page): (usize, &u64)| TouchRow {
        file: FileId(0),
        offset: FileOffset(page * 4096),
        len: Bytes(4096),
        order: Some(order as u32),
        at_ns: Some(Nanos(order as u64)),
        tid: Some(1),
        engine: TouchEngine::Page,
        name: None,
    };
    let touches = pages.iter().enumerate().map(touch).collect();
    let trace = TraceRows { files: vec![file], touches, ..made::trace() };
    let trace = TraceRows { fills: Vec::new(), reads: Vec::new(), blocks: Vec::new(), ..trace };
    made::with_trace(&scratch.path("app.thaw"), &[900, 910], &[], Some(&trace));
}

#[test]
fn what_a_recorded_start_used_comes_first() {
    let scratch = Scratch::new();
    let jar = archive(&scratch);
    // Two pages far behind, then two in front: each pair holds one whole entry at least.
    touched(&scratch, &jar, &[300, 301, 302, 10, 11, 12]);
    let said = scratch.thaw(["archive", "stat", "app.jar", "--from", "app.thaw"]).exits(0);
    said.says("400 stored").says("touched pages, app.thaw").says("as it is").says("reordered");
    let json = scratch.thaw(["archive", "stat", "app.jar", "--from", "app.thaw", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["order"]["how"]), (&"thaw.archive-stat/1".into(), &"pages".into()));
    let used = json["archive"]["used"]["entries"].as_u64().unwrap();
    assert!((2..=6).contains(&used), "{used}");
    let list = json["archive"]["list"].as_array().unwrap();
    let first = list.iter().find(|entry| entry["used"] == 0).unwrap();
    assert!(first["offset"].as_u64().unwrap() >= 300 * 4096, "{first}");
    let reorder = ["archive", "reorder", "app.jar", "--from", "app.thaw", "-o", "new.jar"];
    scratch.thaw(reorder).exits(0).says("Compared: 400 entries").says("read-ahead hint");
    scratch.thaw(reorder).exits(2).complains("there is already 'new.jar'").hints("--force");
    let again = scratch.thaw(reorder.into_iter().chain(["--force", "--json"])).exits(0).json();
    assert_eq!((&again["schema"], &again["verified"]["entries"]), (&"thaw.archive-reorder/1".into(), &400.into()));
    assert!(
        again["reads_after"]["stretches"] == 1 && again["reads_before"]["stretches"].as_u64().unwrap() > 1,
        "{again}"
    );
    let bytes = std::fs::read(scratch.path("new.jar")).unwrap();
    assert_eq!(&bytes[4..8], b"PK\x01\x02");
    scratch.thaw(["archive", "unpack", "new.jar", "-o", "back"]).exits(0).says("400 files");
    let same = Command::new("diff").arg("-r").args([scratch.path("tree"), scratch.path("back")]).status().unwrap();
    assert!(same.success());
    scratch.nothing_left();
}

#[test]
fn a_list_orders_too_and_packing_takes_it() {
    let scratch = Scratch::new();
    archive(&scratch);
    scratch.write("jar.log", "other.jar x.js\napp.jar 399.js\napp.jar 007.js\napp.jar gone.js\n");
    let said = scratch.thaw(["archive", "stat", "app.jar", "--log", "jar.log"]).exits(0);
    said.says("A start uses 2 entries").says("names 'gone.js', which is not in the archive");
    scratch.write("names", "399.js\n007.js\n");
    let packed =
        scratch.thaw(["archive", "pack", "tree", "-o", "named.jar", "--log", "names", "--json"]).exits(0).json();
    assert_eq!((&packed["used"], &packed["entries"]), (&2.into(), &400.into()));
    let shown = scratch.thaw(["archive", "stat", "named.jar", "--json"]).exits(0).json();
    assert_eq!(shown["archive"]["list"][0]["name"], "399.js");
    assert!(shown["archive"]["deflated"].as_u64().unwrap() > 300, "{}", shown["archive"]["deflated"]);
    let auto = ["archive", "reorder", "named.jar", "--log", "names", "--auto", "--disk", "nvme", "-o", "auto.jar"];
    scratch.thaw(auto).exits(0).says("this machine inflates");
}

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    let scratch = Scratch::new();
    let jar = archive(&scratch);
    scratch.thaw(["archive", "pack", "tree", "-o", "app.jar", "--store", "--directory", "end", "--force"]).exits(0);
    let good = std::fs::read(&jar).unwrap();
    let directory = good.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
    let with = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        bytes
    };
    // The first entry is "000.js", the second "001.js"; names stand in header and directory.
    let rename = |bytes: &mut Vec<u8>, from: &[u8], to: &[u8]| {
        for at in 0..bytes.len() - from.len() {
            if &bytes[at..at + from.len()] == from {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
        }
    };
    let cases = [
        ("encrypted", with(&|bytes| (bytes[6], bytes[directory + 8]) = (1, 1)), "the entry '000.js' is encrypted"),
        ("zip64", with(&|bytes| bytes[directory + 20..directory + 28].fill(0xff)), "64-bit sizes (zip64)"),
        ("duplicate", with(&|bytes| rename(bytes, b"001.js", b"000.js")), "there are two entries '000.js'"),
        ("outside", with(&|bytes| rename(bytes, b"000.js", b"../xyz")), "leads out of the archive with '..'"),
        ("cut", good[..good.len() - 100].to_vec(), "there is no end record"),
        ("damaged", with(&|bytes| bytes[100] ^= 0x10), "has another checksum than the directory says"),
        ("text", b"no archive at all, but long enough".to_vec(), "there is no end record"),
    ];
    scratch.write("list", "002.js\n");
    for (name, bytes, said) in cases {
        scratch.write(&format!("bad/{name}.zip"), bytes);
        let path = format!("bad/{name}.zip");
        let reorder = ["archive", "reorder", &path, "--log", "list", "-o", "bad/out.zip"];
        scratch.thaw(reorder).exits(5).complains(said).complains(&path);
        scratch.thaw(["archive", "unpack", &path, "-o", "bad/out"]).exits(5).complains(said);
        std::fs::remove_file(scratch.path(&path)).unwrap();
        assert_eq!(scratch.names("bad"), Vec::<String>::new(), "{name}");
    }
    assert!(!scratch.path("xyz").exists());
    scratch.thaw(["archive", "stat", "nowhere.jar"]).exits(2).complains("cannot read 'nowhere.jar'");
    scratch.thaw(["archive", "reorder", "app.jar", "-o", "x"]).exits(2).complains("--from");
    made::recording(&scratch.path("other.thaw"), &[900], &[]);
    let other = ["archive", "stat", "app.jar", "--from", "other.thaw"];
    scratch.thaw(other).exits(2).complains("app.jar was not read in 'other.thaw'").hints("the recorded program");
    touched(&scratch, &jar, &[5]);
    scratch.write("app.jar", [good.as_slice(), b"x"].concat());
    scratch.thaw(["archive", "stat", "app.jar", "--from", "app.thaw"]).exits(5).complains("no end record");
    scratch.nothing_left();
}

#[test]
fn a_killed_reorder_leaves_no_half_archive() {
    let scratch = Scratch::new();
    archive(&scratch);
    scratch.write("list", "399.js\n");
    let words = ["archive", "reorder", "app.jar", "--log", "list", "-o", "new.jar", "--deflate", "--force"];
    let whole = scratch.path("whole.jar");
    scratch.thaw(words).exits(0);
    std::fs::rename(scratch.path("new.jar"), &whole).unwrap();
    for pause in 0..12 {
        let mut command = scratch.command();
        let mut child = Mortal(command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(pause * 12));
        // It may have ended by itself.
        let _ = child.0.kill();
        child.0.wait().unwrap();
        if let Ok(bytes) = std::fs::read(scratch.path("new.jar")) {
            assert!(bytes == std::fs::read(&whole).unwrap(), "half an archive after {} ms", pause * 12);
            std::fs::remove_file(scratch.path("new.jar")).unwrap();
        }
    }
    scratch.thaw(["doctor", "--mend"]);
    let left: Vec<String> = scratch.names("").into_iter().filter(|name| name.contains(".thaw-")).collect();
    assert_eq!(left, Vec::<String>::new(), "doctor removes what a killed thaw left");
}

#[test]
fn an_interrupted_reorder_ends_and_leaves_nothing() {
    let scratch = Scratch::new();
    archive(&scratch);
    let large: Vec<u8> = (0..24_u32 << 20).map(|at| (at.wrapping_mul(at >> 3) >> 7) as u8).collect();
    scratch.write("tree/large", large);
    scratch.thaw(["archive", "pack", "tree", "-o", "app.jar", "--store", "--force"]).exits(0);
    scratch.write("list", "large\n");
    let mut command = scratch.command();
    command.args(["archive", "reorder", "app.jar", "--log", "list", "-o", "new.jar", "--deflate"]);
    let mut child = Mortal(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let pid = child.0.id();
    let interrupt = 1_u64 << (rustix::process::Signal::INT.as_raw() - 1);
    let caught = || u64::from_str_radix(&os::process::status_value(pid, "SigCgt").unwrap(), 16).unwrap();
    while caught() & interrupt == 0 {
        std::thread::yield_now();
    }
    let process = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    assert!(!scratch.path("new.jar").exists());
    scratch.nothing_left();
}

#[test]
fn the_new_archive_is_on_the_disk_before_it_has_its_name() {
    let scratch = Scratch::new();
    archive(&scratch);
    scratch.write("list", "399.js\n");
    if !Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        testing::skip("needs strace");
        return;
    }
    let mut command = scratch.command_of(Path::new("strace"));
    command.args(["-f", "-y", "-o", "calls", "-e", "trace=write,fsync,rename,renameat,renameat2"]);
    command.arg(env!("CARGO_BIN_EXE_thaw")).args(["archive", "reorder", "app.jar", "--log", "list", "-o", "new.jar"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let calls = std::fs::read_to_string(scratch.path("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let last = |wanted: &dyn Fn(&str) -> bool| {
        calls.iter().rposition(|call| wanted(call)).unwrap_or_else(|| panic!("{calls:#?}"))
    };
    let renamed =
        last(&|call| call.contains("rename") && call.contains("new.jar.thaw-") && call.contains("\"new.jar\""));
    let written = last(&|call| call.contains("write(") && call.contains("new.jar.thaw-"));
    let synced = last(&|call| call.contains("fsync(") && call.contains("new.jar.thaw-"));
    let folder = last(&|call| {
        call.contains("fsync(")
            && call.contains(&format!("<{}>", scratch.path("").display().to_string().trim_end_matches('/')))
    });
    assert!(written < synced && synced < renamed && renamed < folder, "{calls:#?}");
}

/// A copy of Firefox that checks its archives with its own reader at every start.
struct Firefox {
    scratch: Scratch,
    app: PathBuf,
}

impl Firefox {
    fn copy() -> Option<Self> {
        let installed = Path::new("/usr/lib/firefox-esr");
        if !installed.join("omni.ja").exists() {
            testing::skip("no firefox-esr");
            return None;
        }
        let scratch = Scratch::new();
        let app = scratch.path("app");
        os::tree::copy(installed, &app).unwrap();
        scratch.write("app/check.cfg", include_str!("../../../claims/archive/check.cfg"));
        scratch.write("app/defaults/pref/check.js", include_str!("../../../claims/archive/check.js"));
        for name in ["home", "profile"] {
            std::fs::create_dir(scratch.path(name)).unwrap();
        }
        Some(Self { scratch, app })
    }

    /// Starts it, takes a picture of a page of its own, and returns what it says of its archives.
    fn start(&self, page: &str) -> String {
        let (check, shot) = (self.scratch.path("check.txt"), self.scratch.path("shot.png"));
        let output = Command::new(self.app.join("firefox-esr"))
            .args(["--headless", "--no-remote", "--profile"])
            .arg(self.scratch.path("profile"))
            .arg("--screenshot")
            .args([&shot, Path::new(page)])
            .env("HOME", self.scratch.path("home"))
            .env("THAW_CHECK", &check)
            .env("MOZ_JAR_LOG_FILE", self.scratch.path("jar.log"))
            .output()
            .unwrap();
        assert!(output.status.success() && shot.metadata().is_ok_and(|shot| shot.len() > 10_000), "{output:?}");
        std::fs::remove_file(&shot).unwrap();
        std::fs::read_to_string(&check).unwrap_or_else(|_| panic!("no check: {output:?}"))
    }
}

#[test]
fn firefox_starts_from_reordered_archives_and_finds_them_sound() {
    const SOUND: &str = "omni.ja passes\nbrowser/omni.ja passes\n";
    let _machine = alone();
    let Some(firefox) = Firefox::copy() else { return };
    let scratch = &firefox.scratch;
    assert_eq!(firefox.start("chrome://browser/content/aboutDialog.xhtml"), SOUND);
    for directory in ["both", "front", "end"] {
        for name in ["omni.ja", "browser/omni.ja"] {
            let (original, new) = (format!("/usr/lib/firefox-esr/{name}"), format!("app/{name}"));
            let words =
                ["archive", "reorder", &original, "--log", "jar.log", "-o", &new, "--force", "--directory", directory];
            scratch.thaw(words).exits(0).says("Compared: ");
            if directory != "front" {
                let judged = Command::new("unzip").arg("-tqq").arg(scratch.path(&new)).output();
                match judged {
                    Ok(judged) => assert!(judged.status.success(), "{judged:?}"),
                    Err(_) => testing::skip("needs unzip"),
                }
            }
        }
        assert_eq!(firefox.start("chrome://browser/content/aboutDialog.xhtml"), SOUND, "{directory}");
    }
    // The check sees what it is there to see: one wrong byte in an entry that no start uses, the last one in the file.
    let path = scratch.path("app/browser/omni.ja");
    let listed = scratch.thaw(["archive", "stat", "app/browser/omni.ja", "--json"]).exits(0).json();
    let last = listed["archive"]["list"].as_array().unwrap().last().unwrap().clone();
    let at = last["offset"].as_u64().unwrap() + last["size"].as_u64().unwrap() - 1;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at as usize] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(firefox.start("about:blank").contains("browser/omni.ja fails: "));
}
