//! What is kept of one response beside its bytes, and its form in a store.
//!
//! ```text
//! "TCH1"  u8 flags  u16 status  u64 request time  u64 response time  (ms since 1970)
//! u64 length of the whole (flag 1)  key: 4 strings
//! u16 n  n x (name string, u8 there, value string)      selecting request fields
//! u16 n  n x (name string, value string)                response fields
//! u16 n  n x (name string, value string)                trailer fields
//! u16 n  n x (u64 start, u64 end)                       bytes held
//! ```
//!
//! Numbers are little-endian; a string is a u32 of bytes and these. Flag 1: the length is known.
//! What comes after the last range is an error, as is anything else that does not fit.

use crate::key::Key;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAGIC: &[u8; 4] = b"TCH1";

/// One stored response without its bytes. A store keeps it beside them and hands all those of one [`Key`] to
/// [`lookup`](crate::Cache::lookup).
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// What it answers.
    pub key: Key,
    /// 200 for what came as 206: the bytes held say how much of it is there.
    pub status: StatusCode,
    /// Response fields that may be stored.
    pub headers: HeaderMap,
    /// Trailer fields, apart from the others (RFC 9110 section 6.5).
    pub trailers: HeaderMap,
    /// Fields that the response varies by, and the request's values in normal form.
    pub selecting: Vec<(HeaderName, Option<Vec<u8>>)>,
    /// When the request was sent.
    pub request_time: SystemTime,
    /// When the response's head came.
    pub response_time: SystemTime,
    /// Length of the whole representation, where it is known.
    pub length: Option<u64>,
    /// Bytes of it that are held, sorted, not touching. Until [`finish`](Stored::finish) the last one is what is to
    /// come.
    pub held: Vec<Range<u64>>,
}

/// Bytes that are no stored response of this version. A store treats them as nothing stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("this is no stored response of version 1")
    }
}

impl std::error::Error for Damaged {}

impl Stored {
    /// Whether all bytes are there.
    pub fn is_whole(&self) -> bool {
        match (self.length, &self.held[..]) {
            (Some(0), []) => true,
            (Some(length), [one]) => *one == (0..length),
            _ => false,
        }
    }

    /// To be called when the body has ended: `offset` is [`Store::offset`](crate::Store::offset), `received` how many
    /// bytes of it came, `complete` whether its framing says that they are all. `false`: this must not be kept. A body
    /// cut short is kept only if it can be completed: a 200 with a strong validator and a known length. A
    /// body of another length than its head said is not kept.
    ///
    /// Of a 206, also one that counts its last byte as if it were excluded is understood: one byte less came than its
    /// `Content-Range` says, which reaches the end. The length of the whole is then one less.
    pub fn finish(&mut self, offset: u64, received: u64, complete: bool, trailers: HeaderMap) -> bool {
        let end = offset.saturating_add(received);
        let expected = self.held.pop_if(|range| range.start == offset).map(|range| range.end);
        if complete {
            self.trailers = trailers;
            crate::fields::strip_hop(&mut self.trailers, false);
        }
        match (self.length, expected) {
            (None, None) if complete && offset == 0 => self.length = Some(received),
            (_, Some(expected)) if complete && end == expected => {}
            (Some(length), Some(expected))
                if complete && offset > 0 && end + 1 == expected && expected == length && self.held.is_empty() =>
            {
                self.length = Some(end);
            }
            (Some(0), None) if complete && received == 0 => {}
            (Some(length), Some(_)) if !complete && end < length && received > 0 && self.can_grow() => {}
            _ => return false,
        }
        crate::range::add(&mut self.held, offset..end);
        true
    }

    fn can_grow(&self) -> bool {
        self.status == StatusCode::OK && crate::validator::for_if_range(&self.headers, self.response_time).is_some()
    }

    /// The bytes of the form that the module documents.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(u8::from(self.length.is_some()));
        out.extend(self.status.as_u16().to_le_bytes());
        for time in [self.request_time, self.response_time] {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            out.extend((since as u64).to_le_bytes());
        }
        out.extend(self.length.unwrap_or(0).to_le_bytes());
        for text in [&self.key.partition, &self.key.scheme, &self.key.authority, &self.key.path] {
            put(&mut out, text.as_bytes());
        }
        out.extend((self.selecting.len() as u16).to_le_bytes());
        for (name, value) in &self.selecting {
            put(&mut out, name.as_str().as_bytes());
            out.push(u8::from(value.is_some()));
            put(&mut out, value.as_deref().unwrap_or_default());
        }
        for fields in [&self.headers, &self.trailers] {
            out.extend((fields.len() as u16).to_le_bytes());
            for (name, value) in fields {
                put(&mut out, name.as_str().as_bytes());
                put(&mut out, value.as_bytes());
            }
        }
        out.extend((self.held.len() as u16).to_le_bytes());
        for range in &self.held {
            out.extend(range.start.to_le_bytes());
            out.extend(range.end.to_le_bytes());
        }
        out
    }

    /// Reads what [`encode`](Stored::encode) wrote. Errors: anything else, of any length, in time and memory linear in
    /// its length.
    pub fn decode(bytes: &[u8]) -> Result<Stored, Damaged> {
        let mut from = Reader(bytes.strip_prefix(MAGIC).ok_or(Damaged)?);
        let [flags] = from.array()?;
        let status = StatusCode::from_u16(u16::from_le_bytes(from.array()?)).map_err(|_| Damaged)?;
        let request_time = from.time()?;
        let response_time = from.time()?;
        let length = from.number()?;
        let length = match flags {
            0 if length == 0 => None,
            1 => Some(length),
            _ => return Err(Damaged),
        };
        let key = Key { partition: from.text()?, scheme: from.text()?, authority: from.text()?, path: from.text()? };
        let mut selecting = Vec::new();
        for _ in 0..from.count()? {
            let name = from.name()?;
            let [there] = from.array()?;
            let value = from.bytes()?.to_vec();
            match there {
                0 if value.is_empty() => selecting.push((name, None)),
                1 => selecting.push((name, Some(value))),
                _ => return Err(Damaged),
            }
        }
        let (headers, trailers) = (from.fields()?, from.fields()?);
        let mut held: Vec<Range<u64>> = Vec::new();
        for _ in 0..from.count()? {
            let range = from.number()?..from.number()?;
            let sorted = held.last().is_none_or(|last| last.end < range.start);
            if range.is_empty() || !sorted || length.is_some_and(|length| range.end > length) {
                return Err(Damaged);
            }
            held.push(range);
        }
        let all = Stored { key, status, headers, trailers, selecting, request_time, response_time, length, held };
        if from.0.is_empty() { Ok(all) } else { Err(Damaged) }
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged)
    }

    fn number(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Result<u16, Damaged> {
        self.array().map(u16::from_le_bytes)
    }

    fn time(&mut self) -> Result<SystemTime, Damaged> {
        let since = Duration::from_millis(self.number()?);
        UNIX_EPOCH.checked_add(since).ok_or(Damaged)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let count = u32::from_le_bytes(self.array()?);
        self.take(count as usize)
    }

    fn text(&mut self) -> Result<String, Damaged> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Damaged)
    }

    fn name(&mut self) -> Result<HeaderName, Damaged> {
        HeaderName::from_lowercase(self.bytes()?).map_err(|_| Damaged)
    }

    fn fields(&mut self) -> Result<HeaderMap, Damaged> {
        let mut fields = HeaderMap::new();
        for _ in 0..self.count()? {
            let name = self.name()?;
            let value = HeaderValue::from_bytes(self.bytes()?).map_err(|_| Damaged)?;
            fields.try_append(name, value).map_err(|_| Damaged)?;
        }
        Ok(fields)
    }
}
