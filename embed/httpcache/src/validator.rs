//! Entity tags and dates as validators, and what a cache answers to a conditional request (RFC 9110 sections 8.8 and
//! 13, RFC 9111 section 4.3.2).

use crate::{date, fields};
use http::{HeaderMap, header};
use std::time::SystemTime;

/// The tag of a message and whether it is weak.
fn tag(headers: &HeaderMap) -> Option<(bool, &[u8])> {
    Some(opaque(fields::single(headers, &header::ETAG)?.as_bytes().trim_ascii()))
}

fn opaque(tag: &[u8]) -> (bool, &[u8]) {
    tag.strip_prefix(b"W/").map_or((false, tag), |tag| (true, tag))
}

/// The strong entity tag, as it is written. A compressed form that bears the tag of the plain one is another tag only
/// if the origin says so: nothing is added to or taken from tags here.
pub(crate) fn strong_tag(headers: &HeaderMap) -> Option<&[u8]> {
    tag(headers).and_then(|(weak, tag)| (!weak).then_some(tag))
}

/// The date of a field that must have one.
pub(crate) fn date_of(headers: &HeaderMap, name: &http::HeaderName, now: SystemTime) -> Option<u64> {
    date::parse(fields::single(headers, name)?.as_bytes(), now)
}

/// `Last-Modified` where it is a strong validator: it is at least a second older than `Date` (RFC 9110 section
/// 8.8.2.2).
fn strong_date(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let modified = date_of(headers, &header::LAST_MODIFIED, now)?;
    (date_of(headers, &header::DATE, now)? > modified).then_some(modified)
}

/// Whether a message has anything to validate it by.
pub(crate) fn has_any(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED)
}

/// What goes into `If-Range`: a strong tag, or a date that is strong.
pub(crate) fn for_if_range(headers: &HeaderMap, now: SystemTime) -> Option<&http::HeaderValue> {
    match tag(headers) {
        Some((false, _)) => headers.get(header::ETAG),
        Some((true, _)) => None,
        None => strong_date(headers, now).and(headers.get(header::LAST_MODIFIED)),
    }
}

/// Whether two messages have the same strong validator, so that their bytes may be put together (RFC 9111 section 3.4).
pub(crate) fn same_strong(one: &HeaderMap, other: &HeaderMap, now: SystemTime) -> bool {
    match (tag(one), tag(other)) {
        (Some((false, one)), Some((false, other))) => one == other,
        (None, None) => {
            let date = strong_date(one, now);
            date.is_some() && date == strong_date(other, now)
        }
        _ => false,
    }
}

/// Whether a 304 is about this stored response (RFC 9111 section 4.3.4): each validator of the 304 is the stored one's.
pub(crate) fn confirms(not_modified: &HeaderMap, stored: &HeaderMap, now: SystemTime) -> bool {
    match (tag(not_modified), tag(stored)) {
        // Weak comparison where either is weak: the origin was asked about this tag and said that it stands.
        (Some((_, new)), Some((_, old))) => new == old,
        (Some(_), None) => false,
        (None, _) => match date_of(not_modified, &header::LAST_MODIFIED, now) {
            Some(new) => date_of(stored, &header::LAST_MODIFIED, now).is_none_or(|old| old == new),
            None => true,
        },
    }
}

/// Whether a stored response is, for this conditional request, what the client has already (RFC 9111 section 4.3.2).
/// `None`: the request has no condition that a cache may judge.
pub(crate) fn not_modified(
    request: &HeaderMap,
    stored: &HeaderMap,
    response_time: SystemTime,
    now: SystemTime,
) -> Option<bool> {
    if request.contains_key(header::IF_NONE_MATCH) {
        let asked = fields::list(request, &header::IF_NONE_MATCH);
        let held = tag(stored).map(|(_, tag)| tag);
        return Some(asked.iter().any(|of| *of == b"*" || Some(opaque(of).1) == held));
    }
    let since = date_of(request, &header::IF_MODIFIED_SINCE, now)?;
    let changed = date_of(stored, &header::LAST_MODIFIED, now)
        .or_else(|| date_of(stored, &header::DATE, now))
        .unwrap_or_else(|| date::seconds(response_time));
    Some(changed <= since)
}

/// Whether a request's `Range` holds for this response: it has no `If-Range`, or one that is the strong validator of
/// the response (RFC 9110 section 13.1.5).
pub(crate) fn range_holds(request: &HeaderMap, stored: &HeaderMap, now: SystemTime) -> bool {
    let Some(condition) = request.get(header::IF_RANGE) else { return true };
    let condition = condition.as_bytes().trim_ascii();
    match date::parse(condition, now) {
        Some(date) => strong_date(stored, now) == Some(date),
        None => strong_tag(stored).is_some_and(|tag| tag == condition),
    }
}
