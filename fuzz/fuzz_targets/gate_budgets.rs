//! Bytes as a file of budgets: refused in words, or rules with bounds that a figure can have.
#![no_main]

use bench::gate::{Bound, budgets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for rule in budgets::parse(&String::from_utf8_lossy(input)).unwrap_or_default() {
        let (Bound::Growth(value) | Bound::AtMost(value)) = rule.bound;
        assert!(value.is_finite() && value >= 0.0);
    }
});
