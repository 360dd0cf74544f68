//! A ring that the kernel writes records into, mapped; and how to empty it.
//!
//! ```text
//!  page 0             data_size bytes, a power of two
//! +-----------------+--------------------------------------+
//! | head 0x400 ...  |  ##### old #####|      free          |
//! | tail 0x408 ...  |  ^ tail & mask  ^ head & mask        |
//! +-----------------+--------------------------------------+
//! ```
//!
//! The kernel writes `head`, we write `tail`; both only grow. Bytes from tail to head are ours until we move `tail`.

use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `data_head` in `struct perf_event_mmap_page`.
const HEAD: usize = 0x400;
/// Where `data_tail` is in the first page.
const TAIL: usize = 0x408;

/// When so much waits in a ring of this size, it is worth reading: rarely enough not to disturb, early enough that
/// three quarters are left for the burst.
pub(super) const fn watermark(size: usize) -> usize {
    size / 4
}

/// The buffer that the kernel writes the records of one CPU to, mapped.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page: usize,
    data_len: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel's side is synchronised by head and tail.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of an event with this many bytes of data, a power of two of pages.
    pub(super) fn map(event: &OwnedFd, data_len: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        assert!(data_len.is_power_of_two() && data_len >= page, "the kernel takes powers of two only");
        // Writable: only then does the kernel keep what we have not read.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), page + data_len, access, MapFlags::SHARED, event, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page, data_len })
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned words inside the first page, which lives as long as `self`; the
        // kernel and we access them as atomic words only.
        unsafe { self.base.add(at).cast().as_ref() }
    }

    /// From where to where what waits is.
    fn waiting(&self) -> (u64, u64) {
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        // Acquire: the records up to the head are written before it.
        (tail, self.position(HEAD).load(Ordering::Acquire))
    }

    /// Whether so much waits that it is worth reading.
    pub(super) fn is_due(&self) -> bool {
        let (tail, head) = self.waiting();
        head.wrapping_sub(tail) >= watermark(self.data_len) as u64
    }

    /// Appends what is in the ring to `log` and frees it.
    pub(super) fn drain(&mut self, log: &mut Vec<u8>) {
        let (tail, head) = self.waiting();
        for piece in pieces(self.data_len, tail, head) {
            // SAFETY: the piece lies inside the data area, and the kernel does not write there before `tail` moves.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.base.add(self.page + piece.start).as_ptr(), piece.len()) };
            log.extend_from_slice(bytes);
        }
        // Release: we have read everything before the kernel may overwrite it.
        self.position(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.page + self.data_len) };
    }
}

/// Where the bytes from tail to head are: one piece, or two if they go over the end.
fn pieces(data_len: usize, tail: u64, head: u64) -> [Range<usize>; 2] {
    let mask = data_len as u64 - 1;
    // More than the ring holds cannot be there; a kernel that says so gets one ring's worth read.
    let len = (head.wrapping_sub(tail) as usize).min(data_len);
    let start = (tail & mask) as usize;
    let first = len.min(data_len - start);
    [start..start + first, 0..len - first]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_that_go_over_the_end_come_in_two_pieces() {
        assert_eq!(pieces(16, 0, 0), [0..0, 0..0]);
        assert_eq!(pieces(16, 4, 12), [4..12, 0..0]);
        assert_eq!(pieces(16, 28, 37), [12..16, 0..5]);
        assert_eq!(pieces(16, 16, 32), [0..16, 0..0]);
    }

    proptest! {
        #[test]
        fn what_is_written_round_the_ring_is_read_in_order(
            start in any::<u64>(),
            writes in proptest::collection::vec(0usize..64, 0..40),
        ) {
            let mut data = [0u8; 64];
            let (mut tail, mut value) = (start, 0u8);
            for len in writes {
                let mut expected = Vec::new();
                for at in 0..len {
                    data[(tail.wrapping_add(at as u64) & 63) as usize] = value;
                    expected.push(value);
                    value = value.wrapping_add(1);
                }
                let head = tail.wrapping_add(len as u64);
                let read: Vec<u8> = pieces(64, tail, head).into_iter().flat_map(|piece| data[piece].to_vec()).collect();
                prop_assert_eq!(read, expected);
                tail = head;
            }
        }
    }
}
