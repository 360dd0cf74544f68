//! The clock that events are told by.

use model::{Error, Exit, Result};
use std::time::Duration;

/// The time stamp counter beside CLOCK_MONOTONIC.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) ticks: u64,
    ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Result<Self> {
        let (ticks, ns) = both().ok_or_else(|| {
            Error::new(Exit::Machine, "heap recording works on x86-64 only so far", std::env::consts::ARCH)
        })?;
        Ok(Self { ticks, ns })
    }

    /// The counter.
    pub(crate) fn now() -> u64 {
        ticks().unwrap_or(0)
    }

    /// What the counter was so long ago.
    pub(crate) fn before(&self, time: Duration) -> u64 {
        Self::now().saturating_sub((time.as_secs_f64() * self.rate()) as u64)
    }

    /// Ticks per second since the start.
    pub(crate) fn rate(&self) -> f64 {
        let (ticks, ns) = both().unwrap_or((self.ticks, self.ns));
        ticks.saturating_sub(self.ticks) as f64 * 1e9 / ns.saturating_sub(self.ns).max(1) as f64
    }
}

/// Both clocks at one moment: of some looks at them the quickest, in which nothing came between. What is finished while
/// the program runs counts with a rate that was measured over milliseconds.
fn both() -> Option<(u64, u64)> {
    let look = || {
        let (ticks_before, ns) = (ticks()?, os::spawn::monotonic_ns());
        Some((ticks()?.saturating_sub(ticks_before), ticks_before, ns))
    };
    (0..4).filter_map(|_| look()).min().map(|(_, ticks, ns)| (ticks, ns))
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}
