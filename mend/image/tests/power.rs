//! A power cut at any moment while an image is replaced, or its directory written again: the old image or the new one,
//! the whole directory or none.

mod common;

use common::origin;
use image::check::Opened;
use image::covered::Covered;
use image::extract::extract;
use image::tree::{Detail, Tree};
use image::write::{Compression, Source, write};
use os::replace::{Existing, Fresh, Rights};
use testing::power::{Content, Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Replaces an image, and extracts it.
fn survives(syncs: Syncs) -> [Judged; 2] {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (state, root, target) = (home.path().join("state"), home.path().join("root"), home.path().join("a.img"));
    std::fs::create_dir(&state).unwrap();
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    std::fs::create_dir_all(root.join("deep/er")).unwrap();
    let content = |name: &str| name.repeat(3000);
    let names = ["a", "deep/b", "deep/er/c"];
    names.iter().for_each(|name| std::fs::write(root.join(name), content(name)).unwrap());
    std::fs::write(&target, "an old one").unwrap();
    let tree = Tree::walk(&root, Detail::Whole).unwrap();
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| {
        let fresh = Fresh::beside(&target, Existing::Replace)?;
        let source =
            Source { covered: &Covered::directory(&root), tree: &tree, sum: tree.sum(), needs: &[], whole: &[] };
        write(&source, Compression::Lz4, origin(&root), fresh.file())?;
        fresh.grant(Rights::Usual)?;
        fresh.place()
    })
    .unwrap();
    let replacing = (disk.syncs(), disk.survives(&[&root.join("a")]));
    let again = home.path().join("again");
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| extract(&Opened::open(&target)?, &again)).unwrap();
    let judged = disk.each(|state| {
        let is_whole = |name: &&str| {
            let whole = |held: Option<&Content>| held.is_some_and(|held| *held.bytes == *content(name).as_bytes());
            state.held(&again.join(name)).into_iter().all(whole)
        };
        let found = state.paths().filter(|path| path.starts_with(&again)).count();
        let whole = names.iter().filter(|name| is_whole(name)).count();
        if found != whole || ![0, names.len()].contains(&found) || state.is_end && found == 0 {
            return Err(format!("{found} files, of these {whole} whole, in {state:?}"));
        }
        disk.hidden_are_listed(state)
    });
    [replacing, (disk.syncs(), judged)]
}

#[test]
fn a_power_cut_leaves_the_old_image_or_the_new_one() {
    let [replacing, extracting] = survives(Syncs::Kept);
    let (replacing, extracting) = (replacing.1.unwrap(), extracting.1.unwrap());
    assert!(replacing > 5 && extracting > 20, "{replacing} and {extracting} states");
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        survives(lost)[0].1.as_ref().expect_err("a sync that is lost is noticed");
    }
    for part in [0, 1] {
        let (needless, count) = needless_syncs(|syncs| survives(syncs)[part].clone());
        assert!(needless.is_empty(), "of {count} syncs nobody misses {needless:?}");
    }
}
