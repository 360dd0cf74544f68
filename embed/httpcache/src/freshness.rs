//! How old a stored response is and how long it is fresh (RFC 9111 section 4.2).

use crate::directives::{self, Directives, Seconds};
use crate::{Options, date, fields, validator};
use http::{HeaderMap, StatusCode, header};
use std::time::{Duration, SystemTime};

/// The directives that a response has for this cache: those of the first valid targeted field (RFC 9213 section 2.2),
/// else those of `Cache-Control`; and whether they are targeted, so that `Expires` does not count.
pub(crate) fn directives_of(options: &Options, headers: &HeaderMap) -> (Directives, bool) {
    match options.targeted.iter().find_map(|name| Directives::targeted(headers, name)) {
        Some(directives) => (directives, true),
        None => (Directives::of(headers), false),
    }
}

/// Seconds since the origin made or validated a response (section 4.2.3).
pub(crate) fn age(headers: &HeaderMap, request_time: SystemTime, response_time: SystemTime, now: SystemTime) -> u64 {
    // Of several values the first counts (section 5.1); one that is no number is ignored.
    let told = fields::list(headers, &header::AGE).first().and_then(|text| directives::seconds(text)).unwrap_or(0);
    let date = validator::date_of(headers, &header::DATE, response_time);
    let apparent = date.map_or(0, |date| date::seconds(response_time).saturating_sub(date));
    let elapsed = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or(Duration::ZERO).as_secs();
    let corrected = told + elapsed(request_time, response_time);
    apparent.max(corrected) + elapsed(response_time, now)
}

/// Whether a lifetime was told or guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Told(u64),
    Guessed(u64),
    Unknown,
}

impl Lifetime {
    pub(crate) fn seconds(self) -> u64 {
        match self {
            Lifetime::Told(seconds) | Lifetime::Guessed(seconds) => seconds,
            Lifetime::Unknown => 0,
        }
    }
}

/// How long a response is fresh (section 4.2.1). Freshness that cannot be read means none.
pub(crate) fn lifetime(
    options: &Options,
    status: StatusCode,
    headers: &HeaderMap,
    response_time: SystemTime,
) -> Lifetime {
    let (directives, targeted) = directives_of(options, headers);
    let shared = options.shared.then_some("s-maxage");
    for name in shared.into_iter().chain(["max-age"]) {
        match directives.seconds(name) {
            Seconds::Of(seconds) => return Lifetime::Told(seconds),
            Seconds::Invalid => return Lifetime::Told(0),
            Seconds::Absent => {}
        }
    }
    let date = validator::date_of(headers, &header::DATE, response_time).unwrap_or(date::seconds(response_time));
    if !targeted && headers.contains_key(header::EXPIRES) {
        let expires = validator::date_of(headers, &header::EXPIRES, response_time).unwrap_or(0);
        return Lifetime::Told(expires.saturating_sub(date));
    }
    if !is_heuristic(status) && !directives.has("public") {
        return Lifetime::Unknown;
    }
    match validator::date_of(headers, &header::LAST_MODIFIED, response_time) {
        Some(modified) => {
            let guess = date.saturating_sub(modified) as f64 * options.heuristic_fraction;
            Lifetime::Guessed((guess as u64).min(options.heuristic_cap.as_secs()))
        }
        None => Lifetime::Unknown,
    }
}

/// Status codes that may be guessed fresh (RFC 9110 section 15.1).
pub(crate) fn is_heuristic(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
