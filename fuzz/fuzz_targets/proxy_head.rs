//! Bytes as what a client or an origin sends: read or refused, the same piece by piece as at once; and a head that is
//! read has no bytes that a second reader could take for the end of a line.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The module alone: the proxy's crate would bring all of hyper.
#[allow(dead_code)]
#[path = "../../app/proxy/src/head.rs"]
mod head;

use head::{Chunks, Ends, Framing, Limits, request, response};

const LIMITS: Limits = Limits { bytes: 1 << 14, fields: 64 };

// The first byte: how long the pieces are, and which of the three it is.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let step = usize::from(choice / 4) + 1;
    if choice % 4 == 3 {
        return body(bytes, step);
    }
    let at_once = Ends::default().find(bytes);
    let mut ends = Ends::default();
    let mut pieces = Ok(None);
    for len in (step..bytes.len()).step_by(step).chain([bytes.len()]) {
        pieces = ends.find(&bytes[..len]);
        if !matches!(pieces, Ok(None)) {
            break;
        }
    }
    assert_eq!(pieces, at_once);
    let Ok(Some(end)) = at_once else { return };
    let text = &bytes[..end];
    let read = match choice % 4 {
        0 => request(text, &LIMITS),
        which => response(text, &LIMITS, which == 1),
    };
    let Ok(head) = read else { return };
    let is_clean = |part: &[u8]| !part.iter().any(|byte| b"\r\n\0".contains(byte));
    assert!(is_clean(head.verb) && is_clean(head.target));
    assert!(head.fields.iter().all(|(name, value)| !name.is_empty() && is_clean(name) && is_clean(value)));
    let count = |wanted: &str| head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes())).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    assert!(lengths + codings <= 1);
    if choice % 4 == 0 {
        assert!(count("host") <= 1);
        assert_eq!(head.framing == Framing::Chunked, codings == 1);
        assert!(lengths == 1 || matches!(head.framing, Framing::Chunked | Framing::UntilClose | Framing::Length(0)));
    }
});

fn body(bytes: &[u8], step: usize) {
    let mut whole = Chunks::new(LIMITS.bytes);
    let at_once = whole.feed(bytes);
    let mut chunks = Chunks::new(LIMITS.bytes);
    let mut used = 0;
    for piece in bytes.chunks(step) {
        match chunks.feed(piece) {
            Ok(len) => used += len,
            Err(why) => return assert_eq!(at_once, Err(why)),
        }
        if chunks.done() {
            break;
        }
    }
    assert_eq!((at_once, whole.done()), (Ok(used), chunks.done()));
}
