//! HTTP/2: many streams at once, heads that its own libraries would not send, and clients that are slow or greedy.

use crate::origin::Origin;
use crate::started::Proxy;
use crate::tls::{Ca, tls_proxy};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub type Sender = SendRequest<Full<Bytes>>;

pub fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// HTTP/2 over a connection.
pub async fn two(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Sender {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// HTTP/2 by TLS, as it was agreed on.
pub async fn secured<T>(ca: &Ca, io: T, name: &str) -> Sender
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TlsConnector::from(ca.client(&["h2", "http/1.1"])).connect(name, io).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    two(stream).await
}

pub async fn to(ca: &Ca, address: SocketAddr) -> Sender {
    secured(ca, tokio::net::TcpStream::connect(address).await.unwrap(), "localhost").await
}

pub fn get(url: &str) -> Request<Full<Bytes>> {
    Request::builder().uri(url).version(Version::HTTP_2).body(Full::default()).unwrap()
}

pub async fn answer(sender: &mut Sender, request: Request<Full<Bytes>>) -> Response<Bytes> {
    sender.ready().await.unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

#[test]
fn many_streams_of_one_connection_are_answered_at_once() {
    const STREAMS: usize = 64;
    let together = Arc::new(Barrier::new(STREAMS));
    let origin = Origin::new(move |seen, socket| {
        // None is answered before all have come.
        together.wait();
        let body = seen.path().repeat(1000);
        socket.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).is_ok()
    });
    let ca = Ca::new();
    let proxy = tls_proxy(&ca, &[]);
    block(async {
        let sender = to(&ca, proxy.tls.unwrap()).await;
        let asked: Vec<_> = (0..STREAMS)
            .map(|number| {
                let (mut sender, url) = (sender.clone(), format!("http://{}/{number}", origin.address));
                tokio::spawn(async move { answer(&mut sender, get(&url)).await })
            })
            .collect();
        for (asked, number) in asked.into_iter().zip(0..) {
            assert_eq!(asked.await.unwrap().into_body(), format!("/{number}").repeat(1000));
        }
    });
    assert_eq!(origin.seen().len(), STREAMS);
    assert_eq!(proxy.metric("tls_handshakes_total"), 1);
}

/// A client of HTTP/2 that sends what it is told to.
struct Raw(TcpStream);

/// What came of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    Status(u16, String),
    Reset(u32),
    GoAway(u32),
    End,
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Raw {
    fn new(proxy: &Proxy, settings: &[(u16, u32)]) -> Self {
        let mut raw = Self(proxy.connect());
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let settings: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        assert!(raw.frame(SETTINGS, 0, 0, &settings));
        raw
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = &(payload.len() as u32).to_be_bytes()[1..];
        let frame = [length, &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.write_all(&frame).is_ok()
    }

    fn ask(&mut self, stream: u32, fields: &[(&str, &[u8])], end: bool) -> bool {
        let flags = END_HEADERS | if end { END_STREAM } else { 0 };
        self.frame(HEADERS, flags, stream, &packed(fields))
    }

    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()), payload))
    }

    /// What comes of a stream, to its end.
    fn came(&mut self, wanted: u32) -> Came {
        let (mut status, mut body) = (0, Vec::new());
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        while let Some((kind, flags, stream, payload)) = self.next() {
            match kind {
                GOAWAY if number(&payload[4..]) != 0 => return Came::GoAway(number(&payload[4..])),
                _ if stream != wanted => continue,
                RST_STREAM => return Came::Reset(number(&payload)),
                HEADERS => status = told(&payload),
                0 => body.extend(payload),
                _ => continue,
            }
            if flags & END_STREAM > 0 {
                return Came::Status(status, String::from_utf8_lossy(&body).into_owned());
            }
        }
        Came::End
    }
}

/// Fields as literals (RFC 7541, 6.2.2).
fn packed(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let text = |bytes: &[u8]| {
        let mut out = Vec::new();
        match bytes.len() {
            len @ 0..127 => out.push(len as u8),
            len => {
                out.push(127);
                let mut left = len - 127;
                while left > 127 {
                    out.push(left as u8 & 127 | 128);
                    left >>= 7;
                }
                out.push(left as u8);
            }
        }
        out.extend_from_slice(bytes);
        out
    };
    fields.iter().flat_map(|(name, value)| [vec![0], text(name.as_bytes()), text(value)].concat()).collect()
}

/// `:status`, which stands first: a place in the static table, or three digits in Huffman's code.
fn told(block: &[u8]) -> u16 {
    let at = block.iter().position(|byte| byte & 0xe0 != 0x20).unwrap();
    match block[at] {
        place @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(place) - 0x88],
        _ => {
            let bits = block[at + 2..].iter().take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let (mut left, mut status) = (24, 0);
            for _ in 0..3 {
                let five = bits >> (left - 5) & 31;
                let (digit, used) = if five < 3 { (five, 5) } else { ((bits >> (left - 6) & 63) - 22, 6) };
                left -= used;
                status = status * 10 + digit;
            }
            status as u16
        }
    }
}

const GET: [(&str, &[u8]); 4] = [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/")];

/// The request with other values in the place of these, or more.
fn with<'a>(others: &[(&'a str, &'a [u8])]) -> Vec<(&'a str, &'a [u8])> {
    let mut fields: Vec<(&str, &[u8])> = GET.to_vec();
    for other in others {
        match fields[..4].iter_mut().find(|(name, _)| *name == other.0 && name.starts_with(':')) {
            Some(field) => field.1 = other.1,
            None => fields.push(*other),
        }
    }
    fields
}

type Fields = &'static [(&'static str, &'static [u8])];

/// What is refused here, with the status.
const REFUSED: &[(Fields, u16)] = &[
    (&[(":path", b"*")], 400),
    (&[(":scheme", b"")], 400),
    (&[(":scheme", b"ftp")], 400),
    (&[(":path", b"/a\\b")], 400),
    (&[(":path", b"/\xc3\xa9")], 400),
    (&[(":authority", b"u@a")], 400),
    (&[(":authority", b"a:b")], 400),
    (&[("host", b"b")], 400),
    (&[("host", b"a"), ("host", b"a")], 400),
    (&[("host", b"a"), ("host", b"b")], 400),
    (&[("content-length", b"0"), ("content-length", b"0")], 400),
    (&[("content_length", b"4")], 400),
    (&[("transfer_encoding", b"chunked")], 400),
    (&[("x", b" y")], 400),
    (&[("x", b"y\t")], 400),
    (&[(":method", b"TRACE")], 501),
    (&[(":method", b"THAW-REFUSED")], 400),
    (&[("expect", b"200-maybe")], 417),
];

/// What the library refuses, by ending the stream or the connection.
const RESET: &[Fields] = &[
    &[(":path", b"")],
    &[(":path", b"a")],
    &[(":path", b"http://b/")],
    &[(":path", b"/a b")],
    &[(":path", b"/a\r\nb: c")],
    &[(":authority", b"a b")],
    &[(":authority", b"a/b")],
    &[(":authority", b"a\r\nb")],
    &[(":method", b"G T")],
    &[(":method", b"")],
    &[(":status", b"200")],
    &[(":protocol", b"websocket")],
    &[("x", b"y"), (":late", b"z")],
    &[("transfer-encoding", b"chunked")],
    &[("connection", b"close")],
    &[("keep-alive", b"3")],
    &[("proxy-connection", b"close")],
    &[("upgrade", b"h2c")],
    &[("te", b"gzip")],
    &[("X-Upper", b"y")],
    &[("x y", b"z")],
    &[("x:y", b"z")],
    &[("", b"z")],
    &[("x", b"y\r\nz: z")],
    &[("x", b"y\nz")],
    &[("x", b"y\0z")],
    &[("x", b"y\x7f")],
    &[("content-length", b"4")],
    &[("content-length", b"0"), ("content-length", b"4")],
    &[("content-length", b"+0")],
    &[("content-length", b"0, 0")],
    &[("content-length", b"-1")],
    &[("content-length", b"18446744073709551617")],
];

#[test]
fn what_http2_could_smuggle_reaches_no_origin() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let ask = |fields: &[(&str, &[u8])]| {
        let mut raw = Raw::new(&proxy, &[]);
        raw.ask(1, fields, true);
        raw.came(1)
    };
    for (fields, wanted) in REFUSED {
        let came = ask(&with(fields));
        assert!(matches!(&came, Came::Status(status, _) if status == wanted), "{fields:?}: {came:?}");
    }
    for fields in RESET {
        let came = ask(&with(fields));
        assert!(matches!(came, Came::Reset(_) | Came::GoAway(_)), "{fields:?}: {came:?}");
    }
    for left_out in [0, 1, 3] {
        let mut fields = GET.to_vec();
        fields.remove(left_out);
        let came = ask(&fields);
        assert!(matches!(came, Came::Reset(_) | Came::GoAway(_)), "without {}: {came:?}", GET[left_out].0);
    }
    for twice in GET {
        let came = ask(&[&GET[..], &[twice]].concat());
        assert!(matches!(came, Came::Reset(_) | Came::GoAway(_)), "{} twice: {came:?}", twice.0);
    }
    let late = [&GET[..3], &[("x", b"y"), GET[3]]].concat();
    assert!(matches!(ask(&late), Came::Reset(_) | Came::GoAway(_)));
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
    // And what is clear is passed on.
    assert_eq!(ask(&with(&[("host", b"A"), ("cookie", b"b=1"), ("cookie", b"c=2")])), Came::Status(200, "/".into()));
    assert_eq!(ask(&with(&[(":authority", b"a:80"), ("te", b"trailers")])), Came::Status(200, "/".into()));
    let seen = origin.seen();
    assert_eq!((seen[0].all("cookie"), seen[0].all("host")), (vec!["b=1; c=2"], vec!["a"]));
    assert_eq!((seen[1].all("te"), seen[1].all("host")), (vec![], vec!["a:80"]));
}

#[test]
fn connect_over_http2_is_as_strict() {
    let origin = Origin::echo();
    let proxy = Proxy::start(&[]);
    let address = origin.address.to_string();
    let connect = |more: &[(&str, &[u8])]| {
        let mut raw = Raw::new(&proxy, &[]);
        raw.ask(1, &[&[(":method", &b"CONNECT"[..])], more].concat(), false);
        raw.came(1)
    };
    for (more, wanted) in [
        (&[(":authority", &b"a"[..])][..], 400),
        (&[(":authority", b"a:0")], 400),
        (&[(":authority", b"u@a:1")], 400),
        (&[(":authority", address.as_bytes()), ("content-length", b"0")], 400),
    ] {
        let came = connect(more);
        assert!(matches!(&came, Came::Status(status, _) if *status == wanted), "{more:?}: {came:?}");
    }
    for more in [
        &[(":authority", address.as_bytes()), (":path", b"/")][..],
        &[(":authority", address.as_bytes()), (":scheme", b"http")],
        &[(":authority", address.as_bytes()), (":protocol", b"websocket"), (":path", b"/"), (":scheme", b"http")],
    ] {
        assert!(matches!(connect(more), Came::Reset(_) | Came::GoAway(_)), "{more:?}");
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn heads_of_http2_have_a_size_and_a_number_of_fields() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &["--head-bytes", "8192", "--fields", "20"]);
    let ask = |fields: &[(&str, &[u8])]| {
        let mut raw = Raw::new(&proxy, &[]);
        raw.ask(1, fields, true);
        raw.came(1)
    };
    let some = |count| with(&vec![("x", &b"y"[..]); count]);
    assert!(matches!(ask(&some(20)), Came::Status(200, _)));
    let many = ask(&some(21));
    assert!(matches!(many, Came::Status(431, _)), "{many:?}");
    let large = vec![b'y'; 9000];
    let came = ask(&with(&[("x", &large)]));
    assert!(matches!(came, Came::Status(431, _) | Came::Reset(_) | Came::GoAway(_)), "{came:?}");
    // A head that never ends.
    let mut raw = Raw::new(&proxy, &[]);
    raw.frame(HEADERS, 0, 1, &packed(&with(&[])));
    let piece = packed(&[("x", &[b'y'; 1000])]);
    let mut sent = 0;
    while sent < 100_000 && raw.frame(9, 0, 1, &piece) {
        sent += 1;
    }
    assert!(sent < 100_000, "100 MB of a head");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn streams_that_are_opened_and_reset_end_the_connection() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut raw = Raw::new(&proxy, &[]);
    let mut stream = 1;
    // All in one write, so that none is looked at in between.
    let head = packed(&GET);
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        let number = u32::to_be_bytes(stream);
        bytes.extend([&(head.len() as u32).to_be_bytes()[1..], &[HEADERS, 5], &number, &head].concat());
        bytes.extend([&[0, 0, 4, RST_STREAM, 0], &number[..], &8_u32.to_be_bytes()].concat());
        stream += 2;
    }
    let _ = raw.0.write_all(&bytes);
    let came = raw.came(stream);
    assert!(matches!(came, Came::GoAway(11) | Came::End), "{came:?}");
    assert!(origin.seen().len() < 5000, "{} of 10,000 were asked", origin.seen().len());
}

#[test]
fn no_more_streams_are_open_than_were_allowed() {
    let (go, goes) = mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let origin = Origin::new(move |_, socket| {
        let _ = goes.lock().unwrap().recv();
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
    });
    let proxy = Proxy::reverse(origin.address, &["--cache", "off"]);
    let mut raw = Raw::new(&proxy, &[]);
    // What is allowed is told first; a client that does not heed it has its streams refused.
    let allowed = loop {
        let (kind, _, _, payload) = raw.next().unwrap();
        if kind == SETTINGS && !payload.is_empty() {
            let settings = payload.chunks(6).map(|one| (one[1], u32::from_be_bytes(one[2..].try_into().unwrap())));
            break settings.into_iter().find(|(id, _)| *id == 3).unwrap().1;
        }
    };
    assert_eq!(allowed, 128);
    for stream in 0..=allowed {
        assert!(raw.ask(2 * stream + 1, &with(&[]), true));
    }
    let came = raw.came(2 * allowed + 1);
    assert!(matches!(came, Came::Reset(7) | Came::GoAway(_)), "{came:?}");
    drop(go);
}

#[test]
fn a_body_that_stalls_is_cut_though_the_connection_moves() {
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &["--stall-time", "1"]);
    let mut raw = Raw::new(&proxy, &[]);
    raw.ask(1, &with(&[(":method", b"POST")]), false);
    raw.frame(0, 0, 1, b"abc");
    let mut pinging = Raw(raw.0.try_clone().unwrap());
    let (done, is_done) = mpsc::channel::<()>();
    let pings = std::thread::spawn(move || {
        while is_done.recv_timeout(Duration::from_millis(100)).is_err_and(|why| why == mpsc::RecvTimeoutError::Timeout)
        {
            let _ = pinging.frame(6, 0, 0, &[0; 8]);
        }
    });
    let came = raw.came(1);
    assert!(matches!(came, Came::Status(408, _)), "{came:?}");
    drop(done);
    pings.join().unwrap();
    assert!(origin.seen().iter().all(|seen| seen.body.is_none()));
}

#[test]
fn a_client_of_http2_that_takes_nothing_or_asks_nothing_is_ended() {
    let origin = Origin::new(|_, socket| {
        let body = vec![b'x'; 4 << 20];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&body)).is_ok()
    });
    for (idle, stall, asks) in [("1", "600", false), ("600", "1", true)] {
        let proxy = Proxy::reverse(origin.address, &["--idle-time", idle, "--stall-time", stall]);
        // Windows of ten bytes, which are never opened; what the proxy pings is answered.
        let mut raw = Raw::new(&proxy, &[(4, 10)]);
        if asks {
            raw.ask(1, &with(&[]), true);
        }
        while let Some((kind, flags, _, payload)) = raw.next() {
            if kind == 6 && flags == 0 {
                raw.frame(6, 1, 0, &payload);
            }
        }
        while proxy.metric("connections") > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn who_waits_for_an_origin_over_http2_is_not_idle() {
    let origin = Origin::new(|_, socket| {
        std::thread::sleep(Duration::from_millis(2500));
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
    });
    let proxy = Proxy::reverse(origin.address, &["--idle-time", "1", "--head-time", "1", "--stall-time", "1"]);
    let mut raw = Raw::new(&proxy, &[]);
    raw.ask(1, &with(&[]), true);
    // Pings of the proxy come after its idle time, and have to be answered.
    let mut pinging = Raw(raw.0.try_clone().unwrap());
    let came = loop {
        let Some((kind, flags, stream, payload)) = raw.next() else { break None };
        match kind {
            6 if flags == 0 => _ = pinging.frame(6, 1, 0, &payload),
            HEADERS if stream == 1 => break Some(told(&payload)),
            _ => {}
        }
    };
    assert_eq!(came, Some(200));
}

#[test]
fn who_agrees_on_http2_and_says_nothing_is_ended() {
    let ca = Ca::new();
    let proxy = tls_proxy(&ca, &["--idle-time", "1", "--stall-time", "1"]);
    let mut stream = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "a", &["h2"]);
    let _ = stream.read_to_end(&mut Vec::new());
    while proxy.metric("connections") > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(proxy.metric("tls_handshakes_total"), 1);
}
