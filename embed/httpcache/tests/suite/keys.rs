//! RFC 9110 section 4.2.3: targets that are the same; collapsed requests.

use crate::world::request;
use thaw_httpcache::{Flights, Joined, Key, Woken};

fn key(target: &str, host: &str) -> Key {
    let request = request("GET", target, &[("host", host)]);
    Key::of(&request.uri, &request.headers, "")
}

/// RFC 9110 section 4.2.3: scheme and host in any case, the default port, an empty path; encoding and query as they
/// are.
#[test]
fn equal_targets_have_one_key() {
    let plain = key("http://example.org/", "x");
    for target in ["HTTP://Example.ORG", "http://example.org:80/", "http://u:p@example.org/", "http://example.org:/"] {
        assert_eq!(key(target, "x"), plain, "{target}");
    }
    assert_eq!(key("/", "EXAMPLE.org"), plain);
    assert_eq!(plain.to_string(), "http://example.org/");
    for target in ["https://example.org/", "http://example.org:8080/", "http://example.org/?", "http://example.org/%2e"]
    {
        assert_ne!(key(target, "x"), plain, "{target}");
    }
    assert_ne!(key("http://a/%7e", "x"), key("http://a/~", "x"));
    assert_eq!(key("https://a:443/?b", "x").to_string(), "https://a/?b");
    let request = request("GET", "http://a/", &[]);
    let parted = Key::of(&request.uri, &request.headers, "site");
    assert!(parted != key("http://a/", "x") && parted.to_bytes() == b"site\0http://a/");
}

/// RFC 9111 section 4: requests are joined while one is on its way, and let go alone where its answer is not stored.
#[test]
fn flights_join_and_let_go() {
    let (a, b) = (key("http://a/", "x"), key("http://b/", "x"));
    let mut flights = Flights::default();
    assert_eq!(flights.join(&a, 0), Joined::Lead);
    assert_eq!([flights.join(&a, 1), flights.join(&a, 2), flights.join(&a, 3)], [Joined::Wait; 3]);
    assert_eq!(flights.join(&b, 4), Joined::Lead);
    flights.leave(&a, &2);
    assert_eq!(flights.done(&a, false), [(1, Woken::GoAlone), (3, Woken::GoAlone)]);
    assert_eq!(flights.join(&a, 5), Joined::Lead);
    assert_eq!(flights.join(&a, 6), Joined::Wait);
    assert_eq!(flights.done(&a, true), [(6, Woken::LookAgain)]);
    assert_eq!(flights.done(&b, true), []);
}
