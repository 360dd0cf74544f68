//! A power cut at any moment while a file is packed where it lies, or put back: it is the old file or the new one, and
//! the original is never lost.

use pack::{Options, Outcome, Target, pack_file};
use std::path::Path;
use std::process::Command;
use testing::power::{Disk, Syncs, needless_syncs};

/// How often it synced, and how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// Packs a library in place, and puts it back; both on a disk that loses its power.
fn survives(source: &Path, syncs: Syncs) -> Option<[Judged; 2]> {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (library, state) = (home.path().join("lib.so"), home.path().join("state"));
    if !testing::compiled(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source)) {
        return None;
    }
    std::fs::create_dir(&state).unwrap();
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    let disk = Disk::of(&[home.path()], syncs);
    let packed = disk.run(|| pack_file(&library, &Target::InPlace, &Options::default())).unwrap();
    assert!(matches!(packed, Outcome::Packed(_)), "{packed:?}");
    let packing = (disk.syncs(), disk.survives(&[&library]));
    let disk = Disk::of(&[home.path()], syncs);
    disk.run(|| pack::restore_file(&library)).unwrap();
    Some([packing, (disk.syncs(), disk.survives(&[]))])
}

#[test]
fn a_power_cut_leaves_the_file_or_the_packed_one_and_the_original_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("words.c");
    let words: String = (0..2000).map(|number| format!("\"word {number}\",")).collect();
    std::fs::write(&source, format!("const char *words[] = {{{words}}};\n")).unwrap();
    let Some([packing, restoring]) = survives(&source, Syncs::Kept) else { return };
    let (packing, restoring) = (packing.1.unwrap(), restoring.1.unwrap());
    assert!(packing > 20 && restoring > 2, "{packing} and {restoring} states");
    for lost in [Syncs::OfFilesLost, Syncs::OfDirectoriesLost] {
        let [packing, _] = survives(&source, lost).unwrap();
        assert!(packing.1.is_err(), "{lost:?} is not noticed");
    }
    // The state directory is synced for the store, and again for the journal's before anything is written; what is kept
    // is synced by name, and again with its manifest, when it is written and when it goes.
    let parts: [(usize, &[usize]); 2] = [(0, &[0, 5]), (1, &[1])];
    for (part, covered) in parts {
        let (needless, count) = needless_syncs(|syncs| {
            let [packing, restoring] = survives(&source, syncs).unwrap();
            if part == 0 { packing } else { restoring }
        });
        assert_eq!(needless, covered, "of {count} syncs nobody misses these");
    }
}
