//! What the tests of the jar share.
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thaw_cookies::{Context, Cookie, Jar, Lookup, Options, header};
use thaw_log::memory::{Memory, Op};

/// A time, in microseconds since 1970.
pub const NOW: u64 = 1_700_000_000_000_000;
pub const HOUR: u64 = 3_600_000_000;

pub fn options() -> Options {
    // Only what is asked for is written, unless a test says otherwise.
    Options { delay: Duration::from_secs(1 << 20), ..Options::new("/test") }
}

pub fn jar(disk: &Arc<Memory>) -> Jar {
    Jar::on(disk.clone(), options()).unwrap()
}

pub fn empty() -> Arc<Memory> {
    Memory::new(HashMap::new())
}

pub fn set(jar: &Jar, text: &str, url: &str, now_us: u64) {
    jar.set(text.as_bytes(), url, now_us, &Context::default()).unwrap();
}

pub fn flush(jar: &Jar) {
    jar.wait_for(jar.flush()).unwrap();
}

/// The header that a URL gets, once its cookies are loaded.
pub fn sent(jar: &Jar, url: &str, now_us: u64) -> String {
    let context = Context::default();
    jar.wait(url, &context).unwrap();
    let Ok(Lookup::Cookies(cookies)) = jar.cookies(url, now_us, &context) else { panic!("{url} is not loaded") };
    String::from_utf8(header(&cookies)).unwrap()
}

/// All cookies, once they are loaded.
pub fn all(jar: &Jar) -> Vec<Cookie> {
    jar.wait_whole();
    jar.all().unwrap()
}

/// What was done to a disk from there on but for reads.
pub fn writes(disk: &Memory, from: usize) -> Vec<Op> {
    disk.lock().ops[from..].iter().filter(|op| !matches!(op, Op::Read { .. })).cloned().collect()
}

/// Whether these bytes are in a file.
pub fn holds(disk: &Memory, text: &str) -> bool {
    disk.lock().files.values().any(|file| file.windows(text.len()).any(|part| part == text.as_bytes()))
}
