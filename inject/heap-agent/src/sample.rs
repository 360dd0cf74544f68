//! Sampling by bytes: which blocks are recorded, and which live ones were.
//!
//! Each thread draws how many bytes it is to the next sample, from an exponential distribution; a block is recorded if
//! that many end in it. So a block of s bytes is with probability 1 - exp(-s / R), whatever came before. Frees of other
//! blocks are not recorded: the live ones that are have a bit each in a sparse map of the address space. There is no
//! lock, and memory grows with the pages that sampled blocks lie in.

use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// A bit for every eight bytes of address space, in pages of 2^15 bits, in tables of 2^14 pages, in 2^15 tables: 47
/// bits of addresses.
const WORDS: usize = 512;
const PAGES: usize = 1 << 14;
const TABLES: usize = 1 << 15;

type Page = [AtomicU64; WORDS];
type Table = [AtomicPtr<Page>; PAGES];

static MAP: [AtomicPtr<Table>; TABLES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; TABLES];

/// Whether the map was ever used.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the map has marks where blocks are not chosen.
static MARKS: AtomicBool = AtomicBool::new(false);

/// Where not only some blocks are recorded, the map is free: from now on it has blocks that may begin inside of what
/// their allocator calls a block.
pub fn watch_marks() {
    MARKS.store(true, Relaxed);
}

/// What is behind a pointer; makes it, if it is to be made. Zeroed memory is a valid `T`.
fn behind<T>(place: &AtomicPtr<T>, make: Make) -> Option<&'static T> {
    let at = place.load(Acquire);
    if !at.is_null() {
        // SAFETY: a published part of the map: they stay.
        return Some(unsafe { &*at });
    }
    if make == Make::No {
        return None;
    }
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    let fresh = sys::mmap(size_of::<T>(), sys::PROT_RW, flags, None).ok()?;
    match place.compare_exchange(core::ptr::null_mut(), fresh.cast(), AcqRel, Acquire) {
        // SAFETY: zeros are valid for both parts, and it stays.
        Ok(_) => Some(unsafe { &*fresh.cast::<T>() }),
        Err(other) => {
            // SAFETY: ours is known to nobody; the other one was published.
            unsafe {
                sys::munmap(fresh, size_of::<T>());
                Some(&*other)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    Yes,
    No,
}

/// The word and the bit of a block.
#[inline(always)]
fn place(block: u64, make: Make) -> Option<(&'static AtomicU64, u64)> {
    let bit = block >> 3;
    let table = behind(MAP.get((bit >> 29) as usize)?, make)?;
    let page = behind(table.get((bit >> 15) as usize & (PAGES - 1))?, make)?;
    Some((page.get((bit >> 6) as usize & (WORDS - 1))?, 1 << (bit & 63)))
}

/// The block is live and recorded. `false`: there is no memory to remember that, so it must not be.
pub fn insert(block: u64) -> bool {
    match place(block, Make::Yes) {
        Some((word, bit)) => {
            word.fetch_or(bit, Relaxed);
            if !any() {
                ANY.store(true, Relaxed);
            }
            true
        }
        None => false,
    }
}

/// Whether any block was ever remembered.
#[inline(always)]
pub fn any() -> bool {
    ANY.load(Relaxed)
}

/// The first remembered block in a range.
pub fn first_in(start: u64, bytes: u64) -> Option<u64> {
    if !any() {
        return None;
    }
    // A word has the bits of 512 bytes.
    let (mut at, end) = (start & !7, start.saturating_add(bytes));
    while at < end {
        let next = (at | 511) + 1;
        if let Some((word, bit)) = place(at, Make::No) {
            let from = word.load(Relaxed) & bit.wrapping_neg();
            if from != 0 {
                let found = (at & !511) + 8 * u64::from(from.trailing_zeros());
                return (found < end).then_some(found);
            }
        }
        at = next;
    }
    None
}

/// The block goes; whether it was recorded.
#[inline(always)]
pub fn remove(block: u64) -> bool {
    // Read first: most are not, and a word that is only read is shared by all processors.
    place(block, Make::No)
        .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, Relaxed) & bit != 0)
}

/// What a thread has to go to its next sample.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Gap {
    /// Mean bytes between samples; 0: all blocks are recorded.
    rate: u64,
    /// Whether frees are looked up in the map.
    watches: bool,
    left: i64,
    random: u64,
}

impl Gap {
    /// Of a new thread.
    pub fn new(rate: u64, seed: u64) -> Self {
        let mut gap = Self { rate, watches: rate != 0 || MARKS.load(Relaxed), left: 0, random: seed };
        gap.draw();
        gap
    }

    /// Whether blocks are chosen at all.
    #[inline(always)]
    pub fn samples(&self) -> bool {
        self.rate != 0
    }

    /// Whether frees are looked up in the map: blocks are chosen, or some are marked.
    #[inline(always)]
    pub fn watches(&self) -> bool {
        self.watches
    }

    /// From now on they are.
    pub fn watch(&mut self) {
        self.watches = true;
    }

    /// Whether a block of this size is chosen.
    #[inline(always)]
    pub fn ends_in(&mut self, size: usize) -> bool {
        self.left = self.left.saturating_sub_unsigned(size.max(1) as u64);
        self.left <= 0 && {
            self.draw();
            true
        }
    }

    #[cold]
    #[inline(never)]
    fn draw(&mut self) {
        // splitmix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // In (0, 1]; the next whole byte, so that a gap of up to s ends in s bytes exactly with the chance that is
        // wanted.
        let uniform = ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.left = (-natural_logarithm(uniform) * self.rate as f64) as i64 + 1;
    }
}

/// ln of a positive normal number, good to 1e-9: the series of artanh.
fn natural_logarithm(value: f64) -> f64 {
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let (square, mut power, mut sum, mut odd) = (s * s, s, 0.0, 1.0);
    while odd < 18.0 {
        sum += power / odd;
        power *= square;
        odd += 2.0;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        for value in [1.0, 0.5, 1e-16, 0.999_999, 0.1, 1.0 / 3.0, 0.75] {
            assert!((natural_logarithm(value) - f64::ln(value)).abs() < 1e-8, "{value}");
        }
    }

    #[test]
    fn blocks_are_chosen_by_their_bytes() {
        const BLOCKS: u32 = 400_000;
        for (rate, size) in [(512u64, 16usize), (512, 512), (512, 3000), (100_000, 5000), (1, 1), (10, 0)] {
            let mut gap = Gap::new(rate, 7);
            let chosen = (0..BLOCKS).filter(|_| gap.ends_in(size)).count() as f64;
            let chance = 1.0 - (-(size.max(1) as f64) / rate as f64).exp();
            let (mean, spread) = (chance * f64::from(BLOCKS), (chance * (1.0 - chance) * f64::from(BLOCKS)).sqrt());
            assert!((chosen - mean).abs() <= 5.0 * spread + 1.0, "{size} of {rate}: {chosen} of {mean} ± {spread}");
        }
    }

    #[test]
    fn live_blocks_are_remembered() {
        let blocks = [0x7f00_0000_1000, 0x7f00_0000_1008, 0x5555_0000_0010, (1 << 47) - 8];
        for block in blocks {
            assert!(!remove(block) && insert(block));
        }
        assert_eq!(first_in(0x7f00_0000_0e00, 0x400), Some(0x7f00_0000_1000));
        assert_eq!(first_in(0x7f00_0000_1004, 0x400), Some(0x7f00_0000_1000), "the word that it begins in");
        assert_eq!((first_in(0x7f00_0000_0e00, 0x200), first_in(0x7f00_0000_1010, 64)), (None, None));
        assert!(blocks.into_iter().all(remove) && !blocks.into_iter().any(remove));
        assert!(!insert(1 << 47) && !remove(u64::MAX), "no address of a program");
    }
}
