//! The clock that events are told by.

use model::{Error, Exit, Result};

/// The time stamp counter beside CLOCK_MONOTONIC.
pub(crate) struct Clock {
    pub(crate) ticks: u64,
    ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Result<Self> {
        let ticks = ticks().ok_or_else(|| {
            Error::new(Exit::Machine, "heap recording works on x86-64 only so far", std::env::consts::ARCH)
        })?;
        Ok(Self { ticks, ns: os::spawn::monotonic_ns() })
    }

    /// The counter.
    pub(crate) fn now() -> u64 {
        ticks().unwrap_or(0)
    }

    /// Ticks per second since the start.
    pub(crate) fn rate(&self) -> f64 {
        let ticks = ticks().unwrap_or(self.ticks).saturating_sub(self.ticks);
        let ns = os::spawn::monotonic_ns().saturating_sub(self.ns).max(1);
        ticks as f64 * 1e9 / ns as f64
    }
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
