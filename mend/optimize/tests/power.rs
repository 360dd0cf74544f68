//! A power cut at any moment while the original of a file is kept, and while it goes back: it is never lost.

use optimize::kept::{keep, put_back};
use optimize::manifest::Identity;
use os::replace::{Existing, Rights, write_whole};
use std::path::Path;
use testing::power::{Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Keeps a file, replaces it, and puts it back.
fn survives(syncs: Syncs) -> [Judged; 2] {
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
    let keeping = (disk.syncs(), disk.survives(&[&file]));
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| put_back(&file, identity, &original)).unwrap();
    [keeping, (disk.syncs(), disk.survives(&[&original]))]
}

#[test]
fn a_power_cut_loses_no_original() {
    let [keeping, going_back] = survives(Syncs::Kept);
    let (keeping, going_back) = (keeping.1.unwrap(), going_back.1.unwrap());
    assert!(keeping > 10 && going_back > 1, "{keeping} and {going_back} states");
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        assert!(survives(lost)[0].1.is_err(), "{lost:?} is not noticed");
    }
    let parts: [(usize, &[usize]); 2] = [(0, &[]), (1, &[])];
    for (part, covered) in parts {
        let (needless, count) = needless_syncs(|syncs| survives(syncs)[part].clone());
        assert_eq!(needless, covered, "of {count} syncs nobody misses these");
    }
}
