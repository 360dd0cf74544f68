//! Bytes as the output of icegrind: to the reader, and what it accepts to the rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use touch::byte::{parse, rows};

fuzz_target!(|bytes: &[u8]| {
    // Half of all inputs begin as an output does.
    let image = match bytes.split_first() {
        Some((first, rest)) if first & 1 == 1 => parse(&[b"thawice1\x01\x01\x01\x01\x00", rest].concat()),
        _ => parse(bytes),
    };
    let Ok(mut image) = image else { return };
    assert!(image.pieces.iter().all(|piece| (piece.file as usize) < image.files.len() && piece.len > 0));
    assert!(image.pieces.is_sorted_by_key(|piece| piece.at_ns));
    // Names of this machine's files say nothing about the reader.
    for (number, file) in image.files.iter_mut().enumerate() {
        file.path = format!("/nowhere/{number}").into();
    }
    let seen = rows(&[image.clone(), image], &[], 0);
    let mut touched: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for touch in &seen.touches {
        assert!(touch.len.0 > 0);
        assert!(touched.insert((touch.file.0, touch.offset.0), touch.offset.0 + touch.len.0).is_none());
    }
    for (one, next) in touched.iter().zip(touched.iter().skip(1)) {
        assert!(one.0.0 != next.0.0 || *one.1 <= next.0.1, "a byte counts once");
    }
});
