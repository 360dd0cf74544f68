//! What an HTTP cache may store, serve, validate and must forget, without any I/O: RFC 9111 on the types of the crate
//! `http`, with conditional requests and ranges (RFC 9110), targeted fields (9213), `Cache-Status` (9211),
//! `stale-while-revalidate` and `stale-if-error` (5861) and `immutable` (8246). docs/httpcache.md says where each
//! requirement is implemented and tested.
//!
//! The caller has the store and the sockets. For each request it hands over the stored heads of its [`Key`] and does
//! what it is told:
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use thaw_httpcache::{Answered, Body, Cache, Decision, Key, Options};
//!
//! let cache = Cache::new(Options::shared("thaw"));
//! let now = SystemTime::now();
//! let (request, ()) = http::Request::get("http://example.org/a").body(()).unwrap().into_parts();
//! let key = Key::of(&request.uri, &request.headers, "");
//! let mut candidates = Vec::new(); // all that the store has of this key
//!
//! let Decision::Forward(forward) = cache.lookup(&request, &key, &candidates, now) else { panic!() };
//! // The caller sends forward.request and gets the head of a response.
//! let response = http::Response::builder().header("cache-control", "max-age=60").header("content-length", 5);
//! let (response, ()) = response.body(()).unwrap().into_parts();
//! let Answered::Done(outcome) = cache.on_response(&request, &forward, &candidates, response, now, now) else {
//! panic!() }; assert!(matches!(outcome.reply.body, Body::Upstream));
//! // It sends outcome.reply to the client; at the end of the body it says what came, and keeps it.
//! let mut store = outcome.store.unwrap();
//! assert!(store.stored.finish(store.offset, 5, true, Default::default()));
//! candidates.push(store.stored);
//!
//! let later = now + Duration::from_secs(30);
//! let Decision::Serve(serve) = cache.lookup(&request, &key, &candidates, later) else { panic!() };
//! assert_eq!(serve.reply.head.headers["age"], "30");
//! assert!(matches!(serve.reply.body, Body::Stored { index: 0, range } if range == (0..5)));
//! ```
//!
//! Interim responses (1xx) are passed on by the caller and never handed over; 101 ends HTTP on a connection. `Via`,
//! framing and credentials for the proxy itself are the caller's. Requests for the same thing at the same time are
//! joined by [`Flights`].

mod cache;
mod date;
pub mod dictionary;
mod directives;
mod fields;
mod flight;
mod freshness;
mod key;
mod options;
pub mod packed;
mod range;
mod stored;
mod validator;
mod vary;

pub use cache::{Answered, Body, Cache, Decision, Forward, Outcome, Reply, Serve, Store};
pub use directives::{Directives, Seconds};
pub use flight::{Flights, Joined, Woken};
pub use key::Key;
pub use options::Options;
pub use range::{Asked, asked, content_range};
pub use stored::{Damaged, Stored};
pub use vary::{names as vary_names, normal as vary_normal};
