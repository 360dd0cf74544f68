//! Bytes to packing: it never panics, and gives away nothing that the oracle does not accept.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pack::{Options, Space, fix_relr_bytes, rewrite};

fuzz_target!(|bytes: &[u8]| {
    for space in [Space::Shrink, Space::Keep] {
        let options = Options { space, ..Options::default() };
        let (_, rewritten) = rewrite(bytes, &options).expect("an answer");
        if let Some(new) = rewritten {
            let verdict = verify::offline_expecting(bytes, &new.bytes, &new.expected).expect("a verdict");
            assert!(verdict.agrees(), "{:#?}", verdict.differences);
        }
    }
    fix_relr_bytes(bytes).expect("an answer");
});
