//! Requests for the same thing at the same time, clients that go away, and what is asked behind them.

use crate::cache::{answer, ask, get};
use crate::origin::Origin;
use crate::started::{Proxy, one, rest};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

const CLIENTS: usize = 8;

/// An origin that goes on where it is told to.
fn held(answer: impl Fn(usize, &Receiver<()>, &mut TcpStream) -> bool + Send + Sync + 'static) -> (Origin, Sender<()>) {
    let (go, told) = channel();
    let (told, count) = (Mutex::new(told), AtomicUsize::new(0));
    let origin = Origin::new(move |_, socket| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        answer(number, &told.lock().unwrap(), socket)
    });
    (origin, go)
}

/// So many requests for one thing that have been sent.
fn clients(proxy: &Proxy, fields: &str) -> Vec<TcpStream> {
    let ask = |_| {
        let mut socket = proxy.connect();
        socket
            .write_all(format!("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").as_bytes())
            .unwrap();
        socket
    };
    (0..CLIENTS).map(ask).collect()
}

fn wait_for(proxy: &Proxy, name: &str, value: i64) {
    while proxy.metric(name) < value {
        std::thread::yield_now();
    }
}

#[test]
fn misses_at_the_same_time_ask_once() {
    for chunked in [false, true] {
        let (origin, go) = held(move |_, told, socket| {
            told.recv().unwrap();
            if !chunked {
                return answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", "body");
            }
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n";
            socket.write_all(format!("{head}4\r\nbody\r\n0\r\n\r\n").as_bytes()).is_ok()
        });
        let proxy = Proxy::reverse(origin.address, &[]);
        let sockets = clients(&proxy, "");
        wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64 - 1);
        go.send(()).unwrap();
        for mut socket in sockets {
            let got = rest(&mut socket);
            assert!(got.contains("200 OK") && got.contains("body"), "{got}");
        }
        assert_eq!(origin.seen().len(), 1);
        assert_eq!((proxy.metric("cache_hits_total"), proxy.metric("cache_misses_total")), (CLIENTS as i64 - 1, 1));
    }
}

#[test]
fn whoever_waits_reads_along() {
    let (origin, go) = held(|_, told, socket| {
        told.recv().unwrap();
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n\r\n01234";
        socket.write_all(head.as_bytes()).unwrap();
        told.recv().unwrap();
        socket.write_all(b"56789").is_ok()
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut sockets = clients(&proxy, "");
    wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64 - 1);
    go.send(()).unwrap();
    for socket in &mut sockets {
        let mut got = Vec::new();
        while !got.ends_with(b"\r\n\r\n01234") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            got.push(byte[0]);
        }
    }
    go.send(()).unwrap();
    for mut socket in sockets {
        assert_eq!(rest(&mut socket), "56789");
    }
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn what_is_not_kept_is_nobody_elses_answer() {
    let (origin, go) = held(|number, told, socket| {
        if number == 0 {
            told.recv().unwrap();
        }
        answer(socket, "200 OK", "Cache-Control: no-store\r\n", &format!("<{number}>"))
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let sockets = clients(&proxy, "");
    wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64 - 1);
    go.send(()).unwrap();
    let mut bodies: Vec<String> =
        sockets.into_iter().map(|mut socket| rest(&mut socket).rsplit("\r\n\r\n").next().unwrap().to_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, (0..CLIENTS).map(|number| format!("<{number}>")).collect::<Vec<_>>());
    // Nobody waits for such a one again.
    let before = proxy.metric("cache_collapsed_total");
    clients(&proxy, "").iter_mut().for_each(|socket| assert!(rest(socket).contains("200 OK")));
    assert_eq!(proxy.metric("cache_collapsed_total"), before);
}

#[test]
fn whoever_asks_for_others_may_go() {
    let (origin, go) = held(|_, told, socket| {
        told.recv().unwrap();
        answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", "body")
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut first = proxy.connect();
    first.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    while origin.seen().is_empty() {}
    let mut others = clients(&proxy, "");
    wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64);
    drop(first);
    wait_for_no(&proxy, CLIENTS as i64);
    // One of those that wait goes too, and holds up nobody.
    drop(others.pop());
    go.send(()).unwrap();
    for mut socket in others {
        assert!(rest(&mut socket).ends_with("body"));
    }
    assert_eq!(origin.seen().len(), 1);
}

/// Until so many connections are left.
fn wait_for_no(proxy: &Proxy, left: i64) {
    while proxy.metric("connections") > left {}
}

#[test]
fn a_client_that_goes_spoils_nothing() {
    let (origin, go) = held(|_, told, socket| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n\r\n01234";
        socket.write_all(head.as_bytes()).unwrap();
        told.recv().unwrap();
        socket.write_all(b"56789").is_ok()
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut some = [0; 20];
    socket.read_exact(&mut some).unwrap();
    drop(socket);
    wait_for_no(&proxy, 0);
    go.send(()).unwrap();
    wait_for(&proxy, "cache_stored_total", 1);
    assert_eq!(get(&proxy, "").1, "0123456789");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_body_of_unknown_length_is_given_up_with_its_client() {
    let (origin, go) = held(|number, told, socket| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n";
        socket.write_all(head.as_bytes()).unwrap();
        if number == 0 {
            // The proxy ends the connection; then there is nothing to read.
            let ended = socket.read(&mut [0]);
            told.recv().unwrap();
            return ended.is_ok_and(|read| read > 0);
        }
        socket.write_all(b"0\r\n\r\n").is_ok()
    });
    go.send(()).unwrap();
    // No clock of the proxy's helps.
    let proxy = Proxy::reverse(origin.address, &["--stall-time", "86400", "--answer-time", "86400"]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut some = [0; 20];
    socket.read_exact(&mut some).unwrap();
    drop(socket);
    // The second answer waits for the end of the first: one is told at a time.
    let got = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(got.contains("fwd=uri-miss"), "{got}");
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn what_is_stale_is_served_while_it_is_asked_for() {
    let (origin, go) = held(|number, told, socket| {
        if number == 1 {
            told.recv().unwrap();
        }
        let control = "Cache-Control: max-age=0, stale-while-revalidate=1000\r\nETag: \"a\"\r\n";
        let control = if number == 0 { control } else { "Cache-Control: max-age=1000\r\n" };
        answer(socket, "200 OK", control, &format!("number {number}"))
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    assert_eq!(get(&proxy, "").1, "number 0");
    // The origin is held: these come from the store, and cause one request.
    for _ in 0..3 {
        assert_eq!(get(&proxy, "").1, "number 0");
    }
    assert_eq!(proxy.metric("cache_stale_total"), 3);
    go.send(()).unwrap();
    wait_for(&proxy, "cache_stored_total", 2);
    assert_eq!(get(&proxy, "").1, "number 1");
    let seen = origin.seen();
    assert_eq!((seen.len(), seen[1].all("if-none-match")), (2, vec!["\"a\""]));
}

#[test]
fn what_is_invalidated_while_it_comes_is_not_kept() {
    for framing in ["Content-Length: 8\r\n\r\nnumb", "Transfer-Encoding: chunked\r\n\r\n4\r\nnumb\r\n"] {
        let (go, told) = channel();
        let told = Mutex::new(told);
        let count = AtomicUsize::new(0);
        let origin = Origin::new(move |seen, socket| {
            if seen.line.starts_with("POST") || count.fetch_add(1, Ordering::Relaxed) > 0 {
                return answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", "number 1");
            }
            let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n{framing}");
            socket.write_all(head.as_bytes()).unwrap();
            told.lock().unwrap().recv().unwrap();
            let chunked = framing.starts_with("Transfer");
            socket.write_all(if chunked { b"4\r\ner 0\r\n0\r\n\r\n" } else { b"er 0" }).is_ok()
        });
        let proxy = Proxy::reverse(origin.address, &[]);
        let mut socket = proxy.connect();
        socket.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        socket.read_exact(&mut [0; 20]).unwrap();
        ask(&proxy, "POST", "/x", "Content-Length: 0\r\n");
        go.send(()).unwrap();
        assert!(rest(&mut socket).contains("er 0"));
        wait_for(&proxy, "cache_broken_total", 1);
        assert_eq!(get(&proxy, "").1, "number 1");
    }
}

#[test]
fn a_slow_client_holds_up_nobody() {
    let body = "x".repeat(4 << 20);
    let origin = Origin::new(move |_, socket| answer(socket, "200 OK", "Cache-Control: max-age=100\r\n", &body));
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut slow = proxy.connect();
    slow.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_for(&proxy, "cache_stored_total", 1);
    assert_eq!(get(&proxy, "").1.len(), 4 << 20);
    assert_eq!((one(&mut slow).1.len(), origin.seen().len()), (4 << 20, 1));
}

#[test]
fn a_failure_is_told_to_all_who_waited_and_the_origin_asked_once() {
    // It breaks, it is refused: in neither case do all of them ask at once.
    for bytes in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"] {
        let (origin, go) = held(move |_, told, socket| {
            told.recv().unwrap();
            let _ = socket.write_all(bytes.as_bytes());
            let _ = socket.shutdown(std::net::Shutdown::Both);
            false
        });
        let proxy = Proxy::reverse(origin.address, &[]);
        let sockets = clients(&proxy, "");
        wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64 - 1);
        // More than enough for all.
        (0..CLIENTS).for_each(|_| go.send(()).unwrap());
        for mut socket in sockets {
            let got = rest(&mut socket);
            assert!(got.starts_with("HTTP/1.1 502 "), "{got}");
        }
        assert_eq!(origin.seen().len(), 1);
        assert_eq!(proxy.metric("errors_total"), CLIENTS as i64);
    }
}

#[test]
fn who_waited_for_an_answer_that_failed_has_what_is_stale() {
    let (origin, go) = held(|number, told, socket| {
        if number == 0 {
            return answer(socket, "200 OK", "Cache-Control: max-age=0, stale-if-error=600\r\nETag: \"1\"\r\n", "old");
        }
        told.recv().unwrap();
        let _ = socket.shutdown(std::net::Shutdown::Both);
        false
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    assert_eq!(get(&proxy, "").1, "old");
    let sockets = clients(&proxy, "");
    wait_for(&proxy, "cache_collapsed_total", CLIENTS as i64 - 1);
    (0..CLIENTS).for_each(|_| go.send(()).unwrap());
    for mut socket in sockets {
        let got = rest(&mut socket);
        assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with("old"), "{got}");
    }
}
