//! One buffer's life: the sizes that it grew through, and by which rule.

use crate::slop::Model;
use serde::Serialize;

/// How a buffer grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "GrowthShape"))]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// By about the same number of bytes each time: the sum of all sizes grows with the square of the last one.
    Linear,
    /// By about the same factor: the sum stays a multiple of the last one.
    Exponential,
}

/// Sizes kept of a chain; of a longer one every second, fourth, ... is kept.
const KEPT: usize = 1024;
/// First sizes that are kept of every chain.
const HEAD: usize = 8;
/// Steps that a chain must have to be judged.
pub const LEAST_STEPS: u64 = 5;

/// Sizes of a buffer, strictly ascending. Sums are of all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    first: u64,
    last: u64,
    steps: u64,
    allocated: u64,
    rounded: u64,
    copied: u64,
    model: Model,
    head: Vec<u64>,
    kept: Vec<u64>,
    stride: u64,
}

/// Whether a step of growth left the old place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All bytes were copied.
    Moved,
    /// The block became larger where it was.
    InPlace,
}

impl Chain {
    /// Begins with a block; `model` rounds for [`Self::rounded`].
    pub fn new(size: u64, model: Model) -> Self {
        let (allocated, rounded) = (size, model.usable(size));
        let (head, kept) = (vec![size], vec![size]);
        Self { first: size, last: size, steps: 0, allocated, rounded, copied: 0, model, head, kept, stride: 1 }
    }

    /// The block grows; a size that is not larger than the last one is no growth and is left out.
    pub fn grow(&mut self, size: u64, step: Step) {
        if size <= self.last {
            return;
        }
        if step == Step::Moved {
            self.copied = self.copied.saturating_add(self.last);
        }
        let usable = self.model.usable(size);
        if usable > self.model.usable(self.last) {
            self.rounded = self.rounded.saturating_add(usable);
        }
        self.allocated = self.allocated.saturating_add(size);
        (self.last, self.steps) = (size, self.steps + 1);
        if self.head.len() < HEAD {
            self.head.push(size);
        }
        if self.steps.is_multiple_of(self.stride) {
            self.kept.push(size);
            if self.kept.len() > KEPT {
                let mut index = 0..;
                self.kept.retain(|_| index.next().is_some_and(|index: u64| index.is_multiple_of(2)));
                self.stride *= 2;
            }
        }
    }

    /// The last size: the largest.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Times that it grew.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Sum of all sizes, bytes.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Sum of the blocks that an allocator makes of it, bytes: a growth within a block needs no new one.
    pub fn rounded(&self) -> u64 {
        self.rounded
    }

    /// Bytes that were copied from an old place to a new one.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// The first sizes.
    pub fn head(&self) -> &[u64] {
        &self.head
    }

    /// Sum of all sizes for each byte of the last one: 2 for doubling, 3 for a factor of 1.5.
    pub fn churn(&self) -> f64 {
        self.allocated as f64 / self.last.max(1) as f64
    }

    /// Bytes that doubling would not have allocated.
    pub fn avoidable(&self) -> u64 {
        self.allocated.saturating_sub(self.last.saturating_mul(2))
    }

    /// Calls that doubling would not have made.
    pub fn avoidable_calls(&self) -> u64 {
        let doublings = (self.last as f64 / self.first.max(1) as f64).log2().ceil();
        self.steps.saturating_sub(doublings.max(0.0) as u64)
    }

    /// The rule of its growth: in the upper half of the steps, where most bytes are, do the differences or the ratios
    /// vary less?
    pub fn shape(&self) -> Shape {
        let [differences, ratios] = self.upper();
        // Of ratios, the logarithms: their mean is that of the factors.
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        if variation(&differences) < variation(&logarithms) { Shape::Linear } else { Shape::Exponential }
    }

    /// What a step adds, bytes (linear), or multiplies by (exponential): the median of the upper half.
    pub fn typical(&self) -> f64 {
        let [mut differences, mut ratios] = self.upper();
        match self.shape() {
            Shape::Linear => median(&mut differences) / self.stride as f64,
            Shape::Exponential => median(&mut ratios).powf(1.0 / self.stride as f64),
        }
    }

    /// Differences and ratios of the upper half of the steps.
    fn upper(&self) -> [Vec<f64>; 2] {
        let steps: Vec<&[u64]> = self.kept.windows(2).collect();
        let upper = &steps[steps.len() / 2..];
        let of = |step: fn(f64, f64) -> f64| upper.iter().map(|pair| step(pair[0] as f64, pair[1] as f64)).collect();
        [of(|old, new| new - old), of(|old, new| new / old.max(1.0))]
    }

    /// Whether it grew too slowly, and may be judged.
    pub fn is_bad(&self) -> bool {
        let limit = match self.shape() {
            Shape::Linear => 4.0,
            Shape::Exponential => 6.0,
        };
        self.steps >= LEAST_STEPS && self.churn() >= limit
    }
}

/// Standard deviation by mean.
fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    if mean == 0.0 { 0.0 } else { square.sqrt() / mean }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(sizes: impl IntoIterator<Item = u64>) -> Chain {
        let mut sizes = sizes.into_iter();
        let mut chain = Chain::new(sizes.next().unwrap(), Model::Moz2011);
        sizes.for_each(|size| chain.grow(size, Step::Moved));
        chain
    }

    fn by_factor(first: u64, factor: f64, last: u64) -> Chain {
        chain(
            std::iter::successors(Some(first), |size| Some((*size as f64 * factor).ceil() as u64))
                .take_while(|size| *size <= last),
        )
    }

    const MIB: u64 = 1 << 20;

    /// The three sums of the article on growing buffers.
    #[test]
    fn one_byte_a_page_and_a_doubling_at_a_time() {
        let bytes = chain(1..=MIB);
        assert_eq!(bytes.allocated(), 549_756_338_176);
        let pages = chain((1..=256).map(|pages| pages * 4096));
        assert_eq!((pages.allocated(), pages.rounded()), (134_742_016, 134_742_016));
        // What the allocator of that time makes of single bytes: the pages, and the classes below.
        let small: u64 = Model::Moz2011.classes(4095).sum();
        assert_eq!(bytes.rounded(), 134_742_016 + small);
        let doubling = chain((0..=8).map(|power| 4096 << power));
        assert_eq!(doubling.allocated(), 2_093_056);
        assert_eq!(doubling.avoidable(), 0);
        assert_eq!(pages.copied(), pages.allocated() - MIB);
    }

    #[test]
    fn ten_series_are_told_apart() {
        let mut random = 12345u64;
        let mut increment = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            1 + (random >> 40) % 10_000
        };
        let increments: Vec<u64> = (0..200)
            .scan(1000, |size, _| {
                *size += increment();
                Some(*size)
            })
            .collect();
        let mixed = (0..=6).map(|power| 1024 << power).chain((2..=64).map(|step| step * 65536));
        for (name, chain) in [
            ("+1", chain(1..=MIB)),
            ("+4 KiB", chain((1..=256).map(|pages| pages * 4096))),
            ("+50 KB", chain((1..=20).map(|step| step * 50_000))),
            ("+10 % of the last", chain((1..=10).map(|step| step * 100_000))),
            ("random", chain(increments)),
            ("doubling to 64 KiB, then +64 KiB", chain(mixed)),
        ] {
            assert_eq!(chain.shape(), Shape::Linear, "{name}");
        }
        let list = std::iter::successors(Some(4u64), |len| Some((len + 1 + ((len + 1) >> 3) + 6) & !3));
        for (name, chain, churn) in [
            ("2", by_factor(4096, 2.0, MIB), 2.0),
            ("1.5", by_factor(4096, 1.5, MIB), 3.0),
            ("1.125", by_factor(4096, 1.125, MIB), 9.0),
            ("CPython's list", chain(list.map(|len| 8 * len).take_while(|size| *size <= 4 * MIB)), 9.0),
        ] {
            assert_eq!(chain.shape(), Shape::Exponential, "{name}");
            assert!((chain.churn() - churn).abs() < 0.05 * churn, "{name}: {}", chain.churn());
        }
    }

    #[test]
    fn bad_growth_is_slow_growth() {
        assert!(!by_factor(4096, 2.0, MIB).is_bad());
        assert!(!by_factor(4096, 1.5, MIB).is_bad());
        assert!(by_factor(4096, 1.125, MIB).is_bad());
        let pages = chain((1..=256).map(|pages| pages * 4096));
        assert!(pages.is_bad());
        assert_eq!((pages.churn(), pages.typical(), pages.avoidable_calls()), (128.5, 4096.0, 255 - 8));
        assert!(!chain([8, 16, 24]).is_bad(), "too short to be judged");
    }

    #[test]
    fn long_chains_are_thinned_evenly() {
        let chain = chain(1..=MIB);
        assert!(chain.kept.len() <= KEPT && chain.kept.len() > KEPT / 3);
        let steps: Vec<u64> = chain.kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
        assert_eq!((chain.typical(), chain.steps()), (1.0, MIB - 1));
    }
}
