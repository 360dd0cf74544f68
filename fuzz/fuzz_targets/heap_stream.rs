//! Any bytes as a heap stream: the reader ends, with events or a warning, and never panics; nor does what adds the events up and exports them.
#![no_main]

use heap::export::{Export, Format};
use heapfile::ledger::Ledger;
use heap::modes::{Measure, Window};
use heap::named::{Filter, Named};
use heapfile::reader::Reader;
use libfuzzer_sys::fuzz_target;

const HEAD: &str = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"","created_unix_ns":0,"start_ticks":0,
    "ticks_per_second":null,"finished":false,"code":null,"signal":null,"cpu_s":null,"max_rss_bytes":null,"nothing":null,"running":[]}"#;

fuzz_target!(|bytes: &[u8]| {
    // A right beginning, so that the fuzzer works on what follows.
    let mut file = vec![0; 4096];
    file[..8].copy_from_slice(b"THAWHEAP");
    // Both versions.
    file[8] = 1 + (bytes.first().copied().unwrap_or(0) & 1);
    let rest = bytes.len().min(file.len() - 12);
    file[12..12 + rest].copy_from_slice(&bytes[..rest]);
    for (number, part) in bytes.chunks(4000).enumerate() {
        let mut chunk = vec![0; 4096];
        chunk[..4].copy_from_slice(b"CHNK");
        chunk[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        chunk[12..16].copy_from_slice(&4096u32.to_le_bytes());
        chunk[32..32 + part.len()].copy_from_slice(part);
        file.extend_from_slice(&chunk);
    }
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("recording.json"), HEAD).expect("a head");
    std::fs::write(home.path().join("1-0.stream"), &file).expect("a stream");
    let Ok(reader) = Reader::open(home.path()) else { return };
    let _ = heap::report::report(&reader);
    for process in reader.processes() {
        let Ok(mut events) = reader.events(process.id) else { continue };
        let mut ledger = Ledger::new(process.origin);
        while let Ok(Some(event)) = events.next() {
            ledger.enter(&event);
        }
    }
    let window = Window::default();
    let formats =
        [Format::Dmd, Format::Dhat, Format::Pprof, Format::Firefox, Format::Heaptrack, Format::Massif, Format::LogAlloc];
    for format in formats {
        let Ok(named) = Named::read(&reader, window, format.split(), &Filter::default()) else { continue };
        let export = Export { reader: &reader, named: &named, measure: Measure::Peak, window };
        let _ = export.write(format, &home.path().join("export"), os::replace::Existing::Replace);
    }
});
