//! Any bytes as the changes that a page sends to `thaw store serve`: those that are written as the same bytes, or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_storage::wire::{Change, asked, changes, quoted};

fn put(out: &mut Vec<u8>, units: &[u16]) {
    out.extend((units.len() as u32).to_le_bytes());
    units.iter().for_each(|unit| out.extend(unit.to_le_bytes()));
}

fuzz_target!(|input: &[u8]| {
    if let Some(changes) = changes(input) {
        let mut again = Vec::new();
        for change in changes {
            let (kind, texts) = match &change {
                Change::Set(key, value) => (1_u16, vec![key, value]),
                Change::Remove(key) => (2, vec![key]),
                Change::Clear => (3, vec![]),
            };
            again.extend(kind.to_le_bytes());
            texts.into_iter().for_each(|text| put(&mut again, text));
        }
        assert_eq!(again, input);
    }
    let units: Vec<u16> = input.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    let json: Result<serde_json::Value, _> = serde_json::from_str(&quoted(&units));
    if let Ok(text) = String::from_utf16(&units) {
        assert_eq!(json.unwrap(), text);
    }
    if let Ok(query) = std::str::from_utf8(input) {
        asked(query, "origin");
    }
});
