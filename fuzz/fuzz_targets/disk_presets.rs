//! Text as a file of disks. A disk that is accepted can be printed and read again, and serves requests in finite time.
#![no_main]

use disk::model::{Ask, Direction, Drive};
use disk::preset::Presets;
use libfuzzer_sys::fuzz_target;
use model::{Bytes, DiskOffset, Nanos};
use std::path::Path;

/// A drive keeps a record for each of these: what asks for millions of them asks for memory, not for a disk.
const MOST: u64 = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut presets = Presets::default();
    if presets.extend(text, Path::new("fuzzed.toml")).is_err() {
        return;
    }
    let printed: String = presets.all().map(ToString::to_string).collect();
    let mut again = Presets::default();
    again.extend(&printed, Path::new("printed.toml")).expect("our own file");
    assert_eq!(again, presets);
    for preset in presets.all() {
        let many =
            |figure: &str| preset.figures.iter().any(|it| it.figure == figure && it.value.parse().unwrap_or(0) > MOST);
        if ["segments", "channels", "open_units"].into_iter().any(many) {
            continue;
        }
        let mut drive = Drive::new(preset.model.clone(), Bytes(0));
        let mut now = Nanos(0);
        for (index, place) in [0, u64::MAX / 2, 4096, 1 << 30].into_iter().enumerate() {
            let direction = [Direction::Read, Direction::Write, Direction::Read, Direction::Flush][index];
            let service = drive.serve(now, &Ask { disk: DiskOffset(place), len: Bytes(4096), direction });
            assert!(service.done >= service.start && service.start >= now);
            now = service.done;
        }
    }
});
