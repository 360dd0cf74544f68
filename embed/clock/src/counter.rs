//! The time stamp counter where the kernel itself trusts it, else its monotonic clock: what events are stamped with.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[cfg(target_arch = "x86_64")]
const TSC: u32 = 1;
const MONOTONIC: u32 = 2;

static CLOCK: AtomicU32 = AtomicU32::new(MONOTONIC);

/// Both clocks at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The counter, or the kernel's clock where that is what is read.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_BOOTTIME` less that, in nanoseconds: how long the machine was suspended.
    pub boot_offset_ns: i64,
}

/// A clock of the kernel, in nanoseconds.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time into `now`.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// The processor's counter, whether it is trusted or not; 0 where there is none.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it, and Linux lets programs read it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The same behind everything that stands before it.
#[inline]
pub fn ticks_fenced() -> u64 {
    fence();
    ticks()
}

#[inline]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence changes nothing.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
}

/// The counter where [`choose`] chose it, without waiting for what stands before it; else `CLOCK_MONOTONIC`.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if CLOCK.load(Relaxed) == TSC {
        return ticks();
    }
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// The same behind everything that stands before it: what another thread handed over was handed over by then.
#[inline]
pub fn now_fenced() -> u64 {
    fence();
    now()
}

/// What [`now`] reads and the kernel's clocks, side by side.
pub fn pair() -> Pair {
    pair_of(now_fenced)
}

/// The clocks side by side; of three tries the shortest.
pub fn pair_of(read: impl Fn() -> u64) -> Pair {
    let mut best = (u64::MAX, Pair::default());
    for _ in 0..3 {
        let before = read();
        let monotonic_ns = nanoseconds(libc::CLOCK_MONOTONIC);
        let took = read().wrapping_sub(before);
        if took < best.0 {
            best = (took, Pair { ticks: before + took / 2, monotonic_ns, boot_offset_ns: 0 });
        }
    }
    let boot = nanoseconds(libc::CLOCK_BOOTTIME).wrapping_sub(nanoseconds(libc::CLOCK_MONOTONIC));
    Pair { boot_offset_ns: boot.cast_signed(), ..best.1 }
}

/// Chooses the clock of this process by the name of the kernel's clock source. 1: the counter; 2: `CLOCK_MONOTONIC`.
pub fn choose(source: &[u8]) -> u32 {
    let chosen = if is_trusted(source) { 1 } else { MONOTONIC };
    CLOCK.store(chosen, Relaxed);
    chosen
}

/// Whether the counter runs at one rate, and the kernel, whose clock source has this name, tells the time by it.
#[cfg(target_arch = "x86_64")]
pub fn is_trusted(source: &[u8]) -> bool {
    // Invariant: it runs at one rate whatever the processor does.
    let has = std::arch::x86_64::__cpuid(0x8000_0000).eax >= 0x8000_0007;
    source.starts_with(b"tsc") && has && std::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Not on this machine: it has no counter that we read.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_trusted(_source: &[u8]) -> bool {
    false
}
