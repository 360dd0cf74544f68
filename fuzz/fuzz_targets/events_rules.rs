//! Bytes as rules for the lines of a log: they are read or refused, and what is read can be used.
#![no_main]

use libfuzzer_sys::fuzz_target;

const LOG: &[u8] = b"2026-11-25 02:44:05.5 UTC - [P 7: T]: D/m open 0xab at cd\n";

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(rules) = timeline::Rules::parse(text) {
        timeline::read_by(LOG, None, Some(&rules)).expect("it is a log");
    }
});
