//! A file and its packed form, both damaged, to the oracle: there is an answer, and a file is always like itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verify::{Allowed, Expected, Word, offline, offline_expecting};

const ORIGINAL: &[u8] = include_bytes!("../../fixtures/pack/small/original.so");
const PACKED: &[u8] = include_bytes!("../../fixtures/pack/small/packed.so");

/// Each four bytes change one: which file and where, and to what.
fn damaged(changes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut original, mut packed) = (ORIGINAL.to_vec(), PACKED.to_vec());
    for change in changes.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let file = if change[3] & 1 == 0 { &mut packed } else { &mut original };
        let place = place % file.len();
        file[place] = change[2];
        if change[3] & 2 != 0 {
            file.truncate(place.max(64));
        }
    }
    (original, packed)
}

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"\x7fELF") {
        if let Ok(verdict) = offline(bytes, bytes) {
            assert!(verdict.agrees(), "{:?}", verdict.differences);
        }
        return;
    }
    let (original, packed) = damaged(bytes);
    let _ = offline(&original, &packed);
    if let Ok(verdict) = offline(&original, &original) {
        assert!(verdict.agrees(), "{:?}", verdict.differences);
    }
    // Announcements can be as wrong as files.
    let number = |at: usize| bytes.get(at..at + 2).map_or(0, |raw| u64::from(u16::from_le_bytes([raw[0], raw[1]])));
    let expected = Expected {
        allowed: vec![
            Allowed::Initialiser { table: number(0), len: number(2) },
            Allowed::Relative { at: number(4), value: number(6) },
            Allowed::Word { at: u64::MAX - number(1), value: Word::Address(number(3)) },
            Allowed::New { at: u64::MAX - number(5), len: number(7) << 48 },
        ],
    };
    let _ = offline_expecting(&original, &packed, &expected);
});
