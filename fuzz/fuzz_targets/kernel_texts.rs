//! Bytes to everything that reads what the kernel writes: mount tables, /proc files, tracepoint formats and their fields,
//! perf records.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    os::mounts::Mounts::parse(bytes);
    os::process::parse_stat(bytes);
    os::process::parse_maps(bytes);
    let mut records = os::perf::parse(bytes);
    let mut read = 0;
    for record in records.by_ref() {
        read += 1;
        std::hint::black_box(record);
    }
    // A record is at least its header of eight bytes, so no input can make more of them.
    assert!(read <= bytes.len() / 8);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    os::device::parse_dev(text);
    if let Ok(format) = os::tracefs::Format::parse("fuzz", text) {
        for field in format.fields.values() {
            field.get(bytes);
            field.text(bytes);
        }
    }
});
