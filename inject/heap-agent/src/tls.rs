//! One word of thread-local memory in the initial-exec model: a load from fs, no call into the loader, no allocation.

#[cfg(not(miri))]
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(not(miri))]
global_asm!(
    ".section .tbss.thaw_heap_lane,\"awT\",@nobits",
    ".balign 8",
    ".globl thaw_heap_lane",
    ".hidden thaw_heap_lane",
    ".type thaw_heap_lane,@object",
    ".size thaw_heap_lane,8",
    "thaw_heap_lane:",
    ".zero 8",
    ".text",
);

/// Where the main thread's stack begins.
pub static MAIN_TOP: AtomicU64 = AtomicU64::new(0);

/// The calling thread's lane, or null.
#[cfg(not(miri))]
#[inline(always)]
pub fn get<T>() -> *mut T {
    let lane;
    // SAFETY: reads the thread's own word.
    unsafe {
        asm!("mov {0}, qword ptr [rip + thaw_heap_lane@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) lane,
             options(nostack, readonly, preserves_flags));
    }
    lane
}

/// Sets it.
#[cfg(not(miri))]
pub fn set<T>(lane: *mut T) {
    // SAFETY: writes the thread's own word.
    unsafe {
        asm!("mov {0}, qword ptr [rip + thaw_heap_lane@GOTTPOFF]", "mov qword ptr fs:[{0}], \
            {1}", out(reg) _, in(reg) lane,
             options(nostack, preserves_flags));
    }
}

/// The highest address of the calling thread's stack. A thread's control block lies above its stack; the main thread's
/// lies below.
#[cfg(not(miri))]
pub fn stack_top() -> u64 {
    let (block, sp): (u64, u64);
    // SAFETY: reads two registers; the first word of the control block is its own address.
    unsafe {
        asm!("mov {0}, qword ptr fs:[0]", "mov {1}, \
            rsp", out(reg) block, out(reg) sp, options(nostack, readonly, preserves_flags));
    }
    if sp < block { block } else { MAIN_TOP.load(Relaxed) }
}

#[cfg(miri)]
pub use crate::kernel::{lane as get, set_lane as set};

#[cfg(miri)]
pub fn stack_top() -> u64 {
    MAIN_TOP.load(Relaxed)
}
