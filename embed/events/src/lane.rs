//! What a thread writes with: its place in a chunk. A thread that ends says nothing; its lane goes to a later thread,
//! with what is left of its chunk. Wiped in a forked child, which then begins a file of its own.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Threads that can write at once.
pub const LANES: usize = 4096;

/// Of one thread alone, and of signals on it, which find it busy.
#[repr(C, align(64))]
pub struct Lane {
    pub next: *mut u64,
    pub end: *mut u64,
    pub chunk: *mut crate::form::Chunk,
    pub tid: u32,
    pub busy: AtomicU32,
    /// Slots of its chunk that continue a record, or are no event.
    pub continued: u64,
}

/// The lanes of a process.
#[repr(C)]
pub struct Arena {
    /// 0 in a forked child.
    pub alive: AtomicU32,
    lock: AtomicU32,
    pub lanes: u32,
    pub hand: u32,
    padding: [u64; 6],
    pub lane: [Lane; LANES],
}

/// This thread's number.
pub fn tid() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Runs `locked` while no other thread runs such; not at all where a signal interrupted this thread in the middle of
/// it.
pub fn exclusively<R>(arena: *mut Arena, locked: impl FnOnce() -> R) -> Option<R> {
    let own = tid();
    // SAFETY: the arena is never unmapped; its lock is atomic.
    let lock = unsafe { &(*arena).lock };
    while let Err(owner) = lock.compare_exchange(0, own, Acquire, Relaxed) {
        if owner == own {
            return None;
        }
        // SAFETY: a plain system call.
        unsafe { libc::sched_yield() };
    }
    let result = locked();
    lock.store(0, Release);
    Some(result)
}

impl Lane {
    /// Writes a record of one slot.
    #[inline]
    pub fn put(&mut self, now: u64, phase: u8, object: u64, of: u32) {
        self.put_with(now, phase, object, of, 0);
    }

    /// Writes a record before the `behind` slots that [`Lane::behind`] wrote: its first word says that it is whole, and
    /// so comes last.
    #[inline]
    pub fn put_with(&mut self, now: u64, phase: u8, object: u64, of: u32, behind: usize) {
        // SAFETY: `with` made room for all its slots in this thread's chunk, which is mapped and aligned.
        unsafe {
            *self.next.add(1) = object << 16 | u64::from(of);
            AtomicU64::from_ptr(self.next).store(now << 8 | u64::from(phase), Release);
            self.next = self.next.add(2 + 2 * behind);
        }
        self.continued += behind as u64;
    }

    /// Writes a slot that continues the record that is put next.
    #[inline]
    pub fn behind(&mut self, number: usize, head: u64, body: u64) {
        // SAFETY: as for `put_with`.
        unsafe {
            *self.next.add(2 + 2 * number) = head;
            *self.next.add(3 + 2 * number) = body;
        }
    }
}
