//! Answers of origins: refused where they are ambiguous, never taken for whole where they broke, and bodies are those
//! of the origin, for real clients too.

use crate::origin::Origin;
use crate::started::{Proxy, rest, status};
use std::io::{ErrorKind, Read, Write};
use std::process::Command;

#[test]
fn ambiguous_answers_are_refused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n folded\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
        "HTTP/1.1 0200 OK\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 20 OK\r\n\r\nab",
        "HTTP/1.1  200 OK\r\n\r\nab",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nab",
        "HTTP/2.0 200 OK\r\n\r\nab",
        "ICY 200 OK\r\n\r\nab",
        "just text",
        "",
    ] {
        let origin = Origin::raw(answer);
        let proxy = Proxy::reverse(origin.address, &[]);
        let got = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&got), 502, "{answer:?}: {got}");
        assert_eq!(proxy.metric("errors_total"), 1);
    }
}

#[test]
fn what_an_origin_sends_unasked_is_nobodys_answer() {
    const SPLIT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    for first in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n"] {
        let origin = Origin::new(move |_, socket| socket.write_all(format!("{first}{SPLIT}").as_bytes()).is_ok());
        let proxy = Proxy::reverse(origin.address, &[]);
        for _ in 0..20 {
            let got = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert!(!got.contains("forged"), "{got}");
        }
    }
}

#[test]
fn an_answer_that_breaks_is_never_whole() {
    for (answer, whole) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nx\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\npart", true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 200\r\n\r\npart", true),
    ] {
        let proxy = Proxy::reverse(Origin::raw(answer).address, &[]);
        let got = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let ended = got.contains("\r\n0\r\n\r\n");
        // What broke before a word was sent may have no head either.
        assert_eq!(got.starts_with("HTTP/1.1 200") && ended, whole, "{answer:?}: {got}");
    }
}

const OLD: &str = "GET /x HTTP/1.0\r\nHost: a\r\n\r\n";

/// What a client of HTTP/1.0 gets, and how that ends.
fn old(socket: &mut impl Read) -> (String, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = socket.read_to_end(&mut bytes).err().map(|error| error.kind());
    (String::from_utf8(bytes).unwrap(), end)
}

#[test]
fn an_answer_that_breaks_is_no_end_for_a_client_of_http_1_0() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
    for (more, whole) in [("", false), ("x\r\n", false), ("2\r\nof", false), ("0\r\n\r\n", true)] {
        for kept in ["", "Cache-Control: max-age=9\r\n", "Cache-Control: no-store\r\n"] {
            let answer = CHUNKED.replacen("\r\n", &format!("\r\n{kept}"), 1) + more;
            let log = tempfile::NamedTempFile::new().unwrap();
            let logged = ["--access-log", log.path().to_str().unwrap()];
            let mut proxy = Proxy::reverse(Origin::raw(answer).address, &logged);
            let mut socket = proxy.connect();
            socket.write_all(OLD.as_bytes()).unwrap();
            // Not even one that reads when the proxy has closed the connection.
            while proxy.metric("requests_total") == 0 || proxy.metric("connections") > 0 {
                std::thread::yield_now();
            }
            let (got, end) = old(&mut socket);
            assert_eq!(end, (!whole).then_some(ErrorKind::ConnectionReset), "{kept}{more}: {got}");
            assert!(!whole || got.ends_with("\r\n\r\npart"), "{got}");
            proxy.terminate();
            proxy.ended();
            let line = std::fs::read_to_string(log.path()).unwrap();
            assert_eq!(line.ends_with(" cut\n"), !whole, "{line}");
        }
    }
}

#[test]
fn a_client_of_http_1_0_that_reads_late_gets_all() {
    // More than the client's socket holds, and less than that of the proxy.
    const LENGTH: usize = 400_000;
    let body = "x".repeat(LENGTH);
    let origin =
        Origin::raw(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{LENGTH:x}\r\n{body}\r\n0\r\n\r\n"));
    let proxy = Proxy::reverse(origin.address, &[]);
    let mut socket = proxy.connect();
    socket.write_all(OLD.as_bytes()).unwrap();
    while proxy.metric("requests_total") == 0 || proxy.metric("connections") > 0 {
        std::thread::yield_now();
    }
    let (got, end) = old(&mut socket);
    assert!(end.is_none() && got.ends_with(&format!("\r\n\r\n{body}")), "{end:?} after {}", got.len());
}

#[test]
fn the_end_of_the_proxy_is_no_end_for_a_client_of_http_1_0() {
    for killed in [false, true] {
        let (_never, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let origin = Origin::new(move |_, socket| {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\npart");
            wait.lock().unwrap().recv().is_ok()
        });
        let mut proxy = Proxy::reverse(origin.address, &["--drain", "0"]);
        let mut socket = proxy.connect();
        socket.write_all(OLD.as_bytes()).unwrap();
        let mut got = String::new();
        while !got.ends_with("part") {
            let mut some = [0; 1000];
            let len = socket.read(&mut some).unwrap();
            got.push_str(std::str::from_utf8(&some[..len]).unwrap());
        }
        if !killed {
            proxy.terminate();
            assert_eq!(proxy.ended(), Some(0));
        }
        drop(proxy);
        assert_eq!(old(&mut socket), (String::new(), Some(ErrorKind::ConnectionReset)), "killed: {killed}");
    }
}

#[test]
fn a_connection_that_the_origin_had_closed_is_no_error() {
    let origin = Origin::new(|seen, socket| {
        let body = seen.path();
        let _ = socket.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        // Without a word.
        false
    });
    let proxy = Proxy::reverse(origin.address, &[]);
    for turn in 0..50 {
        let got = proxy.send(format!("GET /{turn} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(status(&got) == 200 && got.ends_with(&format!("/{turn}")), "{got}");
    }
}

/// Bytes that no two offsets have alike.
fn body(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(next).collect()
}

/// An origin of bodies: `/LEN` by length, `/LEN/chunked`, `/LEN/close`.
fn bodies() -> Origin {
    Origin::new(|seen, socket| {
        let mut words = seen.path().trim_start_matches('/').split('/');
        let bytes = body(words.next().and_then(|len| len.parse().ok()).unwrap_or(0));
        let sent = match words.next() {
            Some("chunked") => {
                let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                for chunk in bytes.chunks(777) {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
                socket.write_all(&out)
            }
            Some("close") => {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").and_then(|()| socket.write_all(&bytes));
                return false;
            }
            _ => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
                socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&bytes))
            }
        };
        sent.is_ok()
    })
}

fn curl() -> bool {
    let there = Command::new("curl").arg("--version").output().is_ok();
    if !there {
        testing::skip("needs curl");
    }
    there
}

#[test]
fn curl_gets_the_bodies_of_the_origin() {
    if !curl() {
        return;
    }
    let origin = bodies();
    let (forward, reverse) = (Proxy::start(&[]), Proxy::reverse(origin.address, &[]));
    for len in [0, 1, 4095, 65_536, 1_000_003] {
        for kind in ["", "/chunked", "/close"] {
            let (asked, reached) = (format!("http://{}/{len}{kind}", origin.address), reverse.address);
            let through = format!("http://{}", forward.address);
            for words in [
                vec!["-x", &through, &asked],
                vec!["-p", "-x", &through, &asked],
                vec!["--http2-prior-knowledge", &format!("http://{reached}/{len}{kind}")],
            ] {
                let output = Command::new("curl").args(["-sS", "--fail"]).args(&words).output().unwrap();
                assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
                assert!(output.stdout == body(len), "{words:?}: {} bytes", output.stdout.len());
            }
        }
    }
    assert_eq!(forward.metric("tunnels_total"), 15);
}

#[test]
fn curl_sends_the_bodies_that_the_origin_gets() {
    if !curl() {
        return;
    }
    let origin = Origin::echo();
    let proxy = Proxy::reverse(origin.address, &[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), body(300_000)).unwrap();
    let data = format!("@{}", file.path().display());
    for (version, more) in
        [("--http1.1", ""), ("--http1.1", "Transfer-Encoding: chunked"), ("--http2-prior-knowledge", "")]
    {
        let url = format!("http://{}/up", proxy.address);
        let words = ["-sS", "--fail", version, "--data-binary", &data, "-H", more, "-H", "Cookie: a=b; c=d", &url];
        let output = Command::new("curl").args(words).output().unwrap();
        assert!(output.status.success(), "{version} {more}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"/up");
    }
    let seen = origin.seen();
    assert_eq!(seen.len(), 3);
    for seen in seen {
        assert!(seen.body.as_ref() == Some(&body(300_000)), "{:?}", seen.fields);
        assert_eq!(seen.all("cookie"), ["a=b; c=d"]);
        assert!(seen.all("expect").is_empty());
    }
}

/// Asks for 60 bodies at once over one connection, and prints their digests in the order of their names.
const STREAMS: &str = "
const client = require('http2').connect(process.argv[1]);
const ask = (len) => new Promise((done, failed) => {
    const hash = require('crypto').createHash('sha256');
    const stream = client.request({ ':path': `/${len}/chunked` });
    stream.on('data', (piece) => hash.update(piece)).on('end', () => done(hash.digest('hex'))).on('error', failed);
});
Promise.all(Array.from({ length: 60 }, (_, at) => ask(100000 + at))).then((all) => {
    console.log(all.join('\\n'));
    client.close();
});";

#[test]
fn many_streams_of_one_connection_are_kept_apart() {
    // curl 7.88 cannot: by prior knowledge it fails all but its first stream.
    if Command::new("node").arg("--version").output().is_err() {
        return testing::skip("needs node");
    }
    let origin = bodies();
    let proxy = Proxy::reverse(origin.address, &[]);
    let asked = Command::new("node").args(["-e", STREAMS, &format!("http://{}", proxy.address)]).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (100_000..100_060).map(|len| len.to_string()).collect();
    for (len, name) in (100_000..).zip(&names) {
        std::fs::write(folder.path().join(name), body(len)).unwrap();
    }
    let sums = Command::new("sha256sum").args(&names).current_dir(&folder).output().unwrap().stdout;
    let sums = String::from_utf8(sums).unwrap();
    let wanted: Vec<&str> = sums.lines().filter_map(|line| line.split(' ').next()).collect();
    let got = String::from_utf8(asked.stdout).unwrap();
    assert_eq!(got.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn a_client_that_hangs_up_holds_nothing() {
    let origin = bodies();
    let proxy = Proxy::reverse(origin.address, &[]);
    for _ in 0..20 {
        let mut socket = proxy.connect();
        socket.write_all(b"GET /50000000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut some = [0; 1000];
        socket.read_exact(&mut some).unwrap();
    }
    // Each has ended when its place is free again.
    while proxy.metric("connections") > 0 {
        std::thread::yield_now();
    }
    let got = proxy.send("GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&got), 200);
}

#[test]
fn origins_with_tls_are_believed_by_their_certificate() {
    if Command::new("openssl").arg("version").output().is_err() || !curl() {
        return testing::skip("needs openssl");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "over TLS").unwrap();
    let openssl = |words: &str| {
        let made = Command::new("openssl").args(words.split(' ')).current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca");
    openssl("req -newkey rsa:2048 -nodes -keyout key -out asked -subj /CN=localhost");
    std::fs::write(folder.path().join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl("x509 -req -in asked -CA ca.pem -CAkey ca.key -CAcreateserial -out pem -days 2 -extfile names");
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-key", "key", "-cert", "pem", "-WWW"])
        .current_dir(&folder)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("ACCEPT") {
        line.clear();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    }
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    let believed = folder.path().join("ca.pem").display().to_string();
    let origin = format!("https://localhost:{port}");
    let ask = |proxy: &Proxy| proxy.send("GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let known = ask(&Proxy::start(&["--reverse", &origin, "--ca", &believed]));
    let unknown = ask(&Proxy::start(&["--reverse", &origin]));
    let other = ask(&Proxy::start(&["--reverse", &origin.replace("localhost", "127.0.0.1"), "--ca", &believed]));
    // The system's are not read before they are needed: its start does not wait for them.
    let system = folder.path().join("system.pem");
    let mut command = Command::new(crate::started::PROGRAM);
    command.args(["--admin", "127.0.0.1:0", "--reverse", &origin]).env("SSL_CERT_FILE", &system);
    let later = Proxy::run(command);
    std::fs::copy(&believed, &system).unwrap();
    let later = ask(&later);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(status(&known) == 200 && known.contains("over TLS"), "{known}");
    assert_eq!(status(&later), 200, "{later}");
    assert_eq!((status(&unknown), status(&other)), (502, 502), "{unknown} {other}");
    let _ = rest(&mut said);
}
