//! A power cut at any moment while a file is packed where it lies, or put back: it is the old file or the new one, and
//! the original is never lost.

use pack::{Options, Outcome, Target, pack_file};
use std::path::Path;
use std::process::Command;
use testing::power::{Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Packs a library in place, and puts it back; both on a disk that loses its power. Then the same, of an original that
/// has another name and is copied back.
fn survives(source: &Path, syncs: Syncs) -> Option<[Judged; 3]> {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (library, state) = (home.path().join("lib.so"), home.path().join("state"));
    if !testing::compiled(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source)) {
        return None;
    }
    std::fs::create_dir(&state).unwrap();
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    let disk = Disk::of(&[home.path()], syncs);
    let in_place = || pack_file(&library, &Target::InPlace, &Options::default()).unwrap();
    let packed = disk.run(in_place);
    assert!(matches!(packed, Outcome::Packed(_)), "{packed:?}");
    let packing = (disk.syncs(), disk.survives(&[&library]));
    let restored = || {
        let original = pack::installed().unwrap().remove(0).original;
        let disk = Disk::of(&[home.path()], syncs);
        disk.run(|| pack::restore_file(&library)).unwrap();
        // One that is there without its manifest would be known to nobody.
        let known = disk.each(|state| {
            let has = |path: &Path| state.held(path) != [None];
            match has(&original) && !has(&original.with_file_name("manifest.json")) {
                true => Err(format!("the original is there and nobody knows in {state:?}")),
                false => Ok(()),
            }
        });
        (disk.syncs(), known.and_then(|_| disk.survives(&[&original])))
    };
    let moving = restored();
    in_place();
    std::fs::hard_link(pack::installed().unwrap().remove(0).original, home.path().join("other")).unwrap();
    let copying = restored();
    Some([packing, moving, copying])
}

#[test]
fn a_power_cut_leaves_the_file_or_the_packed_one_and_the_original_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("words.c");
    let words: String = (0..2000).map(|number| format!("\"word {number}\",")).collect();
    std::fs::write(&source, format!("const char *words[] = {{{words}}};\n")).unwrap();
    let Some(parts) = survives(&source, Syncs::Kept) else { return };
    let [packing, moving, copying] = parts.map(|(_, states)| states.unwrap());
    assert!(packing > 20 && moving > 2 && copying > 10, "{packing}, {moving} and {copying} states");
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        let [packing, _, _] = survives(&source, lost).unwrap();
        assert!(packing.1.is_err(), "{lost:?} is not noticed");
    }
    // The state directory is synced for the store, and again for the journal's before anything is written; the name of
    // what is kept, again with its manifest.
    let parts: [(usize, &[usize]); 3] = [(0, &[0, 5]), (1, &[]), (2, &[])];
    for (part, covered) in parts {
        let (needless, count) = needless_syncs(|syncs| {
            let parts = survives(&source, syncs).unwrap();
            parts[part].clone()
        });
        assert_eq!(needless, covered, "of {count} syncs nobody misses these");
    }
}
