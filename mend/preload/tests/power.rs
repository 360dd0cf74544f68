//! A power cut at any moment while a manifest is installed, or taken away: each file is there as a whole or not at all,
//! and whatever of an installation is there, its record is there too, so that it can be taken away.

use os::installed::Subject;
use os::installed::places::Scope;
use preload::install;
use preload::manifest::Manifest;
use std::path::Path;
use testing::power::{Content, Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Installs a unit for this user, and takes it away.
fn survives(syncs: Syncs) -> [Judged; 2] {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    for (variable, name) in [("HOME", "home"), ("THAW_STATE_DIR", "state")] {
        std::fs::create_dir(home.path().join(name)).unwrap();
        // SAFETY: this process has one test, and no other thread that looks at the environment.
        unsafe { std::env::set_var(variable, home.path().join(name)) };
    }
    for (variable, name) in [("XDG_DATA_HOME", "home/data"), ("XDG_CONFIG_HOME", "home/config")] {
        // SAFETY: as above.
        unsafe { std::env::set_var(variable, home.path().join(name)) };
    }
    let disk = Disk::of(&[home.path()], syncs);
    let unit = Subject::Unit("app".into());
    let installation = disk.run(|| install::install(&Manifest::default(), &unit, Scope::User)).unwrap();
    let installing = judged(&disk, home.path());
    let disk = Disk::of(&[home.path()], syncs);
    assert!(disk.run(|| os::installed::uninstall(&installation)).unwrap().is_empty());
    [installing, judged(&disk, home.path())]
}

/// Old or new files, and never one of the installation without its record.
fn judged(disk: &Disk, home: &Path) -> Judged {
    let (files, record) = (home.join("home"), home.join("state/installed/preload-user-unit-app.json"));
    let states = disk.each(|state| {
        let is_recorded = |held: Option<&Content>| held.is_some_and(|record| record.bytes.ends_with(b"}\n"));
        // The record is written when it is begun and when it is done; all else has one content, which ends a line.
        let is_whole = |held: Option<&Content>| held.is_none_or(|file| file.bytes.ends_with(b"\n"));
        let is_other = |path: &Path| [".wants/", ".thaw-"].iter().any(|part| path.to_string_lossy().contains(part));
        let is_text =
            |path: &&std::path::PathBuf| path.starts_with(&files) && path.extension().is_some() && !is_other(path);
        if state.paths().any(|path| path.starts_with(&files)) && !state.held(&record).into_iter().all(is_recorded) {
            return Err(format!("something is installed and nobody knows in {state:?}"));
        }
        if !state.paths().filter(is_text).all(|path| state.held(path).into_iter().all(is_whole)) {
            return Err(format!("half a file in {state:?}"));
        }
        // In the end it is what it is now, for sure.
        let now = std::fs::read(&record).ok();
        let is_now = |held: Option<&Content>| held.map(|record| record.bytes.to_vec()) == now;
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let unit = "thaw-preload-app.service";
        let names = ["data/thaw/preload/app.preload".to_owned(), format!("config/systemd/user/{unit}")];
        let wants = format!("config/systemd/user/default.target.wants/{unit}");
        let ours = || names.iter().chain([&wants]).map(|name| files.join(name));
        let is_settled =
            |path: std::path::PathBuf| state.held(&path).into_iter().all(|held| held.is_some() == is_there(&path));
        if state.is_end && !(state.held(&record).into_iter().all(is_now) && ours().all(is_settled)) {
            return Err(format!("in the end not as it is: {state:?}"));
        }
        disk.hidden_are_listed(state)
    });
    (disk.syncs(), states)
}

#[test]
fn a_power_cut_leaves_whole_files_of_an_installation() {
    testing::beside_a_runner("a_power_cut_leaves_whole_files_of_an_installation", assert_survives);
}

fn assert_survives() {
    let [installing, removing] = survives(Syncs::Kept);
    let (installing, removing) = (installing.1.unwrap(), removing.1.unwrap());
    assert!(installing > 20 && removing > 3, "{installing} and {removing} states");
    assert!(survives(Syncs::OfFilesLost)[0].1.is_err());
    let [installing, removing] = survives(Syncs::OfDirectoriesLost);
    assert!(installing.1.is_err() && removing.1.is_err());
    // The state directory is synced for the record, and again for the journal's before anything is written; the home,
    // for the data and again for the configuration.
    let parts: [(usize, &[usize]); 2] = [(0, &[0, 6]), (1, &[])];
    for (part, covered) in parts {
        let (needless, count) = needless_syncs(|syncs| survives(syncs)[part].clone());
        assert_eq!(needless, covered, "of {count} syncs nobody misses these");
    }
}
