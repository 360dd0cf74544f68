//! Columns of numbers as text: varints, deflated, in base64. `docs/view-format.md` draws the bytes; the reader is
//! `viewer/src/logic/columns.ts`. Knows nothing of what the numbers mean.

use flate2::{Compression, write::DeflateEncoder};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// How the numbers of a column were turned into varints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    /// As they are; none is negative.
    Plain,
    /// Zigzag: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    Signed,
    /// Zigzag of the difference to the number before; the first one's is to 0.
    Delta,
}

/// The numbers of one column, packed.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    coding: Coding,
    /// What each number was divided by: the greatest common divisor of all.
    unit: u64,
    /// The varints, deflated, in base64.
    data: String,
}

impl Column {
    /// Numbers that are small by themselves: lengths, indexes.
    pub fn plain(numbers: &[u64]) -> Self {
        let mut rising = Rising::plain();
        numbers.iter().for_each(|number| rising.push(*number));
        rising.column()
    }

    /// Numbers that are small on both sides of zero: what a prediction missed by.
    pub fn signed(numbers: &[i64]) -> Self {
        let mut rising = Rising::signed();
        numbers.iter().for_each(|number| rising.push_signed(*number));
        rising.column()
    }

    /// Numbers that are near the one before: times.
    pub fn delta(numbers: &[u64]) -> Self {
        let mut rising = Rising::delta();
        numbers.iter().for_each(|number| rising.push(*number));
        rising.column()
    }
}

/// A column whose numbers come one by one: it takes the room of its varints, a byte or two a number.
#[derive(Clone, Debug)]
pub struct Rising {
    coding: Coding,
    /// The greatest common divisor so far; 0: of zeros only.
    unit: u64,
    before: u64,
    /// The varints, not yet divided by the unit, which is known in the end.
    varints: Vec<u8>,
}

impl Rising {
    fn of(coding: Coding) -> Self {
        Self { coding, unit: 0, before: 0, varints: Vec::new() }
    }

    /// Numbers that are small by themselves.
    pub fn plain() -> Self {
        Self::of(Coding::Plain)
    }

    /// Numbers that are small on both sides of zero.
    pub fn signed() -> Self {
        Self::of(Coding::Signed)
    }

    /// Numbers that are near the one before.
    pub fn delta() -> Self {
        Self::of(Coding::Delta)
    }

    /// Adds a number.
    pub fn push(&mut self, number: u64) {
        self.divide(number);
        match self.coding {
            Coding::Plain => push_varint(&mut self.varints, number),
            Coding::Signed => push_varint(&mut self.varints, zigzag(number.cast_signed())),
            Coding::Delta => {
                push_varint(&mut self.varints, zigzag(number.wrapping_sub(self.before).cast_signed()));
                self.before = number;
            }
        }
    }

    /// Adds a number of a signed column.
    pub fn push_signed(&mut self, number: i64) {
        debug_assert_eq!(self.coding, Coding::Signed);
        self.divide(number.unsigned_abs());
        push_varint(&mut self.varints, zigzag(number));
    }

    fn divide(&mut self, number: u64) {
        if self.unit != 1 && (self.unit == 0 || !number.is_multiple_of(self.unit)) {
            let (mut a, mut b) = (self.unit, number);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            self.unit = a;
        }
    }

    /// The numbers of a plain or delta column again.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let mut before = 0_u64;
        varints(&self.varints).map(move |number| match self.coding {
            Coding::Plain | Coding::Signed => number,
            Coding::Delta => {
                before = before.wrapping_add_signed(unzigzag(number));
                before
            }
        })
    }

    /// All numbers are there.
    pub fn column(self) -> Column {
        let unit = self.unit.max(1);
        let divided = if unit == 1 {
            self.varints
        } else {
            let mut divided = Vec::with_capacity(self.varints.len() / 2);
            for number in varints(&self.varints) {
                // A difference of multiples is one, too.
                let number = match self.coding {
                    Coding::Plain => number / unit,
                    Coding::Signed | Coding::Delta => zigzag(unzigzag(number) / unit as i64),
                };
                push_varint(&mut divided, number);
            }
            divided
        };
        Column { coding: self.coding, unit, data: base64(&deflated(&divided)) }
    }
}

/// Turns columns into text, on all CPUs: deflating is most of the work of a page.
pub fn columns(rising: Vec<(&'static str, Rising)>) -> BTreeMap<&'static str, Column> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(rising.len()).max(1);
    // The longest first, so that none is left for one thread in the end.
    let mut left = rising;
    left.sort_by_key(|(_, column)| column.varints.len());
    let left = Mutex::new(left);
    let work = || {
        let mut done = Vec::new();
        while let Some((name, column)) = { left.lock().unwrap_or_else(PoisonError::into_inner).pop() } {
            done.push((name, column.column()));
        }
        done
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all: BTreeMap<&'static str, Column> = work().into_iter().collect();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// Many texts as one: joined by NUL, deflated, in base64.
#[derive(Clone, Debug, Serialize)]
pub struct Texts {
    /// How many: none and one empty text pack to the same.
    count: usize,
    data: String,
}

impl Texts {
    /// A NUL inside a text becomes U+FFFD.
    pub fn pack<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let count = texts.len();
        let safe: Vec<String> = texts.map(|text| text.replace('\0', "\u{fffd}")).collect();
        Self { count, data: base64(&deflated(safe.join("\0").as_bytes())) }
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn varints(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let mut bytes = bytes.iter();
    std::iter::from_fn(move || {
        let (mut number, mut shift) = (0, 0);
        for byte in bytes.by_ref() {
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    })
}

/// LEB128: seven bits a byte, the lowest first; the highest bit says that more follow.
fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// At the level that is usual: the best one takes nine times as long for two hundredths of the size.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing into memory does not fail")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::DeflateDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn from_base64(text: &str) -> Vec<u8> {
        let value = |letter: u8| match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for group in text.as_bytes().chunks(4) {
            let letters: Vec<u8> = group.iter().copied().filter(|letter| *letter != b'=').collect();
            let number = letters.iter().fold(0_u32, |number, letter| number << 6 | u32::from(value(*letter)));
            let number = number << (6 * (4 - letters.len()));
            bytes.extend(&number.to_be_bytes()[1..letters.len()]);
        }
        bytes
    }

    /// What a reader makes of a column.
    fn unpacked(column: &Column) -> Vec<i128> {
        let mut bytes = Vec::new();
        DeflateDecoder::new(&from_base64(&column.data)[..]).read_to_end(&mut bytes).unwrap();
        let (mut numbers, mut number, mut shift, mut before) = (Vec::new(), 0_u64, 0, 0_i128);
        for byte in bytes {
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let signed = i128::from(number >> 1) ^ -i128::from(number & 1);
                before += signed;
                let value = match column.coding {
                    Coding::Plain => number.into(),
                    Coding::Signed => signed,
                    Coding::Delta => before,
                };
                numbers.push(value * i128::from(column.unit));
                (number, shift) = (0, 0);
            }
        }
        numbers
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text), bytes.as_bytes());
        }
    }

    #[test]
    fn pages_are_counted_in_pages() {
        assert_eq!(Column::plain(&[4096, 8192, 0, 131_072]).unit, 4096);
        assert_eq!(Column::plain(&[0, 0]).unit, 1);
        assert_eq!(Column::signed(&[-1024, 1536]).unit, 512);
    }

    #[test]
    fn texts_are_told_apart() {
        let packed = Texts::pack(["main", "", "a\0b"].into_iter());
        let mut text = String::new();
        DeflateDecoder::new(&from_base64(&packed.data)[..]).read_to_string(&mut text).unwrap();
        assert_eq!((packed.count, text.as_str()), (3, "main\0\0a\u{fffd}b"));
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(numbers in prop::collection::vec(0_u64..1 << 52, 0..100)) {
            let wanted: Vec<i128> = numbers.iter().map(|number| (*number).into()).collect();
            prop_assert_eq!(unpacked(&Column::plain(&numbers)), wanted.clone());
            prop_assert_eq!(unpacked(&Column::delta(&numbers)), wanted);
        }

        #[test]
        fn so_do_signed_ones(numbers in prop::collection::vec(-(1_i64 << 52)..1 << 52, 0..100)) {
            let wanted: Vec<i128> = numbers.iter().map(|number| (*number).into()).collect();
            prop_assert_eq!(unpacked(&Column::signed(&numbers)), wanted);
        }
    }
}
