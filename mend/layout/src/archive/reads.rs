//! How many requests it takes to read pieces of a file in an order. Pure.

use model::{Bytes, PAGE};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::Range;

/// The kernel's usual read-ahead.
pub const WINDOW: Bytes = Bytes(128 << 10);

/// What reading costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reads {
    /// Requests to the disk.
    pub requests: u64,
    /// Bytes that come into memory.
    pub bytes: Bytes,
    /// Stretches of neighbouring pages that hold what is wanted.
    pub stretches: u64,
    /// Bytes of these pages.
    pub wanted: Bytes,
}

/// Reads pieces of a mapped file of `len` bytes in this order. As the kernel does for a fault that finds no page in memory: it reads `window`
/// bytes around it, half before and half behind; a page that is in memory costs nothing. The kernel's further read-ahead while a
/// program goes on in sequence is left out on both sides of a comparison; it makes large requests larger.
pub fn reads(pieces: &[Range<u64>], len: Bytes, window: Bytes) -> Reads {
    let pages = len.0.div_ceil(PAGE);
    let around = (window.0 / PAGE).max(1);
    let mut there: HashSet<u64> = HashSet::new();
    let mut wanted: HashSet<u64> = HashSet::new();
    let mut reads = Reads::default();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        for page in piece.start / PAGE..piece.end.div_ceil(PAGE).min(pages) {
            wanted.insert(page);
            if there.contains(&page) {
                continue;
            }
            reads.requests += 1;
            let start = page.saturating_sub(around / 2);
            there.extend(start..start.saturating_add(around).max(page + 1).min(pages));
        }
    }
    reads.bytes = Bytes(there.len() as u64 * PAGE);
    reads.stretches =
        wanted.iter().filter(|page| page.checked_sub(1).is_none_or(|before| !wanted.contains(&before))).count() as u64;
    reads.wanted = Bytes(wanted.len() as u64 * PAGE);
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pieces_cost_a_request_each_and_neighbours_share_one() {
        let len = Bytes(100 << 20);
        let window = Bytes(32 * PAGE);
        let page = |number: u64| number * PAGE..number * PAGE + 1;
        let scattered = reads(&[page(100), page(5000), page(10_000)], len, window);
        assert_eq!((scattered.requests, scattered.stretches), (3, 3));
        assert_eq!(scattered.bytes, Bytes(3 * 32 * PAGE));
        let together = reads(&[page(100), page(101), page(102)], len, window);
        assert_eq!((together.requests, together.stretches, together.wanted), (1, 1, Bytes(3 * PAGE)));
    }

    #[test]
    fn nothing_lies_behind_the_end_and_without_read_ahead_each_page_is_one() {
        let end = reads(&[0..PAGE * 3], Bytes(PAGE * 2 + 1), Bytes(0));
        assert_eq!((end.requests, end.bytes), (3, Bytes(3 * PAGE)));
        assert_eq!(reads(&[5..5], Bytes(PAGE), WINDOW), Reads::default());
    }
}
