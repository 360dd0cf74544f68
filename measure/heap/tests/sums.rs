//! Files of sums that are damaged or made to do harm: every answer says so, none breaks or takes much memory.

use heap::modes::{Split, Window};
use heap_wire::PAGE;
use heapfile::reader::Reader;
use model::{Exit, Result};
use proptest::prelude::*;
use std::fs;

/// Magic and version.
const HEAD: &[u8] = b"THAWSUMS\x01\0\0\0";

/// Sums with one site.
const SOUND: &str = include_str!("../../../fixtures/heap/sums.json");

/// A file whose packed part are the first page of a stream and this text.
fn file_of(text: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; PAGE];
    raw[..8].copy_from_slice(&heap_wire::MAGIC);
    raw[8] = heap_wire::VERSION as u8;
    raw.extend(text);
    let packed = zstd::encode_all(&raw[..], 3).unwrap();
    [HEAD, &crc32fast::hash(&packed).to_le_bytes(), &packed].concat()
}

/// All that is made of a file of sums.
fn answers(file: &[u8]) -> Result<heap::report::Report> {
    let folder = tempfile::tempdir().unwrap();
    let head = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"",
"created_unix_ns":0,"start_ticks":0,
        "ticks_per_second":1e9,"finished":true,"code":0,"signal":null,"cpu_s":null,
"max_rss_bytes":null,"nothing":null,"running":[]}"#;
    fs::write(folder.path().join("recording.json"), head).unwrap();
    fs::write(folder.path().join("1-0.sums"), file).unwrap();
    let reader = Reader::open(folder.path())?;
    heap::slop::report(&reader, &heap::slop::Options { model: None, frames: 4, top: 10 })?;
    for split in [Split::Stack, Split::Size] {
        for process in reader.processes() {
            heap::modes::analyze(&reader, process, Window::default(), split)?;
        }
    }
    heap::report::report(&reader)
}

#[test]
fn little_does_not_become_much() {
    assert_eq!(answers(&file_of(SOUND.as_bytes())).unwrap().processes[0].leaked_blocks, 0);
    // A few kilobytes that unpack to more than a hundred megabytes.
    let mut text = br#"{"nodes": ["#.to_vec();
    text.extend(b"[0,0],".repeat(20 << 20));
    let file = file_of(&text);
    assert!(file.len() < 1 << 20, "{}", file.len());
    assert_eq!(answers(&file).unwrap_err().exit, Exit::Data);
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(
        bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..400, number: u64,
    ) {
        let _ = answers(&bytes);
        let sum = crc32fast::hash(&bytes).to_le_bytes();
        let _ = answers(&[HEAD, &sum, &bytes].concat());
        let _ = answers(&file_of(&bytes));
        // Any number in the place of one of those that are there.
        let text = SOUND;
        let digits = text.char_indices().filter(|(_, letter)| letter.is_ascii_digit());
        let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
        let at = digits[which % digits.len()];
        let changed = format!("{}{number}{}", &text[..at], &text[at + 1..]);
        let _ = answers(&file_of(changed.as_bytes()));
    }
}
