//! Bytes as cookies.txt. What is read of it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_cookies::netscape;

fuzz_target!(|input: &[u8]| {
    let (mut cookies, _) = netscape::read(input, 7);
    let (text, left_out) = netscape::write(&cookies);
    assert!(left_out.is_empty());
    for cookie in &mut cookies {
        // Beyond this the seconds are no longer those of the file.
        cookie.expires_us = cookie.expires_us.map(|at| at / 1_000_000 * 1_000_000);
    }
    assert_eq!(netscape::read(&text, 7), (cookies, Vec::new()));
});
