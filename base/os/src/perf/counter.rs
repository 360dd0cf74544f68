//! Numbers that the kernel counts over a process tree.

use super::sys;
use model::{Error, Exit, Result};
use std::io;
use std::os::fd::OwnedFd;

/// What a [`Counter`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// Instructions retired, user mode and kernel.
    Instructions,
    /// CPU cycles, user mode and kernel.
    Cycles,
    /// Nanoseconds on a CPU.
    TaskClock,
    /// Page faults of both kinds, how many.
    PageFaults,
    /// Hits of a tracepoint, by its id.
    Tracepoint(u64),
}

/// A number that the kernel counts over a process and all that it starts.
#[derive(Debug)]
pub struct Counter {
    event: OwnedFd,
}

/// The error of an event that could not be opened.
pub(super) fn refused(what: &str, object: impl ToString, cause: io::Error) -> Error {
    let error = Error::new(Exit::Machine, what, object);
    let hint = match cause.raw_os_error() {
        Some(libc::EMFILE) => "too many files are open: `ulimit -n 65536` and try again",
        Some(libc::ESRCH) => "the process is gone",
        _ => "run thaw as root, or set `sysctl kernel.perf_event_paranoid=-1` and make tracefs readable",
    };
    error.because(cause).hint(hint)
}

impl Counter {
    /// Starts to count on a process (all its threads to come, and all that it starts), from its next exec on.
    /// `Ok(None)`: this machine cannot count that.
    ///
    /// # Errors
    /// Not permitted, or no such process.
    pub fn open(count: Count, pid: u32) -> Result<Option<Self>> {
        let (kind, config) = match count {
            Count::Instructions => (sys::TYPE_HARDWARE, sys::HW_INSTRUCTIONS),
            Count::Cycles => (sys::TYPE_HARDWARE, sys::HW_CPU_CYCLES),
            Count::TaskClock => (sys::TYPE_SOFTWARE, sys::SW_TASK_CLOCK),
            Count::PageFaults => (sys::TYPE_SOFTWARE, sys::SW_PAGE_FAULTS),
            Count::Tracepoint(id) => (sys::TYPE_TRACEPOINT, id),
        };
        // A clock runs in the kernel, too, but only those who say that they do not look there may have it without
        // rights.
        let modest = if count == Count::TaskClock { sys::EXCLUDE_KERNEL | sys::EXCLUDE_HV } else { 0 };
        let attr = sys::Attr {
            kind,
            config,
            read_format: sys::FORMAT_TIME_ENABLED | sys::FORMAT_TIME_RUNNING,
            flags: sys::DISABLED | sys::INHERIT | sys::ENABLE_ON_EXEC | modest,
            ..sys::Attr::default()
        };
        match sys::open(&attr, pid as i32, -1) {
            Ok(event) => Ok(Some(Self { event })),
            Err(cause) => match cause.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => Ok(None),
                _ => Err(refused("cannot count events of process", pid, cause)),
            },
        }
    }

    /// The count so far; includes processes that are gone. Scaled if the kernel had to share the hardware.
    ///
    /// # Errors
    /// The hardware was never free for this count.
    pub fn read(&self) -> Result<u64> {
        let failed = |cause: io::Error| Error::new(Exit::Machine, "cannot read an event counter", "").because(cause);
        let mut numbers = [0; 3];
        sys::read_numbers(&self.event, &mut numbers).map_err(failed)?;
        scale(numbers).ok_or_else(|| failed(io::Error::other("the hardware was never free for it")))
    }
}

/// Count, time enabled, time running: what it would be had it run all the time.
fn scale([count, enabled, running]: [u64; 3]) -> Option<u64> {
    match running {
        _ if running >= enabled => Some(count),
        0 => None,
        _ => Some((u128::from(count) * u128::from(enabled) / u128::from(running)) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_scaled_to_the_whole_time() {
        assert_eq!(scale([100, 10, 10]), Some(100));
        assert_eq!(scale([100, 10, 5]), Some(200));
        assert_eq!(scale([0, 0, 0]), Some(0));
        assert_eq!(scale([0, 10, 0]), None);
        assert_eq!(scale([u64::MAX / 2, 2, 1]), Some(u64::MAX - 1));
    }
}
