//! Bytes as a file of events of any form: whatever they are, they are read or refused, add up, and can be written in
//! every format. What is written for Chrome is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Format;

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = timeline::read(bytes, None) else { return };
    timeline::report(&trace, 10);
    for format in [Format::Perfetto, Format::Firefox, Format::Speedscope, Format::Csv, Format::CsvEvents] {
        timeline::export(&trace, format, &mut std::io::sink()).expect("a sink takes everything");
    }
    let mut chrome = Vec::new();
    timeline::export(&trace, Format::Chrome, &mut chrome).expect("a vector takes everything");
    if !trace.events.is_empty() && trace.clock.origin_ns < 1 << 50 {
        timeline::read(&chrome, None).ok();
    }
});
