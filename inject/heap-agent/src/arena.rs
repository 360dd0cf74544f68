//! Where the lanes of a process are.
//!
//! Their memory is never given back; a lane whose thread has ended is taken over by a new thread. In a forked child the
//! kernel wipes all of them (MADV_WIPEONFORK), so that their gates are shut and the child notices.

use crate::head::List;
use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// All lanes.
pub static LANES: List = List::new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Room for many lanes at once: one mapping and one advice, made before a program locks system calls away. Its first
/// page counts.
static ARENA: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
const LANES_EACH: u64 = 256;

/// Zeroed room for a lane of so many bytes, a multiple of the page size; always the same.
pub fn room(bytes: usize) -> Option<*mut u8> {
    loop {
        let arena = ARENA.load(Acquire);
        if !arena.is_null() {
            // SAFETY: the first page of an arena; the lane is inside of it.
            unsafe {
                let number = (*arena).fetch_add(1, Relaxed);
                if number < LANES_EACH {
                    return Some(arena.cast::<u8>().add(4096 + number as usize * bytes));
                }
            }
        }
        let whole = 4096 + LANES_EACH as usize * bytes;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let fresh = sys::mmap(whole, sys::PROT_RW, flags, None).ok()?;
        let usable = sys::madvise(fresh, whole, sys::MADV_WIPEONFORK).is_ok();
        if !usable || ARENA.compare_exchange(arena, fresh.cast(), AcqRel, Relaxed).is_err() {
            // SAFETY: just mapped, known to nobody.
            unsafe { sys::munmap(fresh, whole) };
        }
        if !usable {
            return None;
        }
    }
}

/// Number of a new lane.
pub fn next_number() -> u32 {
    NUMBER.fetch_add(1, Relaxed)
}

/// No lane is used any more: there is a new stream, and they begin anew.
pub fn forget_all() {
    // The arena stays, in a forked child wiped with its count: a sandbox may allow no new one.
    LANES.clear();
    NUMBER.store(0, Relaxed);
}
