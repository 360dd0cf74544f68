//! `Cache-Control`, its targeted relatives (RFC 9213) and `Pragma`, as directives.

use crate::dictionary::{self, Item};
use crate::fields;
use http::{HeaderMap, HeaderName, header};

/// Larger values mean this one: it is 68 years (RFC 9111 section 1.2.2).
const LONGEST: u64 = 1 << 31;

/// Directives of one message, names in lower case, in the order received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    list: Vec<(String, Option<Vec<u8>>)>,
}

/// What a directive with seconds says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seconds {
    /// It is not there.
    Absent,
    /// So many, at most 2^31.
    Of(u64),
    /// It is there, and what it says is no number of seconds.
    Invalid,
}

impl Directives {
    /// The directives of all `Cache-Control` lines (RFC 9111 section 5.2). A member whose name is no token is left out:
    /// a space before `=` makes another directive, which nobody knows.
    pub fn of(headers: &HeaderMap) -> Directives {
        let mut list = Vec::new();
        for member in fields::list(headers, &header::CACHE_CONTROL) {
            let (name, value) = match member.iter().position(|byte| *byte == b'=') {
                Some(at) => (&member[..at], Some(unquoted(&member[at + 1..]))),
                None => (member, None),
            };
            if !name.is_empty() && name.iter().all(|byte| is_token(*byte)) {
                list.push((String::from_utf8_lossy(name).to_ascii_lowercase(), value));
            }
        }
        Directives { list }
    }

    /// The directives of a targeted field (RFC 9213 section 2.1): a Dictionary of Structured Fields. `None` where it is
    /// not there, is empty, is no Dictionary, or gives a freshness that is no non-negative Integer: it is then as if it
    /// were not there.
    pub fn targeted(headers: &HeaderMap, name: &HeaderName) -> Option<Directives> {
        let list = dictionary::of(headers, name).filter(|list| !list.is_empty())?;
        let mut directives = Directives::default();
        for (key, item) in list {
            let timed = matches!(&*key, "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error");
            let value = match item {
                Item::Integer(of) if of >= 0 => Some(of.to_string().into_bytes()),
                _ if timed => return None,
                Item::Boolean(true) => None,
                Item::Boolean(false) => continue,
                Item::Text(text) => Some(text),
                _ => Some(Vec::new()),
            };
            directives.list.push((key, value));
        }
        Some(directives)
    }

    /// Whether there is such a directive, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|(of, _)| of == name)
    }

    /// The directive's value, the first where there are several (RFC 9111 section 4.2.1).
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.list.iter().find(|(of, _)| of == name)?.1.as_deref()
    }

    /// The directive's seconds; of several the first counts.
    pub fn seconds(&self, name: &str) -> Seconds {
        match (self.has(name), self.value(name)) {
            (false, _) => Seconds::Absent,
            (true, None) => Seconds::Invalid,
            (true, Some(text)) => seconds(text).map_or(Seconds::Invalid, Seconds::Of),
        }
    }

    /// Whether the directive stands without field names: it is then about the whole response. Field names that are none
    /// mean the whole response too.
    pub fn unqualified(&self, name: &str) -> bool {
        self.list.iter().any(|(of, value)| of == name && value.as_deref().is_none_or(|v| field_names(v).is_empty()))
    }

    /// The field names of a qualified directive (`no-cache="a, b"`).
    pub fn names(&self, name: &str) -> Vec<HeaderName> {
        let values = self.list.iter().filter(|(of, _)| of == name).filter_map(|(_, value)| value.as_deref());
        values.flat_map(field_names).collect()
    }
}

/// What a request asks of a cache: its `Cache-Control`, or `Pragma: no-cache` where it has none (RFC 9111 section 5.4).
pub(crate) fn of_request(headers: &HeaderMap) -> Directives {
    if !headers.contains_key(header::CACHE_CONTROL) && fields::has_word(headers, &header::PRAGMA, "no-cache") {
        return Directives { list: vec![("no-cache".into(), None)] };
    }
    Directives::of(headers)
}

/// Digits alone, cut to 2^31.
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    (!text.is_empty() && text.iter().all(u8::is_ascii_digit))
        .then(|| text.iter().fold(0, |sum: u64, digit| (sum * 10 + u64::from(digit - b'0')).min(LONGEST)))
}

fn field_names(value: &[u8]) -> Vec<HeaderName> {
    fields::names(&fields::split(value))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The text of a quoted string, whose end may be missing; anything else as it is.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let Some(quoted) = text.strip_prefix(b"\"") else { return text.to_vec() };
    let (mut plain, mut bytes) = (Vec::new(), quoted.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => plain.extend(bytes.next()),
            _ => plain.push(*byte),
        }
    }
    plain
}
