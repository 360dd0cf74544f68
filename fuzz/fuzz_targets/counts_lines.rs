//! Bytes to the concordance of `thaw counts`: every line is counted once, whatever it weighs, and erasing never makes more lines.
#![no_main]

use counts::{Concordance, Erase, Weight};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let rows = |weight, erase| {
        let mut lines = Concordance::new(weight, erase);
        lines.read("fuzz", &mut &bytes[..]).ok()?;
        let mut out = Vec::new();
        lines.write(&mut out).unwrap();
        Some(out)
    };
    let length = |out: &[u8]| out.iter().filter(|byte| **byte == b'\n').count();
    let plain = rows(Weight::Unit, Erase::Nothing).expect("nothing is parsed");
    let count = bytes.split_inclusive(|byte| *byte == b'\n').count();
    assert!(plain.starts_with(format!("{count} counts\n").as_bytes()));
    for weight in [Weight::Integral, Weight::Fractional] {
        let (Some(whole), Some(erased)) = (rows(weight, Erase::Nothing), rows(weight, Erase::Numbers)) else { continue };
        assert_eq!(length(&whole), length(&plain));
        assert!(length(&erased) <= length(&whole));
    }
});
