//! How a thread comes to a place in a chunk for its record, and to its lane before that.

use crate::form::THREAD;
use crate::lane::{LANES, Lane, exclusively, tid};
use crate::process;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;
use thaw_clock::counter::now;

thread_local! {
    static OWN: Cell<*mut Lane> = const { Cell::new(ptr::null_mut()) };
}

/// Writes a record of `slots` slots, which are `events` events; or counts them as lost.
#[inline]
pub fn with(slots: usize, events: u64, write: impl FnOnce(&mut Lane)) {
    let lane = OWN.try_with(Cell::get).unwrap_or(ptr::null_mut());
    // SAFETY: a lane is written by its thread alone. It lies in an arena that is never unmapped; after a fork it is
    // zeros, and so has no room.
    let has_room = !lane.is_null() && unsafe { (*lane).busy.load(Relaxed) == 0 && room(lane) >= 16 * slots };
    let lane = if has_room { lane } else { make_room(slots, events) };
    if lane.is_null() {
        return;
    }
    // SAFETY: as above; it is not busy, so no other `write` of this thread has it. `make_room` made room.
    unsafe {
        (*lane).busy.store(1, Relaxed);
        compiler_fence(SeqCst);
        write(&mut *lane);
        compiler_fence(SeqCst);
        (*lane).busy.store(0, Relaxed);
    }
}

/// Bytes that are left in the lane's chunk.
///
/// # Safety
/// `lane` is this thread's.
#[inline]
unsafe fn room(lane: *const Lane) -> usize {
    // SAFETY: see above.
    unsafe { (*lane).end.addr().saturating_sub((*lane).next.addr()) }
}

#[cold]
#[inline(never)]
fn make_room(slots: usize, events: u64) -> *mut Lane {
    if !process::is_open() {
        return ptr::null_mut();
    }
    let lost = || {
        process::lost(events);
        ptr::null_mut()
    };
    let Ok(mut lane) = OWN.try_with(Cell::get) else { return lost() };
    // SAFETY: as in `with`.
    let is_own = unsafe { !lane.is_null() && (*lane).tid != 0 };
    if !is_own {
        lane = claim();
        if lane.is_null() {
            return lost();
        }
        OWN.set(lane);
        // SAFETY: claimed for this thread. What a thread left of its chunk, this one goes on with.
        unsafe {
            if !(*lane).chunk.is_null() && room(lane) >= 16 * (slots + 1) {
                let tid = u64::from((*lane).tid);
                (*lane).put(now(), THREAD, tid, 0);
                (*lane).continued += 1;
                return lane;
            }
        }
    }
    // SAFETY: as in `with`. A busy lane is in the middle of a record that a signal interrupted.
    unsafe {
        if (*lane).busy.load(Relaxed) != 0 {
            return lost();
        }
        (*lane).busy.store(1, Relaxed);
        compiler_fence(SeqCst);
        let filled = 16 * slots <= crate::form::CHUNK - crate::form::CHUNK_HEAD && process::refill(&mut *lane);
        (*lane).busy.store(0, Relaxed);
        if filled { lane } else { lost() }
    }
}

/// A lane for this thread: its own from before, or that of a thread that is gone, or a new one; null: there is none.
fn claim() -> *mut Lane {
    let arena = process::arena();
    let own = tid();
    exclusively(arena, || {
        // SAFETY: what the lock guards. Lanes of living threads are looked at and not written.
        unsafe {
            let mut found = ptr::null_mut();
            let count = (*arena).lanes;
            for _ in 0..if count == 0 { 0 } else { 8 } {
                let lane = (&raw mut (*arena).lane).cast::<Lane>().add(((*arena).hand % count) as usize);
                (*arena).hand = (*arena).hand.wrapping_add(1);
                let tid = (*lane).tid;
                let signal_none = 0;
                if tid == own || libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as libc::pid_t, signal_none) != 0 {
                    found = lane;
                    break;
                }
            }
            if found.is_null() && (count as usize) < LANES {
                found = (&raw mut (*arena).lane).cast::<Lane>().add(count as usize);
                (*arena).lanes += 1;
            }
            if !found.is_null() {
                (*found).tid = own;
                (*found).busy.store(0, Relaxed);
            }
            found
        }
    })
    .unwrap_or(ptr::null_mut())
}
