//! Bytes as what a client sends to the origin of the page: requests or an error, the same piece by piece as at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::BufReader;

// The modules alone: what a request is, is no part of what the room shows.
#[allow(dead_code)]
#[path = "../../measure/pageload/src/origin.rs"]
mod origin;
#[allow(dead_code)]
#[path = "../../measure/pageload/src/site.rs"]
mod site;

use origin::Request;

fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let (mut at_once, mut pieces) = (bytes, BufReader::with_capacity(usize::from(step) + 1, bytes));
    loop {
        let (one, other) = (Request::read(&mut at_once), Request::read(&mut pieces));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        let Ok(Some(request)) = one else { break };
        assert!([&request.method, &request.path].iter().all(|word| {
            !word.is_empty() && !word.contains(|letter: char| letter.is_ascii_whitespace())
        }));
        assert!(!request.if_none_match.contains('\n'));
    }
});
