//! JSON that may end anywhere: the pieces of objects and arrays as far as they go, without building what is around
//! them. Not for checking JSON: what a piece holds is parsed by serde_json, which says so if it is none.

use memchr::memchr2;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value inside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    pub bytes: &'a [u8],
    /// Whether its end is there.
    pub is_whole: bool,
}

impl<'a> Piece<'a> {
    /// All of a file.
    pub fn of_file(bytes: &'a [u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Self { bytes: bytes.trim_ascii_start(), is_whole: true }
    }

    /// Whether an object or array has its own end, whatever stands behind it.
    pub fn is_closed(self) -> bool {
        matches!(self.bytes.first(), Some(b'{' | b'[')) && nested_end(self.bytes, 0).1
    }

    /// The members of an object, in their order; of anything else none. Keys are as they are written.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], Piece<'a>)> {
        let mut at = if self.bytes.first() == Some(&b'{') { 1 } else { self.bytes.len() };
        std::iter::from_fn(move || {
            let bytes = self.bytes;
            loop {
                match bytes.get(at)? {
                    b'}' => return None,
                    b'"' => break,
                    _ => at += 1,
                }
            }
            let key = value(bytes, at);
            at += key.bytes.len();
            if !key.is_whole {
                return None;
            }
            while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b':') {
                at += 1;
            }
            bytes.get(at)?;
            let piece = value(bytes, at);
            at += piece.bytes.len();
            Some((&key.bytes[1..key.bytes.len() - 1], piece))
        })
    }

    /// The first member of this name.
    pub fn member(self, name: &str) -> Option<Piece<'a>> {
        self.members().find(|(key, _)| *key == name.as_bytes()).map(|(_, piece)| piece)
    }

    /// The elements of an array, in their order; of anything else none.
    pub fn items(self) -> impl Iterator<Item = Piece<'a>> {
        let mut at = if self.bytes.first() == Some(&b'[') { 1 } else { self.bytes.len() };
        std::iter::from_fn(move || {
            loop {
                match self.bytes.get(at)? {
                    b']' => return None,
                    byte if byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b':') => at += 1,
                    _ => break,
                }
            }
            let piece = value(self.bytes, at);
            at += piece.bytes.len();
            Some(piece)
        })
    }

    /// What it holds; `None`: it is cut, or not that.
    pub fn read<T: DeserializeOwned>(self) -> Option<T> {
        if !self.is_whole {
            return None;
        }
        serde_json::from_slice(self.bytes).or_else(|_| serde_json::from_str(&mended(self.bytes))).ok()
    }

    /// A text, or a number as text.
    pub fn text(self) -> Option<String> {
        self.read::<Value>().as_ref().and_then(text)
    }

    /// A number, or a text that is one.
    pub fn number(self) -> Option<f64> {
        self.read::<Value>().as_ref().and_then(number)
    }
}

/// A text, or a number as text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(so) => Some(so.to_string()),
        _ => None,
    }
}

/// A number, or a text that is one.
pub fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// A whole number that is not negative, or a text that is one, also in hexadecimal.
pub fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|number| number as u64)),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        _ => None,
    }
}

/// Nanoseconds of a time in a unit; what is negative or not a number is 0.
pub fn nanoseconds(time: f64, unit_ns: f64) -> u64 {
    // Whole units and their fraction apart: a double of nanoseconds would be wrong by some hundred after a day.
    let units = time.max(0.0).floor();
    let rest = ((time.max(0.0) - units) * unit_ns).round() as u64;
    (units as u64).saturating_mul(unit_ns as u64).saturating_add(rest)
}

/// The value that begins at `at`, as far as it goes.
fn value(bytes: &[u8], at: usize) -> Piece<'_> {
    let (end, is_whole) = match bytes[at] {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => nested_end(bytes, at),
        _ => {
            let rest = &bytes[at..];
            let length = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace());
            // At least one byte, so that whoever walks gets on.
            (at + length.unwrap_or(rest.len()).max(1), length.is_some())
        }
    };
    Piece { bytes: &bytes[at..end], is_whole }
}

fn string_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let mut at = at + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return (at + 1, true);
        }
        at += 2;
    }
    (bytes.len(), false)
}

fn nested_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let (mut at, mut depth) = (at, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at).0;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return (at + 1, true);
                }
            }
            _ => {}
        }
        at += 1;
    }
    (bytes.len(), false)
}

/// JSON with what programs write into its texts though they may not: bytes that are no UTF-8, control characters,
/// halves of surrogate pairs, escapes that are none.
fn mended(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    let mut mended = String::with_capacity(lossy.len() + 16);
    let (mut rest, mut is_text) = (lossy.as_ref(), false);
    while let Some(letter) = rest.chars().next() {
        let mut taken = letter.len_utf8();
        match letter {
            '"' => {
                is_text = !is_text;
                mended.push('"');
            }
            '\\' if is_text => match unit(rest) {
                Some(0xd800..=0xdbff) if matches!(unit(&rest[6..]), Some(0xdc00..=0xdfff)) => {
                    mended.push_str(&rest[..12]);
                    taken = 12;
                }
                Some(0xd800..=0xdfff) => {
                    mended.push('\u{fffd}');
                    taken = 6;
                }
                Some(_) => {
                    mended.push_str(&rest[..6]);
                    taken = 6;
                }
                None => match rest.as_bytes().get(1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                        mended.push_str(&rest[..2]);
                        taken = 2;
                    }
                    _ => mended.push_str("\\\\"),
                },
            },
            control if is_text && control < ' ' => mended.push_str(&format!("\\u{:04x}", control as u32)),
            other => mended.push(other),
        }
        rest = &rest[taken..];
    }
    mended
}

/// The number of a `\uXXXX` at the beginning.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_end_where_their_file_does() {
        let file = Piece::of_file(br#" {"a" : [1, {"b":"]\""}, 23], "c":{"d":45"#);
        let a: Vec<_> = file.member("a").unwrap().items().map(|it| (it.bytes, it.is_whole)).collect();
        assert_eq!(a, [(&b"1"[..], true), (br#"{"b":"]\""}"#, true), (b"23", true)]);
        let d = file.member("c").unwrap().member("d").unwrap();
        assert_eq!((d.bytes, d.is_whole, d.number()), (&b"45"[..], false, None), "it may have been 4567");
        assert_eq!(Piece::of_file(br#"{"a":"x\"#).member("a").unwrap().text(), None);
    }

    #[test]
    fn texts_that_json_forbids_are_read() {
        let text = |bytes: &[u8]| Piece { bytes, is_whole: true }.text();
        assert_eq!(text(b"\"a\xffb\"").as_deref(), Some("a\u{fffd}b"));
        assert_eq!(text(b"\"a\nb\\x\"").as_deref(), Some("a\nb\\x"));
        assert_eq!(
            text(br#""\ud83d\ude00 \ud83d \udc00 \u00e9\n\\""#).as_deref(),
            Some("\u{1f600} \u{fffd} \u{fffd} é\n\\")
        );
    }

    #[test]
    fn times_of_days_keep_their_nanoseconds() {
        assert_eq!(nanoseconds(86_400_000_000.123, 1000.0), 86_400_000_000_123);
        assert_eq!((nanoseconds(-1.0, 1e6), nanoseconds(f64::NAN, 1e6)), (0, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let noise = [b"[{\"a\":", &bytes[..]].concat();
            for file in [Piece::of_file(&bytes), Piece::of_file(&noise)] {
                for item in file.items() {
                    item.members().for_each(|(_, piece)| { piece.read::<Value>(); });
                }
                file.members().for_each(|(_, piece)| { piece.text(); });
            }
            mended(&bytes);
        }
    }
}
