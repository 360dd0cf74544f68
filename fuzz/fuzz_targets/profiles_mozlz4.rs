//! Bytes as a session file of Firefox, and as the JSON inside one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_profiles::{firefox, mozlz4};

fuzz_target!(|input: &[u8]| {
    if let Ok(bytes) = mozlz4::unpack(input) {
        assert!(bytes.len() <= input.len() * 255);
    }
    let len = (input.len() as u32).to_le_bytes();
    // A block of literals alone: the JSON as it is.
    let mut packed = [&mozlz4::MAGIC[..], &len].concat();
    if input.len() < 15 {
        packed.push((input.len() as u8) << 4);
    } else {
        packed.push(0xF0);
        packed.extend(std::iter::repeat_n(255, (input.len() - 15) / 255));
        packed.push(((input.len() - 15) % 255) as u8);
    }
    packed.extend(input);
    for bytes in [input, &packed] {
        let Ok(session) = firefox::session_of(bytes) else { continue };
        for window in &session.windows {
            assert!(window.selected.is_none_or(|at| at < window.tabs.len()));
            assert!(window.tabs.iter().all(|tab| tab.selected.is_none_or(|at| at < tab.entries.len())));
        }
    }
});
