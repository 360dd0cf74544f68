//! A power cut at any moment while a manifest is installed, or taken away: each file is there as a whole or not at all,
//! and whatever of an installation is there, its record is there too, so that it can be taken away.

use preload::install::{self, Scope, Subject};
use preload::manifest::Manifest;
use std::process::Command;
use testing::power::{Disk, Syncs};

/// Installs a unit for this user, and takes it away.
fn survives(syncs: Syncs) -> [Result<usize, String>; 2] {
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
    let installing = disk.survives(&[]);
    let disk = Disk::of(&[home.path()], syncs);
    assert!(disk.run(|| install::uninstall(&installation)).unwrap().is_empty());
    [installing, disk.survives(&[])]
}

/// Set where this program runs beside something that launchers can call.
const BESIDE: &str = "THAW_TEST_BESIDE_RUNNER";

#[test]
fn a_power_cut_leaves_whole_files_of_an_installation() {
    if std::env::var_os(BESIDE).is_some() {
        return assert_survives();
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (copy, runner) = (folder.path().join("tests"), folder.path().join("thaw-preload"));
    testing::copy_program(std::env::current_exe().unwrap(), &copy);
    testing::write_script(&runner, "#!/bin/sh\n");
    let name = "a_power_cut_leaves_whole_files_of_an_installation";
    let said = Command::new(&copy).args(["--exact", name]).env(BESIDE, "1").output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

fn assert_survives() {
    let [installing, removing] = survives(Syncs::Kept);
    let (installing, removing) = (installing.unwrap(), removing.unwrap());
    assert!(installing > 20 && removing > 3, "{installing} and {removing} states");
    assert!(survives(Syncs::OfFilesLost)[0].is_err());
    let [installing, removing] = survives(Syncs::OfDirectoriesLost);
    assert!(installing.is_err() && removing.is_err());
}
