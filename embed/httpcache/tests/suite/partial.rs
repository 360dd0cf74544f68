//! RFC 9110 section 14, RFC 9111 sections 3.3 and 3.4: ranges and parts.

use crate::world::{Got, Origin, World, answers, date, get, head, ok};

const BODY: &[u8] = b"0123456789";

fn whole() -> World {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("etag", "\"a\""), ("x", "1")];
    world.send(&get(&[]), answers(200, &fields, BODY));
    world
}

fn stored(world: &mut World, fields: &[(&str, &str)]) -> Got {
    let got = world.send(&get(fields), Origin::Unreachable);
    assert_eq!(got.asked, 0);
    got
}

/// RFC 9110 section 14.1: one range is cut out of the whole; several, or none that is known, get the whole.
#[test]
fn ranges_are_cut_out_of_the_whole() {
    for (range, status, body, content_range) in [
        ("bytes=0-1", 206, "01", Some("bytes 0-1/10")),
        ("bytes=8-", 206, "89", Some("bytes 8-9/10")),
        ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
        ("Bytes= 8-99", 206, "89", Some("bytes 8-9/10")),
        ("bytes=-99", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=10-", 416, "", Some("bytes */10")),
        ("bytes=-0", 416, "", Some("bytes */10")),
        ("bytes=0-1,4-5", 200, "0123456789", None),
        ("bytes=3-1", 200, "0123456789", None),
        ("lines=0-1", 200, "0123456789", None),
        ("bytes=a-b", 200, "0123456789", None),
        ("bytes=0-18446744073709551615", 200, "0123456789", None),
    ] {
        let got = stored(&mut whole(), &[("range", range)]);
        let is = (got.status, std::str::from_utf8(&got.body).unwrap(), got.header("content-range"));
        assert_eq!(is, (status, body, content_range), "{range}");
        assert_eq!(got.header("x"), Some("1"));
    }
}

/// RFC 9110 section 13.1.5: a range holds only for the strong validator that the client has.
#[test]
fn if_range_needs_the_strong_validator() {
    for (condition, status) in [("\"a\"", 206), ("\"b\"", 200), ("W/\"a\"", 200), (&*date(-9), 200)] {
        assert_eq!(
            stored(&mut whole(), &[("range", "bytes=0-1"), ("if-range", condition)]).status,
            status,
            "{condition}"
        );
    }
    let mut dated = World::new();
    let modified = date(-99);
    let fields = [("cache-control", "max-age=60"), ("last-modified", &*modified), ("date", &date(0))];
    dated.send(&get(&[]), answers(200, &fields, BODY));
    assert_eq!(stored(&mut dated, &[("range", "bytes=0-1"), ("if-range", &modified)]).status, 206);
    assert_eq!(stored(&mut dated, &[("range", "bytes=0-1"), ("if-range", &date(-98))]).status, 200);
}

/// RFC 9111 section 3.3: parts are stored and serve what lies in them, and nothing else.
#[test]
fn parts_are_stored() {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("content-range", "bytes 4-9/10"), ("content-length", "6")];
    let first = world.send(&get(&[("range", "bytes=4-")]), answers(206, &fields, b"456789"));
    assert_eq!((first.status, &*first.body), (206, &b"456789"[..]));
    for (range, body) in [("bytes=4-", "456789"), ("bytes=6-8", "678"), ("bytes=-1", "9"), ("bytes=-6", "456789")] {
        assert_eq!(stored(&mut world, &[("range", range)]).body, body.as_bytes(), "{range}");
    }
    for range in ["bytes=3-5", "bytes=-7", "bytes=0-"] {
        assert_eq!(world.send(&get(&[("range", range)]), ok("no-store")).asked, 1, "{range}");
    }
    let got = world.send(&get(&[]), ok("no-store"));
    assert_eq!((got.asked, &*got.body), (1, &b"hello"[..]));
}

/// RFC 9110 section 14.4: an origin that counts the last byte as excluded is understood by the bytes that came.
#[test]
fn last_byte_counted_as_excluded_is_understood() {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("content-range", "bytes 4-9/10")];
    world.send(&get(&[("range", "bytes=-5")]), answers(206, &fields, b"45678"));
    for (range, body) in [("bytes=-5", "45678"), ("bytes=6-8", "678"), ("bytes=6-", "678"), ("bytes=-1", "8")] {
        assert_eq!(stored(&mut world, &[("range", range)]).body, body.as_bytes(), "{range}");
    }
    for body in [&b"4567"[..], b"4567890"] {
        let mut other = World::new();
        other.send(&get(&[("range", "bytes=-5")]), answers(206, &fields, body));
        assert!(other.entries.is_empty());
    }
}

/// RFC 9111 section 3.4: parts of one strong validator grow together, with the fields of the latest.
#[test]
fn parts_of_one_strong_validator_are_combined() {
    let part = |range: &'static str, tag: &'static str, x: &'static str, body: &'static [u8]| {
        answers(206, &[("cache-control", "max-age=60"), ("content-range", range), ("etag", tag), ("x", x)], body)
    };
    let mut world = World::new();
    world.send(&get(&[("range", "bytes=0-3")]), part("bytes 0-3/10", "\"a\"", "1", b"0123"));
    world.send(&get(&[("range", "bytes=6-9")]), part("bytes 6-9/10", "\"a\"", "2", b"6789"));
    assert_eq!(world.entries.len(), 1);
    world.send(&get(&[("range", "bytes=2-7")]), part("bytes 2-7/10", "\"a\"", "3", b"234567"));
    let got = stored(&mut world, &[]);
    assert_eq!((got.status, &*got.body, got.header("x")), (200, BODY, Some("3")));
    // Another validator: nothing is put together.
    for (one, two) in [("\"a\"", "\"b\""), ("W/\"a\"", "W/\"a\"")] {
        let mut world = World::new();
        world.send(&get(&[("range", "bytes=0-4")]), part("bytes 0-4/10", one, "1", b"01234"));
        world.send(&get(&[("range", "bytes=5-9")]), part("bytes 5-9/10", two, "1", b"56789"));
        assert_eq!(world.send(&get(&[]), ok("no-store")).asked, 1, "{one} {two}");
    }
}

/// RFC 9111 section 3.4: what broke off is asked for from there on, and put together if it is still the same.
#[test]
fn interrupted_responses_are_completed() {
    let broken = || {
        let mut world = World::new();
        let fields = [("cache-control", "max-age=60"), ("etag", "\"a\""), ("content-length", "10")];
        world.send(&get(&[]), Origin::Breaks(head(200, &fields), b"01234"));
        assert_eq!(stored(&mut world, &[("range", "bytes=0-4")]).body, b"01234");
        world
    };
    let rest =
        |tag: &'static str, range: &'static str| answers(206, &[("etag", tag), ("content-range", range)], b"56789");
    let mut world = broken();
    let got = world.send(&get(&[]), rest("\"a\"", "bytes 5-9/10"));
    assert_eq!((got.status, &*got.body, got.header("content-range")), (200, BODY, None));
    assert_eq!(got.header("content-length"), Some("10"));
    let sent = &world.seen.last().unwrap().headers;
    assert_eq!(sent["range"], "bytes=5-");
    assert_eq!(sent["if-range"], "\"a\"");
    assert_eq!(stored(&mut world, &[]).body, BODY);
    // Another representation, other bytes, another length: all is asked for.
    for (tag, range) in
        [("\"b\"", "bytes 5-9/10"), ("\"a\"", "bytes 4-8/10"), ("\"a\"", "bytes 4-9/10"), ("\"a\"", "bytes 5-9/11")]
    {
        let got = broken().send_twice(&get(&[]), rest(tag, range), || ok("no-store"));
        assert_eq!((got.asked, &*got.body), (2, &b"hello"[..]), "{tag} {range}");
    }
    assert_eq!(broken().send(&get(&[]), ok("max-age=60")).body, b"hello");
    // It breaks off again: what is there stays, and is no more than that.
    let mut world = broken();
    let fields = [("etag", "\"a\""), ("content-range", "bytes 5-9/10"), ("cache-control", "max-age=60")];
    world.send(&get(&[]), Origin::Breaks(head(206, &fields), b"56"));
    assert_eq!(world.entries[0].0.held, vec![std::ops::Range { start: 0, end: 7 }]);
}
