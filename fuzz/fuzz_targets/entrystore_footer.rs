//! Bytes as the footer of a segment: rows that add up, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_entrystore::format::{self, ROW, TRAILER};

fuzz_target!(|bytes: &[u8]| {
    let end = &bytes[bytes.len().saturating_sub(TRAILER)..];
    if let Some((at, count)) = format::trailer(end, bytes.len() as u64) {
        assert!(at as usize + count * ROW + TRAILER == bytes.len());
        if let Some(rows) = format::rows(&bytes[at as usize..]) {
            assert_eq!(format::rows(&format::footer(&rows, at)), Some(rows));
        }
    }
});
