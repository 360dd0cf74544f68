//! Bytes as a `Set-Cookie` header. What is accepted is within the limits, and its name and value are read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_cookies::parse::{LONGEST_AGE_US, LONGEST_ATTRIBUTE, LONGEST_PAIR, set_cookie};

const NOW_US: u64 = 1_700_000_000_000_000;

fuzz_target!(|input: &[u8]| {
    let Ok(parsed) = set_cookie(input, NOW_US) else { return };
    assert!(parsed.name.len() + parsed.value.len() <= LONGEST_PAIR);
    assert!(parsed.domain.len() <= LONGEST_ATTRIBUTE);
    assert!(parsed.path.as_ref().is_none_or(|path| path.len() <= LONGEST_ATTRIBUTE && path.starts_with(b"/")));
    assert!(parsed.expires_us.is_none_or(|at| at <= NOW_US + LONGEST_AGE_US));
    let pair = [&parsed.name[..], b"=", &parsed.value].concat();
    let again = set_cookie(&pair, NOW_US).unwrap();
    assert_eq!((again.name, again.value), (parsed.name, parsed.value));
});
