//! An HTTP cache for programs that have their own HTTP client: `thaw_httpcache` says what may be served and stored,
//! `thaw_entrystore` keeps it. Rust programs use [`shelf`]; all others `include/thaw_cache.h`, whose functions are in
//! [`c`].
//!
//! ```
//! use std::time::SystemTime;
//! use thaw_cache::shelf::{Action, Event, Options, Shelf};
//!
//! let shelf = Shelf::open(Options::new(None)).unwrap(); // in memory
//! let next = || loop {
//!     // A program waits for shelf.fd() here, beside its sockets.
//!     if let Some((_, event)) = shelf.next() {
//!         break event;
//!     }
//! };
//! let ask = || http::Request::get("http://example.org/a").body(()).unwrap().into_parts().0;
//!
//! let first = shelf.ask(ask(), "", 1).unwrap();
//! assert_eq!(next(), Event::Decided(Action::Forward, 0));
//! // It sends first.request() and gets the head of a response.
//! let response = http::Response::builder().header("cache-control", "max-age=60").body(()).unwrap().into_parts().0;
//! assert_eq!(first.response(response, SystemTime::now()).unwrap(), Action::Store);
//! first.write(b"hello").unwrap();
//! first.finish(Default::default()).unwrap();
//! assert_eq!(next(), Event::Stored);
//!
//! let second = shelf.ask(ask(), "", 2).unwrap();
//! assert_eq!(next(), Event::Decided(Action::Serve, 5));
//! second.read(5).unwrap();
//! assert_eq!(next(), Event::Body("hello".into()));
//! assert_eq!(next(), Event::End);
//! ```

pub mod c;
mod change;
mod memory;
pub mod shelf;
