//! Bytes as frames of a WebSocket: messages or an error, the same piece by piece as at once, and no more than came.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The module alone: it is no part of what the room shows.
#[allow(dead_code)]
#[path = "../../measure/pageload/src/websocket.rs"]
mod websocket;

use websocket::Frames;

/// The messages, and whether what follows is an error.
fn messages(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<(u8, Vec<u8>)>, bool) {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() {
            frames.fill(&mut piece).unwrap();
        }
        loop {
            match frames.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}

fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let at_once = messages(&mut std::iter::once(bytes));
    assert!(at_once.0.iter().map(|(_, body)| body.len() + 2).sum::<usize>() <= bytes.len());
    assert_eq!(messages(&mut bytes.chunks(usize::from(step) + 1)), at_once);
});
