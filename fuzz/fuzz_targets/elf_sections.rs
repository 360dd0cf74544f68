//! Bytes to everything that looks into ELF files, and to what asks a guest of `thaw heap` of which version it is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sections) = elf::sections(bytes) {
        let end = bytes.len() as u64;
        assert!(sections.iter().all(|section| section.len.0 > 0 && section.offset.0 + section.len.0 <= end));
    }
    elf::build_id(bytes);
    let _ = heaprec::guest::Version::in_file(bytes);
    elf::needed(bytes);
    elf::run_paths(bytes);
    elf::interpreter(bytes);
});
