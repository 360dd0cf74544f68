//! How much may be read without taking memory from others: nothing while they wait for memory, else half of what is
//! free.

use model::Bytes;
use serde::Serialize;
use std::fmt;

/// Share of the last ten seconds in which somebody waited for memory, above which nothing is read.
const STALLED: f64 = 0.10;

/// Why not everything was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Short {
    /// Processes wait for memory.
    Stalled {
        /// Share of the last ten seconds.
        share: f64,
    },
    /// There is not enough memory for all of it.
    Memory {
        /// What could be had.
        available: Bytes,
    },
}

impl fmt::Display for Short {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled { share } => {
                write!(out, "programs waited for memory for {:.0} % of the last ten seconds", share * 100.0)
            }
            Self::Memory { available } => write!(out, "only {available} of memory are available"),
        }
    }
}

/// Whether processes wait for memory now.
pub(crate) fn is_stalled() -> bool {
    text("/proc/pressure/memory").is_some_and(|text| stalled(&text).is_some_and(|share| share > STALLED))
}

/// What may be read, and why that is less than everything. A kernel that does not tell sets no limit.
pub(crate) fn budget(wanted: Bytes) -> (Bytes, Option<Short>) {
    let stalled = text("/proc/pressure/memory").and_then(|text| stalled(&text));
    decide(wanted, stalled, text("/proc/meminfo").and_then(|text| available(&text)))
}

fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn decide(wanted: Bytes, stalled: Option<f64>, available: Option<Bytes>) -> (Bytes, Option<Short>) {
    if let Some(share) = stalled.filter(|share| *share > STALLED) {
        return (Bytes(0), Some(Short::Stalled { share }));
    }
    match available {
        Some(available) if available.0 / 2 < wanted.0 => (Bytes(available.0 / 2), Some(Short::Memory { available })),
        _ => (wanted, None),
    }
}

/// `some avg10=1.23 avg60=…`, in percent, as a share.
fn stalled(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()?;
    Some(percent / 100.0)
}

/// `MemAvailable:   123 kB`
fn available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn the_kernel_is_understood() {
        let pressure =
            "some avg10=12.50 avg60=0.23 avg300=0.18 total=4445056\nfull avg10=1.00 avg60=0 avg300=0 total=1\n";
        assert_eq!(stalled(pressure), Some(0.125));
        assert_eq!(available("MemTotal:  5 kB\nMemAvailable:   1000 kB\n"), Some(Bytes(1_024_000)));
        assert_eq!((stalled(""), available("MemAvailable: many")), (None, None));
        let here = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert!(available(&here).is_some_and(|bytes| bytes.0 > MB), "{here}");
    }

    #[test]
    fn half_of_what_is_there_may_be_taken() {
        let wanted = Bytes(100 * MB);
        assert_eq!(decide(wanted, Some(0.05), Some(Bytes(200 * MB))), (wanted, None));
        let available = Bytes(60 * MB);
        assert_eq!(decide(wanted, None, Some(available)), (Bytes(30 * MB), Some(Short::Memory { available })));
        assert_eq!(decide(wanted, None, None), (wanted, None));
    }

    #[test]
    fn nothing_is_read_while_others_wait_for_memory() {
        let (bytes, short) = decide(Bytes(1), Some(0.11), Some(Bytes(200 * MB)));
        assert_eq!((bytes, short), (Bytes(0), Some(Short::Stalled { share: 0.11 })));
    }
}
