//! Bytes as a stored response. What is accepted is written so that it is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_httpcache::Stored;

fuzz_target!(|input: &[u8]| {
    let Ok(stored) = Stored::decode(input) else { return };
    assert_eq!(Stored::decode(&stored.encode()), Ok(stored));
});
