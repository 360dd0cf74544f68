//! The hit path apart: a request whose head is byte for byte one that was answered by a fresh stored response is
//! answered by the same again, as long as the store holds that and it is fresh. Nothing is parsed and nothing decided
//! anew, so nothing can be decided otherwise.

use crate::guard::Sending;
use crate::store::{Hit, Memory};
use crate::upstream::Origin;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, Response, StatusCode, Version};
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Our name in `Cache-Status`.
pub const NAME: &str = "thaw";

/// Heads that are remembered, each in the place that its hash gives: a later one takes it.
const PLACES: usize = 4096;

/// Longer heads are not remembered: all places together hold no more than 16 MiB of requests and answers' heads.
const LONGEST: usize = 2048;

/// An answer that may be given again.
struct Answer {
    /// The origin that all requests of its connection are for, where there is one: the same bytes mean another target
    /// on another connection.
    inside: Option<Arc<Origin>>,
    /// The head of the request.
    request: Bytes,
    hit: Hit,
    status: u16,
    /// Seconds that it was old.
    age: u64,
    /// Status line and fields but for the two that change.
    head: Vec<u8>,
    /// The whole head of the last second that was asked for.
    latest: Mutex<(u64, Bytes)>,
    length: u64,
}

/// What was answered and may come again.
pub struct Again {
    store: Arc<Memory>,
    hasher: RandomState,
    places: Vec<Mutex<Option<Arc<Answer>>>>,
}

/// Whether a request may be answered again by its bytes alone: its answer depends on the time only through the stored
/// response, and the connection goes on.
pub fn is_repeatable<B>(request: &Request<B>) -> bool {
    let fields = request.headers();
    let never =
        [header::CACHE_CONTROL, header::PRAGMA, header::CONNECTION, HeaderName::from_static("proxy-connection")];
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && !never
            .iter()
            .any(|name| fields.get_all(name).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"keep-alive")))
}

impl Again {
    /// Nothing yet.
    pub fn new(store: Arc<Memory>) -> Self {
        let places = std::iter::repeat_with(Mutex::default).take(PLACES).collect();
        Self { store, hasher: RandomState::new(), places }
    }

    fn place(&self, inside: Option<&Origin>, request: &[u8]) -> &Mutex<Option<Arc<Answer>>> {
        &self.places[self.hasher.hash_one((inside, request)) as usize % PLACES]
    }

    /// Remembers an answer with the head of its request, for which [`is_repeatable`] holds. `inside`: the origin that
    /// the connection is one to, where it is.
    pub fn keep<B>(&self, inside: Option<&Arc<Origin>>, request: Bytes, answer: &Response<B>, hit: Hit) {
        let fields = answer.headers();
        let length: u64 = hit.pieces.iter().map(|piece| piece.len() as u64).sum();
        let told = match answer.status() {
            StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT => length == 0,
            _ => number(fields, &header::CONTENT_LENGTH) == Some(length),
        };
        // What the connection would add by itself is not to be made up here.
        let whole = fields.contains_key(header::DATE) && !fields.contains_key(header::TRANSFER_ENCODING);
        let Some((head, age)) = head(answer).filter(|_| told && whole) else { return };
        if request.len() > LONGEST || head.len() > LONGEST {
            return;
        }
        let (status, latest) = (answer.status().as_u16(), Mutex::new((u64::MAX, Bytes::new())));
        let inside = inside.cloned();
        let place = self.place(inside.as_deref(), &request);
        let answer = Arc::new(Answer { inside, request, hit, status, age, head, latest, length });
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// The answer to a request with this head on such a connection, if it is the one of before.
    pub fn answer(&self, inside: Option<&Origin>, request: &[u8], now: SystemTime) -> Option<Sending> {
        let answer = self.place(inside, request).lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let elapsed = answer.elapsed(now)?;
        if answer.request != request || answer.inside.as_deref() != inside || !self.store.used(&answer.hit) {
            return None;
        }
        let mut parts = Vec::with_capacity(answer.hit.pieces.len() + 1);
        parts.push(answer.head_at(elapsed));
        parts.extend(answer.hit.pieces.iter().cloned());
        Some(Sending::new(parts, answer.request.clone(), answer.status, answer.length))
    }
}

impl Answer {
    /// Seconds since it was made, as long as it is fresh: what was cut off of them and of its age is less than two.
    fn elapsed(&self, now: SystemTime) -> Option<u64> {
        let elapsed = now.duration_since(self.hit.at).ok()?.as_secs();
        (elapsed + 1 < self.hit.ttl).then_some(elapsed)
    }

    fn head_at(&self, elapsed: u64) -> Bytes {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.0 != elapsed {
            let mut head = self.head.clone();
            let (age, ttl) = (self.age + elapsed, self.hit.ttl - elapsed);
            // Writing into memory does not fail.
            let _ = write!(head, "age: {age}\r\ncache-status: {}; hit; ttl={ttl}\r\n\r\n", NAME);
            *latest = (elapsed, head.into());
        }
        latest.1.clone()
    }
}

fn number(fields: &HeaderMap, name: &HeaderName) -> Option<u64> {
    fields.get(name)?.to_str().ok()?.parse().ok()
}

/// The head as bytes without the two fields that change, and the age that it tells.
fn head<B>(answer: &Response<B>) -> Option<(Vec<u8>, u64)> {
    let fields = answer.headers();
    let age = number(fields, &header::AGE)?;
    let status = answer.status();
    let mut head = format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("")).into_bytes();
    // The last one is ours.
    let caches = fields.get_all("cache-status").iter().count().checked_sub(1)?;
    let mut seen = 0;
    for (name, value) in fields {
        if name == header::AGE {
            continue;
        }
        if name == "cache-status" {
            seen += 1;
            if seen > caches {
                continue;
            }
        }
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    Some((head, age))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::sync::Weak;
    use std::time::Duration;
    use thaw_httpcache::Key;

    #[test]
    fn it_is_given_while_it_is_fresh_and_as_old_as_it_is() {
        let again = Again::new(Memory::new(1 << 20, None, Arc::new(Metrics::default())));
        let at = SystemTime::now();
        let hit = Hit {
            key: Key::of(&"http://a/".parse().unwrap(), &HeaderMap::new(), ""),
            variants: Weak::new(),
            index: 0,
            pieces: vec![Bytes::from_static(b"body")],
            ttl: 10,
            at,
        };
        let mut answer = Response::new(());
        for (name, value) in [
            ("date", "now"),
            ("content-length", "4"),
            ("age", "5"),
            ("cache-status", "other; hit"),
            ("cache-status", "thaw; hit; ttl=10"),
        ] {
            answer.headers_mut().append(name, value.parse().unwrap());
        }
        let request = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        again.keep(None, request.clone(), &answer, hit);
        let known = again.place(None, &request).lock().unwrap().clone().unwrap();
        let text = |elapsed| String::from_utf8(known.head_at(elapsed).to_vec()).unwrap();
        assert_eq!(
            text(3),
            "HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 4\r\ncache-status: other; hit\r\nage: 8\r\n\
             cache-status: thaw; hit; ttl=7\r\n\r\n"
        );
        let fresh = |seconds: f64| known.elapsed(at + Duration::from_secs_f64(seconds));
        assert_eq!([fresh(0.0), fresh(8.9), fresh(9.0)], [Some(0), Some(8), None]);
        assert_eq!(known.elapsed(at - Duration::from_secs(1)), None, "a clock that went back");
        assert!(again.answer(None, &request, at).is_none(), "the store has nothing of it");
    }

    #[test]
    fn what_is_decided_by_more_than_the_stored_response_is_not_repeatable() {
        let with = |name: &'static str, value: &str| Request::builder().header(name, value).body(()).unwrap();
        assert!(is_repeatable(&with("connection", "Keep-Alive")) && is_repeatable(&with("accept", "*/*")));
        for (name, value) in [("cache-control", "max-age=5"), ("pragma", "no-cache"), ("connection", "close")] {
            assert!(!is_repeatable(&with(name, value)), "{name}: {value}");
        }
        assert!(!is_repeatable(&Request::builder().method("HEAD").body(()).unwrap()));
        assert!(!is_repeatable(&Request::builder().version(Version::HTTP_10).body(()).unwrap()));
    }
}
