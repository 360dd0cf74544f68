//! RFC 9213: targeted fields; RFC 9211: `Cache-Status`.

use crate::world::{World, answers, date, get};

fn cdn(value: &str, others: &[(&str, &str)]) -> bool {
    World::keeps(200, &[&[("cdn-cache-control", value)], others].concat())
}

/// RFC 9213 section 2.2: a targeted field counts alone, `Cache-Control` and `Expires` do not.
#[test]
fn targeted_field_takes_precedence() {
    let past = date(-999);
    for value in [
        "max-age=60",
        "max-age=2147483648",
        "max-age=99999999999",
        "foobar, max-age=60",
        "max-age=60;x=y, a=(1 \"b\");c",
    ] {
        assert!(cdn(value, &[("cache-control", "no-store"), ("expires", &past)]), "{value}");
    }
    for value in ["max-age=0", "max-age=1", "no-store", "private", "no-cache", "max-age=60, no-store", "foo"] {
        assert!(!cdn(value, &[("cache-control", "max-age=60"), ("expires", &date(60))]), "{value}");
    }
    assert!(!cdn("max-age=3600", &[("age", "7200")]));
    assert!(cdn("max-age=60, no-store=?0", &[]));
}

/// RFC 9213 section 2.1: what is no Dictionary, is empty or of a wrong type is as if it were not there.
#[test]
fn invalid_targeted_field_is_ignored() {
    for value in [
        "max-age=60, &&&&&",
        "max-age=\"60\"",
        "max-age=60.0",
        "max-age=-60",
        "max-age",
        "max-age =60",
        "max-age= 60",
        "MaX-aGe=60",
        "max-age=60,",
        "",
        "max-age=1234567890123456",
        "max-age=60 no-store",
        "max-age=60;X=1",
        "a=\"",
        "a=(1",
        "a=?2",
        "a=:!:",
    ] {
        assert!(!cdn(value, &[("cache-control", "no-store")]), "{value}");
        assert!(cdn(value, &[("cache-control", "max-age=60")]), "{value}");
    }
}

/// RFC 9213 section 3.1: a private cache is no target of `CDN-Cache-Control`.
#[test]
fn private_cache_is_no_target() {
    let private = World::with(thaw_httpcache::Options::private("thaw"));
    assert!(!private.keeps_here(200, &[("cdn-cache-control", "max-age=60"), ("cache-control", "max-age=1")]));
}

/// RFC 9211 section 2: one member is added to those of the caches before.
#[test]
fn cache_status_is_appended() {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("cache-status", "origin; hit")];
    let told = |got: crate::world::Got| -> Vec<String> {
        got.headers.get_all("cache-status").iter().map(|value| value.to_str().unwrap().into()).collect()
    };
    let first = world.send(&get(&[]), answers(200, &fields, b"x"));
    assert_eq!(told(first), ["origin; hit", "thaw; fwd=uri-miss; fwd-status=200; stored"]);
    let second = world.send(&get(&[]), answers(200, &[], b""));
    assert_eq!(told(second), ["origin; hit", "thaw; hit; ttl=60"]);
}
