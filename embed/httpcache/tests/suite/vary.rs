//! RFC 9111 section 4.1: `Vary`.

use crate::world::{Origin, World, answers, get};

fn matches(vary: &[&str], first: &[(&str, &str)], second: &[(&str, &str)]) -> bool {
    let mut world = World::new();
    let mut fields = vec![("cache-control", "max-age=60"), ("content-language", "de")];
    fields.extend(vary.iter().map(|of| ("vary", *of)));
    world.send(&get(first), answers(200, &fields, b"hello"));
    world.reuses(&get(second), 1)
}

/// Section 4.1: all named fields are the same or absent in both; others do not count.
#[test]
fn named_fields_must_match() {
    let one = [("foo", "1"), ("bar", "2")];
    for (vary, second, same) in [
        (&["Foo"][..], &[("foo", "1")][..], true),
        (&["foo"], &[("foo", "1"), ("x", "y")], true),
        (&["Foo"], &[("foo", "2")], false),
        (&["Foo"], &[], false),
        (&["Foo, Bar"], &[("bar", "2"), ("foo", "1")], true),
        (&["Foo", "BAR"], &[("foo", "1")], false),
        (&["baz"], &[("baz", "")], false),
        (&["Foo, baz"], &[("foo", "1")], true),
        (&[""], &[], true),
    ] {
        assert_eq!(matches(vary, &one, second), same, "{vary:?} {second:?}");
    }
}

/// Section 4.1: `*` never matches, wherever it stands.
#[test]
fn star_never_matches() {
    for vary in [&["*"][..], &["*, *"], &["*", "*"], &[", *"], &["", "*"], &["*, Foo"], &["Foo, *"], &["Foo", "*"]] {
        assert!(!matches(vary, &[("foo", "1")], &[("foo", "1")]), "{vary:?}");
    }
}

/// Section 4.1: white space, lines put together, order and case of languages and codings have no meaning.
#[test]
fn values_are_normalised() {
    for (name, first, second, same) in [
        ("foo", &["1, 2"][..], &["1", "2"][..], true),
        ("foo", &["1,2"], &[" 1, 2 "], true),
        ("foo", &["1,2"], &["2,1"], false),
        ("foo", &["a"], &["A"], false),
        ("foo", &["\"a, b\""], &["\"a,b\""], false),
        ("accept-language", &["en, de"], &["de, en"], true),
        ("accept-language", &["en, de"], &["eN ,  De"], true),
        ("accept-language", &["en, fr;q=0.5"], &["fr; q=0.50,en;q=1"], true),
        ("accept-language", &["en, fr"], &["en, fr;q=0.5"], false),
        ("accept-encoding", &["gzip, br"], &["BR,gzip"], true),
        ("accept-encoding", &["gzip"], &["gzip;q=0"], false),
        // The stored one is in the language that is wanted most.
        ("accept-language", &["en, de"], &["fr;q=0.5, de;q=1.0"], true),
        ("accept-language", &["en, de"], &["fr, de"], false),
        ("accept-language", &["en, de"], &["de;q=0"], false),
    ] {
        let fields = |values: &[&'static str]| values.iter().map(|value| (name, *value)).collect::<Vec<_>>();
        assert_eq!(matches(&[name], &fields(first), &fields(second)), same, "{name} {first:?} {second:?}");
    }
}

/// Section 4.1: several variants are kept; of several that match the most recent is chosen.
#[test]
fn variants_live_side_by_side() {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("vary", "foo")];
    world.send(&get(&[("foo", "1")]), answers(200, &fields, b"one"));
    world.send(&get(&[("foo", "2")]), answers(200, &fields, b"two"));
    world.wait(1);
    assert_eq!(world.send(&get(&[("foo", "1")]), Origin::Unreachable).body, b"one");
    assert_eq!(world.send(&get(&[("foo", "2")]), Origin::Unreachable).body, b"two");
    // It varies by something else now: both match.
    world.send(&get(&[("foo", "3")]), answers(200, &[("cache-control", "max-age=60"), ("vary", "bar")], b"new"));
    assert_eq!(world.send(&get(&[("foo", "1")]), Origin::Unreachable).body, b"new");
    // A condition is made of the variant that matches alone.
    world.send(&get(&[("foo", "4"), ("bar", "1")]), crate::world::ok("max-age=60"));
    assert!(!world.seen.last().unwrap().headers.contains_key("if-none-match"));
}
