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
    let recorded = disk.each(|state| {
        let is_recorded = |held: Option<&Content>| held.is_some_and(|record| record.bytes.ends_with(b"}\n"));
        match state.paths().any(|path| path.starts_with(&files)) && !state.held(&record).into_iter().all(is_recorded) {
            true => Err(format!("something is installed and nobody knows in {state:?}")),
            false => Ok(()),
        }
    });
    (disk.syncs(), disk.survives(&[]).and_then(|states| recorded.map(|_| states)))
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
