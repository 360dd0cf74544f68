//! Any bytes as a file of sums of a heap recording, and any text as what is packed in one, with a checksum that fits: the reader ends with figures
//! or an error.
#![no_main]

use heap::modes::{Measure, Split, Window};
use heap::named::{Cut, Filter, Named, Wrappers};
use heapfile::reader::Reader;
use heap::{report, slop};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

const HEAD: &str = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"","created_unix_ns":0,"start_ticks":0,
    "ticks_per_second":1e9,"finished":true,"code":null,"signal":null,"cpu_s":null,"max_rss_bytes":null,"nothing":null,"running":[]}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("recording.json"), HEAD).expect("a head");
    let file = if choice & 1 == 0 { bytes.to_vec() } else { packed(bytes) };
    std::fs::write(home.path().join("1-0.sums"), file).expect("sums");
    let _ = read(home.path());
});

/// A file whose packed part are the first page of a stream and these bytes.
fn packed(text: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 4096];
    raw[..8].copy_from_slice(b"THAWHEAP");
    raw[8] = 2;
    raw.extend(text);
    let packed = zstd::encode_all(&raw[..], 1).expect("memory is enough");
    let mut file = b"THAWSUMS\x01\0\0\0".to_vec();
    file.extend(crc32fast::hash(&packed).to_le_bytes());
    file.extend(packed);
    file
}

/// All that is made of sums.
fn read(directory: &Path) -> model::Result<()> {
    let reader = Reader::open(directory)?;
    report::report(&reader)?;
    slop::report(&reader, &slop::Options { model: None, frames: 4, top: 10 })?;
    for split in [Split::Stack, Split::Size] {
        let named = Named::read(&reader, Window::default(), split, &Filter::default())?;
        for measure in [Measure::Made, Measure::End, Measure::Peak, Measure::Temporary] {
            named.rows(measure, Cut { frames: 8, wrappers: Wrappers::Skipped }, 0);
        }
    }
    Ok(())
}
