//! Requests that two readers could understand in two ways, and those that only look like it.

use crate::origin::Origin;
use crate::started::{Proxy, one, rest, status};
use std::io::Write;

pub const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Heads that are refused before anything reaches the origin, with the status.
pub const HEADS: &[(&str, u16)] = &[
    // Lengths.
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\na", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\n Content-Length: 4\r\n\r\nabcd", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 4\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\nContent-Length: 4\r\n\r\nabcd", 400),
    // Codings.
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    // Ends of lines.
    ("GET / HTTP/1.1\nHost: a\n\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 4\r\n\r\nabcd", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 4\r\n\r\nabcd", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\x7f\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: y\r\n\r\n", 400),
    // Request lines.
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\r\n\r\n", 400),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET \\a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET http://user:word@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    // Hosts.
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Host\r\n\r\n", 400),
    ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("GET http://a:8080/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    // Others.
    ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("CONNECT a:1 HTTP/1.1\r\nHost: b:1\r\n\r\n", 400),
    ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("CONNECT u@a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 400),
    ("THAW-REFUSED / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\n\r\n", 417),
];

#[test]
fn ambiguous_heads_are_refused_and_nothing_reaches_the_origin() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    for (head, wanted) in HEADS {
        let answer = proxy.send(format!("{head}{SMUGGLED}"));
        assert_eq!(status(&answer), *wanted, "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?} is answered twice: {answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{head:?}: {answer}");
    }
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
    assert_eq!(proxy.metric("requests_refused_total"), HEADS.len() as i64);
}

#[test]
fn a_refused_request_waits_for_its_turn() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let answer = proxy.send(format!("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\nHost: a\n\n{SMUGGLED}"));
    assert_eq!(status(&answer), 200);
    let second = &answer[answer.find("/first").unwrap() + "/first".len()..];
    assert_eq!(status(second), 400, "{answer}");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn tricks_with_chunks_reach_no_origin_as_a_whole() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    for body in [
        "4\r\nabcde\r\n0\r\n\r\n",
        "4\r\nabc\r\n0\r\n\r\n",
        "0x4\r\nabcd\r\n0\r\n\r\n",
        "+4\r\nabcd\r\n0\r\n\r\n",
        "4 \r\nabcd\r\n0\r\n\r\n",
        "4\nabcd\n0\n\n",
        "4\r\nabcd\n0\r\n\r\n",
        "4;\nx\r\nabcd\r\n0\r\n\r\n",
        "10000000000000004\r\nabcd\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
        "\r\n0\r\n\r\n",
        "4\r\nabcd\r\n0\r\nX: y\nZ: z\r\n\r\n",
        "4\r\nabcd\r\n0\r\nContent-Length: 9\r\n\r\n",
        "4\r\nabcd\r\n0\r\nX : y\r\n\r\n",
        "4\r\nabcd\r\n0\r\n\rX",
        "4\r\nabcd\r\n0\r\n folded: y\r\n\r\n",
    ] {
        let head = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = proxy.send(format!("{head}{body}{SMUGGLED}"));
        assert!(!answer.contains("/smuggled") && !answer.starts_with("HTTP/1.1 2"), "{body:?}: {answer}");
    }
    let seen = origin.seen();
    assert!(seen.iter().all(|seen| seen.path() == "/body" && seen.body.is_none()), "{seen:?}");
}

#[test]
fn what_is_clear_is_passed_on_as_it_was_meant() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut socket = proxy.connect();
    let requests = [
        "\r\nGET /a?b=%00&c='(|) HTTP/1.1\r\nHost: A.b:80\r\nX: \t y \t\r\nX:\u{e9}\r\n\r\n",
        "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 0032\r\n\r\nGET /no-request HTTP/1.1\r\nX: y\r\n",
        "PUT /chunks HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n4;e=\"f\"\r\nabcd\r\n0A\r\n0123456789\r\n\
         0\r\nX-Trailer: z\r\n\r\n",
        "HEAD /head HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, X-Own\r\nX-Own: 1\r\n\
         Keep-Alive: 3\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n\r\n",
        "GET http://other.host:81/absolute HTTP/1.1\r\nHost: OTHER.host:81\r\nConnection: close\r\n\r\n",
    ];
    // All at once: each is answered in its turn.
    socket.write_all(requests.concat().as_bytes()).unwrap();
    let answers = rest(&mut socket);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 5, "{answers}");
    let seen = origin.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| seen.path()).collect();
    assert_eq!(paths, ["/a?b=%00&c='(|)", "/length", "/chunks", "/head", "/absolute"]);
    assert_eq!(seen[0].all("host"), ["a.b:80"]);
    assert_eq!(seen[0].all("x"), ["y", "\u{e9}"]);
    assert_eq!(seen[1].body.as_deref(), Some(&b"GET /no-request HTTP/1.1\r\nX: y\r\n"[..32]));
    assert_eq!(seen[2].body.as_deref(), Some(&b"abcd0123456789"[..]));
    assert_eq!(seen[4].all("host"), ["other.host:81"]);
    for name in ["te", "connection", "x-own", "keep-alive", "proxy-connection", "upgrade"] {
        assert!(seen[3].all(name).is_empty(), "{name}: {:?}", seen[3]);
    }
    assert!(seen[3].all("via")[0].starts_with("1.1 thaw-"));
}

#[test]
fn a_request_that_comes_in_a_circle_is_refused() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 thaw-00000000, 1.0 x\r\n\r\n").unwrap();
    let (head, _) = one(&mut socket);
    let via = head.lines().find_map(|line| line.strip_prefix("via: ")).unwrap();
    let answer = proxy.send(format!("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 x, {via}\r\nConnection: close\r\n\r\n"));
    assert_eq!(status(&answer), 508, "{answer}");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn options_with_max_forwards_goes_so_many_steps() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    for (steps, reaches) in [("0", false), ("1", true)] {
        let text = format!("OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: {steps}\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&proxy.send(text)), 200);
        assert_eq!(origin.seen().len() == 1, reaches);
    }
    assert_eq!(origin.seen()[0].all("max-forwards"), ["0"]);
}

#[test]
fn a_forward_proxy_goes_where_the_target_says() {
    let (one_origin, other) = (Origin::echo(), Origin::echo());
    let proxy = Proxy::start(&[]);
    let (first, second) = (one_origin.address, other.address);
    let text = format!(
        "GET http://{first}/1 HTTP/1.1\r\nHost: {first}\r\n\r\nGET http://{second} HTTP/1.1\r\nHost: {second}\r\n\
         Connection: close\r\n\r\n"
    );
    assert_eq!(proxy.send(text).matches("HTTP/1.1 200 OK").count(), 2);
    assert_eq!(one_origin.seen()[0].path(), "/1");
    assert_eq!(other.seen()[0].path(), "/");
    assert_eq!(status(&proxy.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 400);
    // Behind a CONNECT that failed are bytes of a tunnel: never a request to us.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "CONNECT {closed} HTTP/1.1\r\nHost: {closed}\r\n\r\nGET http://{first}/2 HTTP/1.1\r\n\
                        Host: {first}\r\n\r\n"
    );
    let answer = proxy.send(text);
    assert_eq!((status(&answer), answer.matches("HTTP/1.1").count()), (502, 1), "{answer}");
    assert_eq!(one_origin.seen().len(), 1);
}
