//! RFC 9111 section 3: which responses are stored, and which of their fields.

use crate::world::{Origin, World, answers, get, request};

/// Section 3: any final status code with freshness of its own is stored; 1xx, 304 and partial ones have rules apart.
#[test]
fn any_status_with_explicit_freshness_is_stored() {
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        assert!(World::keeps(status, &[("cache-control", "max-age=60")]), "{status}");
        assert!(!World::keeps(status, &[("cache-control", "max-age=1")]), "{status}");
    }
    assert!(!World::keeps(304, &[("cache-control", "max-age=60")]));
    assert!(!World::keeps(206, &[("cache-control", "max-age=60")]));
    assert!(!World::keeps(200, &[]));
}

/// Sections 5.2.2.5 and 5.2.2.7.
#[test]
fn no_store_and_private_forbid() {
    for value in ["no-store", "No-StOrE, max-age=60", "max-age=60, private", "private=\"\", max-age=60"] {
        assert!(!World::keeps(200, &[("cache-control", value)]), "{value}");
    }
    let private = World::with(thaw_httpcache::Options::private("thaw"));
    assert!(private.keeps_here(200, &[("cache-control", "private, max-age=60")]));
    let mut world = World::new();
    world.send(&get(&[("cache-control", "no-store")]), crate::world::ok("max-age=60"));
    assert!(!world.reuses(&get(&[]), 0));
}

/// Section 5.2.2.3: `must-understand` takes `no-store` away where the status code is known, and forbids otherwise.
#[test]
fn must_understand_needs_a_known_status() {
    let fields = [("cache-control", "max-age=60, no-store, must-understand")];
    assert!(World::keeps(200, &fields));
    assert!(!World::keeps(599, &fields));
}

/// Section 3.5: an answer to a request with credentials needs leave to be shared.
#[test]
fn authorized_responses_need_leave() {
    for (value, stored) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("s-maxage=60", true),
        ("max-age=60, must-revalidate", true),
    ] {
        let mut world = World::new();
        world.send(&get(&[("authorization", "x")]), crate::world::ok(value));
        assert_eq!(world.reuses(&get(&[]), 1), stored, "{value}");
    }
    let mut private = World::with(thaw_httpcache::Options::private("thaw"));
    private.send(&get(&[("authorization", "x")]), crate::world::ok("max-age=60"));
    assert!(private.reuses(&get(&[]), 1));
}

/// Section 3.1 and RFC 9110 section 7.6.1: fields of a hop, those that `Connection` names, and those that `no-cache`
/// and `private` name are not stored; all others are, `Set-Cookie` too.
#[test]
fn fields_of_the_hop_are_not_stored() {
    let mut world = World::new();
    let fields = [
        ("cache-control", "max-age=60, no-cache=\"d, e\", private=f"),
        ("connection", "a, b, cache-control"),
        ("a", "1"),
        ("b", "1"),
        ("c", "1"),
        ("d", "1"),
        ("e", "1"),
        ("f", "1"),
        ("keep-alive", "1"),
        ("te", "1"),
        ("proxy-authenticate", "1"),
        ("proxy-authentication-info", "1"),
        ("proxy-authorization", "1"),
        ("upgrade", "x"),
        ("proxy-connection", "1"),
        ("warning", "110 - stale"),
        ("transfer-encoding", "chunked"),
        ("set-cookie", "a=b"),
        ("content-md5", "x"),
        ("content-range", "x"),
        ("public-key-pins", "x"),
    ];
    let first = world.send(&get(&[]), answers(200, &fields, b"hello"));
    assert_eq!((first.header("a"), first.header("proxy-authenticate")), (None, Some("1")));
    let second = world.send(&get(&[("cookie", "x=y")]), Origin::Unreachable);
    assert_eq!(second.body, b"hello");
    let kept = ["c", "set-cookie", "content-md5", "content-range", "public-key-pins", "cache-control", "date"];
    assert!(kept.iter().all(|name| second.header(name).is_some()));
    let dropped = [
        "a",
        "b",
        "d",
        "e",
        "f",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "warning",
    ];
    assert!(dropped.iter().all(|name| second.header(name).is_none()), "{:?}", second.headers);
}

/// RFC 9110 section 9.3.3: POST with explicit freshness and the target itself as `Content-Location`.
#[test]
fn post_is_stored_as_what_get_would_bring() {
    let post = request("POST", "http://example.org/a", &[]);
    for (fields, stored) in [
        (&[("cache-control", "max-age=60"), ("content-location", "/a")][..], true),
        (&[("cache-control", "max-age=60"), ("content-location", "")], true),
        (&[("cache-control", "max-age=60"), ("content-location", "http://EXAMPLE.org:80/a")], true),
        (&[("cache-control", "max-age=60"), ("content-location", "/b")], false),
        (&[("cache-control", "max-age=60")], false),
        (&[("content-location", "/a"), ("last-modified", "Mon, 23 Nov 2026 00:00:00 GMT")], false),
    ] {
        let mut world = World::new();
        world.send(&post, answers(200, fields, b"hello"));
        assert_eq!(world.reuses(&get(&[]), 1), stored, "{fields:?}");
        assert_eq!(world.send(&post, answers(200, &[], b"")).asked, 1);
    }
}

/// RFC 9112 section 8: a response cut short, or of another length than it said, is not served as whole.
#[test]
fn bodies_of_another_length_are_not_kept() {
    let fields = [("cache-control", "max-age=60"), ("content-length", "10")];
    let tagged = [fields[0], fields[1], ("etag", "\"a\"")];
    for origin in [
        answers(200, &fields, b"01234567890"),
        answers(200, &fields, b"01234"),
        answers(200, &tagged, b"01234"),
        Origin::Breaks(crate::world::head(200, &fields), b"01234"),
        Origin::Breaks(crate::world::head(200, &fields[..1]), b"01234"),
    ] {
        let mut world = World::new();
        world.send(&get(&[]), origin);
        assert!(world.entries.is_empty());
    }
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("cache-control", "max-age=60"), ("content-length", "0")], b""));
    assert!(world.reuses(&get(&[]), 1));
}

/// RFC 9110 section 7.8: a request to become another protocol is never answered from nor brought into the cache.
#[test]
fn upgrades_are_passed_by() {
    let mut world = World::new();
    world.send(&get(&[]), crate::world::ok("max-age=60"));
    let upgrade = get(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
    assert_eq!(world.send(&upgrade, answers(200, &[("cache-control", "max-age=60")], b"other")).asked, 1);
    assert_eq!(world.send(&get(&[]), Origin::Unreachable).body, b"hello");
}
