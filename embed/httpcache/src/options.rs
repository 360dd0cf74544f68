//! What a cache is told about itself.

use http::HeaderName;
use std::time::Duration;

/// What a cache is told about itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether more than one user is served: `private`, `s-maxage`, `proxy-revalidate` and the rules for
    /// `Authorization` then count.
    pub shared: bool,
    /// Targeted fields that are for this cache, the most wanted first (RFC 9213).
    pub targeted: Vec<HeaderName>,
    /// The cache's name in `Cache-Status`: letters, digits, `-`, `.` and `_`.
    pub name: String,
    /// Which part of the time since `Last-Modified` a response is guessed fresh where nothing is said.
    pub heuristic_fraction: f64,
    /// The longest such guess.
    pub heuristic_cap: Duration,
    /// Whether a stale response is served where the origin cannot be reached and nothing forbids it (RFC 9111 section
    /// 4.2.4).
    pub stale_when_disconnected: bool,
}

impl Options {
    /// A cache of many users, a tenth of the age of a response as a guess, at most a day; it heeds `CDN-Cache-Control`.
    pub fn shared(name: &str) -> Options {
        Options {
            shared: true,
            targeted: vec![HeaderName::from_static("cdn-cache-control")],
            name: name.into(),
            heuristic_fraction: 0.1,
            heuristic_cap: Duration::from_secs(24 * 3600),
            stale_when_disconnected: true,
        }
    }

    /// A cache of one user.
    pub fn private(name: &str) -> Options {
        Options { shared: false, targeted: Vec::new(), ..Options::shared(name) }
    }
}
