//! Bytes as what a browser says through its pipe: answers, refusals, events, or an error; no more of them than messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::time::{Duration, Instant};

// The modules alone: they are no part of what the room shows.
#[allow(dead_code)]
#[path = "../../measure/pageload/src/talk.rs"]
mod talk;
#[allow(dead_code)]
#[path = "../../measure/pageload/src/websocket.rs"]
mod websocket;

use talk::{Talk, Trouble, Wire};

fuzz_target!(|bytes: &[u8]| {
    let nothing = || File::options().read(true).write(true).open("/dev/null").unwrap();
    let mut talk = Talk::new(Wire::Pipes { to: nothing(), from: nothing(), buffer: bytes.to_vec() });
    // Nothing more will come, so that nobody waits.
    let until = Instant::now() + Duration::from_secs(3600);
    let messages = bytes.iter().filter(|byte| **byte == 0).count();
    let mut had = 0;
    loop {
        had += match talk.ask(Some("s"), "m", serde_json::Value::Null, until) {
            Ok(_) | Err(Trouble::Refused(_)) => 1,
            Err(Trouble::Gone(_)) => break,
            Err(trouble) => panic!("{trouble:?}"),
        };
    }
    while talk.event("s", "e", until).is_ok() {
        had += 1;
    }
    assert!(had <= messages, "{had} of {messages}");
});
