//! Two clocks, one fine and one that can be trusted, and the rule that decides between them. Pure: what the clocks say
//! comes from [`Sources`].

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Where the times come from; all in nanoseconds.
pub trait Sources {
    /// The fine clock; `None`: there is none that the kernel trusts.
    fn high(&self) -> Option<u64>;
    /// The clock that can be trusted; it stands while the machine is suspended.
    fn low(&self) -> u64;
    /// Its step.
    fn step_ns(&self) -> u64;
    /// How long the machine has been suspended since it was started. May cost more than the others.
    fn slept_ns(&self) -> i64;
}

/// When the fine clock is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// By so many steps of the other clock they may differ over any interval.
    pub steps: u64,
    /// Beyond those: by so many parts in a million of the interval.
    pub parts_per_million: u64,
    /// A fine clock that breaks this within an interval shorter than this, in nanoseconds, is not believed any more.
    pub short_ns: u64,
}

impl Rule {
    /// For a counter that nobody has calibrated: 2 steps, 50 ms in each second, 2 s.
    pub const SEED: Self = Self { steps: 2, parts_per_million: 50_000, short_ns: 2_000_000_000 };
    /// For a counter whose rate the kernel keeps: as clocks that are slewed at most run fast.
    pub const KERNEL: Self = Self { parts_per_million: 500, ..Self::SEED };
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    high_ns: Option<u64>,
    low_ns: u64,
    slept_ns: i64,
}

impl Stamp {
    /// The moment on the clock that can be trusted, in nanoseconds of `CLOCK_MONOTONIC`, no finer than its step.
    pub fn low_ns(self) -> u64 {
        self.low_ns
    }
}

/// Which clock told how long something took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The fine one.
    High,
    /// The one that can be trusted.
    Low,
}

/// How long it was from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Nanoseconds that the machine was awake; never negative.
    pub ns: u64,
    /// Nanoseconds that it was suspended.
    pub slept_ns: u64,
    /// Which clock says so: one of [`By::Low`] is right to a step of that clock.
    pub by: By,
}

/// Pauses longer than this have the time of suspension asked anew (1 s).
const PAUSE_NS: u64 = 1_000_000_000;

/// A clock of a process; threads share it.
#[derive(Debug)]
pub struct Clock<S> {
    sources: S,
    rule: Rule,
    is_distrusted: AtomicBool,
    /// Of the last stamp: the fine clock less the other one, the latter, and the time of suspension.
    apart_ns: AtomicI64,
    last_ns: AtomicU64,
    slept_ns: AtomicI64,
}

impl<S: Sources> Clock<S> {
    /// On these sources, by this rule.
    pub fn new(sources: S, rule: Rule) -> Self {
        let slept_ns = AtomicI64::new(sources.slept_ns());
        let (high, low) = (sources.high(), sources.low());
        let apart_ns = AtomicI64::new(high.map_or(0, |high| apart(high, low)));
        Self { sources, rule, is_distrusted: AtomicBool::new(false), apart_ns, last_ns: AtomicU64::new(low), slept_ns }
    }

    /// This moment, on both clocks.
    pub fn now(&self) -> Stamp {
        let high_ns = if self.is_distrusted.load(Relaxed) { None } else { self.sources.high() };
        let low_ns = self.sources.low();
        Stamp { high_ns, low_ns, slept_ns: self.slept(high_ns, low_ns) }
    }

    /// This moment, on the clock that can be trusted alone: for timeouts and what else needs no more than its step.
    pub fn now_lo_res(&self) -> Stamp {
        let low_ns = self.sources.low();
        Stamp { high_ns: None, low_ns, slept_ns: self.slept(None, low_ns) }
    }

    /// Whether the fine clock is still believed.
    pub fn is_fine(&self) -> bool {
        !self.is_distrusted.load(Relaxed) && self.sources.high().is_some()
    }

    /// Asks for the time of suspension only where it may have changed: a suspend is a pause, or lets the clocks drift
    /// apart.
    fn slept(&self, high_ns: Option<u64>, low_ns: u64) -> i64 {
        let before = self.last_ns.swap(low_ns, Relaxed);
        let jumped = high_ns.is_some_and(|high| {
            let now = apart(high, low_ns);
            let was = self.apart_ns.swap(now, Relaxed);
            now.abs_diff(was) > self.rule.steps * self.sources.step_ns()
        });
        if jumped || low_ns.abs_diff(before) > PAUSE_NS {
            self.slept_ns.store(self.sources.slept_ns(), Relaxed);
        }
        self.slept_ns.load(Relaxed)
    }

    /// How long it was from one moment to a later one; 0 if it is not later. May find that the fine clock misbehaves:
    /// it is not believed from then on.
    pub fn between(&self, from: Stamp, to: Stamp) -> Span {
        let slept_ns = u64::try_from(to.slept_ns.saturating_sub(from.slept_ns)).unwrap_or(0);
        let low = to.low_ns.saturating_sub(from.low_ns);
        let by_low = Span { ns: low, slept_ns, by: By::Low };
        let (Some(began), Some(ended)) = (from.high_ns, to.high_ns) else { return by_low };
        let jitter = apart(ended, to.low_ns).abs_diff(apart(began, from.low_ns));
        let beyond = jitter.saturating_sub(self.rule.steps * self.sources.step_ns());
        let allowed = u128::from(low) * u128::from(self.rule.parts_per_million) / 1_000_000;
        if u128::from(beyond) <= allowed {
            // A counter that went past its last number goes on from 0.
            let ns = u64::try_from(ended.wrapping_sub(began).cast_signed()).unwrap_or(0);
            return Span { ns, by: By::High, ..by_low };
        }
        // A sleep that the fine clock counted, or missed, is no fault of it.
        if low < self.rule.short_ns && slept_ns == 0 {
            self.is_distrusted.store(true, Relaxed);
        }
        by_low
    }
}

/// The fine clock less the other one.
fn apart(high_ns: u64, low_ns: u64) -> i64 {
    high_ns.wrapping_sub(low_ns).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const MS: u64 = 1_000_000;

    /// A machine whose clocks say what a test wants.
    #[derive(Default)]
    struct Made {
        high: Cell<Option<u64>>,
        low: Cell<u64>,
        slept: Cell<i64>,
        asked: Cell<u32>,
        step: u64,
    }

    impl Sources for &Made {
        fn high(&self) -> Option<u64> {
            self.high.get()
        }
        fn low(&self) -> u64 {
            self.low.get()
        }
        fn step_ns(&self) -> u64 {
            self.step
        }
        fn slept_ns(&self) -> i64 {
            self.asked.set(self.asked.get() + 1);
            self.slept.get()
        }
    }

    /// What comes of an interval of these lengths on both clocks, with a step of 15.6 ms; and whether the fine clock is
    /// believed afterwards.
    fn interval(rule: Rule, high_ms: i64, low_ms: u64, slept_ms: u64) -> (u64, By, bool) {
        let made = Made { step: 15_600_000, ..Made::default() };
        let begin = 10_000 * MS;
        made.high.set(Some(begin));
        made.low.set(begin);
        let clock = Clock::new(&made, rule);
        let from = clock.now();
        made.high.set(Some(begin.wrapping_add_signed(high_ms * MS.cast_signed())));
        made.low.set(begin + low_ms * MS);
        made.slept.set((slept_ms * MS).cast_signed());
        let span = clock.between(from, clock.now());
        assert_eq!(span.slept_ns, slept_ms * MS);
        (span.ns / MS, span.by, clock.is_fine())
    }

    #[test]
    fn the_seeds_numbers() {
        use By::{High, Low};
        for (high, low, expected) in [
            // Within two steps, 31.2 ms, whatever the interval.
            (40, 31, (40, High, true)),
            (31, 0, (31, High, true)),
            // 50 ms in a second beyond those.
            (1081, 1000, (1081, High, true)),
            (1082, 1000, (1000, Low, false)),
            (10_531, 10_000, (10_531, High, true)),
            // Too long to blame the fine clock: it may have been slowed down rightly.
            (10_532, 10_000, (10_000, Low, true)),
            (2_132, 2_000, (2_000, Low, true)),
            (2_131, 1_999, (1_999, Low, false)),
            // Jumps, and a counter that begins again.
            (110, 10, (10, Low, false)),
            (-90, 10, (10, Low, false)),
            (-5_000, 5_000, (5_000, Low, true)),
            (0, 100, (100, Low, false)),
        ] {
            assert_eq!(interval(Rule::SEED, high, low, 0), expected, "{high} ms and {low} ms");
        }
    }

    #[test]
    fn a_counter_that_the_kernel_keeps_is_held_to_more() {
        assert_eq!(interval(Rule::SEED, 104_000, 100_000, 0).1, By::High, "4 % too fast");
        assert_eq!(interval(Rule::KERNEL, 104_000, 100_000, 0).1, By::Low);
        assert_eq!(interval(Rule::KERNEL, 100_080, 100_000, 0).1, By::High, "31.2 ms, and 500 parts in a million");
        assert_eq!(interval(Rule::KERNEL, 100_082, 100_000, 0).1, By::Low);
    }

    #[test]
    fn a_suspend_is_seen_and_does_not_cost_the_fine_clock_its_credit() {
        // The counter went on; the trusted clock stood.
        assert_eq!(interval(Rule::KERNEL, 3_600_010, 10, 3_600_000), (10, By::Low, true));
        // Both stood.
        assert_eq!(interval(Rule::KERNEL, 1_500, 1_500, 3_600_000), (1_500, By::High, true));
    }

    #[test]
    fn the_time_of_suspension_is_not_asked_for_each_stamp() {
        let made = Made { step: 4 * MS, ..Made::default() };
        made.high.set(Some(0));
        let clock = Clock::new(&made, Rule::KERNEL);
        let asked = made.asked.get();
        for at in 0..1000 {
            made.high.set(Some(at * MS));
            made.low.set(at * MS);
            clock.now();
        }
        assert_eq!(made.asked.get(), asked);
    }

    #[test]
    fn what_is_not_fine_is_coarse() {
        let made = Made { step: 4 * MS, ..Made::default() };
        let clock = Clock::new(&made, Rule::KERNEL);
        let from = clock.now();
        made.low.set(8 * MS);
        assert_eq!(clock.between(from, clock.now()), Span { ns: 8 * MS, slept_ns: 0, by: By::Low });
        made.high.set(Some(1));
        let fine = clock.now();
        assert_eq!(clock.between(clock.now_lo_res(), fine).by, By::Low, "one of them has no fine time");
    }

    #[test]
    fn a_fine_clock_goes_past_its_last_number() {
        let made = Made { step: 4 * MS, ..Made::default() };
        made.high.set(Some(u64::MAX - MS));
        let clock = Clock::new(&made, Rule::KERNEL);
        let from = clock.now();
        made.high.set(Some(9 * MS - 1));
        made.low.set(10 * MS);
        let to = clock.now();
        assert_eq!(clock.between(from, to), Span { ns: 10 * MS, slept_ns: 0, by: By::High });
        // Within its steps it may be behind: that is no time at all, and no long one.
        made.high.set(Some(9 * MS - 2));
        assert_eq!(clock.between(to, clock.now()), Span { ns: 0, slept_ns: 0, by: By::High });
    }

    proptest! {
        #[test]
        fn a_span_is_never_negative_and_never_further_from_the_truth_than_the_rule_allows(
            highs in proptest::collection::vec(any::<u64>(), 2..20),
            lows in proptest::collection::vec(0_u64..1 << 62, 2..20),
        ) {
            let made = Made { step: 4 * MS, ..Made::default() };
            let clock = Clock::new(&made, Rule::KERNEL);
            let mut before = clock.now();
            for (high, low) in highs.iter().zip(&lows) {
                made.high.set(Some(*high));
                made.low.set(*low);
                let now = clock.now();
                let span = clock.between(before, now);
                let truth = now.low_ns.saturating_sub(before.low_ns);
                let allowed = 8 * MS + truth / 2000 + 1;
                prop_assert!(span.by == By::Low || span.ns.abs_diff(truth) <= allowed || before.low_ns > now.low_ns);
                before = now;
            }
        }
    }
}
