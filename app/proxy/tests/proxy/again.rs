//! Requests that come again byte for byte, and what may not be answered by that.

use crate::cache::{answer, ask, get};
use crate::origin::Origin;
use crate::started::{Proxy, one};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An origin whose answers are numbered, with these fields.
fn numbered(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::new(move |seen, socket| {
        let number = count.fetch_add(1, Ordering::Relaxed);

        answer(socket, "200 OK", fields, &format!("{} {number}", seen.path()))
    })
}

const KEPT: &str = "Cache-Control: max-age=100\r\nExpires: never\r\n";

#[test]
fn what_comes_again_is_answered_by_its_bytes_and_counts_and_is_logged_as_a_hit() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let origin = numbered(KEPT);
    let mut proxy = Proxy::reverse(origin.address, &["--access-log", log.to_str().unwrap()]);
    let mut heads = Vec::new();
    for _ in 0..5 {
        let (head, body) = get(&proxy, "Accept: */*\r\n");
        assert_eq!(body, "/x 0");
        heads.push(head);
    }
    assert!(proxy.metric("cache_again_total") == 3 && proxy.metric("cache_hits_total") == 4);
    assert_eq!(proxy.metric("requests_total"), 5);
    // The field that tells how long it is fresh may have gone on by a second; so may its age.
    let shape = |head: &str| {
        let mut lines: Vec<String> = head.lines().map(|line| line.trim_end_matches(char::is_numeric).into()).collect();
        lines.sort();
        lines
    };
    assert_eq!(shape(&heads[1]), shape(&heads[4]), "the same as the one that was decided");
    proxy.terminate();
    proxy.ended();
    let text = std::fs::read_to_string(log).unwrap();
    let told: Vec<&str> = text.lines().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(told, ["GET /x HTTP/1.1"; 5], "{text}");
    let ends = |word: &str| text.lines().filter(|line| line.contains("\" 200 4 ") && line.ends_with(word)).count();
    assert_eq!((ends(" hit"), ends(" miss")), (4, 1), "{text}");
}

#[test]
fn answers_stay_in_the_order_of_their_requests() {
    let origin = numbered(KEPT);
    let proxy = Proxy::reverse(origin.address, &[]);
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..3 {
        ask(&proxy, "GET", "/known", "");
    }
    let mut socket = proxy.connect();
    let targets = ["/known", "/known", "/new", "/known", "/newer", "/newest", "/known", "/known"];
    let all: String = targets.iter().map(|target| request(target)).collect();
    socket.write_all(all.as_bytes()).unwrap();
    for target in targets {
        let (_, body) = one(&mut socket);
        assert!(body.starts_with(&format!("{target} ")), "{target}: {body}");
    }
    // One byte at a time, between two others.
    socket.write_all(request("/known").as_bytes()).unwrap();
    for byte in request("/known").as_bytes() {
        socket.write_all(&[*byte]).unwrap();
    }
    socket.write_all(request("/last").as_bytes()).unwrap();
    let bodies = [(); 3].map(|()| one(&mut socket).1);
    assert_eq!(bodies, ["/known 0", "/known 0", "/last 4"]);
    assert!(proxy.metric("cache_again_total") >= 3);
}

#[test]
fn what_is_gone_or_another_is_not_given_again() {
    let origin = numbered(KEPT);
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..3 {
        assert_eq!(get(&proxy, "").1, "/x 0");
    }
    let again = proxy.metric("cache_again_total");
    ask(&proxy, "POST", "/x", "Content-Length: 0\r\n");
    for _ in 0..3 {
        assert_eq!(get(&proxy, "").1, "/x 2", "invalidated");
    }
    assert!(again == 1 && proxy.metric("cache_again_total") == 2);
    for forced in ["Cache-Control: no-cache\r\n", "Pragma: no-cache\r\n", "X-Forwarded-Host: evil\r\n"] {
        let bodies = [(); 3].map(|()| get(&proxy, forced).1);
        assert!(bodies[0] != bodies[1] && bodies[1] != bodies[2], "{forced}{bodies:?}");
    }
}

#[test]
fn variants_stay_apart() {
    let origin = Origin::new(|seen, socket| {
        let fields = "Cache-Control: max-age=100\r\nVary: Accept-Language\r\n";
        answer(socket, "200 OK", fields, &seen.all("accept-language").join(","))
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..4 {
        for language in ["de", "fr"] {
            assert_eq!(get(&proxy, &format!("Accept-Language: {language}\r\n")).1, language);
        }
    }
    assert_eq!(proxy.metric("cache_again_total"), 4);
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it() {
    const LENGTH: usize = 8 << 20;
    let origin = Origin::new(|_, socket| {
        let body = String::from_utf8((0..LENGTH).map(|at| b'a' + (at % 23) as u8).collect()).unwrap();
        answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", &body)
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..2 {
        get(&proxy, "");
    }
    let mut socket = proxy.connect();
    socket.write_all("GET /x HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3).as_bytes()).unwrap();
    // More than sockets hold: it has to wait for this client, and serves others meanwhile.
    assert_eq!(get(&proxy, "Accept: a\r\n").1.len(), LENGTH);
    let mut first = [0; 1000];
    socket.read_exact(&mut first).unwrap();
    assert_eq!(get(&proxy, "Accept: a\r\n").1.len(), LENGTH);
    let head = String::from_utf8_lossy(&first).find("\r\n\r\n").unwrap() + 4;
    let mut left = vec![0; LENGTH - (first.len() - head)];
    socket.read_exact(&mut left).unwrap();
    let body = [&first[head..], &left].concat();
    assert!(body.iter().enumerate().all(|(at, byte)| *byte == b'a' + (at % 23) as u8));
    for _ in 0..2 {
        assert_eq!(one(&mut socket).1.as_bytes(), body);
    }
    assert!(proxy.metric("cache_again_total") >= 3);
}
