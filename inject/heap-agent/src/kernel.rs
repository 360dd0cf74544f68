//! The few system calls that lanes need, as Miri can follow them: memory, and threads that come and go. Files are
//! memory that is never read.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

static GONE: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU32 = AtomicU32::new(100);
static TICKS: AtomicU64 = AtomicU64::new(1);

/// A thread's number, which its end makes known.
struct Tid(u32);

impl Drop for Tid {
    fn drop(&mut self) {
        GONE.lock().unwrap().insert(self.0 as usize);
    }
}

std::thread_local! {
    static TID: Tid = Tid(NEXT.fetch_add(1, Relaxed));
    static LANE: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
}

pub fn call(number: usize, a: [usize; 6]) -> Result<usize, u32> {
    const ESRCH: u32 = 3;
    const MMAP: usize = 9;
    const GETPID: usize = 39;
    const GETTID: usize = 186;
    const TGKILL: usize = 234;
    match number {
        MMAP => {
            let layout = Layout::from_size_align(a[1], 4096).unwrap();
            // SAFETY: no mapping is empty.
            Ok(unsafe { alloc_zeroed(layout) }.expose_provenance())
        }
        GETPID => Ok(1),
        GETTID => Ok(TID.with(|tid| tid.0 as usize)),
        TGKILL if GONE.lock().unwrap().contains(&a[1]) => Err(ESRCH),
        _ => Ok(0),
    }
}

pub fn ticks() -> u64 {
    TICKS.fetch_add(1, Relaxed)
}

pub fn lane<T>() -> *mut T {
    LANE.with(|lane| lane.get().cast())
}

pub fn set_lane<T>(lane: *mut T) {
    LANE.with(|place| place.set(lane.cast()));
}
