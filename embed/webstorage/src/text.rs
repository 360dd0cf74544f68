//! Keys and values as bytes: which form in the first one, then Latin-1 where that can hold all units, else UTF-16LE; or
//! any bytes, of tables. One text has one form, so that equal bytes are equal texts. Pure.

use crate::map::Bytes;
use std::cell::RefCell;
use std::fmt;

/// One byte for each UTF-16 unit.
pub const LATIN1: u8 = 0;
/// Two bytes for each, the lower first; one of them at least is above 255.
pub const UTF16: u8 = 1;
/// Bytes, not text.
pub const BYTES: u8 = 2;

/// A key or a value of an area: UTF-16 units, whatever they are. Cloned, it is the same memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(pub(crate) Bytes);

impl Text {
    /// How many units it has.
    pub fn len(&self) -> usize {
        units(&self.0)
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its units as bytes, if all are below 256.
    pub fn latin1(&self) -> Option<&[u8]> {
        self.0.split_first().filter(|(form, _)| **form == LATIN1).map(|(_, rest)| rest)
    }

    /// Its bytes as they are kept, behind the form: of a table, the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(1..).unwrap_or_default()
    }

    /// Its units, copied.
    pub fn to_units(&self) -> Vec<u16> {
        let mut out = vec![0; self.len()];
        self.copy_to(&mut out);
        out
    }

    /// Copies as many units as there is room for.
    pub fn copy_to(&self, out: &mut [u16]) {
        self.each(out.len(), |at, unit| out[at] = unit);
    }

    /// Hands over the units with their places, at most so many.
    pub fn each(&self, most: usize, mut to: impl FnMut(usize, u16)) {
        let Some((form, rest)) = self.0.split_first() else { return };
        if *form == UTF16 {
            let units = rest.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
            units.take(most).enumerate().for_each(|(at, unit)| to(at, unit));
        } else {
            rest.iter().take(most).enumerate().for_each(|(at, byte)| to(at, u16::from(*byte)));
        }
    }

    /// As a string, if no surrogate in it is alone.
    pub fn as_string(&self) -> Option<String> {
        String::from_utf16(&self.to_units()).ok()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", String::from_utf16_lossy(&self.to_units()))
    }
}

/// The form of a text.
pub fn encode(units: &[u16], out: &mut Vec<u8>) {
    out.clear();
    if units.iter().fold(0, |all, unit| all | unit) < 256 {
        out.reserve(1 + units.len());
        out.push(LATIN1);
        out.extend(units.iter().map(|unit| *unit as u8));
    } else {
        out.reserve(1 + 2 * units.len());
        out.push(UTF16);
        out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
}

/// The form of bytes.
pub fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.push(BYTES);
    out.extend_from_slice(bytes);
}

/// What is a text (of an area), or bytes (of a table), in the one form that it may have.
pub fn is_valid(bytes: &[u8], table: bool) -> bool {
    match bytes.split_first() {
        Some((&LATIN1, _)) => !table,
        Some((&UTF16, rest)) => !table && rest.len() % 2 == 0 && rest.chunks_exact(2).any(|two| two[1] > 0),
        Some((&BYTES, _)) => table,
        _ => false,
    }
}

fn units(bytes: &[u8]) -> usize {
    let len = bytes.len().saturating_sub(1);
    if bytes.first() == Some(&UTF16) { len / 2 } else { len }
}

/// What it counts in a quota: two bytes for each unit, whatever the form; of a table, its bytes.
pub fn cost(bytes: &[u8]) -> u64 {
    let len = units(bytes) as u64;
    if bytes.first() == Some(&BYTES) { len } else { 2 * len }
}

thread_local! {
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The longest that is kept to be written to again.
const KEPT: usize = 1 << 16;

/// Lends two vectors, with what they held last.
pub fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> R) -> R {
    SCRATCH.with_borrow_mut(|(one, two)| {
        let result = work(one, two);
        for used in [one, two] {
            if used.capacity() > KEPT {
                *used = Vec::new();
            }
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(units: &[u16]) -> Text {
        let mut out = Vec::new();
        encode(units, &mut out);
        assert!(is_valid(&out, false) && !is_valid(&out, true));
        Text(out.into())
    }

    proptest! {
        #[test]
        fn units_come_back(units in proptest::collection::vec(prop_oneof![0..300_u16, any::<u16>()], 0..50)) {
            let text = text(&units);
            prop_assert_eq!(text.to_units(), &units[..]);
            prop_assert_eq!((text.len(), cost(&text.0)), (units.len(), 2 * units.len() as u64));
            prop_assert_eq!(text.latin1().is_some(), units.iter().all(|unit| *unit < 256));
        }
    }

    #[test]
    fn a_text_has_one_form_and_surrogates_may_be_alone() {
        assert_eq!(text(&[0xD800]).as_string(), None);
        assert_eq!(text(&[0, 0xE9]).as_string().unwrap(), "\0é");
        assert!(!is_valid(&[UTF16, b'a', 0], false), "that is Latin-1");
        assert!(!is_valid(&[UTF16, 0, 1, 2], false) && !is_valid(&[], false) && !is_valid(&[3], true));
        assert_eq!(text(&[]).0[..], [LATIN1]);
    }
}
