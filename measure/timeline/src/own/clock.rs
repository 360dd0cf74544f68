//! From ticks of a processor's counter to nanoseconds of the kernel's clock, by moments at which both were read.

use serde::Serialize;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The counter.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`, in nanoseconds: it grows while the machine sleeps.
    pub boot_offset_ns: i64,
}

/// What turns ticks into time.
#[derive(Clone, Debug)]
pub struct Ticks {
    /// By ticks, each further on in time too.
    pairs: Vec<Pair>,
}

/// Pairs nearer to one another than this (1 ms) tell no rate: reading them takes up to a microsecond.
const BASELINE_NS: u64 = 1_000_000;

impl Ticks {
    /// From pairs in any order. One that contradicts those before it (a counter that went back, or a time) is left out.
    pub fn new(mut pairs: Vec<Pair>) -> Self {
        pairs.sort_by_key(|pair| (pair.ticks, pair.monotonic_ns));
        let mut kept: Vec<Pair> = Vec::new();
        for pair in pairs {
            let follows = kept.last().is_none_or(|last| {
                pair.ticks > last.ticks && pair.monotonic_ns >= last.monotonic_ns.saturating_add(BASELINE_NS)
            });
            if follows {
                kept.push(pair);
            }
        }
        Self { pairs: kept }
    }

    /// Whether there is a rate: two moments at least.
    pub fn is_known(&self) -> bool {
        self.pairs.len() > 1
    }

    /// `CLOCK_MONOTONIC` in nanoseconds at this tick, on the line through the two pairs around it, or the nearest two.
    /// Without a rate a tick counts as a nanosecond from the only pair on.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let after = self.pairs.partition_point(|pair| pair.ticks <= ticks);
        let (from, to) = match self.pairs.as_slice() {
            [] => return ticks,
            [only] => (
                *only,
                Pair {
                    ticks: only.ticks.saturating_add(1),
                    monotonic_ns: only.monotonic_ns.saturating_add(1),
                    boot_offset_ns: 0,
                },
            ),
            pairs => {
                let right = after.clamp(1, pairs.len() - 1);
                (pairs[right - 1], pairs[right])
            }
        };
        let rise = i128::from(to.monotonic_ns) - i128::from(from.monotonic_ns);
        let run = i128::from(to.ticks) - i128::from(from.ticks);
        let since = i128::from(ticks) - i128::from(from.ticks);
        let at = (since.saturating_mul(rise) / run.max(1)).saturating_add(from.monotonic_ns.into());
        at.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ticks: u64, monotonic_ns: u64) -> Pair {
        Pair { ticks, monotonic_ns, boot_offset_ns: 0 }
    }

    #[test]
    fn times_lie_on_the_line_between_their_neighbours() {
        // Three ticks a nanosecond first, then two.
        let clock = Ticks::new(vec![pair(9_000_000, 3_000_000), pair(0, 0), pair(13_000_000, 5_000_000)]);
        assert_eq!(clock.nanoseconds(3_000_000), 1_000_000);
        assert_eq!(clock.nanoseconds(11_000_000), 4_000_000);
        assert_eq!(clock.nanoseconds(15_000_000), 6_000_000, "behind the last one by its rate");
    }

    #[test]
    fn what_contradicts_is_left_out() {
        let clock = Ticks::new(vec![pair(0, 0), pair(10, 5_000_000), pair(20, 100), pair(30, 15_000_000)]);
        assert_eq!(clock.pairs, [pair(0, 0), pair(10, 5_000_000), pair(30, 15_000_000)]);
        assert!(!Ticks::new(vec![pair(0, 0), pair(3000, 1000)]).is_known(), "a microsecond is no baseline");
        assert_eq!(Ticks::new(Vec::new()).nanoseconds(7), 7);
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        let clock = Ticks::new(vec![pair(0, 0), pair(1, u64::MAX)]);
        assert_eq!(clock.nanoseconds(u64::MAX), u64::MAX);
    }
}
