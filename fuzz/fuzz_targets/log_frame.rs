//! Bytes as a file of records: what is found lies in order, covers the bytes with the damage, and reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_log::frame::{self, Head};

fuzz_target!(|bytes: &[u8]| {
    let mut made = Vec::new();
    let head = Head { kind: *b"TEST", generation: 1, made_ms: 1, salt: 5, label: Vec::new() };
    frame::write(&mut made, 0, 0, &head.bytes());
    // So that more than the first record is reached, records of the input's parts stand before it.
    for (number, part) in (1..).zip(bytes.chunks(37).take(4)) {
        frame::write(&mut made, 5, number, part);
    }
    made.extend(bytes);
    for bytes in [bytes, &made] {
        let Some((head, found)) = frame::open(bytes) else { continue };
        let mut at = 0;
        for frame in &found.frames {
            let gap = found.damage.iter().find(|damage| damage.start == at && damage.end == frame.from());
            assert!(frame.from() == at || gap.is_some());
            at = frame.content.end;
        }
        assert_eq!(found.torn(bytes.len()), bytes.len() - at);
        assert!(found.prefix <= found.frames.len() && found.frames[found.prefix - 1].content.end == found.len);
        assert_eq!(Head::read(&head.bytes()), Some(head));
        let (_, again) = frame::open(&bytes[..found.len]).unwrap();
        assert!(again.prefix == found.prefix && again.len == found.len && again.damage.is_empty());
    }
});
