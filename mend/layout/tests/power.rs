//! A power cut at any moment while an archive is replaced, or unpacked: it is the old archive or the new one; the
//! directory is there with all of its files, or not at all.

use layout::archive::{Options, Target, apply, pack, parse, plan, unpack, used_by_names};
use testing::power::{Content, Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Replaces an archive by one of a directory, and another one by the first in another order.
fn survives(syncs: Syncs) -> [Judged; 2] {
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
    let packing = (disk.syncs(), disk.survives(&[]));
    let bytes = std::fs::read(&first).unwrap();
    let zip = parse(&bytes).unwrap();
    let plan = plan(&zip, &used_by_names(&zip, ["c", "a"]), &Options::default()).unwrap();
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| apply(&zip, &plan, &first, Target::Replace(&second))).unwrap();
    [packing, (disk.syncs(), disk.survives(&[&first]))]
}

/// Unpacks an archive of files in three directories.
fn unpacked(syncs: Syncs) -> Judged {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (state, files, archive) = (home.path().join("state"), home.path().join("files"), home.path().join("a.zip"));
    std::fs::create_dir(&state).unwrap();
    // SAFETY: as above.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    std::fs::create_dir_all(files.join("deep/er")).unwrap();
    let content = |name: &str| name.repeat(3000);
    let names = ["a", "deep/b", "deep/er/c"];
    names.iter().for_each(|name| std::fs::write(files.join(name), content(name)).unwrap());
    pack(&files, &[], &Options::default(), Target::New(&archive)).unwrap();
    let bytes = std::fs::read(&archive).unwrap();
    let (zip, target) = (parse(&bytes).unwrap(), home.path().join("unpacked"));
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| unpack(&zip, &target)).unwrap();
    let judged = disk.each(|state| {
        let is_whole = |name: &&str| {
            let whole = |held: Option<&Content>| held.is_some_and(|held| *held.bytes == *content(name).as_bytes());
            state.held(&target.join(name)).into_iter().all(whole)
        };
        let found = state.paths().filter(|path| path.starts_with(&target)).count();
        let whole = names.iter().filter(|name| is_whole(name)).count();
        if found != whole || ![0, names.len()].contains(&found) || state.is_end && found == 0 {
            return Err(format!("{found} files, of these {whole} whole, in {state:?}"));
        }
        disk.hidden_are_listed(state)
    });
    (disk.syncs(), judged)
}

#[test]
fn a_power_cut_leaves_the_old_archive_or_the_new_one() {
    for states in survives(Syncs::Kept) {
        let states = states.1.unwrap();
        assert!(states > 5, "{states} states");
    }
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        for states in survives(lost) {
            states.1.expect_err("a sync that is lost is noticed");
        }
    }
    let parts: [(usize, &[usize]); 2] = [(0, &[]), (1, &[])];
    for (part, covered) in parts {
        let (needless, count) = needless_syncs(|syncs| survives(syncs)[part].clone());
        assert_eq!(needless, covered, "of {count} syncs nobody misses these");
    }
    let states = unpacked(Syncs::Kept).1.unwrap();
    assert!(states > 20, "{states} states");
    let (needless, count) = needless_syncs(unpacked);
    assert!(needless.is_empty(), "of {count} syncs nobody misses {needless:?}");
}
