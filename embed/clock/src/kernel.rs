//! The clocks of Linux: the time stamp counter by the rate that the kernel keeps, and `CLOCK_MONOTONIC_COARSE`.

use crate::counter::{self, Pair, nanoseconds};
use crate::hybrid::{Clock, Rule, Sources};

/// How long the rate of the counter is measured at the beginning (2 ms): reading both clocks takes up to a microsecond.
const BASELINE_NS: u64 = 2_000_000;
const MILLISECOND: i64 = 1_000_000;
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The clocks of this machine.
#[derive(Debug)]
pub struct Kernel {
    /// A moment, and nanoseconds per tick times 2^32; `None`: the kernel does not tell the time by the counter.
    counter: Option<(Pair, u64)>,
    step_ns: u64,
}

impl Kernel {
    /// Asks the kernel which clock it trusts, and measures its rate: takes 2 ms.
    pub fn new() -> Self {
        let source = std::fs::read(SOURCE).unwrap_or_default();
        Self { counter: counter::is_trusted(&source).then(rate).flatten(), step_ns: step() }
    }

    /// Whether the kernel still tells the time by the clock of [`Kernel::new`]: it may find that the counter is not
    /// steady.
    pub fn is_current(&self) -> bool {
        self.counter.is_some() == counter::is_trusted(&std::fs::read(SOURCE).unwrap_or_default())
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock<Kernel> {
    /// The clock of this machine by [`Rule::KERNEL`].
    pub fn of_kernel() -> Self {
        Self::new(Kernel::new(), Rule::KERNEL)
    }
}

impl Sources for Kernel {
    fn high(&self) -> Option<u64> {
        let (from, rate) = self.counter?;
        let ticks = counter::ticks().wrapping_sub(from.ticks).cast_signed();
        let ns = (i128::from(ticks) * i128::from(rate)) >> 32;
        Some(from.monotonic_ns.wrapping_add_signed(ns as i64))
    }

    fn low(&self) -> u64 {
        nanoseconds(libc::CLOCK_MONOTONIC_COARSE)
    }

    fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// In whole milliseconds: nothing is suspended for less, and the two clocks are not read at one moment.
    fn slept_ns(&self) -> i64 {
        let read = || {
            let before = nanoseconds(libc::CLOCK_MONOTONIC);
            let boot = nanoseconds(libc::CLOCK_BOOTTIME);
            let took = nanoseconds(libc::CLOCK_MONOTONIC) - before;
            (took, boot.wrapping_sub(before + took / 2).cast_signed())
        };
        let (_, slept) = [read(), read(), read()].into_iter().min().unwrap_or_default();
        (slept + MILLISECOND / 2).div_euclid(MILLISECOND) * MILLISECOND
    }
}

/// The step of the coarse clock: a tick of the kernel, 1 to 10 ms.
fn step() -> u64 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the step into `step`.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    (step.tv_sec as u64) * 1_000_000_000 + step.tv_nsec as u64
}

/// By two moments that are far enough apart; `None`: the counter does not run.
fn rate() -> Option<(Pair, u64)> {
    let first = counter::pair_of(counter::ticks_fenced);
    let mut second = first;
    while second.monotonic_ns - first.monotonic_ns < BASELINE_NS {
        second = counter::pair_of(counter::ticks_fenced);
    }
    let ticks = second.ticks.checked_sub(first.ticks).filter(|ticks| *ticks > 0)?;
    let ns = u128::from(second.monotonic_ns - first.monotonic_ns);
    Some((second, ((ns << 32) / u128::from(ticks)) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_of_this_machine_tell_the_same_time() {
        let kernel = Kernel::new();
        assert!((1_000_000..=10_000_000).contains(&kernel.step_ns()), "{}", kernel.step_ns());
        assert!(kernel.slept_ns() >= 0);
        let Some(high) = kernel.high() else { return };
        let fine = nanoseconds(libc::CLOCK_MONOTONIC);
        // A rate from 2 ms is right to some 500 parts in a million, a preemption aside.
        assert!(fine >= high || high - fine < 1_000_000, "{high} {fine}");
        assert!(kernel.low() <= nanoseconds(libc::CLOCK_MONOTONIC));
        assert!(kernel.is_current());
    }

    #[test]
    fn an_interval_is_as_long_as_the_kernel_says() {
        let clock = Clock::of_kernel();
        let before = nanoseconds(libc::CLOCK_MONOTONIC);
        let from = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let span = clock.between(from, clock.now());
        let longest = nanoseconds(libc::CLOCK_MONOTONIC) - before;
        assert!(
            span.ns >= 20_000_000 - 8_000_000 && span.ns <= longest + longest / 100 + 8_000_000,
            "{span:?} {longest}"
        );
        assert_eq!(span.slept_ns, 0);
    }
}
