//! Bytes as a file of events: whatever they are, it is read or refused, and adds up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = timeline::parse(bytes, None) {
        timeline::report(&trace, 10);
    }
});
