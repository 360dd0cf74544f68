//! Bytes to everything that finds functions in ELF files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touch::function::{Names, function_starts};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(starts) = function_starts(bytes) {
        assert!(starts.functions.is_sorted_by(|one, next| one.offset < next.offset));
        assert!(starts.functions.iter().all(|function| function.offset < bytes.len() as u64));
    }
    let names = Names::of(bytes);
    (0..64).for_each(|offset| drop(names.get(offset)));
    assert!(names.count() <= bytes.len());
});
