//! RFC 9111 section 5.2.1: what a request asks of a cache.

use crate::world::{Origin, World, answers, get, ok, request};

fn served(response: &str, after: u64, asks: &[(&str, &str)]) -> bool {
    let mut world = World::new();
    world.send(&get(&[]), ok(response));
    world.reuses(&get(asks), after)
}

/// Sections 5.2.1.1 to 5.2.1.4 and 5.4.
#[test]
fn requests_limit_what_is_served() {
    for (response, after, ask, is_served) in [
        ("max-age=60", 0, "max-age=0", false),
        ("max-age=60", 3, "max-age=1", false),
        ("max-age=60", 3, "max-age=9", true),
        ("max-age=60", 3, "max-age=x", false),
        ("max-age=60", 3, "min-fresh=90", false),
        ("max-age=60", 3, "min-fresh=9", true),
        ("max-age=1", 3, "max-stale=90", true),
        ("max-age=1", 3, "max-stale", true),
        ("max-age=1", 9, "max-stale=2", false),
        ("max-age=1, must-revalidate", 3, "max-stale", false),
        ("s-maxage=1", 3, "max-stale", false),
        ("max-age=60", 0, "no-cache", false),
        ("max-age=60", 0, "x=y", true),
    ] {
        assert_eq!(served(response, after, &[("cache-control", ask)]), is_served, "{response} {ask}");
    }
    assert!(!served("max-age=60", 0, &[("pragma", "no-cache")]));
    assert!(served("max-age=60", 0, &[("pragma", "x")]));
    assert!(served("max-age=60", 0, &[("pragma", "no-cache"), ("cache-control", "max-age=30")]));
}

/// RFC 8246 section 2: a reload of what is immutable and fresh is served; one by force is not.
#[test]
fn immutable_answers_reloads() {
    assert!(served("max-age=60, immutable", 3, &[("cache-control", "max-age=0")]));
    assert!(!served("max-age=2, immutable", 3, &[("cache-control", "max-age=0")]));
    assert!(!served("max-age=60, immutable", 3, &[("cache-control", "no-cache")]));
}

/// Section 5.2.1.7.
#[test]
fn only_if_cached_is_504_without_the_origin() {
    let mut world = World::new();
    let got = world.send(&get(&[("cache-control", "only-if-cached")]), Origin::Unreachable);
    assert_eq!((got.status, got.asked, got.body.len()), (504, 0, 0));
    world.send(&get(&[]), ok("max-age=60"));
    assert_eq!(world.send(&get(&[("cache-control", "only-if-cached")]), Origin::Unreachable).status, 200);
}

/// RFC 9110 section 9.3.2: HEAD is answered from a stored GET, without its bytes; other methods are not.
#[test]
fn head_is_answered_from_get() {
    let mut world = World::new();
    world.send(&get(&[]), ok("max-age=60"));
    let head = world.send(&request("HEAD", "http://example.org/a", &[]), Origin::Unreachable);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("5"), 0));
    assert_eq!(world.send(&request("OPTIONS", "http://example.org/a", &[]), answers(200, &[], b"")).asked, 1);
}
