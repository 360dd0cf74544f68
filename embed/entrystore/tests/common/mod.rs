//! Entries and stores of tests; the disk they lie on is `thaw_log::memory`.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

use std::sync::Arc;
use thaw_entrystore::{Blocking, Key, Options, Put, Store};
pub use thaw_log::memory::{Inside, Medium, Memory, Op, Random};

pub fn key(number: u64) -> Key {
    Key::new(b"https://site.example", format!("https://site.example/{number}").as_bytes()).unwrap()
}

/// A body that begins with its version, and of which every part depends on entry, version and place.
pub fn body(number: u64, version: u64, len: usize) -> bytes::Bytes {
    let mut random = Random((number << 32 | version) + 0x9E37_79B9_7F4A_7C15);
    // Of a length that no block of a disk is a multiple of.
    let pattern: Vec<u8> = (0..251).map(|_| random.below(256) as u8).collect();
    let mut out = Vec::with_capacity(len + 260);
    out.extend(version.to_le_bytes());
    while out.len() < len {
        out.extend_from_slice(&pattern);
    }
    out.truncate(len);
    out.into()
}

pub fn open(disk: &Arc<Memory>) -> Blocking {
    open_with(disk, |_| {})
}

pub fn open_with(disk: &Arc<Memory>, set: impl FnOnce(&mut Options)) -> Blocking {
    let mut options = Options::on(disk.clone());
    // What a test does not ask for does not come in between.
    options.commit = std::time::Duration::from_secs(100_000);
    options.snapshot = options.commit;
    options.memory = 0;
    set(&mut options);
    Blocking::new(Store::open(options).unwrap())
}

pub fn plain() -> Put {
    Put { meta: "meta".into(), ..Put::default() }
}
