//! Limits and promises of RFC 6265bis (draft 22), each test named by its section; and the two prefixes that the draft
//! of layered cookies adds.

mod common;

use common::*;
use thaw_cookies::{Context, Cookie, SameSite};

const HTTPS: &str = "https://www.example.com/a/b";
const HTTP: &str = "http://www.example.com/a/b";

/// What a jar keeps of a header; `None`: it is ignored.
fn kept_by(header: &str, url: &str, context: &Context) -> Option<Cookie> {
    let jar = jar(&empty());
    jar.wait_whole();
    jar.set(header.as_bytes(), url, NOW, context).ok()?;
    let all = jar.all().unwrap();
    assert_eq!(all.len(), 1, "{header}");
    all.into_iter().next()
}

fn kept(header: &str) -> Option<Cookie> {
    kept_by(header, HTTPS, &Context::default())
}

/// These are kept, and those are not.
fn judged(kept_ones: &[&str], ignored: &[&str]) {
    for header in kept_ones {
        assert!(kept(header).is_some(), "{header}");
    }
    for header in ignored {
        assert!(kept(header).is_none(), "{header}");
    }
}

#[test]
fn section_5_4_secure_prefix_in_letters_of_any_case() {
    judged(
        &["__Secure-a=1; Secure", "__SECURE-a=1; Secure; Domain=example.com; Path=/x", "__Secure=1", "a__Secure-=1"],
        &["__Secure-a=1", "__secure-a=1", "__SeCuRe-a=1; Path=/", "__Secure-=1"],
    );
    // It says that it is secure, and the connection is not.
    assert!(kept_by("__Secure-a=1; Secure", HTTP, &Context::default()).is_none());
}

#[test]
fn section_5_4_host_prefix_in_letters_of_any_case() {
    judged(
        &["__Host-a=1; Secure; Path=/", "__HOST-a=1; Path=/; Secure", "__Host-a=1; Secure; Path=/; Domain="],
        &[
            "__Host-a=1; Path=/",
            "__host-a=1; Path=/",
            // The default path, and one that only becomes the root because it is none.
            "__Host-a=1; Secure",
            "__Host-a=1; Secure; Path=x",
            "__Host-a=1; Secure; Path=/a",
            "__Host-a=1; Secure; Path=/; Domain=www.example.com",
            "__hOST-a=1; Secure; Path=/; Domain=example.com",
        ],
    );
    // Where the default is the root, it has to be said all the same.
    assert!(kept_by("__Host-a=1; Secure", "https://www.example.com/", &Context::default()).is_none());
}

#[test]
fn layered_cookies_http_prefixes() {
    judged(
        &[
            "__Http-a=1; Secure; HttpOnly",
            "__http-a=1; Secure; HttpOnly; Domain=example.com; Path=/x",
            "__Host-Http-a=1; Secure; HttpOnly; Path=/",
        ],
        &[
            "__Http-a=1",
            "__Http-a=1; Secure",
            "__Http-a=1; HttpOnly",
            "__HTTP-a=1; Secure",
            "__Host-Http-a=1; Secure; Path=/",
            "__host-http-a=1; Secure; Path=/",
            "__Host-Http-a=1; HttpOnly; Path=/",
            "__Host-Http-a=1; Secure; HttpOnly",
            "__Host-Http-a=1; Secure; HttpOnly; Path=/; Domain=example.com",
        ],
    );
    // So no script can set one.
    let script = Context { http: false, ..Context::default() };
    for header in ["__Http-a=1; Secure", "__Http-a=1; Secure; HttpOnly", "__Host-Http-a=1; Secure; Path=/"] {
        assert!(kept_by(header, HTTPS, &script).is_none(), "{header}");
    }
}

#[test]
fn section_5_7_a_value_without_a_name_is_not_taken_for_a_prefix() {
    for prefix in ["__Secure-", "__Host-", "__Http-", "__Host-Http-", "__secure-", "__HOST-", "__hTTP-"] {
        for header in
            [format!("{prefix}a; Secure; HttpOnly; Path=/"), format!("={prefix}a=1; Secure; HttpOnly; Path=/")]
        {
            assert!(kept(&header).is_none(), "{header}");
        }
        assert!(kept(&format!("a={prefix}b")).is_some(), "with a name it is a value");
    }
    judged(&["token", "=token", "=__Secure"], &[]);
}

#[test]
fn section_5_5_and_5_6_1_and_5_6_2_no_cookie_lasts_longer_than_400_days() {
    let limit = NOW + 400 * 24 * HOUR;
    let ends = |header: &str| kept(header).unwrap().expires_us;
    assert_eq!(ends(&format!("a=1; Max-Age={}", 400 * 86_400)), Some(limit));
    assert_eq!(ends(&format!("a=1; Max-Age={}", 400 * 86_400 - 1)), Some(limit - 1_000_000));
    assert_eq!(ends(&format!("a=1; Max-Age={}", 400 * 86_400 + 1)), Some(limit));
    assert_eq!(ends("a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"), Some(limit));
    assert_eq!(ends("a=1"), None, "with the session");
}

#[test]
fn section_5_6_name_and_value_of_4096_octets_and_attributes_of_1024() {
    let of = |name: usize, value: usize| format!("{}={}", "n".repeat(name), "v".repeat(value));
    judged(&[&of(1, 4095), &of(4096, 0), &of(2048, 2048)], &[&of(1, 4096), &of(4097, 0), &of(2048, 2049)]);
    judged(&[&"v".repeat(4096)], &[&"v".repeat(4097)]);
    // The equals sign does not count, and attributes do not.
    let long = format!("a=1; x={}; Path=/{}", "x".repeat(5000), "p".repeat(1023));
    assert_eq!(kept(&long).unwrap().path.len(), 1024);
    // One that is too long is as if it were not there: the one before it counts.
    let ignored = format!("a=1; Path=/x; Path=/{}; Domain={}", "p".repeat(1024), "d".repeat(1025));
    let cookie = kept(&ignored).unwrap();
    assert_eq!((&cookie.path[..], cookie.host_only), (&b"/x"[..], true));
}

#[test]
fn section_5_6_7_and_5_7_what_is_unknown_is_the_default_and_none_has_to_be_secure() {
    let same_site = |header: &str| kept(header).unwrap().same_site;
    assert_eq!(same_site("a=1"), SameSite::Default);
    assert_eq!(same_site("a=1; SameSite"), SameSite::Default);
    assert_eq!(same_site("a=1; SameSite=odd"), SameSite::Default);
    assert_eq!(same_site("a=1; SameSite=STRICT"), SameSite::Strict);
    assert_eq!(same_site("a=1; sAMEsITE=lAX"), SameSite::Lax);
    assert_eq!(same_site("a=1; SameSite=None; Secure"), SameSite::None);
    judged(&[], &["a=1; SameSite=None"]);
    // The default is set and sent as Lax is: not from a frame of another site, nor by its forms.
    let framed = Context { same_site: false, top_level: false, ..Context::default() };
    let linked = Context { same_site: false, ..Context::default() };
    assert!(kept_by("a=1", HTTPS, &framed).is_none() && kept_by("a=1", HTTPS, &linked).is_some());
    let jar = jar(&empty());
    jar.wait_whole();
    set(&jar, "a=1", HTTPS, NOW);
    let goes = |context: &Context| match jar.cookies(HTTPS, NOW, context).unwrap() {
        thaw_cookies::Lookup::Cookies(cookies) => cookies.len(),
        thaw_cookies::Lookup::NotLoadedYet => panic!("it is loaded"),
    };
    assert_eq!((goes(&linked), goes(&framed)), (1, 0));
    assert_eq!(goes(&Context { safe_method: false, ..linked }), 0);
}
