//! Bytes as a ping. What is accepted is within the bounds, short, and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ping::{Day, MOST_BYTES, Ping};

fuzz_target!(|input: &[u8]| {
    let today = Day::FIRST.plus(2_000);
    let Ok(parsed) = Ping::parse(input, today) else { return };
    parsed.check(today).unwrap();
    let line = parsed.to_line();
    assert!(line.len() <= MOST_BYTES + 1 && line.ends_with('\n'));
    assert_eq!(Ping::parse(line.as_bytes(), today), Ok(parsed));
});
