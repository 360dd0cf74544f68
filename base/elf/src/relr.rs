//! The packed form of relative relocations (DT_RELR, SHT_RELR): addresses to words and back.
//!
//! An even word is an address to relocate. An odd word is a bitmap: bit `n` (from 1) stands for the `n`-th word after
//! those that the words before covered; 63 of them with eight-byte words, 31 with four-byte words. Source: the gABI's
//! chapter on relocation. Not for the words that the addresses hold: the addend of a relocation lies in place.

use crate::Miss;

/// How wide a word of the table, and a relocated word, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// 32-bit files.
    Four,
    /// 64-bit files.
    Eight,
}

impl Word {
    /// In bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// How many words one bitmap covers.
    const fn reach(self) -> u64 {
        self.bytes() * 8 - 1
    }

    /// The highest address.
    const fn top(self) -> u64 {
        match self {
            Self::Four => u32::MAX as u64,
            Self::Eight => u64::MAX,
        }
    }
}

/// The table for these addresses.
///
/// # Panics
/// The addresses are not strictly rising, or one is odd or does not fit the word: the format has no place for it.
pub fn encode(addresses: &[u64], word: Word) -> Vec<u64> {
    let (step, reach) = (word.bytes(), word.reach());
    let mut words = Vec::new();
    let mut rest = addresses;
    while let [first, after @ ..] = rest {
        assert!(first % 2 == 0 && *first <= word.top(), "{first:#x} has no place in a RELR table");
        words.push(*first);
        rest = after;
        let mut last = *first;
        let mut base = first.wrapping_add(step);
        loop {
            let mut bits = 0;
            while let [next, after @ ..] = rest {
                assert!(*next > last && *next <= word.top(), "{next:#x} after {last:#x} has no place in a RELR table");
                // Too near (an overlap), off the grid, or beyond the bitmap: these begin anew.
                let Some(distance) = next.checked_sub(base) else { break };
                if distance % step != 0 || distance / step >= reach {
                    break;
                }
                bits |= 1 << (distance / step);
                last = *next;
                rest = after;
            }
            if bits == 0 {
                break;
            }
            words.push(bits << 1 | 1);
            base = base.wrapping_add(reach * step);
        }
    }
    words
}

/// The addresses that a table stands for, in its order.
///
/// Memory is 63 times that of the table at worst; [`addresses`] needs none.
///
/// # Errors
/// See [`addresses`].
pub fn decode(words: &[u64], word: Word) -> Result<Vec<u64>, Miss> {
    addresses(words.iter().copied(), word).collect()
}

/// The addresses that a table stands for, one by one. Ends after the first error.
///
/// Errors: a bitmap before any address, an address beyond the end of the address space.
pub fn addresses<I: IntoIterator<Item = u64>>(words: I, word: Word) -> Addresses<I::IntoIter> {
    Addresses { words: words.into_iter(), word, place: Place::Unknown, bits: 0, base: 0 }
}

/// See [`addresses`].
#[derive(Clone, Debug)]
pub struct Addresses<I> {
    words: I,
    word: Word,
    /// Where the next bitmap begins.
    place: Place,
    /// What is left of the current bitmap, and the address of its lowest bit.
    bits: u64,
    base: u64,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// No address came yet.
    Unknown,
    At(u64),
    /// The address space is used up; only empty bitmaps may follow.
    Beyond,
    /// An error was returned.
    Ended,
}

impl<I: Iterator<Item = u64>> Iterator for Addresses<I> {
    type Item = Result<u64, Miss>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bits == 0 {
            if let Place::Ended = self.place {
                return None;
            }
            let entry = self.words.next()?;
            if entry > self.word.top() {
                return Some(Err(self.end("an entry of a RELR table is too large")));
            }
            if entry % 2 == 0 {
                self.place = self.after(entry, 1);
                return Some(Ok(entry));
            }
            match self.place {
                // Linkers fill up with empty bitmaps.
                _ if entry == 1 => self.place = self.next_bitmap(),
                Place::At(base) => {
                    (self.bits, self.base) = (entry >> 1, base);
                    self.place = self.next_bitmap();
                }
                Place::Unknown => return Some(Err(self.end("a RELR table begins with a bitmap"))),
                Place::Beyond | Place::Ended => return Some(Err(self.end("a RELR table leaves the address space"))),
            }
        }
        let index = u64::from(self.bits.trailing_zeros());
        self.bits &= self.bits - 1;
        match self.after(self.base, index) {
            Place::At(address) => Some(Ok(address)),
            _ => Some(Err(self.end("a RELR table leaves the address space"))),
        }
    }
}

impl<I> Addresses<I> {
    fn after(&self, address: u64, words: u64) -> Place {
        match address.checked_add(words * self.word.bytes()).filter(|address| *address <= self.word.top()) {
            Some(address) => Place::At(address),
            None => Place::Beyond,
        }
    }

    /// Where the bitmap after this one begins.
    fn next_bitmap(&self) -> Place {
        match self.place {
            Place::At(base) => self.after(base, self.word.reach()),
            other => other,
        }
    }

    fn end(&mut self, why: &str) -> Miss {
        (self.place, self.bits) = (Place::Ended, 0);
        Miss::Damaged(why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_become_bitmaps() {
        let run: Vec<u64> = (0..64).map(|index| 0x1000 + index * 8).collect();
        assert_eq!(encode(&run, Word::Eight), [0x1000, u64::MAX]);
        assert_eq!(encode(&[0x1000, 0x1004, 0x1010], Word::Four), [0x1000, 0b10011]);
        // One word too far for the bitmap: it gets the second one.
        assert_eq!(encode(&[0x1000, 0x1000 + 64 * 8], Word::Eight), [0x1000, 0x1200]);
        assert_eq!(encode(&[0x1000, 0x1008, 0x1000 + 64 * 8], Word::Eight), [0x1000, 3, 3]);
        assert_eq!(encode(&[], Word::Eight), [0; 0]);
    }

    #[test]
    fn what_is_off_the_grid_begins_anew() {
        assert_eq!(encode(&[0x1000, 0x1004, 0x100c], Word::Eight), [0x1000, 0x1004, 3]);
    }

    #[test]
    fn the_last_words_of_the_address_space() {
        for (word, top) in [(Word::Eight, u64::MAX - 7), (Word::Four, 0xffff_fffc)] {
            let ends = [0, top - word.bytes(), top];
            assert_eq!(decode(&encode(&ends, word), word).unwrap(), ends);
        }
    }

    #[test]
    fn damage_is_said() {
        assert!(decode(&[3], Word::Eight).is_err());
        assert_eq!(decode(&[1, 0x1000, 1, 1, 3], Word::Eight).unwrap().len(), 2);
        assert!(decode(&[u64::MAX - 1, 3], Word::Eight).is_err());
        assert!(decode(&[1 << 32], Word::Four).is_err());
        assert!(decode(&[0xffff_fff0, 0b100001], Word::Four).is_err());
        let mut after = addresses([3, 0x1000], Word::Eight);
        assert!(after.next().unwrap().is_err() && after.next().is_none());
    }

    #[test]
    fn a_full_bitmap_stands_for_all_its_words_and_the_next_one_begins_behind_them() {
        for (word, full) in [(Word::Eight, u64::MAX), (Word::Four, u64::from(u32::MAX))] {
            let (step, reach) = (word.bytes(), word.bytes() * 8 - 1);
            let run = |len: u64| (0..len).map(|index| 0x1000 + index * step).collect::<Vec<u64>>();
            assert_eq!(decode(&[0x1000, full], word).unwrap(), run(1 + reach));
            assert_eq!(decode(&[0x1000, full, full, 0b11], word).unwrap(), run(2 + 2 * reach));
            assert_eq!(encode(&run(2 + 2 * reach), word), [0x1000, full, full, 0b11]);
            // An empty bitmap covers as many.
            let last = 0x1000 + (1 + reach) * step;
            assert_eq!(decode(&[0x1000, 1, 0b11], word).unwrap(), [0x1000, last]);
        }
    }

    #[test]
    #[should_panic(expected = "no place")]
    fn an_odd_address_is_refused() {
        encode(&[0x1001], Word::Eight);
    }

    /// Addresses in runs and leaps, some off the grid, some overlapping.
    fn rising(word: Word) -> impl Strategy<Value = Vec<u64>> {
        let step = word.bytes();
        let leap = prop_oneof![6 => Just(step), 2 => (1..200u64).prop_map(move |n| n * step), 1 => (1..5000u64).prop_map(|n| n * 2)];
        (0..1000u64, proptest::collection::vec(leap, 0..400)).prop_map(|(first, leaps)| {
            let mut at = first * 2;
            leaps
                .into_iter()
                .map(|leap| {
                    at += leap;
                    at
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(wide in rising(Word::Eight), narrow in rising(Word::Four)) {
            for (addresses, word) in [(wide, Word::Eight), (narrow, Word::Four)] {
                let words = encode(&addresses, word);
                prop_assert!(words.len() <= addresses.len());
                prop_assert_eq!(decode(&words, word).unwrap(), addresses);
            }
        }

        #[test]
        fn any_words_cost_an_answer(words in proptest::collection::vec(any::<u64>(), 0..50)) {
            for word in [Word::Four, Word::Eight] {
                if let Ok(found) = decode(&words, word) {
                    prop_assert!(found.iter().all(|address| *address <= word.top()));
                    prop_assert!(found.len() <= words.len() * word.reach() as usize);
                }
            }
        }
    }
}
