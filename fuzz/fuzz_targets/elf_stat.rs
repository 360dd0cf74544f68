//! Bytes to the analysis of `thaw elf stat`: what is answered must add up; and to its probes.
#![no_main]

use elf::Image;
use elfstat::{Depth, analyze};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::of(bytes) else { return };
    assert!(elf::usdt::probes(&image).len() <= bytes.len() / 12);
    for depth in [Depth::Survey, Depth::Detail] {
        let Ok(report) = analyze(&image, depth) else { continue };
        let (relocations, packing) = (&report.relocations, &report.packing);
        for groups in [&relocations.by_type, &relocations.by_table, &relocations.by_target] {
            assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), relocations.count);
        }
        let kept = packing.odd + packing.not_in_writable_data + packing.overlapping;
        assert_eq!(packing.packable + kept, relocations.relative);
        assert!(packing.now <= relocations.entry_bytes && report.waste.total <= report.waste.of);
        assert!(report.initializers.functions.len() as u64 <= report.initializers.count + 1);
    }
});
