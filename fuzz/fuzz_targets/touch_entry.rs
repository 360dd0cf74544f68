//! Bytes as the begin of a function, whose first instructions are made anew for another address; and as a symbol, of
//! which a name without parameters is made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touch::function::moved_entry;

fuzz_target!(|bytes: &[u8]| {
    const AT: u64 = 0x5555_0000_1000;
    if let Some(moved) = moved_entry(bytes, AT, AT - (1 << 30)) {
        assert!(!moved.is_empty() && moved.len() <= 128);
    }
    if let Ok(symbol) = std::str::from_utf8(bytes) {
        drop(symbols::plain_name(symbol));
    }
});
