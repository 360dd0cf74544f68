//! `Range`, `Content-Range` (RFC 9110 section 14), and sets of bytes that are held.

use http::{HeaderMap, header};
use std::ops::Range;

/// What a `Range` field of unit `bytes` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// From a byte to a byte, both included; to the end where there is no last one.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Asked {
    /// Those bytes of a representation of this length; `None` where it has none of them.
    pub fn within(&self, length: u64) -> Option<Range<u64>> {
        let (start, end) = match *self {
            Asked::From(start, last) => (start, last.map_or(length, |last| last.saturating_add(1).min(length))),
            Asked::Last(count) => (length.saturating_sub(count), length),
        };
        (start < end).then_some(start..end)
    }
}

/// The ranges of a request. `None` where it has none, or a unit or form that is not known: the field is then ignored
/// (RFC 9110 section 14.2). At most 100, against requests that only cost.
pub fn asked(headers: &HeaderMap) -> Option<Vec<Asked>> {
    let text = crate::fields::single(headers, &header::RANGE)?.to_str().ok()?.trim();
    let (unit, set) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut ranges = Vec::new();
    for spec in set.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()) {
        let (first, last) = spec.split_once('-')?;
        ranges.push(match (first, last) {
            ("", last) => Asked::Last(number(last)?),
            (first, "") => Asked::From(number(first)?, None),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                Asked::From(first, Some(last))
            }
        });
    }
    (1..=100).contains(&ranges.len()).then_some(ranges)
}

/// The bytes that a 206 holds and the length of the whole, where it is known. `None` for any other form.
pub fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let text = crate::fields::single(headers, &header::CONTENT_RANGE)?.to_str().ok()?.trim();
    let (unit, rest) = text.split_once(' ')?;
    let (range, length) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let length = if length == "*" { None } else { Some(number(length)?) };
    let sound = unit.eq_ignore_ascii_case("bytes") && first <= last && length.is_none_or(|length| last < length);
    sound.then(|| first..last + 1)?;
    Some((first..last + 1, length))
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|number| *number < u64::MAX)
}

/// Adds bytes to a sorted set of ranges that do not touch.
pub(crate) fn add(held: &mut Vec<Range<u64>>, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    held.push(range);
    held.sort_by_key(|of| of.start);
    held.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
}
