//! cache: what a directory of stored answers tells, and what is taken out of it.

use crate::scratch::Scratch;
use std::path::Path;
use std::time::SystemTime;
use thaw_entrystore::{Blocking, Key as Name, Options, Put, Store};
use thaw_httpcache::{Key, Stored, packed};

/// As the proxy keeps it: fresh for 1,000 s.
fn stored(url: &str, length: u64, language: Option<&str>) -> Stored {
    let now = SystemTime::now();
    let headers = [("cache-control", "max-age=1000"), ("x-own", "y\u{9b}31m")];
    let fields = headers.map(|(name, value)| (name.parse().unwrap(), http::HeaderValue::from_bytes(value.as_bytes())));
    Stored {
        key: Key::of(&url.parse().unwrap(), &http::HeaderMap::new(), ""),
        status: http::StatusCode::OK,
        headers: fields.into_iter().filter_map(|(name, value)| Some((name, value.ok()?))).collect(),
        trailers: http::HeaderMap::new(),
        selecting: language.map(|it| (http::header::ACCEPT_LANGUAGE, Some(it.into()))).into_iter().collect(),
        request_time: now,
        response_time: now,
        length: Some(length),
        held: std::iter::once(0..length).filter(|range| !range.is_empty()).collect(),
    }
}

fn fill(path: &Path) {
    let mut store = Blocking::new(Store::open(Options::new(path)).unwrap());
    let mut put = |url: &str, variants: &[packed::Variant]| {
        let (meta, body) = packed::pack(5, variants);
        let name = Name::new(b"", &Key::of(&url.parse().unwrap(), &http::HeaderMap::new(), "").to_bytes()).unwrap();
        assert!(store.put(&name, Put { meta, ..Put::default() }, body));
    };
    let body = |text: &'static str| vec![bytes::Bytes::from_static(text.as_bytes())];
    let (one, two) = ("http://a.example/one", "http://b.example/two");
    put(one, &[(stored(one, 8, None), body("the body"))]);
    put(two, &[(stored(two, 3, Some("de")), body("ja\n")), (stored(two, 4, Some("fr")), body("oui\n"))]);
}

#[test]
fn what_is_kept_is_told_read_and_taken_out() {
    let scratch = Scratch::new();
    fill(&scratch.path("cache"));
    let listed = scratch.thaw(["cache", "ls", "cache"]).exits(0);
    listed.says("3 answers, 3 of them fresh, with 15 B").says("accept-language: de").says("http://b.example/two");
    let json = scratch.thaw(["cache", "ls", "cache", "--prefix", "http://a", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["count"]), (&"thaw.cache/1".into(), &1.into()));
    assert_eq!(json["answers"][0]["bytes"], 8);
    let shown = scratch.thaw(["cache", "show", "cache", "http://a.example/one"]).exits(0);
    let shown = shown.says("cache-control: max-age=1000").says("8 B, fresh for");
    assert!(!shown.out().contains('\u{9b}'), "what an origin sent moves no cursor");
    let body = scratch.thaw(["cache", "show", "cache", "http://a.example/one", "--body"]).exits(0);
    assert_eq!(body.out(), "the body");
    scratch.thaw(["cache", "show", "cache", "http://a.example/"]).exits(2).hints("thaw cache ls");
    scratch.thaw(["cache", "verify", "cache"]).exits(0).says("2 entries").says("0 cannot be read");
    scratch.thaw(["cache", "clear", "cache", "--prefix", "http://b"]).exits(0).says("1 entry taken out");
    scratch.thaw(["cache", "stat", "cache"]).exits(0).says("1 answer, 1 of them fresh");
    scratch.thaw(["cache", "clear", "cache"]).exits(0).says("1 entry taken out");
    scratch.thaw(["cache", "ls", "cache"]).exits(0).says("0 answers");
}

#[test]
fn what_is_damaged_is_named() {
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    fill(&cache);
    let segment = cache.join("00000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(8).position(|at| at == b"the body").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let said = scratch.thaw(["cache", "verify", "cache"]).exits(5);
    said.says("1 cannot be read").says("broken: http://a.example/one");
}

#[test]
fn what_is_no_cache_of_ones_own_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    scratch.thaw(["cache", "ls", "nowhere"]).exits(2).complains("nowhere");
    scratch.write("diary/today.txt", "dear diary");
    for verb in ["ls", "stat", "verify", "clear"] {
        scratch.thaw(["cache", verb, "diary"]).exits(2).complains("not the directory of a cache");
    }
    assert_eq!(scratch.names("diary"), ["today.txt"]);
    let cache = scratch.path("cache");
    fill(&cache);
    let mut used = Blocking::new(Store::open(Options::new(&cache)).unwrap());
    used.flush();
    scratch.thaw(["cache", "clear", "cache"]).exits(2).complains("another process uses it");
    drop(used);
    scratch.thaw(["cache", "stat", "cache"]).exits(0).says("3 answers");
    if !rustix::process::geteuid().is_root() {
        return testing::skip("only root can give a directory to another user");
    }
    std::os::unix::fs::chown(&cache, Some(65_534), None).unwrap();
    scratch.thaw(["cache", "ls", "cache"]).exits(2).complains("another user's").hints("sudo -u '#65534'");
}
