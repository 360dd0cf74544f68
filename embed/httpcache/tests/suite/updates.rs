//! RFC 9111 sections 3.2, 4.3.4 and 4.3.5: what a 304 and a HEAD change.

use crate::world::{Origin, World, answers, get, ok, request};

fn stale() -> World {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=2"), ("etag", "\"a\""), ("x", "1"), ("y", "1"), ("age", "1")];
    world.send(&get(&[]), answers(200, &fields, b"hello"));
    world.wait(3);
    world
}

/// Section 3.2: fields of a 304 take the place of stored ones, but for the length and what is of the hop.
#[test]
fn not_modified_updates_fields() {
    let mut world = stale();
    let fields = [
        ("cache-control", "max-age=60"),
        ("etag", "\"a\""),
        ("x", "2"),
        ("content-length", "10"),
        ("connection", "y"),
        ("y", "2"),
        ("content-type", "text/plain"),
        ("set-cookie", "a=c"),
    ];
    for origin in [answers(304, &fields, b""), Origin::Unreachable] {
        let got = world.send(&get(&[]), origin);
        let of = |name| got.header(name);
        assert_eq!((of("x"), of("y"), of("content-length"), of("age")), (Some("2"), Some("1"), Some("5"), Some("0")));
        assert_eq!(world.entries[0].0.headers.get("content-length"), None, "it had none of its own");
        assert_eq!(
            (of("content-type"), of("set-cookie"), &*got.body),
            (Some("text/plain"), Some("a=c"), &b"hello"[..])
        );
    }
}

/// Section 3.2: the stored bytes are coded as they came, whatever a 304 says of itself.
#[test]
fn not_modified_does_not_recode() {
    let mut world = World::new();
    let coded = [("cache-control", "max-age=0"), ("etag", "\"a\""), ("content-encoding", "gzip")];
    world.send(&get(&[]), answers(200, &coded, b"hello"));
    let other =
        [("etag", "\"a\""), ("content-encoding", "br"), ("content-md5", "x"), ("content-digest", "y"), ("x", "2")];
    let got = world.send(&get(&[]), answers(304, &other, b""));
    assert_eq!((got.header("content-encoding"), got.header("x")), (Some("gzip"), Some("2")));
    assert_eq!((got.header("content-md5"), got.header("content-digest")), (None, None));
}

/// Section 4.3.4: a 304 with another strong validator updates nothing; the request is sent again without condition.
#[test]
fn not_modified_of_another_is_asked_again() {
    let mut world = stale();
    let got = world.send_twice(&get(&[]), answers(304, &[("etag", "\"b\"")], b""), || ok("max-age=60"));
    assert_eq!((got.status, got.asked, got.header("x")), (200, 2, None));
    assert!(!world.seen.last().unwrap().headers.contains_key("if-none-match"));
    assert_eq!(world.entries.len(), 1);
}

/// Section 3.2: what a 304 forbids to keep is served once and dropped.
#[test]
fn not_modified_may_forbid_to_keep() {
    let mut world = stale();
    let got = world.send(&get(&[]), answers(304, &[("etag", "\"a\""), ("cache-control", "no-store")], b""));
    assert_eq!((&*got.body, world.entries.len()), (&b"hello"[..], 0));
}

/// Section 4.3.3: a full response takes the place of the stored one.
#[test]
fn full_response_replaces() {
    let mut world = stale();
    world.send(&get(&[]), answers(200, &[("cache-control", "max-age=60"), ("etag", "\"b\"")], b"other"));
    let got = world.send(&get(&[]), Origin::Unreachable);
    assert_eq!((&*got.body, got.header("x"), world.entries.len()), (&b"other"[..], None, 1));
}

/// Section 4.3.5: a 200 to HEAD makes a stored GET fresh, or drops it where they differ.
#[test]
fn head_updates_get() {
    let head = request("HEAD", "http://example.org/a", &[]);
    for (fields, kept) in [
        (&[("cache-control", "max-age=60"), ("x", "2")][..], true),
        (&[("cache-control", "max-age=60"), ("x", "2"), ("etag", "\"a\""), ("content-length", "5")], true),
        (&[("cache-control", "max-age=60"), ("etag", "\"b\"")], false),
        (&[("cache-control", "max-age=60"), ("content-length", "6")], false),
    ] {
        let mut world = stale();
        assert_eq!(world.send(&head, answers(200, fields, b"")).asked, 1);
        let got = world.send(&get(&[]), answers(200, &[], b""));
        assert_eq!(got.asked == 0, kept, "{fields:?}");
        assert_eq!(got.header("x"), kept.then_some("2"));
    }
}
