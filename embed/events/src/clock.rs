//! The time stamp counter where the kernel itself trusts it, else its monotonic clock.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[cfg(target_arch = "x86_64")]
const TSC: u32 = 1;
const MONOTONIC: u32 = 2;

static CLOCK: AtomicU32 = AtomicU32::new(MONOTONIC);

/// Both clocks at one moment.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Pair {
    pub ticks: u64,
    pub monotonic_ns: u64,
    pub boot_offset_ns: i64,
}

pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time into `now`.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// The counter, without waiting for what stands before it.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if CLOCK.load(Relaxed) == TSC {
        // SAFETY: every x86-64 processor has it; the kernel lets programs read it, since it tells the time by it.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// The counter behind everything that stands before it: what another thread handed over was handed over by then.
#[inline]
pub fn now_fenced() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence changes nothing.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    now()
}

/// The clocks side by side; of three tries the shortest.
pub fn pair() -> Pair {
    let mut best = (u64::MAX, Pair::default());
    for _ in 0..3 {
        let before = now_fenced();
        let monotonic_ns = nanoseconds(libc::CLOCK_MONOTONIC);
        let took = now_fenced().wrapping_sub(before);
        if took < best.0 {
            best = (took, Pair { ticks: before + took / 2, monotonic_ns, boot_offset_ns: 0 });
        }
    }
    let boot = nanoseconds(libc::CLOCK_BOOTTIME).wrapping_sub(nanoseconds(libc::CLOCK_MONOTONIC));
    Pair { boot_offset_ns: boot.cast_signed(), ..best.1 }
}

/// Chooses the clock of this process; its number in the file.
pub fn choose(source: &[u8]) -> u32 {
    let chosen = if is_trusted(source) { 1 } else { MONOTONIC };
    CLOCK.store(chosen, Relaxed);
    chosen
}

#[cfg(target_arch = "x86_64")]
fn is_trusted(source: &[u8]) -> bool {
    // Invariant: it runs at one rate whatever the processor does.
    let has = std::arch::x86_64::__cpuid(0x8000_0000).eax >= 0x8000_0007;
    source.starts_with(b"tsc") && has && std::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_trusted(_source: &[u8]) -> bool {
    false
}
