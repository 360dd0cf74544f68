//! Bytes to everything that finds functions in ELF files, the object files that they are from, and whether they may be
//! moved.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use touch::function::{Names, Units, function_starts, relocating};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(starts) = function_starts(bytes) {
        assert!(starts.functions.is_sorted_by(|one, next| one.offset < next.offset));
        assert!(starts.functions.iter().all(|function| function.offset < bytes.len() as u64));
        let found = relocating(bytes, &starts.hooks, &starts.functions);
        assert!(found.is_none_or(|offset| offset < bytes.len() as u64));
    }
    if let Ok(said) = touch::relaid(bytes, &[(0, 16), (64, u64::MAX)], Some(1 << 17)) {
        assert_eq!(said.functions, said.movable + said.stay.iter().map(|it| it.functions).sum::<u64>());
    }
    let names = Names::of(bytes);
    (0..64).for_each(|offset| drop(names.get(offset)));
    assert!(names.count() <= bytes.len());
    if let Ok(Some(units)) = Units::of(bytes, Path::new("/nowhere"), bytes) {
        (0..64).for_each(|offset| drop(units.get(offset).map(Path::to_path_buf)));
    }
});
