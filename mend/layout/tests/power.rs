//! A power cut at any moment while an archive is replaced: it is the old archive or the new one.

use layout::archive::{Options, Target, apply, pack, parse, plan, used_by_names};
use testing::power::{Disk, Syncs};

/// Replaces an archive by one of a directory, and another one by the first in another order.
fn survives(syncs: Syncs) -> [Result<usize, String>; 2] {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (state, files) = (home.path().join("state"), home.path().join("files"));
    let (first, second) = (home.path().join("first.zip"), home.path().join("second.zip"));
    for directory in [&state, &files] {
        std::fs::create_dir(directory).unwrap();
    }
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    for name in ["a", "b", "c"] {
        std::fs::write(files.join(name), name.repeat(5000)).unwrap();
    }
    for old in [&first, &second] {
        std::fs::write(old, "an old one").unwrap();
    }
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| pack(&files, &[], &Options::default(), Target::Replace(&first))).unwrap();
    let packing = disk.survives(&[]);
    let bytes = std::fs::read(&first).unwrap();
    let zip = parse(&bytes).unwrap();
    let plan = plan(&zip, &used_by_names(&zip, ["c", "a"]), &Options::default()).unwrap();
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| apply(&zip, &plan, &first, Target::Replace(&second))).unwrap();
    [packing, disk.survives(&[&first])]
}

#[test]
fn a_power_cut_leaves_the_old_archive_or_the_new_one() {
    for states in survives(Syncs::Kept) {
        let states = states.unwrap();
        assert!(states > 5, "{states} states");
    }
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        for states in survives(lost) {
            states.expect_err("a sync that is lost is noticed");
        }
    }
}
