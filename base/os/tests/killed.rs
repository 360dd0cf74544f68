//! `kill -9` of thaw in the middle of a run: everything it changed is found and mended.

use model::Bytes;
use os::cgroup::RunCgroup;
use os::journal::{self, Undo};
use os::spawn::{Launch, spawn_gated};
use os::tracefs::{Instance, Tracefs};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the process does that the test starts (itself, again) and kills.
fn measure_until_killed(home: &Path) -> ! {
    let setting = home.join("read_ahead_kb");
    let undo = Undo::WriteFile { path: setting.clone(), text: "8192\n".to_owned() };
    let _setting = journal::hold(undo, || {
        fs::write(&setting, "128\n").unwrap();
        Ok(())
    })
    .unwrap();
    let _profile = journal::hold_directory(&home.join("pristine"), &home.join("profile")).unwrap();
    let group = RunCgroup::create("killed").unwrap();
    // Its first process dies with thaw; the others would live on.
    let script = "setsid sleep 1000 & echo leaked > \"$0\"; sleep 1000 & wait";
    let argv = ["sh".into(), "-c".into(), script.into(), home.join("profile/leak").into_os_string()];
    let mut launch = Launch::new(argv);
    launch.cgroups = group.enter_fds().unwrap();
    let gated = spawn_gated(launch).unwrap();
    let tracefs = Tracefs::open().unwrap();
    let points = [tracefs.tracepoint("filemap", "mm_filemap_add_to_page_cache").unwrap()];
    let _instance =
        Instance::start(&tracefs, "killed", gated.pid(), (&points, Bytes(1 << 20)), (&[], Bytes(0))).unwrap();
    let _running = gated.release().unwrap();
    while group.procs().unwrap().len() < 3 {
        std::thread::yield_now();
    }
    println!("\nmeasuring {}", group.paths()[0].display());
    loop {
        std::thread::park();
    }
}

/// Starts it, kills it, and returns a directory of its control group.
fn run_and_kill(home: &Path) -> PathBuf {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "everything_that_a_killed_thaw_held_is_found_and_mended", "--nocapture"])
        .env("THAW_TEST_CHILD", home)
        .env("THAW_STATE_DIR", home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let group = lines.find_map(|line| line.strip_prefix("measuring ").map(PathBuf::from));
    child.kill().unwrap();
    child.wait().unwrap();
    group.expect("the process got as far as measuring")
}

#[test]
fn everything_that_a_killed_thaw_held_is_found_and_mended() {
    if let Some(home) = std::env::var_os("THAW_TEST_CHILD") {
        measure_until_killed(Path::new(&home));
    }
    if !testing::root_or_skip() {
        return;
    }
    if let Err(error) = Tracefs::open() {
        return testing::skip(&error.to_string());
    }
    match RunCgroup::create("try") {
        Ok(group) => drop(group),
        Err(error) => return testing::skip(&error.to_string()),
    }
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("read_ahead_kb"), "8192\n").unwrap();
    fs::create_dir(home.path().join("profile")).unwrap();
    fs::write(home.path().join("profile/prefs.js"), "user_pref").unwrap();
    let group = run_and_kill(home.path());

    assert!(!fs::read_to_string(group.join("cgroup.procs")).unwrap().is_empty(), "nothing survived: nothing to mend");
    let left = journal::Journal::at(home.path()).leftovers().unwrap();
    let kinds: Vec<String> = left.iter().map(|left| left.undo.to_string()).collect();
    let begins: Vec<&str> = kinds.iter().map(|text| text.split(' ').next().unwrap()).collect();
    assert_eq!(begins, ["remove", "remove", "restore", "set"], "{kinds:?}");
    for left in &left {
        journal::mend(left).unwrap();
    }
    assert!(!group.exists());
    assert!(!home.path().join("profile/leak").exists() && home.path().join("profile/prefs.js").exists());
    assert_eq!(fs::read_to_string(home.path().join("read_ahead_kb")).unwrap(), "8192\n");
    assert!(!home.path().join("pristine").exists());
    assert_eq!(journal::Journal::at(home.path()).leftovers().unwrap(), []);
}
