//! Text as a log of fio. What is read can be written, and what was written is read as the same.
#![no_main]

use disk::fio::{Version, export, parse};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(devices) = parse(text) else { return };
    let named: Vec<(&Path, &[_])> =
        devices.iter().map(|(path, requests)| (path.as_path(), requests.as_slice())).collect();
    for version in [Version::V2, Version::V3] {
        let Ok(log) = export(version, &named) else { continue };
        let again = parse(&log).expect("our own log");
        let count = |devices: &[(std::path::PathBuf, Vec<disk::simulate::Request>)]| -> usize {
            let requests = devices.iter().flat_map(|(_, requests)| requests);
            requests.filter(|request| request.ask.len.0 > 0).count()
        };
        assert_eq!(count(&again), count(&devices));
    }
});
