//! Bytes as a record: what is read is within them, adds up, and comes back from what is written of it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use thaw_entrystore::format;

fuzz_target!(|bytes: &[u8]| {
    let all = Bytes::copy_from_slice(bytes);
    if let Some((head, body)) = format::record(&all, 0) {
        assert!(head.record_len() <= all.len() as u64);
        assert_eq!(format::record(&all.slice(..head.record_len() as usize), 0), Some((head.clone(), body)));
        assert_eq!(format::head(&head.encode(0).into(), 0), Some(head));
    }
    for number in 0..2 {
        if let Some(seed) = format::segment_seed(bytes, number) {
            assert_eq!(format::segment_seed(&format::segment_head(number, seed), number), Some(seed));
        }
    }
});
