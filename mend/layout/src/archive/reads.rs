//! How many requests it takes to read pieces of a file in an order. Pure.

use model::{Bytes, PAGE};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::Range;

/// The kernel's usual read-ahead.
pub const WINDOW: Bytes = Bytes(128 << 10);

/// What reading costs: how often the kernel asks the disk, and for how much.
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

/// Reads pieces of a mapped file of `len` bytes in this order, as the kernel does (mm/filemap.c, mm/readahead.c): for a
/// page that is not in memory it reads `window` bytes around it, half before and half behind, and marks the last
/// quarter of them; who comes to a marked page makes it read the next `window` bytes behind what is there, marked at
/// their beginning. A page that is in memory costs nothing. What a program asks for in advance (`madvise`) is not in
/// here.
pub fn reads(pieces: &[Range<u64>], len: Bytes, window: Bytes) -> Reads {
    let wanted: HashSet<u64> = pieces.iter().flat_map(|piece| pages(piece, len)).collect();
    let mut cache = Cache { pages: len.0.div_ceil(PAGE), window: (window.0 / PAGE).max(1), ..Cache::default() };
    pieces.iter().flat_map(|piece| pages(piece, len)).for_each(|page| cache.touch(page));
    let is_first = |page: &&u64| page.checked_sub(1).is_none_or(|before| !wanted.contains(&before));
    Reads {
        requests: cache.requests,
        bytes: Bytes(cache.there.len() as u64 * PAGE),
        stretches: wanted.iter().filter(is_first).count() as u64,
        wanted: Bytes(wanted.len() as u64 * PAGE),
    }
}

/// The pages of a piece, as far as the file has them.
fn pages(piece: &Range<u64>, len: Bytes) -> Range<u64> {
    let end = if piece.is_empty() { 0 } else { piece.end.min(len.0).div_ceil(PAGE) };
    piece.start / PAGE..end
}

/// A file's pages in memory.
#[derive(Default)]
struct Cache {
    /// How many the file has.
    pages: u64,
    /// Pages of one request.
    window: u64,
    there: HashSet<u64>,
    marked: HashSet<u64>,
    requests: u64,
}

impl Cache {
    fn touch(&mut self, page: u64) {
        if !self.there.contains(&page) {
            let start = page.saturating_sub(self.window / 2);
            let end = (start + self.window).max(page + 1);
            self.read(start..end, end.saturating_sub(self.window / 4).max(start));
        } else if self.marked.remove(&page) {
            let missing = (page + 1..=page + self.window).find(|next| !self.there.contains(next));
            if let Some(start) = missing.filter(|start| *start < self.pages) {
                self.read(start..start + self.window, start);
            }
        }
    }

    fn read(&mut self, range: Range<u64>, mark: u64) {
        self.requests += 1;
        let fresh: Vec<u64> =
            (range.start..range.end.min(self.pages)).filter(|page| !self.there.contains(page)).collect();
        // Without read-ahead there is nothing to mark; what is there already is not marked anew.
        self.marked.extend(fresh.iter().find(|page| **page >= mark && self.window > 1));
        self.there.extend(fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(piece: Range<u64>, len: Bytes, window: Bytes) -> Reads {
        reads(std::slice::from_ref(&piece), len, window)
    }

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
    fn going_on_in_sequence_is_read_ahead_in_full_windows() {
        let window = 32;
        let len = Bytes(10_000 * PAGE);
        let all = one(100 * PAGE..1100 * PAGE, len, Bytes(window * PAGE));
        // The first window lies half before; the others follow it, and one is read in advance.
        assert_eq!(all.requests, 1 + (1000_u64 - 16).div_ceil(window) + 1);
        assert_eq!(all.bytes, Bytes((16 + 16 + (all.requests - 1) * window) * PAGE));
    }

    #[test]
    fn nothing_lies_behind_the_end_and_without_read_ahead_each_page_is_one() {
        let end = one(0..PAGE * 3, Bytes(PAGE * 2 + 1), Bytes(0));
        assert_eq!((end.requests, end.bytes), (3, Bytes(3 * PAGE)));
        assert_eq!(one(5..5, Bytes(PAGE), WINDOW), Reads::default());
    }
}
