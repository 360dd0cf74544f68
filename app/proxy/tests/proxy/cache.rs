//! What the proxy keeps and serves: fresh, stale, validated, in parts; what it must not keep, and what goes past it.

use crate::origin::{Origin, Seen};
use crate::started::{Proxy, one, rest, status};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes an answer with a length. Always true: the connection goes on.
pub fn answer(socket: &mut TcpStream, line: &str, fields: &str, body: &str) -> bool {
    let head = format!("HTTP/1.1 {line}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).is_ok()
}

/// An origin whose answers are numbered, with these fields.
fn numbered(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::new(move |_, socket| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        answer(socket, "200 OK", fields, &format!("number {number}"))
    })
}

/// Head in lower case and body of the answer to a GET of `/x` with these fields.
pub fn get(proxy: &Proxy, fields: &str) -> (String, String) {
    ask(proxy, "GET", "/x", fields)
}

/// The same of any method but HEAD, and any target.
pub fn ask(proxy: &Proxy, method: &str, target: &str, fields: &str) -> (String, String) {
    let mut socket = proxy.connect();
    socket.write_all(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).unwrap();
    one(&mut socket)
}

/// What the cache says that it did.
fn did(head: &str) -> &str {
    head.lines().find_map(|line| line.strip_prefix("cache-status: thaw; ")).unwrap_or_else(|| panic!("{head}"))
}

#[test]
fn a_fresh_answer_is_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let origin = numbered("Cache-Control: max-age=100\r\nX: y\r\n");
    let mut proxy = Proxy::reverse(origin.address, &["--access-log", log.to_str().unwrap()]);
    let (head, body) = get(&proxy, "");
    assert_eq!((did(&head), &*body), ("fwd=uri-miss; fwd-status=200; stored", "number 0"));
    let (head, body) = get(&proxy, "");
    assert!(head.starts_with("http/1.1 200") && did(&head).starts_with("hit; ttl="), "{head}");
    assert!(head.contains("\r\nx: y\r\n") && head.contains("\r\nage: ") && body == "number 0", "{head}{body}");
    let (head, body) = get(&proxy, "Range: bytes=2-3\r\n");
    assert!(head.starts_with("http/1.1 206") && head.contains("content-range: bytes 2-3/8"), "{head}");
    assert_eq!(body, "mb");
    let head = proxy.send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(status(&head) == 200 && head.contains("content-length: 8\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(origin.seen().len(), 1);
    assert_eq!((proxy.metric("cache_hits_total"), proxy.metric("cache_misses_total")), (3, 1));
    assert_eq!((proxy.metric("cache_stored_total"), proxy.metric("cache_entries")), (1, 1));
    assert!((8..4096).contains(&proxy.metric("cache_bytes")));
    proxy.terminate();
    proxy.ended();
    let text = std::fs::read_to_string(log).unwrap();
    let words: Vec<&str> = text.lines().map(|line| line.split(' ').nth(12).unwrap()).collect();
    assert_eq!(words, ["miss", "hit", "hit", "hit"], "{text}");
}

#[test]
fn a_cache_that_is_off_keeps_nothing() {
    let origin = numbered("Cache-Control: max-age=100\r\n");
    let proxy = Proxy::reverse(origin.address, &["--cache", "off"]);
    for number in 0..3 {
        let (head, body) = get(&proxy, "");
        assert!(!head.contains("cache-status") && body == format!("number {number}"), "{head}{body}");
    }
}

#[test]
fn what_forbids_it_is_not_kept() {
    for (fields, request) in [
        ("Cache-Control: no-store\r\n", ""),
        ("Cache-Control: private, max-age=100\r\n", ""),
        ("Cache-Control: max-age=100\r\n", "Authorization: Basic eA==\r\n"),
        ("Cache-Control: max-age=100\r\n", "Cache-Control: no-store\r\n"),
        ("Cache-Control: max-age=100\r\nVary: *\r\n", ""),
        ("Cache-Control: max-age=0\r\n", ""),
        ("", ""),
    ] {
        let origin = numbered(fields);
        let proxy = Proxy::reverse(origin.address, &[]);
        for number in 0..2 {
            assert_eq!(get(&proxy, request).1, format!("number {number}"), "{fields}{request}");
        }
    }
}

#[test]
fn what_is_stale_is_validated() {
    let origin = Origin::new(|seen, socket| match seen.all("if-none-match")[..] {
        ["\"a\""] => socket.write_all(b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX: new\r\n\r\n").is_ok(),
        _ => answer(socket, "200 OK", "ETag: \"a\"\r\nCache-Control: max-age=0\r\nX: old\r\nY: kept\r\n", "body"),
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    assert!(get(&proxy, "").0.contains("x: old"));
    let (head, body) = get(&proxy, "");
    assert!(head.starts_with("http/1.1 200") && head.contains("x: new") && head.contains("y: kept"), "{head}");
    assert_eq!((&*body, did(&head)), ("body", "hit; fwd=stale; fwd-status=304"));
    assert!(get(&proxy, "If-None-Match: \"a\"\r\n").0.starts_with("http/1.1 304"));
    assert_eq!((origin.seen().len(), proxy.metric("cache_revalidated_total")), (3, 2));
}

#[test]
fn stale_answers_bridge_failures_where_that_is_allowed() {
    for (allowed, status, control) in [
        (true, 200, "max-age=0, stale-if-error=100"),
        (false, 503, "max-age=0, must-revalidate"),
        (false, 503, "max-age=0"),
    ] {
        let count = AtomicUsize::new(0);
        let origin = Origin::new(move |_, socket| match count.fetch_add(1, Ordering::Relaxed) {
            0 => answer(socket, "200 OK", &format!("ETag: \"a\"\r\nCache-Control: {control}\r\n"), "stale"),
            1 => answer(socket, "503 Service Unavailable", "", "sorry"),
            _ => false,
        });
        let proxy = Proxy::reverse(origin.address, &[]);
        get(&proxy, "");
        let (head, body) = get(&proxy, "");
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{control}: {head}");
        assert_eq!(body == "stale", allowed, "{control}: {body}");
        // Where the origin does not answer at all, all that is not forbidden to is served.
        let (head, _) = get(&proxy, "");
        let served = head.starts_with("http/1.1 200");
        assert_eq!(served, !control.contains("must-revalidate"), "{control}: {head}");
        assert_eq!(proxy.metric("cache_stale_total"), i64::from(served) + i64::from(allowed));
    }
}

#[test]
fn only_if_cached_never_asks() {
    let origin = numbered("Cache-Control: max-age=100\r\n");
    let proxy = Proxy::reverse(origin.address, &[]);
    assert!(get(&proxy, "Cache-Control: only-if-cached\r\n").0.starts_with("http/1.1 504"));
    assert!(origin.seen().is_empty());
    get(&proxy, "");
    assert!(get(&proxy, "Cache-Control: only-if-cached\r\n").0.starts_with("http/1.1 200"));
}

#[test]
fn unsafe_methods_invalidate() {
    let origin = numbered("Cache-Control: max-age=100\r\n");
    let proxy = Proxy::reverse(origin.address, &[]);
    get(&proxy, "");
    assert_eq!(get(&proxy, "").1, "number 0");
    let (head, _) = ask(&proxy, "POST", "/x", "Content-Length: 0\r\n");
    assert_eq!(did(&head), "fwd=method; fwd-status=200");
    assert_eq!(get(&proxy, "").1, "number 2");
    assert_eq!(proxy.metric("cache_bypassed_total"), 1);
}

#[test]
fn variants_are_kept_apart() {
    let origin = Origin::new(|seen, socket| {
        answer(socket, "200 OK", "Cache-Control: max-age=100\r\nVary: X-Color\r\n", &seen.all("x-color").join(""))
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..2 {
        for color in ["red", "blue"] {
            assert_eq!(get(&proxy, &format!("X-Color: {color}\r\n")).1, color);
        }
        assert_eq!(get(&proxy, "").1, "");
    }
    assert_eq!((origin.seen().len(), proxy.metric("cache_entries")), (3, 3));
}

#[test]
fn a_key_has_not_any_number_of_variants() {
    let origin = numbered("Cache-Control: max-age=100\r\nVary: X-Color\r\n");
    let proxy = Proxy::reverse(origin.address, &[]);
    for color in 0..70 {
        get(&proxy, &format!("X-Color: {color}\r\n"));
    }
    assert_eq!(proxy.metric("cache_entries"), 64);
    assert_eq!(get(&proxy, "X-Color: 69\r\n").1, "number 69");
}

#[test]
fn hosts_and_targets_are_kept_apart() {
    let origin = Origin::new(|seen, socket| {
        let body = format!("{} {}", seen.all("host")[0], seen.path());
        answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", &body)
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let forward = Proxy::start(&[]);
    for _ in 0..2 {
        for (host, path) in
            [("a", "/"), ("b", "/"), ("a", "/?q"), ("a", "/?r"), ("a", "/%71"), ("a", "/q"), ("a", "/Q")]
        {
            let got = proxy.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
            assert!(got.ends_with(&format!("{host} {path}")), "{got}");
        }
        let host = origin.address;
        let got = forward.send(format!("GET http://{host}/f HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert!(got.ends_with(&format!("{host} /f")), "{got}");
    }
    assert_eq!(origin.seen().len(), 8);
}

/// Answers ranges of ten bytes, of a strong validator.
fn ten(seen: &Seen, socket: &mut TcpStream) -> bool {
    const FIELDS: &str = "ETag: \"a\"\r\nCache-Control: max-age=100\r\n";
    let range = seen.all("range").first().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else { return answer(socket, "200 OK", FIELDS, "0123456789") };
    let (first, last) = (first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap_or(9));
    let fields = format!("{FIELDS}Content-Range: bytes {first}-{last}/10\r\n");
    answer(socket, "206 Partial Content", &fields, &"0123456789"[first..=last])
}

#[test]
fn parts_are_put_together() {
    let origin = Origin::new(ten);
    let proxy = Proxy::reverse(origin.address, &[]);
    for (range, body) in [("5-7", "567"), ("0-4", "01234"), ("6-9", "6789"), ("3-8", "345678")] {
        let (head, got) = get(&proxy, &format!("Range: bytes={range}\r\n"));
        assert!(head.starts_with("http/1.1 206") && got == body, "{range}: {head}{got}");
    }
    let (head, body) = get(&proxy, "");
    assert!(did(&head).starts_with("hit") && body == "0123456789", "{head}{body}");
    assert_eq!((origin.seen().len(), proxy.metric("cache_entries")), (3, 1));
}

#[test]
fn a_stored_beginning_is_completed() {
    let origin = Origin::new(ten);
    let proxy = Proxy::reverse(origin.address, &[]);
    get(&proxy, "Range: bytes=0-4\r\n");
    for _ in 0..2 {
        let (head, body) = get(&proxy, "");
        assert!(head.starts_with("http/1.1 200") && body == "0123456789", "{head}{body}");
    }
    let seen = origin.seen();
    assert_eq!((seen.len(), seen[1].all("range"), seen[1].all("if-range")), (2, vec!["bytes=5-"], vec!["\"a\""]));
}

#[test]
fn a_completed_answer_that_may_not_be_kept_is_whole_too() {
    let origin = Origin::new(|seen, socket| match seen.all("if-range")[..] {
        [] => ten(seen, socket),
        _ => {
            let fields = "ETag: \"a\"\r\nCache-Control: no-store\r\nContent-Range: bytes 5-9/10\r\n";
            answer(socket, "206 Partial Content", fields, "56789")
        }
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    get(&proxy, "Range: bytes=0-4\r\n");
    let (head, body) = get(&proxy, "");
    assert!(head.starts_with("http/1.1 200") && body == "0123456789", "{head}{body}");
    assert_eq!((origin.seen().len(), proxy.metric("cache_entries")), (2, 0));
}

#[test]
fn what_broke_off_is_never_whole() {
    for (fields, resumed) in [("ETag: \"a\"\r\n", true), ("", false)] {
        let count = AtomicUsize::new(0);
        let origin = Origin::new(move |seen, socket| {
            if count.fetch_add(1, Ordering::Relaxed) > 0 {
                return ten(seen, socket);
            }
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n";
            let _ = socket.write_all(format!("{head}{fields}\r\n0123").as_bytes());
            false
        });
        let proxy = Proxy::reverse(origin.address, &[]);
        let got = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(!got.ends_with("456789"), "{got}");
        // It is settled when it was counted.
        while proxy.metric("cache_stored_total") + proxy.metric("cache_broken_total") == 0 {}
        let (head, body) = get(&proxy, "");
        assert!(head.starts_with("http/1.1 200") && body == "0123456789", "{head}{body}");
        let seen = origin.seen();
        assert_eq!((seen.len(), seen[1].all("range").len()), (2, usize::from(resumed)), "{seen:?}");
    }
    // A body without a length that breaks.
    let count = AtomicUsize::new(0);
    let origin = Origin::new(move |_, socket| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n";
        let end = if count.fetch_add(1, Ordering::Relaxed) > 0 { "0\r\n\r\n" } else { "" };
        let _ = socket.write_all(format!("{head}{end}").as_bytes());
        false
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let ask = || proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got = ask();
    assert!(!got.ends_with("\r\n0\r\n\r\n"), "{got}");
    let got = ask();
    assert!(got.contains("fwd=uri-miss") && got.ends_with("\r\n0\r\n\r\n"), "{got}");
    while proxy.metric("cache_stored_total") == 0 {}
    assert!(ask().contains("thaw; hit"));
}

/// An origin that heeds a field and tells others that its answer is for all.
fn gullible(vary: &'static str) -> Origin {
    Origin::new(move |seen, socket| {
        let evil = seen.fields.iter().find(|(_, value)| value == "evil").map_or("good", |_| "evil");
        let evil = if seen.body.as_ref().is_some_and(|body| body == b"evil") { "evil" } else { evil };
        answer(socket, "200 OK", &format!("Cache-Control: max-age=100\r\n{vary}"), evil)
    })
}

#[test]
fn fields_that_are_in_no_key_go_past_the_cache() {
    for name in [
        "X-Forwarded-Host",
        "X-Forwarded-Scheme",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Server",
        "X-Forwarded-Path",
        "X-Forwarded-Protocol",
        "X-Forwarded-Ssl",
        "X-Forwarded-Uri",
        "X-Original-Uri",
        "X-Url-Scheme",
        "X-Original-URL",
        "X-Original-Host",
        "X-Rewrite-URL",
        "X-Host",
        "X_Forwarded_Host",
        "Forwarded",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-HTTP-Host-Override",
        "Front-End-Https",
    ] {
        let origin = gullible("");
        let proxy = Proxy::reverse(origin.address, &[]);
        let evil = format!("{name}: evil\r\n");
        let (head, body) = get(&proxy, &evil);
        assert_eq!((did(&head), &*body), ("fwd=bypass; fwd-status=200", "evil"), "{name}");
        assert_eq!(get(&proxy, "").1, "good", "{name} was stored");
        assert_eq!(get(&proxy, &evil).1, "evil", "{name} was served another's");
        assert_eq!((get(&proxy, "").1.as_str(), origin.seen().len()), ("good", 3), "{name}");
        assert_eq!(proxy.metric("cache_bypassed_total"), 2);
    }
}

#[test]
fn fields_that_an_answer_varies_by_are_in_the_key() {
    let origin = gullible("Vary: X-Forwarded-Host\r\n");
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..2 {
        assert_eq!(get(&proxy, "X-Forwarded-Host: evil\r\n").1, "evil");
        assert_eq!(get(&proxy, "").1, "good");
    }
    assert_eq!(origin.seen().len(), 2);
    // One that it varies by is no leave for another.
    get(&proxy, "X-Forwarded-Host: evil\r\nX-Host: c\r\n");
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn the_operator_puts_fields_into_the_key() {
    let origin = gullible("");
    let proxy = Proxy::reverse(origin.address, &["--key", "X-Forwarded-Proto", "--key", "x-site"]);
    for _ in 0..2 {
        assert_eq!(get(&proxy, "X-Forwarded-Proto: evil\r\n").1, "evil");
        assert_eq!(get(&proxy, "X-Site: evil\r\n").1, "evil");
        assert_eq!(get(&proxy, "").1, "good");
    }
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn a_get_with_a_body_goes_past_the_cache() {
    let origin = gullible("");
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..2 {
        assert_eq!(get(&proxy, "Content-Length: 4\r\n\r\nevil").1, "evil");
        assert_eq!(get(&proxy, "").1, "good");
    }
    assert_eq!((origin.seen().len(), proxy.metric("cache_bypassed_total")), (3, 2));
}

/// An origin of bodies of the length that the path says, of the form of this length.
fn sized() -> Origin {
    Origin::new(|seen, socket| {
        let len: usize = seen.path()[1..].split(['/', '?']).next().unwrap().parse().unwrap();
        let body = "x".repeat(len);
        if !seen.path().ends_with("/chunked") {
            return answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", &body);
        }
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all(format!("{head}{len:x}\r\n{body}\r\n0\r\n\r\n").as_bytes()).is_ok()
    })
}

fn body_of(proxy: &Proxy, target: &str) -> usize {
    let got = proxy.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    got.split_once("\r\n\r\n").unwrap().1.matches('x').count()
}

#[test]
fn large_bodies_are_passed_and_not_kept() {
    let origin = sized();
    let proxy = Proxy::reverse(origin.address, &["--size", "64K"]);
    for (len, kept) in [(8192, true), (8193, false), (1 << 20, false)] {
        for form in ["", "/chunked"] {
            let before = origin.seen().len();
            for _ in 0..2 {
                assert_eq!(body_of(&proxy, &format!("/{len}{form}")), len, "{form}");
            }
            assert_eq!(origin.seen().len() - before, if kept { 1 } else { 2 }, "{len}{form}");
        }
    }
    assert_eq!(proxy.metric("cache_too_large_total"), 8);
}

#[test]
fn only_what_begins_to_be_kept_is_told_to_be_stored() {
    let origin = Origin::new(|seen, socket| {
        let fields = "Cache-Control: max-age=100\r\nCache-Status: other; fwd=miss; stored\r\n";
        answer(socket, "200 OK", fields, &"x".repeat(seen.path()[1..].parse().unwrap()))
    });
    let proxy = Proxy::reverse(origin.address, &["--size", "64K"]);
    for (path, more, told) in
        [("/8192", "", "stored"), ("/8193", "", "stored=?0"), ("/7", "X-Forwarded-Host: b\r\n", "bypass")]
    {
        let head = ask(&proxy, "GET", path, more).0;
        let (others, ours): (Vec<&str>, Vec<&str>) =
            head.lines().filter_map(|line| line.strip_prefix("cache-status: ")).partition(|it| !it.starts_with("thaw"));
        assert_eq!(others, ["other; fwd=miss; stored"], "{head}");
        let wanted = match told {
            "bypass" => "thaw; fwd=bypass; fwd-status=200".to_owned(),
            told => format!("thaw; fwd=uri-miss; fwd-status=200; {told}"),
        };
        assert_eq!(ours, [wanted], "{head}");
    }
}

#[test]
fn the_budget_is_kept_and_what_was_used_last_stays() {
    let origin = sized();
    let proxy = Proxy::reverse(origin.address, &["--size", "64K"]);
    for number in 0..40 {
        body_of(&proxy, &format!("/4096?{number}"));
        body_of(&proxy, "/4096?0");
        assert!(proxy.metric("cache_bytes") <= 65_536);
    }
    assert_eq!(origin.seen().iter().filter(|seen| seen.path() == "/4096?0").count(), 1);
    assert!((6..16).contains(&proxy.metric("cache_entries")));
    assert_eq!(proxy.metric("cache_evicted_total") + proxy.metric("cache_entries"), 40);
    // Heads count too.
    let wide = Origin::new(|_, socket| {
        answer(socket, "200 OK", &format!("Cache-Control: max-age=100\r\nX: {}\r\n", "y".repeat(8000)), "")
    });
    let proxy = Proxy::reverse(wide.address, &["--size", "64K"]);
    for number in 0..20 {
        body_of(&proxy, &format!("/{number}"));
    }
    assert!(proxy.metric("cache_entries") < 8 && proxy.metric("cache_bytes") <= 65_536);
}

/// Fields come in buffers of the connection that are many times as large, and bodies may.
#[test]
fn what_is_kept_costs_what_is_counted() {
    let origin = sized();
    let proxy = Proxy::reverse(origin.address, &["--size", "64M"]);
    let before = proxy.resident();
    let mut socket = proxy.connect();
    for number in 0..2000 {
        socket.write_all(format!("GET /10?{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        one(&mut socket);
    }
    let (grown, counted) = (proxy.resident() - before, proxy.metric("cache_bytes"));
    assert_eq!(proxy.metric("cache_entries"), 2000);
    assert!(grown < 2 * counted + (4 << 20), "{grown} for {counted}");
}

#[test]
fn sizes_are_said_as_elsewhere() {
    for (size, right) in [("64K", true), ("1G", true), ("100MB", true), ("1K", false), ("much", false), ("1.5M", false)]
    {
        let output =
            std::process::Command::new(crate::started::PROGRAM).args(["--size", size, "--reverse", "x"]).output();
        let said = String::from_utf8(output.unwrap().stderr).unwrap();
        assert_eq!(said.contains("--size"), !right, "{size}: {said}");
    }
}

#[test]
fn a_kept_answer_goes_to_http_2_too() {
    let origin = numbered("Cache-Control: max-age=100\r\n");
    let proxy = Proxy::reverse(origin.address, &[]);
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return testing::skip("needs curl");
    }
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", version, "-H", "Host: a", &format!("http://{}/x", proxy.address)]);
        assert_eq!(String::from_utf8(curl.output().unwrap().stdout).unwrap(), "number 0");
    }
    let mut socket = proxy.connect();
    socket.write_all(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    assert!(rest(&mut socket).ends_with("number 0"));
}
