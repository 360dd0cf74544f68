//! Both clocks of this machine now: with a file's first moment they tell the rate of the counter, also of a program
//! that was killed.

use super::clock::Pair;
use rustix::time::{ClockId, clock_gettime};

/// The kernel's `boot_id` without dashes, and both clocks. Where events are in nanoseconds, the counter is not asked.
///
/// # Errors
/// The kernel does not tell its `boot_id`.
pub fn now() -> std::io::Result<(String, Pair)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let nanoseconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    };
    let monotonic_ns = nanoseconds(ClockId::Monotonic);
    let boot_offset_ns = nanoseconds(ClockId::Boottime).cast_signed() - monotonic_ns.cast_signed();
    Ok((boot.trim().replace('-', ""), Pair { ticks: ticks(), monotonic_ns, boot_offset_ns }))
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and Linux lets programs read it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}
