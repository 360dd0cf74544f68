//! The same from Rust: what needs a moment between two calls.

use bytes::Bytes;
use http::{HeaderMap, Response, request, response};
use rustix::event::{PollFd, PollFlags, poll};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use thaw_cache::shelf::{Action, Event, Exchange, Misuse, Options, Shelf};
use thaw_entrystore::{Blocking, Key as Name, Options as Limits, Put, Store};
use thaw_httpcache::{Key, Stored, packed};

fn open(path: &Path) -> Arc<Shelf> {
    Shelf::open(Options::new(Some(path.to_owned()))).unwrap()
}

fn next(shelf: &Shelf) -> (u64, Event) {
    loop {
        if let Some(came) = shelf.next() {
            return came;
        }
        let _ = poll(&mut [PollFd::new(&shelf.fd(), PollFlags::IN)], None);
    }
}

fn ask(shelf: &Arc<Shelf>, url: &str, tag: u64) -> (Exchange, Event) {
    let (parts, ()) = http::Request::get(url).body(()).unwrap().into_parts();
    let exchange = shelf.ask(parts, "", tag).unwrap();
    let (of, event) = next(shelf);
    assert_eq!(of, tag);
    (exchange, event)
}

fn head(status: u16, fields: &[(&str, &str)]) -> response::Parts {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap().into_parts().0
}

/// Forwards, and has a response come that may be stored, and its body; it is not finished.
fn begin(shelf: &Arc<Shelf>, url: &str, tag: u64, fields: &[(&str, &str)], body: &[u8]) -> Exchange {
    let (exchange, event) = ask(shelf, url, tag);
    assert_eq!(event, Event::Decided(Action::Forward, 0));
    assert_eq!(exchange.response(head(200, fields), SystemTime::now()), Ok(Action::Store));
    exchange.write(body).unwrap();
    exchange
}

const FRESH: &[(&str, &str)] = &[("cache-control", "max-age=60")];
const TAGGED: &[(&str, &str)] = &[("cache-control", "no-cache"), ("etag", "\"t\"")];

#[test]
fn an_end_writes_what_was_finished_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = open(folder.path());
    let exchanges: Vec<Exchange> =
        (0..20).map(|at| begin(&shelf, &format!("http://a/{at}"), at, FRESH, b"body")).collect();
    exchanges.iter().for_each(|exchange| exchange.finish(HeaderMap::new()).unwrap());
    shelf.close();
    assert_eq!(shelf.ask(request(), "", 1).err(), Some(Misuse::Closed));
    let shelf = open(folder.path());
    for at in 0..20 {
        assert_eq!(ask(&shelf, &format!("http://a/{at}"), at).1, Event::Decided(Action::Serve, 4));
    }
    // Another variant is written beside those that are there, which have to be read for it.
    let varies: &[(&str, &str)] = &[("cache-control", "max-age=60"), ("vary", "accept-language")];
    let one = begin(&shelf, "http://a/varies", 1, varies, b"body");
    one.finish(HeaderMap::new()).unwrap();
    assert_eq!(next(&shelf), (1, Event::Stored));
    shelf.close();
    let shelf = open(folder.path());
    let german = || http::Request::get("http://a/varies").header("accept-language", "de").body(()).unwrap();
    let other = shelf.ask(german().into_parts().0, "", 2).unwrap();
    assert_eq!(next(&shelf), (2, Event::Decided(Action::Forward, 0)));
    assert_eq!(other.response(head(200, varies), SystemTime::now()), Ok(Action::Store));
    other.write(b"the other").unwrap();
    other.finish(HeaderMap::new()).unwrap();
    shelf.close();
    let shelf = open(folder.path());
    assert_eq!(ask(&shelf, "http://a/varies", 1).1, Event::Decided(Action::Serve, 4));
    let _other = shelf.ask(german().into_parts().0, "", 2).unwrap();
    assert_eq!(next(&shelf), (2, Event::Decided(Action::Serve, 9)));
}

fn request() -> request::Parts {
    http::Request::get("http://a/0").body(()).unwrap().into_parts().0
}

#[test]
fn a_flush_is_done_behind_all_that_was_finished() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = open(folder.path());
    let exchanges: Vec<Exchange> =
        (0..20).map(|at| begin(&shelf, &format!("http://a/{at}"), at, FRESH, b"body")).collect();
    exchanges.iter().for_each(|exchange| exchange.finish(HeaderMap::new()).unwrap());
    shelf.flush(99).unwrap();
    let mut came: Vec<(u64, Event)> = (0..20).map(|_| next(&shelf)).collect();
    came.sort_by_key(|(tag, _)| *tag);
    assert!(came.iter().zip(0..).all(|(came, at)| *came == (at, Event::Stored)), "{came:?}");
    assert_eq!(next(&shelf), (99, Event::Done(true)));
}

#[test]
fn what_is_finished_and_at_once_invalidated_is_gone() {
    let shelf = Shelf::open(Options::new(None)).unwrap();
    let first = begin(&shelf, "http://a/", 1, FRESH, b"old");
    first.finish(HeaderMap::new()).unwrap();
    shelf.invalidate(&"http://a/".parse().unwrap(), "", 2).unwrap();
    let mut came = [next(&shelf), next(&shelf)];
    came.sort_by_key(|(tag, _)| *tag);
    assert_eq!(came, [(1, Event::Dropped), (2, Event::Done(true))]);
    assert_eq!(ask(&shelf, "http://a/", 3).1, Event::Decided(Action::Forward, 0));
}

#[test]
fn what_went_while_its_origin_was_asked_is_asked_for_again() {
    let shelf = Shelf::open(Options::new(None)).unwrap();
    let first = begin(&shelf, "http://a/", 1, TAGGED, b"old");
    first.finish(HeaderMap::new()).unwrap();
    assert_eq!(next(&shelf), (1, Event::Stored));
    let (second, event) = ask(&shelf, "http://a/", 2);
    assert_eq!(event, Event::Decided(Action::Forward, 0));
    assert_eq!(second.request().unwrap().headers["if-none-match"], "\"t\"");
    shelf.invalidate(&"http://a/".parse().unwrap(), "", 3).unwrap();
    assert_eq!(next(&shelf), (3, Event::Done(true)));
    assert_eq!(second.response(head(304, TAGGED), SystemTime::now()), Ok(Action::Wait));
    assert_eq!(next(&shelf), (2, Event::Decided(Action::Forward, 0)));
    assert!(!second.request().unwrap().headers.contains_key("if-none-match"));
    // What comes now is new, and may be stored.
    assert_eq!(second.response(head(200, TAGGED), SystemTime::now()), Ok(Action::Store));
    second.finish(HeaderMap::new()).unwrap();
    assert_eq!(next(&shelf), (2, Event::Stored));
}

#[test]
fn what_was_replaced_while_its_origin_was_asked_is_not_mixed_up() {
    let shelf = Shelf::open(Options::new(None)).unwrap();
    let first = begin(&shelf, "http://a/", 1, TAGGED, b"old body");
    first.finish(HeaderMap::new()).unwrap();
    assert_eq!(next(&shelf), (1, Event::Stored));
    let (slow, _) = ask(&shelf, "http://a/", 2);
    let (other, _) = ask(&shelf, "http://a/", 3);
    let new: &[(&str, &str)] = &[("cache-control", "max-age=60"), ("etag", "\"n\"")];
    assert_eq!(other.response(head(200, new), SystemTime::now()), Ok(Action::Store));
    other.write(b"the new body").unwrap();
    other.finish(HeaderMap::new()).unwrap();
    assert_eq!(next(&shelf), (3, Event::Stored));
    // The 304 is about the old one, of which there are no bytes any more.
    assert_eq!(slow.response(head(304, TAGGED), SystemTime::now()), Ok(Action::Wait));
    assert_eq!(next(&shelf), (2, Event::Decided(Action::Serve, 12)));
    assert_eq!(slow.head().unwrap().headers["etag"], "\"n\"");
    slow.read(100).unwrap();
    assert_eq!(next(&shelf), (2, Event::Body(Bytes::from_static(b"the new body"))));
}

#[test]
fn parts_are_passed_on() {
    let shelf = Shelf::open(Options::new(None)).unwrap();
    let (exchange, _) = ask(&shelf, "http://a/", 1);
    let part = [("content-range", "bytes 0-3/10"), ("cache-control", "max-age=60"), ("etag", "\"t\"")];
    assert_eq!(exchange.response(head(206, &part), SystemTime::now()), Ok(Action::Pass));
    let told = exchange.head().unwrap().headers["cache-status"].clone();
    assert!(!told.to_str().unwrap().contains("stored"), "{told:?}");
    // One that is all of it is stored.
    let (exchange, _) = ask(&shelf, "http://a/", 1);
    let part = [("content-range", "bytes 0-3/4"), ("cache-control", "max-age=60"), ("etag", "\"t\"")];
    assert_eq!(exchange.response(head(206, &part), SystemTime::now()), Ok(Action::Store));
}

#[test]
fn an_entry_that_does_not_add_up_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::of(&"http://a/".parse().unwrap(), &HeaderMap::new(), "");
    let now = SystemTime::now();
    let stored = Stored {
        key: key.clone(),
        status: http::StatusCode::OK,
        headers: head(200, FRESH).headers,
        trailers: HeaderMap::new(),
        selecting: Vec::new(),
        request_time: now,
        response_time: now,
        length: Some(4),
        held: std::iter::once(0..4).collect(),
    };
    let variants = [(stored, vec![Bytes::from_static(b"body")])];
    let ((meta, body), (other, _)) = (packed::pack(7, &variants), packed::pack(8, &variants));
    let name = Name::new(b"", &key.to_bytes()).unwrap();
    let sound = Event::Decided(Action::Serve, 4);
    let none = Event::Decided(Action::Forward, 0);
    // Another number; no metadata of ours; a body shorter than its number.
    let short = body.slice(..4);
    for (meta, body, wanted) in [
        (meta.clone(), body.clone(), &sound),
        (other, body.clone(), &none),
        (body.clone(), body, &none),
        (meta, short, &none),
    ] {
        let mut store = Blocking::new(Store::open(Limits::new(folder.path())).unwrap());
        assert!(store.put(&name, Put { meta, ..Put::default() }, body));
        drop(store);
        let shelf = open(folder.path());
        assert_eq!(ask(&shelf, "http://a/", 1).1, *wanted);
        shelf.close();
        // What does not add up is taken away.
        let mut store = Blocking::new(Store::open(Limits::new(folder.path())).unwrap());
        assert_eq!(store.get(&name).is_some(), *wanted == sound);
    }
}

#[test]
fn no_function_of_the_header_goes_without_a_guard() {
    let source = include_str!("../../src/c.rs");
    let functions: Vec<&str> = source.split("#[unsafe(no_mangle)]").skip(1).collect();
    assert!(functions.len() > 20);
    for function in functions {
        let (name, body) = function.split_once('{').unwrap();
        let body = body.split("\n}").next().unwrap();
        let statements = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        let first = statements.clone().next().unwrap();
        assert!(first.starts_with("guard(PANIC, || ") || name.contains("thaw_cache_explain"), "{name}");
    }
}
