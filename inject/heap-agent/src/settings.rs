//! What the recorder wants of this process.

use crate::sample::Gap;
use crate::sys;
use crate::text::{self, Text};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use heap_wire::attach::Attach;
use heap_wire::option;

/// Deepest stacks that a lane has room for.
const DEEPEST: u64 = 127;
/// Samples are not further apart.
const FURTHEST: u64 = 1 << 40;

static DEPTH: AtomicUsize = AtomicUsize::new(64);
static OPTIONS: AtomicU32 = AtomicU32::new(0);
static SAMPLE_BYTES: AtomicU64 = AtomicU64::new(0);
/// What random numbers begin with; 0: with the time.
static SEED: AtomicU64 = AtomicU64::new(0);
static AHEAD: AtomicU64 = AtomicU64::new(0);
static ATTACHED: AtomicBool = AtomicBool::new(false);
static LEAKS: AtomicBool = AtomicBool::new(false);

/// Reads `depth=N;frees=1;native=1;leaks=1;sample=BYTES;seed=N;ahead=BYTES;dir=PATH`, the path last. `false`: there is
/// none.
pub fn parse(value: &[u8], directory: &mut Text<{ sys::PATH_MAX }>) -> bool {
    let mut rest = value;
    loop {
        if let Some(path) = rest.strip_prefix(b"dir=") {
            directory.push(path);
            return !path.is_empty();
        }
        let Some(end) = rest.iter().position(|byte| *byte == b';') else { return false };
        let (word, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or(&[]);
        if let Some(digits) = word.strip_prefix(b"depth=") {
            DEPTH.store(text::number(digits).clamp(1, DEEPEST) as usize, Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"sample=") {
            SAMPLE_BYTES.store(text::number(digits).min(FURTHEST), Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"ahead=") {
            AHEAD.store(text::number(digits), Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"seed=") {
            SEED.store(text::number(digits), Relaxed);
        } else if word == b"frees=1" {
            OPTIONS.fetch_or(option::FREE_STACKS, Relaxed);
        } else if word == b"native=1" {
            OPTIONS.fetch_or(option::NATIVE_ONLY, Relaxed);
        } else if word == b"leaks=1" {
            LEAKS.store(true, Relaxed);
        }
    }
}

/// Whether thaw looks at the process's memory when it exits.
pub fn checks_leaks() -> bool {
    LEAKS.load(Relaxed)
}

/// Takes what thaw wrote into a program that was running already.
pub fn take(wanted: &Attach) {
    ATTACHED.store(true, Relaxed);
    DEPTH.store(u64::from(wanted.depth).clamp(1, DEEPEST) as usize, Relaxed);
    OPTIONS.store(wanted.options, Relaxed);
    SAMPLE_BYTES.store(wanted.sample.min(FURTHEST), Relaxed);
    SEED.store(wanted.seed, Relaxed);
    AHEAD.store(wanted.ahead, Relaxed);
}

/// Whether this process, or the one that it was forked from, was running before the recorder came.
pub fn is_attached() -> bool {
    ATTACHED.load(Relaxed)
}

/// Depth limit of stacks.
pub fn depth() -> usize {
    DEPTH.load(Relaxed)
}

/// Bits of [`option`].
pub fn options() -> u32 {
    OPTIONS.load(Relaxed)
}

/// Whether frees are recorded with their stacks.
#[inline(always)]
pub fn free_stacks() -> bool {
    OPTIONS.load(Relaxed) & option::FREE_STACKS != 0
}

/// Whether functions of interpreters are in stacks.
pub fn interpreted() -> bool {
    OPTIONS.load(Relaxed) & option::NATIVE_ONLY == 0
}

/// Mean bytes between recorded blocks; 0: all are recorded.
pub fn sample_bytes() -> u64 {
    SAMPLE_BYTES.load(Relaxed)
}

/// How far streams may be ahead of a thaw that reads them meanwhile, bytes; 0: none does.
pub fn ahead() -> u64 {
    AHEAD.load(Relaxed)
}

/// How a new lane chooses blocks.
pub fn gap(lane: u32) -> Gap {
    let seed = match SEED.load(Relaxed) {
        0 => sys::ticks() ^ u64::from(sys::tid()) << 40,
        seed => seed,
    };
    Gap::new(sample_bytes(), seed.wrapping_add(u64::from(lane) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_comes_last_and_may_hold_anything() {
        let mut directory = Text::new();
        assert!(!checks_leaks() && interpreted());
        assert!(parse(b"depth=32;frees=1;native=1;leaks=1;sample=4096;dir=/a;b=c", &mut directory));
        assert!(checks_leaks() && !interpreted());
        assert_eq!(directory.bytes(), b"/a;b=c");
        assert_eq!((depth(), free_stacks(), sample_bytes()), (32, true, 4096));
        assert!(!parse(b"depth=32", &mut Text::new()));
        assert!(!parse(b"dir=", &mut Text::new()));
    }
}
