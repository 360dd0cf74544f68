//! Any bytes as an ELF file with debug data: names or an error, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("object");
    std::fs::write(&path, bytes).expect("an object");
    let addresses: Vec<u64> = (0..64).map(|step| step * 0x40).chain([0x40_1000, u64::MAX]).collect();
    let _ = symbols::look_up(&path, &[], &addresses);
});
