//! Dictionaries of Structured Fields (RFC 9651 section 4.2.2): those of cache directives, and others such as `Priority`
//! (RFC 9218). Strict: one error, and there is no Dictionary.
//!
//! ```
//! use thaw_httpcache::dictionary::{Item, parse};
//!
//! let members = parse(b"u=03, i").unwrap();
//! assert_eq!(members["u"], Item::Integer(3));
//! assert_eq!(members["i"], Item::Boolean(true));
//! assert_eq!(parse(b"u=3, I"), None);
//! ```

use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

/// A value of a Dictionary. Its parameters are read and left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// An Integer: 15 digits at most.
    Integer(i64),
    /// A Boolean; `true` where there is a key alone.
    Boolean(bool),
    /// A String or a Token.
    Text(Vec<u8>),
    /// A Decimal, a Date, a Byte Sequence, a Display String, an Inner List.
    Other,
}

/// The Dictionary that all lines of a field are together; an empty one where there is none. `None`: they are no
/// Dictionary, and the field is as if it were not there (section 4.2).
pub fn of(headers: &HeaderMap, name: &HeaderName) -> Option<BTreeMap<String, Item>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    parse(&lines.join(&b", "[..]))
}

/// Keys and values; of equal keys the last counts. `None`: this is no Dictionary.
pub fn parse(text: &[u8]) -> Option<BTreeMap<String, Item>> {
    let mut rest = Rest(text);
    let mut members = BTreeMap::new();
    rest.skip(b" ");
    while !rest.0.is_empty() {
        let key = rest.key()?;
        let item = if rest.take(b'=') { rest.member()? } else { Item::Boolean(true) };
        rest.parameters()?;
        members.insert(key, item);
        rest.skip(b" \t");
        if rest.0.is_empty() {
            break;
        }
        if !rest.take(b',') {
            return None;
        }
        rest.skip(b" \t");
        // A comma at the end.
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn skip(&mut self, bytes: &[u8]) {
        while self.0.first().is_some_and(|byte| bytes.contains(byte)) {
            self.0 = &self.0[1..];
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(is)..];
        is
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn span(&mut self, of: impl Fn(u8) -> bool) -> Vec<u8> {
        let len = self.0.iter().position(|byte| !of(*byte)).unwrap_or(self.0.len());
        let (span, rest) = self.0.split_at(len);
        self.0 = rest;
        span.to_vec()
    }

    fn key(&mut self) -> Option<String> {
        self.0.first().filter(|byte| byte.is_ascii_lowercase() || **byte == b'*')?;
        let key = self.span(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte));
        String::from_utf8(key).ok()
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn member(&mut self) -> Option<Item> {
        if !self.take(b'(') {
            return self.item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Item::Other);
            }
            self.item()?;
            self.parameters()?;
            self.0.first().filter(|byte| b" )".contains(byte))?;
        }
    }

    fn item(&mut self) -> Option<Item> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(Item::Boolean(false)),
                    b'1' => Some(Item::Boolean(true)),
                    _ => None,
                }
            }
            b'"' => self.string(),
            b'%' => self.display(),
            b'@' => {
                self.next();
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            b':' => {
                self.next();
                self.span(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':').then_some(Item::Other)
            }
            first if first.is_ascii_alphabetic() || first == b'*' => {
                Some(Item::Text(self.span(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte))))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Item> {
        let minus = self.take(b'-');
        let whole = self.span(|byte| byte.is_ascii_digit());
        if self.take(b'.') {
            let part = self.span(|byte| byte.is_ascii_digit());
            return (matches!(whole.len(), 1..=12) && matches!(part.len(), 1..=3)).then_some(Item::Other);
        }
        if !matches!(whole.len(), 1..=15) {
            return None;
        }
        let number = whole.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Item::Integer(if minus { -number } else { number }))
    }

    /// A Display String (section 4.2.10): UTF-8 with `%` and two digits for what is not ASCII.
    fn display(&mut self) -> Option<Item> {
        self.next();
        let mut text = Vec::new();
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        self.take(b'"').then_some(())?;
        loop {
            match self.next()? {
                b'"' => return String::from_utf8(text).is_ok().then_some(Item::Other),
                b'%' => text.push(digit(self.next()?)? << 4 | digit(self.next()?)?),
                byte @ 0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<Item> {
        self.next();
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(Item::Text(text)),
                b'\\' => text.push(self.next().filter(|byte| b"\"\\".contains(byte))?),
                byte @ 0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }
}
