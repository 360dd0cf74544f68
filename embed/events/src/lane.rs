//! What a thread writes with: its place in a chunk. A thread that ends says nothing; its lane goes to a later thread, with what is left of its
//! chunk. Wiped in a forked child, which then begins a file of its own.

use crate::clock::now;
use crate::form::THREAD;
use crate::process;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

/// Threads that can write at once.
pub const LANES: usize = 4096;

/// Of one thread alone, and of signals on it, which find it busy.
#[repr(C, align(64))]
pub struct Lane {
    pub next: *mut u64,
    pub end: *mut u64,
    pub chunk: *mut crate::form::Chunk,
    pub tid: u32,
    busy: AtomicU32,
    /// Slots of its chunk that continue a record, or are no event.
    pub continued: u64,
}

/// The lanes of a process.
#[repr(C)]
pub struct Arena {
    /// 0 in a forked child.
    pub alive: AtomicU32,
    lock: AtomicU32,
    lanes: u32,
    hand: u32,
    padding: [u64; 6],
    lane: [Lane; LANES],
}

thread_local! {
    static OWN: Cell<*mut Lane> = const { Cell::new(ptr::null_mut()) };
}

/// This thread's number.
pub fn tid() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Runs `locked` while no other thread runs such; not at all where a signal interrupted this thread in the middle of it.
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

/// Writes a record of `slots` slots, which are `events` events; or counts them as lost.
#[inline]
pub fn with(slots: usize, events: u64, write: impl FnOnce(&mut Lane)) {
    let lane = OWN.try_with(Cell::get).unwrap_or(ptr::null_mut());
    // SAFETY: a lane is written by its thread alone. It lies in an arena that is never unmapped; after a fork it is zeros, and so has no room.
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

impl Lane {
    /// Writes a record of one slot.
    #[inline]
    pub fn put(&mut self, now: u64, phase: u8, object: u64, of: u32) {
        self.put_with(now, phase, object, of, 0);
    }

    /// Writes a record before the `behind` slots that [`Lane::behind`] wrote: its first word says that it is whole, and so comes last.
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
