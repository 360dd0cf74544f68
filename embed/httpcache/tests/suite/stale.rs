//! RFC 9111 section 4.2.4 and RFC 5861: stale responses.

use crate::world::{Origin, World, answers, get, ok};

fn stale(control: &str) -> World {
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("cache-control", control), ("etag", "\"a\"")], b"hello"));
    world.wait(3);
    world
}

/// RFC 9111 section 4.2.4: served where the origin cannot be reached, unless the response forbids it.
#[test]
fn disconnected_caches_serve_stale() {
    assert_eq!(stale("max-age=2").send(&get(&[]), Origin::Unreachable).body, b"hello");
    for forbids in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"] {
        let got = stale(&format!("max-age=2, {forbids}")).send(&get(&[]), Origin::Unreachable);
        assert_eq!(got.status, 502, "{forbids}");
    }
    assert_eq!(stale("max-age=2").send(&get(&[("cache-control", "no-cache")]), Origin::Unreachable).status, 502);
}

/// RFC 5861 section 4: `stale-if-error` of the response or the request, within its time.
#[test]
fn stale_if_error_hides_errors() {
    for (control, ask, status) in [
        ("max-age=2, stale-if-error=60", "x", 200),
        ("max-age=2, stale-if-error=0", "x", 503),
        ("max-age=2", "x", 503),
        ("max-age=2", "stale-if-error=60", 200),
        ("max-age=2, stale-if-error=60, must-revalidate", "x", 503),
    ] {
        let got = stale(control).send(&get(&[("cache-control", ask)]), answers(503, &[], b"sorry"));
        assert_eq!(got.status, status, "{control} {ask}");
    }
    assert_eq!(stale("max-age=2, stale-if-error=60").send(&get(&[]), answers(404, &[], b"")).status, 404);
}

/// RFC 5861 section 3: served within its time while it is validated; what came then is served afterwards.
#[test]
fn stale_while_revalidate_serves_meanwhile() {
    let mut world = stale("max-age=1, stale-while-revalidate=4");
    let got = world.send(&get(&[("range", "bytes=0-0"), ("if-none-match", "\"z\"")]), Origin::Unreachable);
    assert_eq!((got.status, got.asked, &*got.body), (206, 0, &b"h"[..]));
    world.settle(answers(200, &[("cache-control", "no-cache"), ("etag", "\"b\"")], b"other"));
    let sent = &world.seen.last().unwrap().headers;
    assert_eq!(sent["if-none-match"], "\"a\"");
    assert!(!sent.contains_key("range"));
    assert_eq!(world.send(&get(&[]), answers(304, &[("etag", "\"b\"")], b"")).body, b"other");
    let mut late = stale("max-age=1, stale-while-revalidate=4");
    late.wait(3);
    assert_eq!(late.send(&get(&[]), ok("no-store")).asked, 1);
    let mut forbidden = stale("max-age=1, stale-while-revalidate=60, must-revalidate");
    assert_eq!(forbidden.send(&get(&[]), ok("no-store")).asked, 1);
}
