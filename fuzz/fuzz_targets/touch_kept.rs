//! Bytes as what was found out about a file's functions in an earlier run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(known) = touch::function::kept_functions(bytes) {
        assert!(known.entered.iter().all(|index| *index < known.functions.len()));
    }
});
