//! Entries of all kinds through all of their lives.

use super::super::mend::{hold, hold_directory, mend, partial, perform};
use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn journal() -> (tempfile::TempDir, Journal) {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::at(home.path());
    (home, journal)
}

fn held_in(journal: &Journal, undo: Undo, change: impl FnOnce() -> Result<()>) -> Result<Entry> {
    journal.hold(undo, perform, change)
}

fn setting(home: &Path, text: &str) -> PathBuf {
    let path = home.join("read_ahead_kb");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_helper_process_is_ended_and_no_other_with_its_number() {
    let (_home, journal) = journal();
    let mut helper = Command::new("sleep").arg("infinity").spawn().unwrap();
    let (pid, what) = (helper.id(), "the helper".to_owned());
    let ticks = start_ticks(pid).unwrap();
    let other = Undo::EndProcess { pid, start_ticks: ticks + 1, what: what.clone() };
    held_in(&journal, other, || Ok(())).unwrap().undo().unwrap();
    assert!(helper.try_wait().unwrap().is_none(), "a process with the same number was ended");
    let undo = Undo::EndProcess { pid, start_ticks: ticks, what };
    assert_eq!(undo.to_string(), format!("end the helper (process {pid})"));
    let entry = held_in(&journal, undo.clone(), || Ok(())).unwrap();
    entry.undo().unwrap();
    assert!(helper.try_wait().unwrap().is_some());
    perform(&undo, Path::new("")).unwrap();
}

#[test]
fn an_entry_is_on_disk_before_the_change_and_gone_after_the_undo() {
    let (home, journal) = journal();
    let path = setting(home.path(), "8192\n");
    let undo = Undo::WriteFile { path: path.clone(), text: "8192\n".into() };
    let entry = journal
        .hold(undo.clone(), perform, || {
            let entries: Vec<_> = fs::read_dir(home.path().join("journal")).unwrap().collect();
            assert_eq!(entries.len(), 1);
            let stored: Stored =
                serde_json::from_slice(&fs::read(entries[0].as_ref().unwrap().path()).unwrap()).unwrap();
            assert_eq!((stored.undo, stored.pid), (undo, std::process::id()));
            fs::write(&path, "128\n").unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "128\n");
    assert_eq!(journal.leftovers().unwrap(), [], "the owner lives");
    drop(entry);
    assert_eq!(fs::read_to_string(&path).unwrap(), "8192\n");
    assert_eq!(fs::read_dir(home.path().join("journal")).unwrap().count(), 0);
}

#[test]
fn a_setting_goes_back_to_what_it_was_before_any_thaw_changed_it() {
    let (home, journal) = journal();
    let path = setting(home.path(), "8192");
    let hold = |text: &str| {
        let undo = Undo::WriteFile { path: path.clone(), text: fs::read_to_string(&path).unwrap() };
        let change = || {
            fs::write(&path, text).unwrap();
            Ok(())
        };
        held_in(&journal, undo, change).unwrap()
    };
    // Two of one process.
    let outer = hold("256");
    hold("0").undo().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "256");
    // The outer one is another process's.
    let mut stored: Stored = serde_json::from_slice(&fs::read(&outer.file).unwrap()).unwrap();
    stored.pid += 1;
    fs::write(&outer.file, serde_json::to_vec(&stored).unwrap()).unwrap();
    hold("0").undo().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "8192");
    // It is from before a reboot.
    stored.boot_id.push('x');
    fs::write(&outer.file, serde_json::to_vec(&stored).unwrap()).unwrap();
    fs::write(&path, "128").unwrap();
    hold("0").undo().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "128");
}

#[test]
fn only_what_this_user_alone_can_have_written_is_obeyed() {
    let (home, journal) = journal();
    let bait = home.path().join("bait");
    fs::create_dir_all(home.path().join("journal")).unwrap();
    fs::set_permissions(home.path().join("journal"), fs::Permissions::from_mode(0o700)).unwrap();
    let text = format!(
        r#"{{"boot_id":"b","pid":1,"pid_start_ticks":1,"created_unix_ns":7,"undo":{}}}"#,
        serde_json::json!({"kind": "remove-tree", "path": bait})
    );
    let entry = |name: &str, mode: u32| {
        let path = home.path().join("journal").join(name);
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    entry("1.json", 0o620);
    let own = entry("2.json", 0o600);
    std::os::unix::fs::symlink(&own, home.path().join("journal/3.json")).unwrap();
    fs::hard_link(&own, home.path().join("elsewhere")).unwrap();
    let (left, refused) = journal.survey().unwrap();
    assert_eq!(left, []);
    let why: Vec<&str> = refused.iter().map(|refused| refused.why.as_str()).collect();
    assert_eq!(why, ["it is a link", "it has a second name", "others than its owner may write to it (mode 620)"]);
    fs::remove_file(home.path().join("elsewhere")).unwrap();
    assert_eq!(journal.leftovers().unwrap().len(), 1, "the one that is ours alone");
    if !testing::root_or_skip() {
        return;
    }
    // Another user's entry, and a directory of another user.
    std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
    let (left, refused) = journal.survey().unwrap();
    assert!(left.is_empty() && refused[1].why.contains("belongs to nobody"), "{refused:?}");
    assert!(refused[1].hint.contains("sudo -u '#65534'"), "{refused:?}");
    std::os::unix::fs::chown(home.path().join("journal"), Some(65534), None).unwrap();
    let (left, refused) = journal.survey().unwrap();
    assert_eq!((left.len(), refused.len()), (0, 1));
    assert_eq!(refused[0].path, home.path().join("journal"));
    let undo = Undo::RemoveTree { path: bait };
    assert!(held_in(&journal, undo, || Ok(())).is_err(), "nothing is written where somebody else could change it");
}

#[test]
fn a_change_that_fails_is_undone_and_reported() {
    let (home, journal) = journal();
    let path = setting(home.path(), "8192");
    let result = held_in(&journal, Undo::WriteFile { path: path.clone(), text: "8192".into() }, || {
        fs::write(&path, "half").unwrap();
        Err(Error::new(Exit::Machine, "no", ""))
    });
    assert_eq!(result.unwrap_err().what, "no");
    assert_eq!(fs::read_to_string(&path).unwrap(), "8192");
    assert_eq!(journal.leftovers().unwrap(), []);
}

#[test]
fn an_undo_that_fails_stays_in_the_journal() {
    let (home, journal) = journal();
    let path = home.path().join("gone/setting");
    let entry = held_in(&journal, Undo::WriteFile { path: path.clone(), text: "1".into() }, || Ok(())).unwrap();
    assert!(entry.undo().is_err());
    let left = journal.leftovers().unwrap();
    assert_eq!(left.len(), 1);
    fs::create_dir(home.path().join("gone")).unwrap();
    mend(&left[0]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    assert_eq!(journal.leftovers().unwrap(), []);
    mend(&left[0]).unwrap();
}

#[test]
fn without_a_place_for_the_journal_nothing_is_changed() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("journal"), "a file is in the way").unwrap();
    let result =
        Journal::at(home.path()).hold(Undo::RemoveTree { path: "/nowhere".into() }, perform, || panic!("changed"));
    let error = result.unwrap_err();
    assert_eq!(error.exit, Exit::Machine);
    assert!(error.hint.unwrap().contains("THAW_STATE_DIR"));
}

#[test]
fn other_boots_volatile_changes_are_only_forgotten() {
    let (home, journal) = journal();
    fs::create_dir_all(home.path().join("journal")).unwrap();
    let lasting = home.path().join("lasting");
    fs::write(&lasting, "x").unwrap();
    for (name, undo) in [
        ("1.json", Undo::WriteFile { path: "/sys/kernel/thaw-test-nowhere".into(), text: "1".into() }),
        ("2.json", Undo::RemoveTree { path: lasting.clone() }),
    ] {
        let stored = Stored { boot_id: "another".into(), pid: 1, pid_start_ticks: 1, created_unix_ns: 7, undo };
        fs::write(home.path().join("journal").join(name), serde_json::to_vec(&stored).unwrap()).unwrap();
    }
    let left = journal.leftovers().unwrap();
    assert_eq!(left.iter().map(|left| left.forgotten_by_reboot).collect::<Vec<_>>(), [false, true]);
    left.iter().for_each(|left| mend(left).unwrap());
    assert!(!lasting.exists());
    assert_eq!(journal.leftovers().unwrap(), []);
}

#[test]
fn entries_of_other_versions_and_torn_entries_are_reported() {
    let (home, journal) = journal();
    fs::create_dir_all(home.path().join("journal")).unwrap();
    let newer = br#"{"boot_id":"b","pid":1,"pid_start_ticks":1,"created_unix_ns":7,"undo":{"kind":"fly-home","to":3}}"#;
    fs::write(home.path().join("journal/1.json"), newer).unwrap();
    fs::write(home.path().join("journal/2.json"), b"{\"boot_id\":").unwrap();
    fs::write(home.path().join("journal/3.json.new"), b"{").unwrap();
    let left = journal.leftovers().unwrap();
    assert_eq!(left.iter().map(|left| &left.undo).collect::<Vec<_>>(), [&Undo::Unknown, &Undo::Unknown]);
    assert!(mend(&left[0]).is_err());
    assert_eq!(journal.leftovers().unwrap().len(), 2);
    assert!(!home.path().join("journal/3.json.new").exists(), "an entry that was never finished is garbage");
}

#[test]
fn paths_that_are_not_utf8_survive_json() {
    use std::os::unix::ffi::OsStrExt;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(b"/a\xffb"));
    for undo in [
        Undo::RestoreDirectory { pristine: path.clone(), live: "/live".into() },
        Undo::RemoveCgroup { paths: vec![path.clone(), "/plain".into()] },
    ] {
        let text = serde_json::to_string(&undo).unwrap();
        assert_eq!(serde_json::from_str::<Undo>(&text).unwrap(), undo, "{text}");
    }
}

/// What the process does that the next test starts (itself, again) and kills.
fn hold_until_killed(home: &Path) -> ! {
    let path = home.join("read_ahead_kb");
    let _setting = hold(Undo::WriteFile { path: path.clone(), text: "8192".into() }, || {
        fs::write(&path, "128").unwrap();
        Ok(())
    })
    .unwrap();
    let _tree = hold(Undo::RemoveTree { path: home.join("copies") }, || {
        fs::create_dir_all(home.join("copies/deep")).unwrap();
        Ok(())
    })
    .unwrap();
    let _profile = hold_directory(&home.join("pristine"), &home.join("profile")).unwrap();
    fs::write(home.join("profile/tabs"), "one more").unwrap();
    println!("\nholding");
    loop {
        std::thread::park();
    }
}

#[test]
fn what_a_killed_process_held_is_found_and_mended() {
    if let Some(home) = std::env::var_os("THAW_TEST_CHILD") {
        hold_until_killed(Path::new(&home));
    }
    let home = tempfile::tempdir().unwrap();
    setting(home.path(), "8192");
    fs::create_dir(home.path().join("profile")).unwrap();
    fs::write(home.path().join("profile/tabs"), "none").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold::journal::tests::what_a_killed_process_held_is_found_and_mended", "--nocapture"])
        .env("THAW_TEST_CHILD", home.path())
        .env("THAW_STATE_DIR", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"), "the child did not get ready");

    let journal = Journal::at(home.path());
    assert_eq!(journal.leftovers().unwrap(), [], "the owner lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(home.path().join("read_ahead_kb")).unwrap(), "128");

    let left = journal.leftovers().unwrap();
    assert_eq!(left.len(), 3);
    assert!(matches!(left[0].undo, Undo::RestoreDirectory { .. }), "the newest comes first");
    assert!(left.iter().all(|left| left.pid == child.id() && !left.forgotten_by_reboot));
    left.iter().for_each(|left| mend(left).unwrap());
    assert_eq!(fs::read_to_string(home.path().join("read_ahead_kb")).unwrap(), "8192");
    assert_eq!(fs::read_to_string(home.path().join("profile/tabs")).unwrap(), "none");
    assert!(!home.path().join("copies").exists() && !home.path().join("pristine").exists());
    assert_eq!(journal.leftovers().unwrap(), []);
}

#[test]
fn a_copy_that_was_cut_short_restores_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (live, pristine) = (home.path().join("live"), home.path().join("pristine"));
    fs::create_dir_all(&live).unwrap();
    fs::write(live.join("bookmarks"), "precious").unwrap();
    fs::create_dir(partial(&pristine)).unwrap();
    perform(&Undo::RestoreDirectory { pristine: pristine.clone(), live: live.clone() }, Path::new("")).unwrap();
    assert_eq!(fs::read_to_string(live.join("bookmarks")).unwrap(), "precious");
    assert!(!partial(&pristine).exists());
}
