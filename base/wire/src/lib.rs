//! Protocol buffers, as far as traces of Perfetto and profiles of pprof need them: fields of a message, and messages of
//! fields. Pure. Knows no schema but what all who write profiles of pprof need of it: the rooms that read and write do.

pub mod pprof;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, or a fixed one of 64 or 32 bits.
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0: it is none.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// The bytes; none: it is a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The numbers of a packed field ([`Message::packed`]); `None`: one of them is not whole.
    pub fn numbers(self) -> Option<Vec<u64>> {
        let (mut numbers, mut rest) = (Vec::new(), self.bytes());
        while !rest.is_empty() {
            let (number, behind) = varint(rest)?;
            numbers.push(number);
            rest = behind;
        }
        Some(numbers)
    }

    /// The text; what is not UTF-8 is replaced.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// The fields of a message, up to the first one that is not whole.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Those of these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are no field; none: all were.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }

    fn step(&self) -> Option<(u64, Value<'a>, &'a [u8])> {
        let (key, rest) = varint(self.rest)?;
        let (value, rest) = match key & 7 {
            0 => varint(rest).map(|(number, rest)| (Value::Number(number), rest))?,
            1 => {
                let (word, rest) = rest.split_first_chunk::<8>()?;
                (Value::Number(u64::from_le_bytes(*word)), rest)
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Value::Bytes(bytes), rest)
            }
            5 => {
                let (word, rest) = rest.split_first_chunk::<4>()?;
                (Value::Number(u64::from(u32::from_le_bytes(*word))), rest)
            }
            _ => return None,
        };
        (key >> 3 != 0).then_some((key >> 3, value, rest))
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Number and value.
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, value, rest) = self.step()?;
        self.rest = rest;
        Some((number, value))
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * place as u32)?;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

/// A message that is being made.
#[derive(Clone, Debug, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Adds a number.
    pub fn number(&mut self, field: u64, number: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    /// Adds a number, unless it is zero: to readers of "proto3" one that is missing is zero.
    pub fn set(&mut self, field: u64, number: u64) -> &mut Self {
        if number == 0 { self } else { self.number(field, number) }
    }

    /// Adds a number of 64 bits.
    pub fn fixed(&mut self, field: u64, number: u64) -> &mut Self {
        self.varint(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Adds bytes, or a text.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Adds numbers as one field.
    pub fn packed(&mut self, field: u64, numbers: impl IntoIterator<Item = u64>) -> &mut Self {
        let mut inner = Message::default();
        numbers.into_iter().for_each(|number| inner.varint(number));
        self.bytes(field, &inner.0)
    }

    /// Adds a message.
    pub fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) -> &mut Self {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_up_to_where_it_is_cut() {
        let mut message = Message::default();
        message.number(1, u64::MAX).fixed(2, 7).message(600, |inner| {
            inner.bytes(3, b"x");
        });
        let all: Vec<_> = Fields::of(&message.0).collect();
        let inner = Value::Bytes(&[0x1a, 1, b'x']);
        assert_eq!(all, [(1, Value::Number(u64::MAX)), (2, Value::Number(7)), (600, inner)]);
        let mut packed = Message::default();
        packed.packed(4, [1, 300]);
        assert_eq!(Fields::of(&packed.0).collect::<Vec<_>>(), [(4, Value::Bytes(&[1, 0xac, 2]))]);
        assert_eq!(Value::Bytes(&[1, 0xac, 2]).numbers(), Some(vec![1, 300]));
        assert_eq!(Value::Bytes(&[1, 0xac, 2, 0x80]).numbers(), None, "the last is cut");
        let mut cut = Fields::of(&message.0[..message.0.len() - 1]);
        assert_eq!((cut.by_ref().count(), cut.rest() > 0), (2, true));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Fields::of(&bytes).count() <= bytes.len());
        }
    }
}
