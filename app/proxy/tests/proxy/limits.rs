//! Slow and greedy clients.

use crate::origin::Origin;
use crate::started::{Proxy, one, rest, status};
use std::io::Write;

#[test]
fn heads_have_a_size_and_a_number_of_fields() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &["--head-bytes", "8192", "--fields", "50"]);
    let get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let fits = format!("{get}{}\r\n", "X: y\r\n".repeat(48));
    assert_eq!(status(&proxy.send(&fits)), 200);
    for head in [
        format!("{get}X: {}\r\n\r\n", "y".repeat(9000)),
        format!("{get}X: {}", "y".repeat(1_000_000)),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(9000)),
        format!("{get}{}\r\n", "X: y\r\n".repeat(49)),
    ] {
        assert_eq!(status(&proxy.send(&head)), 431, "{} bytes", head.len());
    }
    let largest = format!("{get}X: {}\r\n\r\n", "y".repeat(8192 - get.len() - 7));
    assert_eq!((largest.len(), status(&proxy.send(&largest))), (8192, 200));
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn bodies_have_a_size() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &["--body-bytes", "1000"]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let lengths = |len: usize| format!("{post}Content-Length: {len}\r\n\r\n{}", "x".repeat(len));
    let chunks =
        |len: usize| format!("{post}Transfer-Encoding: chunked\r\n\r\n{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
    for (text, wanted) in
        [(lengths(1000), 200), (lengths(1001), 413), (chunks(1000), 200), (chunks(1001), 413), (chunks(500_000), 413)]
    {
        assert_eq!(status(&proxy.send(&text)), wanted, "{} bytes", text.len());
    }
    assert_eq!(origin.seen().iter().filter(|seen| seen.body.is_some()).count(), 2);
}

#[test]
fn slow_heads_and_bodies_are_ended_and_idle_connections_closed() {
    let origin = Origin::echo();
    let clocks = ["--head-time", "1", "--idle-time", "1", "--stall-time", "1"];
    let proxy = Proxy::reverse(origin.address, &clocks);
    assert_eq!(status(&proxy.send("GET / HTTP/1.1\r\nHos")), 408);
    // Drop by drop, for ever: the clock of a head runs on.
    let mut socket = proxy.connect();
    let mut slow = socket.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        let _ = slow.write_all(b"GET / HTTP/1.1\r\nX: ");
        while slow.write_all(b"y").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    assert_eq!(status(&rest(&mut socket)), 408);
    drop(socket);
    dripping.join().unwrap();
    let answer = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    assert_eq!(status(&answer), 408, "{answer}");
    // Between requests it just ends.
    let mut socket = proxy.connect();
    socket.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(one(&mut socket).1, "/idle");
    assert_eq!(rest(&mut socket), "");
    assert!(origin.seen().iter().all(|seen| seen.body.is_none() || seen.path() == "/idle"));
}

#[test]
fn who_waits_for_an_origin_is_not_idle() {
    let origin = Origin::new(|_, socket| {
        std::thread::sleep(std::time::Duration::from_millis(2500));
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
    });
    let proxy = Proxy::reverse(origin.address, &["--idle-time", "1", "--head-time", "1", "--stall-time", "1"]);
    assert_eq!(status(&proxy.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 200);
    let late = Proxy::reverse(origin.address, &["--answer-time", "1"]);
    assert_eq!(status(&late.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 504);
}

#[test]
fn a_client_that_takes_nothing_is_ended() {
    let origin = Origin::new(|_, socket| {
        let piece = vec![b'x'; 1 << 20];
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while socket.write_all(&piece).is_ok() {}
        false
    });
    let proxy = Proxy::reverse(origin.address, &["--stall-time", "1"]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    while proxy.metric("connections") == 0 {
        std::thread::yield_now();
    }
    while proxy.metric("connections") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn too_many_connections_are_told_so() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &["--connections", "2"]);
    let mut kept: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    for socket in &mut kept {
        socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(one(socket).1, "/");
    }
    let answer = rest(&mut proxy.connect());
    assert!(status(&answer) == 503 && answer.contains("retry-after: 1"), "{answer}");
    assert_eq!(proxy.metric("connections_turned_away_total"), 1);
    drop(kept);
    while proxy.metric("connections") > 0 {
        std::thread::yield_now();
    }
    let again = proxy.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&again), 200);
}
