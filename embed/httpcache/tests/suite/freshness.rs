//! RFC 9111 section 4.2: how long a response is fresh, and how old it is.

use crate::world::{World, answers, date, get};

fn fresh(fields: &[(&str, &str)]) -> bool {
    World::keeps(200, fields)
}

fn control(value: &str) -> bool {
    fresh(&[("cache-control", value)])
}

/// RFC 9111 section 5.2: names whatever their case, quoted values, leading zeros, values of 2^31 and more.
#[test]
fn max_age_is_read_in_all_its_forms() {
    for value in ["max-age=60", "MaX-aGe=60", "max-age=\"60\"", "max-age=060", "foobar, max-age=60", ", ,max-age=60,"] {
        assert!(control(value), "{value}");
    }
    for value in ["max-age=2147483648", "max-age=99999999999", "max-age=99999999999999999999999999"] {
        assert!(control(value), "{value}");
    }
}

/// RFC 9111 section 4.2.1: freshness that is invalid means stale; a name with a space is another name.
#[test]
fn max_age_that_is_no_number_is_stale() {
    for value in [
        "max-age=0",
        "max-age",
        "max-age=",
        "max-age=-60",
        "max-age='60'",
        "max-age=a60",
        "max-age=60a",
        "max-age=60.0",
        "max-age= 60",
        "max-age =60",
        "x=\"max-age=60\", max-age=1",
        "max-age=1, x=\"max-age=60\"",
        "x=\"\\\", max-age=60\"",
    ] {
        assert!(!control(value), "{value}");
    }
}

/// RFC 9111 section 4.2.1: of several values the first counts.
#[test]
fn first_of_several_max_ages_counts() {
    assert!(control("max-age=60, max-age=1"));
    assert!(!control("max-age=1, max-age=60"));
    assert!(fresh(&[("cache-control", "max-age=60"), ("cache-control", "max-age=1")]));
}

/// RFC 9111 section 5.2.2.10: a shared cache takes `s-maxage` first, a private one ignores it.
#[test]
fn s_maxage_is_for_shared_caches() {
    assert!(control("max-age=1, s-maxage=60"));
    assert!(!control("s-maxage=1, max-age=60"));
    let private = || World::with(thaw_httpcache::Options::private("thaw"));
    assert!(!private().keeps_here(200, &[("cache-control", "s-maxage=60, max-age=1")]));
}

/// RFC 9111 section 5.3: `max-age` before `Expires`, which counts from `Date`.
#[test]
fn expires_counts_from_date() {
    let expires = |expires: &str, after: i64| fresh(&[("expires", expires), ("date", &date(after))]);
    assert!(expires(&date(60), 0));
    assert!(!expires(&date(0), 0));
    assert!(!expires(&date(-60), 0));
    assert!(!expires(&date(300), 400));
    assert!(!fresh(&[("cache-control", "max-age=0"), ("expires", &date(60)), ("date", &date(0))]));
    assert!(fresh(&[("cache-control", "max-age=60"), ("expires", "0"), ("date", &date(0))]));
    // Without a date that can be read it counts from when the response came.
    assert!(fresh(&[("expires", &date(10)), ("date", "foo")]));
}

/// RFC 9110 section 5.6.7: three forms, any case; RFC 9111 section 5.3: anything else is in the past.
#[test]
fn expires_is_a_date_of_one_of_three_forms() {
    for value in [
        "Thu, 18 Aug 2050 02:01:18 GMT",
        "THU, 18 AUG 2050 02:01:18 gmt",
        "Thursday, 18-Aug-50 02:01:18 GMT",
        "Thu Aug 18 02:01:18 2050",
        "Thu Aug  8 02:01:18 2050",
        "Sun, 21 Nov 2286 04:46:39 GMT",
    ] {
        assert!(fresh(&[("expires", value)]), "{value}");
    }
    for value in [
        "0",
        "-1",
        "",
        "Thu, 18 Aug 2050 02:01:18 UTC",
        "Thu, 18 Aug 2050 02:01:18 AEST",
        "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT",
        "Thu, 18  Aug  2050 02:01:18 GMT",
        "Thu, 18-Aug-2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT",
        "Thu, 31 Feb 2050 02:01:18 GMT",
        // Two digits more than 50 years ahead are of the past.
        "Thursday, 18-Aug-90 02:01:18 GMT",
    ] {
        assert!(!fresh(&[("expires", value)]), "{value}");
    }
    assert!(!fresh(&[("expires", &date(60)), ("expires", &date(61))]));
}

/// RFC 9111 sections 4.2.3 and 5.1: the first value of `Age` counts, no number is ignored, large ones are cut.
#[test]
fn age_makes_older() {
    let aged = |ages: &[&str]| {
        let mut fields = vec![("cache-control", "max-age=3600")];
        fields.extend(ages.iter().map(|age| ("age", *age)));
        fresh(&fields)
    };
    for ages in [&["0"][..], &["abc"], &["-7200"], &["7200.0"], &["0, 7200"], &["0", "7200"], &["0, 0"]] {
        assert!(aged(ages), "{ages:?}");
    }
    for ages in [&["7200"][..], &["2147483648"], &["99999999999999999999"], &["7200, 0"], &["7200", "0"]] {
        assert!(!aged(ages), "{ages:?}");
    }
    assert!(!fresh(&[("date", &date(10)), ("expires", &date(20)), ("age", "15")]));
    assert!(!fresh(&[("date", &date(-3600)), ("cache-control", "max-age=3600")]));
}

/// RFC 9111 section 4: what is served bears its age; section 5.1; `Date` stays the origin's.
#[test]
fn served_responses_bear_their_age() {
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("cache-control", "max-age=99"), ("age", "30"), ("date", &date(-1))], b"x"));
    world.wait(5);
    let got = world.send(&get(&[]), crate::world::Origin::Unreachable);
    assert_eq!((got.header("age"), got.header("date")), (Some("35"), Some(&*date(-1))));
    assert_eq!(got.header("cache-status"), Some("thaw; hit; ttl=64"));
}

/// RFC 9111 section 4.2.2: a tenth of the time since `Last-Modified`, at most a day, for some status codes or `public`.
#[test]
fn freshness_is_guessed_by_status() {
    let modified = date(-24 * 3600);
    for (status, guessed) in [
        (200, true),
        (203, true),
        (204, true),
        (300, true),
        (301, true),
        (308, true),
        (404, true),
        (405, true),
        (410, true),
        (414, true),
        (501, true),
        (201, false),
        (202, false),
        (302, false),
        (303, false),
        (307, false),
        (400, false),
        (403, false),
        (500, false),
        (502, false),
        (503, false),
        (504, false),
        (599, false),
    ] {
        let fields = [("last-modified", &*modified), ("date", &*date(0))];
        assert_eq!(World::keeps(status, &fields), guessed, "{status}");
        let public = [fields[0], fields[1], ("cache-control", "public")];
        assert!(World::keeps(status, &public), "{status} public");
    }
    let mut world = World::new();
    world.send(&get(&[]), answers(200, &[("last-modified", &date(-1000)), ("date", &date(0))], b"x"));
    assert!(world.reuses(&get(&[]), 99));
    assert!(!world.reuses(&get(&[]), 1));
    assert!(!fresh(&[("last-modified", &date(60)), ("date", &date(0))]));
}
