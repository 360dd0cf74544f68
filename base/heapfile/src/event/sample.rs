//! How many blocks a sampled one stands for.
//!
//! The recorder keeps a block of s bytes with probability p = 1 - exp(-s / R), whatever it did before: as if each byte
//! were taken with a chance of 1 / R. So a kept block stands for 1 / p like it (as jemalloc's and Go's heap profiles
//! reckon), and sums are right on average. Counts are whole numbers here: 1 / p is rounded up or down at random, so
//! that the average stays what it is; the same block of the same recording is always rounded alike.

/// Most mean bytes between samples: no block stands for more blocks than this and one.
pub const SAMPLE_MAX: u64 = 1 << 30;

/// The chance that a block was kept.
fn chance(size: u64, rate: u64) -> f64 {
    -(-(size.max(1) as f64) / rate as f64).exp_m1()
}

/// How many blocks a kept one of `size` bytes stands for, at `rate` mean bytes between samples (0: all are kept).
/// `seed` decides about rounding.
pub fn count(size: u64, rate: u64, seed: u64) -> u32 {
    if rate == 0 {
        return 1;
    }
    let weight = 1.0 / chance(size, rate);
    let mut mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let random = (mixed >> 11) as f64 / (1u64 << 53) as f64;
    weight.floor() as u32 + u32::from(random < weight.fract())
}

/// What a kept block of `size` bytes adds to the variance of a sum of bytes: that of the choice (Horvitz and Thompson's
/// estimate for independent choices, (1 - p) / p²) and that of rounding. The square root of the sum is the standard
/// error.
pub fn variance(size: u64, rate: u64) -> f64 {
    if rate == 0 {
        return 0.0;
    }
    let weight = 1.0 / chance(size, rate);
    let size = size as f64;
    size * size * (weight * (weight - 1.0) + weight.fract() * (1.0 - weight.fract()))
}

/// What so many blocks of `size` bytes, of which only some were kept, add to the variance: for sums, which know no
/// single block.
pub fn variance_of(size: u64, rate: u64, blocks: u64) -> f64 {
    if rate == 0 { 0.0 } else { variance(size, rate) * chance(size, rate) * blocks as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_average() {
        for (size, rate) in [(1, 512), (24, 512), (512, 512), (700, 512), (4096, 512), (1 << 20, 512)] {
            let sum: u64 = (0..100_000).map(|seed| u64::from(count(size, rate, seed * 48))).sum();
            let weight = 1.0 / (1.0 - (-(size as f64) / rate as f64).exp());
            assert!((sum as f64 / 100_000.0 - weight).abs() < 0.01, "{size}: {sum} {weight}");
        }
        assert_eq!((count(0, 512, 9), count(7, 0, 1)), (count(1, 512, 9), 1));
        assert_eq!((variance(1 << 20, 0), variance_of(24, 0, 9)), (0.0, 0.0));
        let (one, kept) = (variance(700, 512), 1.0 - (-700.0 / 512.0_f64).exp());
        assert!((variance_of(700, 512, 1000) / (1000.0 * kept * one) - 1.0).abs() < 1e-9);
        assert!(variance(1 << 20, 512) < 1.0 && variance(24, 512) > 24.0 * 24.0 * 400.0);
    }
}
