//! Bytes as a file of events: whatever they are, it is read or refused, adds up, and is walked and replayed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = timeline::parse(bytes, None) {
        timeline::report(&trace, 10);
        timeline::waits(&trace, 10);
        let _ = timeline::whatif(&trace, timeline::Ends::default(), &[]);
        if let Ok(path) = timeline::path(&trace, timeline::Ends::default()) {
            assert_eq!(path.steps.iter().map(|step| step.ns).sum::<u64>(), path.span_ns);
        }
    }
});
