//! RFC 9111 section 4.3 and RFC 9110 section 13: conditions, of clients and of the cache.

use crate::world::{Origin, World, answers, date, get};

fn with(fields: &[(&str, &str)], condition: &[(&str, &str)]) -> u16 {
    let mut world = World::new();
    world.send(
        &get(&[]),
        answers(200, &[&[("cache-control", "max-age=60"), ("date", &date(0))], fields].concat(), b"hello"),
    );
    let got = world.send(&get(condition), Origin::Unreachable);
    assert_eq!(got.body.is_empty(), got.status == 304);
    assert_eq!(got.header("etag"), fields.iter().find(|of| of.0 == "etag").map(|of| of.1));
    got.status
}

/// RFC 9110 sections 13.1.2 and 8.8.3.2: weak comparison, lists, `*`.
#[test]
fn if_none_match_is_answered() {
    for (tag, condition, status) in [
        ("\"a\"", "\"a\"", 304),
        ("\"a\"", "W/\"a\"", 304),
        ("W/\"a\"", "\"a\"", 304),
        ("W/\"a\"", "W/\"a\"", 304),
        ("\"a\"", "\"a\", \"b\"", 304),
        ("\"a\"", "\"b\",\"a\" , \"c\"", 304),
        ("\"a\"", "*", 304),
        ("\"a\"", "\"b\"", 200),
        ("\"a,b\"", "\"a,b\"", 304),
        ("\"a,b\"", "\"a\", \"b\"", 200),
        ("a", "a", 304),
        ("w/\"a\"", "W/\"a\"", 200),
    ] {
        assert_eq!(with(&[("etag", tag)], &[("if-none-match", condition)]), status, "{tag} {condition}");
    }
}

/// RFC 9110 section 13.1.3: at or before the date; without `Last-Modified` by `Date`; nothing beside `If-None-Match`.
#[test]
fn if_modified_since_is_answered() {
    let old = date(-3000);
    let modified = [("last-modified", &*old)];
    assert_eq!(with(&modified, &[("if-modified-since", &old)]), 304);
    assert_eq!(with(&modified, &[("if-modified-since", &date(-2000))]), 304);
    assert_eq!(with(&modified, &[("if-modified-since", &date(-4000))]), 200);
    assert_eq!(with(&modified, &[("if-modified-since", "yesterday")]), 200);
    assert_eq!(with(&[], &[("if-modified-since", &date(0))]), 304);
    assert_eq!(with(&[], &[("if-modified-since", &date(-1))]), 200);
    let both = [("last-modified", &*old), ("etag", "\"a\"")];
    assert_eq!(with(&both, &[("if-none-match", "\"a\""), ("if-modified-since", &date(-4000))]), 304);
    assert_eq!(with(&both, &[("if-none-match", "\"b\""), ("if-modified-since", &date(-1))]), 200);
}

/// Section 4.3.1: a stale response is validated by all validators that it has, the client's own are answered after.
#[test]
fn stale_responses_are_validated() {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=1"), ("etag", "W/\"a\""), ("last-modified", &*date(-9)), ("x", "1")];
    world.send(&get(&[]), answers(200, &fields, b"hello"));
    world.wait(3);
    let got = world.send(&get(&[("if-none-match", "\"b\"")]), answers(304, &[("etag", "W/\"a\"")], b""));
    assert_eq!((got.status, &*got.body, got.header("x")), (200, &b"hello"[..], Some("1")));
    let sent = &world.seen.last().unwrap().headers;
    assert_eq!(sent["if-none-match"], "W/\"a\"");
    assert_eq!(sent["if-modified-since"], date(-9));
    world.wait(3);
    let got = world.send(&get(&[("if-none-match", "W/\"a\"")]), answers(304, &[("etag", "W/\"a\"")], b""));
    assert_eq!(got.status, 304);
    assert!(world.reuses(&get(&[]), 0), "the 304 made it fresh");
}

/// Section 5.2.2.4: `no-cache` is stored and validated each time.
#[test]
fn no_cache_is_validated_each_time() {
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("cache-control", "max-age=60, No-CaChE"), ("etag", "\"a\"")], b"hello"));
    for _ in 0..2 {
        let got = world.send(&get(&[]), answers(304, &[("etag", "\"a\"")], b""));
        assert_eq!((got.status, got.asked, &*got.body), (200, 1, &b"hello"[..]));
    }
}

/// Section 4.3.2: conditions that only an origin can judge go there.
#[test]
fn if_match_is_the_origins() {
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("cache-control", "max-age=60"), ("etag", "\"a\"")], b"hello"));
    assert_eq!(world.send(&get(&[("if-match", "\"b\"")]), answers(412, &[], b"")).status, 412);
    assert_eq!(world.send(&get(&[("if-unmodified-since", &date(0))]), answers(412, &[], b"")).status, 412);
}

/// Section 4.3.3: without anything stored, a client's condition is passed on as it is, and so is the answer.
#[test]
fn conditions_are_passed_on_where_nothing_is_stored() {
    let mut world = World::new();
    let got = world.send(&get(&[("if-none-match", "\"a\"")]), answers(304, &[("cache-control", "max-age=60")], b""));
    assert_eq!((got.status, &world.seen[0].headers["if-none-match"] == "\"a\""), (304, true));
    assert!(world.entries.is_empty());
}
