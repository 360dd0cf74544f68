//! RFC 9111 section 4.4: what unsafe methods make invalid.

use crate::world::{Origin, World, answers, get, ok, request};

/// Section 4.4: the target, `Location` and `Content-Location` of the same origin, on 2xx and 3xx.
#[test]
fn unsafe_methods_invalidate() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        for (status, gone) in [(200, true), (201, true), (302, true), (404, false), (500, false)] {
            let mut world = World::new();
            world.send(&get(&[]), ok("max-age=60"));
            world.send(&request(method, "http://example.org/a", &[]), answers(status, &[], b""));
            assert_eq!(world.reuses(&get(&[]), 0), !gone, "{method} {status}");
        }
    }
    let mut world = World::new();
    world.send(&get(&[]), ok("max-age=60"));
    world.send(&request("OPTIONS", "http://example.org/a", &[]), answers(200, &[], b""));
    assert!(world.reuses(&get(&[]), 0));
}

/// Section 4.4: references are resolved, other origins are left alone.
#[test]
fn references_of_the_same_origin_are_invalidated() {
    for (reference, gone) in [
        ("/a", true),
        ("a", true),
        ("./x/../a", true),
        ("http://EXAMPLE.org:80/a", true),
        ("//example.org/a#f", true),
        ("http://example.com/a", false),
        ("https://example.org/a", false),
        ("/b", false),
        ("a?q", false),
        ("urn:a", false),
    ] {
        for field in ["location", "content-location"] {
            let mut world = World::new();
            world.send(&get(&[]), ok("max-age=60"));
            world.send(
                &request("POST", "http://example.org/form?x=/y/z", &[]),
                answers(201, &[(field, reference)], b""),
            );
            assert_eq!(world.send(&get(&[]), Origin::Unreachable).asked == 1, gone, "{field}: {reference}");
        }
    }
}

/// Section 4.4: another scheme is another origin, whatever is stored there.
#[test]
fn another_scheme_is_left_alone() {
    let secure = request("GET", "https://example.org/a", &[]);
    let mut world = World::new();
    world.send(&secure, ok("max-age=60"));
    let created = answers(201, &[("location", "https://example.org/a")], b"");
    world.send(&request("POST", "http://example.org/form", &[]), created);
    assert_eq!(world.send(&secure, Origin::Unreachable).asked, 0);
}
