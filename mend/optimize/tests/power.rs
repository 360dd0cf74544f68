//! A power cut at any moment while the original of a file is kept, and while it goes back: it is never lost.

use optimize::kept::{keep, put_back};
use optimize::manifest::Identity;
use os::replace::{Existing, Rights, write_whole};
use std::path::Path;
use testing::power::{Disk, Syncs};

/// Keeps a file, replaces it, and puts it back.
fn survives(syncs: Syncs) -> [Result<usize, String>; 2] {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (file, state, kept) = (home.path().join("a.zip"), home.path().join("state"), home.path().join("originals"));
    for directory in [&state, &kept] {
        std::fs::create_dir(directory).unwrap();
    }
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    std::fs::write(&file, "the original").unwrap();
    let (identity, original) = (Identity::of(&file).unwrap(), kept.join("1"));
    let replace = |file: &Path| write_whole(file, b"a faster one", Rights::Usual, Existing::Replace);
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| keep(&file, identity, &original).and_then(|()| replace(&file))).unwrap();
    let keeping = disk.survives(&[&file]);
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| put_back(&file, identity, &original)).unwrap();
    [keeping, disk.survives(&[&original])]
}

#[test]
fn a_power_cut_loses_no_original() {
    let [keeping, going_back] = survives(Syncs::Kept);
    let (keeping, going_back) = (keeping.unwrap(), going_back.unwrap());
    assert!(keeping > 10 && going_back > 1, "{keeping} and {going_back} states");
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        assert!(survives(lost)[0].is_err(), "{lost:?} is not noticed");
    }
}
