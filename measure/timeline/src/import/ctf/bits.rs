//! Numbers of any width at any bit of a packet. Pure.

/// What is left of a packet.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
    end: u64,
}

impl<'a> Bits<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() as u64 * 8 }
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// There is nothing behind this bit.
    pub fn ends_at(&mut self, end: u64) {
        self.end = self.end.min(end);
    }

    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// To the next multiple of a power of two.
    pub fn align(&mut self, to: u64) {
        self.at = self.at.next_multiple_of(to.max(1));
    }

    /// A number of at most 64 bits; `None`: they are not there.
    pub fn take(&mut self, count: u32, is_big: bool) -> Option<u64> {
        if u64::from(count) > self.left() {
            return None;
        }
        let (mut value, mut got) = (0_u64, 0);
        while got < count {
            let (byte, skipped) = (*self.bytes.get((self.at / 8) as usize)?, (self.at % 8) as u32);
            let some = (8 - skipped).min(count - got);
            let shift = if is_big { 8 - skipped - some } else { skipped };
            let piece = u64::from(byte) >> shift & ((1 << some) - 1);
            value = if is_big { value << some | piece } else { value | piece << got };
            got += some;
            self.at += u64::from(some);
        }
        Some(value)
    }

    /// Whole bytes up to a zero, which is skipped; `None`: there is none.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get((self.at / 8) as usize..(self.end / 8) as usize)?;
        let length = memchr::memchr(0, rest)?;
        self.at += (length as u64 + 1) * 8;
        Some(&rest[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_counted_from_the_end_that_their_order_begins_with() {
        let bytes = [0b1010_0110, 0b0000_0011];
        let (mut little, mut big) = (Bits::of(&bytes), Bits::of(&bytes));
        assert_eq!([little.take(3, false), little.take(7, false)], [Some(0b110), Some(0b111_0100)]);
        assert_eq!([big.take(3, true), big.take(7, true)], [Some(0b101), Some(0b001_1000)]);
        assert_eq!((little.take(7, false), little.take(6, false)), (None, Some(0)));
    }

    proptest! {
        #[test]
        fn numbers_at_any_bit_are_those_that_were_put_there(value: u64, count in 1_u32..=64, skip in 0_u32..8) {
            let value = if count == 64 { value } else { value & ((1 << count) - 1) };
            let mut little = (u128::from(value) << skip).to_le_bytes().to_vec();
            little.truncate(9);
            let big = (u128::from(value) << (72 - count - skip)).to_be_bytes()[7..].to_vec();
            for (bytes, is_big) in [(little, false), (big, true)] {
                let mut bits = Bits::of(&bytes);
                bits.take(skip, is_big).unwrap();
                prop_assert_eq!(bits.take(count, is_big), Some(value));
            }
        }
    }
}
