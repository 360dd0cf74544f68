//! Bytes as the list that a JIT writes of its code: any of them is read, and what is named has a name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use symbols::PerfMap;

fuzz_target!(|bytes: &[u8]| {
    let map = PerfMap::parse(bytes);
    for address in [0, 0x1000, 0x1080, u64::MAX] {
        assert!(map.name(address).is_none_or(|name| !name.is_empty()));
    }
});
