//! Bytes as a zip archive. What is accepted can be laid out anew in any order and form, and holds the same afterwards.
#![no_main]

use layout::archive::{
    Compression, Costs, DirectoryPlace, EntryId, Options, Signed, Touched, Uses, build, parse, plan, stat, used_by_pages, verify,
};
use libfuzzer_sys::fuzz_target;
use model::{Bytes, Exit, FileOffset};

// The first byte chooses how; the rest is the archive, as it is, so that real ones can be seeds.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let Ok(zip) = parse(bytes) else { return };
    let touched = [Touched { offset: FileOffset(u64::from(choice) * 64), len: Bytes(8192), order: 1 }];
    let uses = match choice % 3 {
        0 => Uses::default(),
        1 => used_by_pages(&zip, &touched),
        // More numbers than entries, and some twice.
        _ => Uses { order: zip.ids().step_by(2).chain(zip.ids().take(3)).collect::<Vec<EntryId>>(), unknown: Vec::new() },
    };
    stat(&zip, Some(&uses));
    let costs = Costs { disk_rate: 1e6, inflate_rate: 1e7 };
    let options = Options {
        directory: [DirectoryPlace::End, DirectoryPlace::Front, DirectoryPlace::Both][usize::from(choice / 3 % 3)],
        compression: [Compression::Keep, Compression::Store, Compression::Deflate, Compression::Auto(costs)][usize::from(choice / 9 % 4)],
        align: [0, 1, 2, 4, 512, 4096][usize::from(choice / 36 % 6)],
        signed: Signed::Accept,
    };
    // Damaged entries, and what is too large for the format.
    let Ok(plan) = plan(&zip, &uses, &options) else { return };
    let mut out = Vec::new();
    if build(&zip, &plan, &mut out).is_err() {
        return;
    }
    assert_eq!(out.len() as u64, plan.len.0);
    let again = parse(&out).expect("our own archive");
    if let Err(error) = verify(&zip, &again) {
        assert_eq!(error.exit, Exit::Data, "{error}");
    }
});
