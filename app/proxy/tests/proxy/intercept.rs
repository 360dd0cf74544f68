//! Tunnels that are answered from the cache: `--intercept`.

use crate::origin::Origin;
use crate::started::{Proxy, rest, status};
use crate::tls::{Ca, Secured, curl, tls_proxy};
use crate::two::{answer, block, get, secured, to};
use http::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ResolvesServerCert;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, StreamOwned,
};

/// An origin that speaks TLS, in front of one that reads strictly.
struct Safe {
    ca: Ca,
    origin: Origin,
    address: SocketAddr,
}

impl Safe {
    fn new(origin: Origin) -> Self {
        let ca = Ca::new();
        let authority = thaw_proxy::authority::Authority::open(&ca.directory()).unwrap();
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let certificate: Arc<dyn ResolvesServerCert> =
            Arc::new(SingleCertAndKey::from(authority.sign(&names).unwrap()));
        let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificate);
        let (acceptor, behind) = (TlsAcceptor::from(Arc::new(config)), origin.address);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            block(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((socket, _)) = listener.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let Ok(mut stream) = acceptor.accept(socket).await else { return };
                        let mut there = tokio::net::TcpStream::connect(behind).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
                    });
                }
            });
        });
        Self { ca, origin, address }
    }

    /// One whose answers are fresh for ten minutes, with the path as the body.
    fn echo() -> Self {
        Self::new(Origin::new(|seen, socket| {
            let (body, kind) = (seen.path(), "Content-Type: text/html\r\nCache-Control: max-age=600\r\n");
            socket
                .write_all(format!("HTTP/1.1 200 OK\r\n{kind}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
                .is_ok()
        }))
    }

    fn port(&self) -> u16 {
        self.address.port()
    }
}

/// A proxy that intercepts tunnels to these origins and believes them.
fn proxy(ca: &Ca, origins: &[&Safe], arguments: &[&str]) -> Proxy {
    let mut all: Vec<String> = vec!["--intercept".into()];
    let bundle = ca.directory().join("origins.pem");
    let authorities: Vec<String> =
        origins.iter().map(|origin| std::fs::read_to_string(origin.ca.file()).unwrap()).collect();
    std::fs::write(&bundle, authorities.concat()).unwrap();
    all.extend(["--ca".into(), bundle.display().to_string()]);
    for origin in origins {
        all.extend(["--intercept-port".into(), origin.port().to_string()]);
    }
    let all: Vec<&str> = all.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
    tls_proxy(ca, &all)
}

/// A tunnel to this place.
fn tunnel(proxy: &Proxy, target: &str) -> TcpStream {
    let mut socket = proxy.connect();
    socket.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert_eq!(status(&String::from_utf8(head).unwrap()), 200);
    socket
}

/// All that comes of one request in a tunnel.
fn asked(mut stream: Secured, path: &str, host: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    rest(&mut stream)
}

/// One answer of one request in a tunnel that goes on.
fn one(stream: &mut Secured, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length == Some(body.len()) {
            return text;
        }
    }
}

#[test]
fn an_https_origin_is_asked_once_for_what_may_be_kept() {
    let (ca, origin) = (Ca::new(), Safe::echo());
    let proxy = proxy(&ca, &[&origin], &[]);
    let url = format!("https://localhost:{}/kept", origin.port());
    let (plain, safe) = (format!("http://{}", proxy.address), format!("https://{}", proxy.tls.unwrap()));
    for (through, version, told) in
        [(&plain, "--http1.1", "1.1"), (&plain, "--http2", "2"), (&safe, "--http2", "2"), (&safe, "--http1.1", "1.1")]
    {
        let believes = ["--proxy-cacert", &ca.file(), "--cacert", &ca.file()];
        let words = [&["--proxy", through, version, "-w", " %{http_version}", &url][..], &believes].concat();
        let Some(got) = curl(&words) else { return };
        assert_eq!(String::from_utf8_lossy(&got.stdout), format!("/kept {told}"), "{got:?}");
    }
    assert_eq!(origin.origin.seen().len(), 1);
    assert_eq!((proxy.metric("cache_hits_total"), proxy.metric("tunnels_intercepted_total")), (3, 4));
    assert_eq!(proxy.metric("tunnels_total"), 0);
    // Who believes the origin alone does not believe what stands in its place.
    let got = curl(&["--proxy", &plain, "--cacert", &origin.ca.file(), &url]).unwrap();
    assert_eq!(got.status.code(), Some(60), "{got:?}");
}

#[test]
fn http2_inside_a_stream_of_http2_is_answered() {
    let (ca, origin) = (Ca::new(), Safe::echo());
    let proxy = proxy(&ca, &[&origin], &[]);
    block(async {
        let mut outer = to(&ca, proxy.tls.unwrap()).await;
        let authority = format!("localhost:{}", origin.port());
        let mut inner = Vec::new();
        for _ in 0..3 {
            let mut request = Request::new(Default::default());
            (*request.method_mut(), *request.uri_mut()) = (Method::CONNECT, authority.parse().unwrap());
            outer.ready().await.unwrap();
            let answered = outer.send_request(request).await.unwrap();
            assert_eq!(answered.status(), StatusCode::OK);
            let upgraded = hyper::upgrade::on(answered).await.unwrap();
            inner.push(secured(&ca, TokioIo::new(upgraded), "localhost").await);
        }
        for sender in &mut inner {
            for number in 0..10 {
                let got = answer(sender, get(&format!("https://{authority}/{number}"))).await;
                assert_eq!((got.status(), got.body().to_vec()), (StatusCode::OK, format!("/{number}").into_bytes()));
            }
        }
        // No tunnel inside one.
        let mut request = Request::new(Default::default());
        (*request.method_mut(), *request.uri_mut()) = (Method::CONNECT, authority.parse().unwrap());
        inner[0].ready().await.unwrap();
        assert_eq!(inner[0].send_request(request).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
        // Nor another origin, or another scheme.
        for url in [format!("https://127.0.0.1:{}/0", origin.port()), "https://localhost/0".into()] {
            assert_eq!(answer(&mut inner[0], get(&url)).await.status(), StatusCode::MISDIRECTED_REQUEST, "{url}");
        }
        let plain = answer(&mut inner[0], get(&format!("http://{authority}/0"))).await;
        assert_eq!(plain.status(), StatusCode::MISDIRECTED_REQUEST);
    });
    assert_eq!(origin.origin.seen().len(), 10);
}

#[test]
fn a_request_for_another_origin_than_the_tunnels_is_refused_though_its_bytes_were_answered_before() {
    let (ca, first, second) = (Ca::new(), Safe::echo(), Safe::echo());
    let proxy = proxy(&ca, &[&first, &second], &[]);
    let tunnel_to =
        |origin: &Safe| ca.over(tunnel(&proxy, &format!("localhost:{}", origin.port())), "localhost", &["http/1.1"]);
    let host = format!("localhost:{}", first.port());
    let request = format!("GET /same HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut right = tunnel_to(&first);
    // Stored, hit, and from then on known by its bytes.
    for _ in 0..3 {
        assert_eq!(status(&one(&mut right, &request).to_ascii_uppercase()), 200);
    }
    assert!(proxy.metric("cache_again_total") > 0);
    assert_eq!(status(&asked(tunnel_to(&second), "/same", &host)), 421);
    let mut wrong = tunnel_to(&second);
    assert_eq!(status(&one(&mut wrong, &request).to_ascii_uppercase()), 421);
    // Outside of a tunnel it has no target.
    assert_eq!(status(&proxy.send(&request)), 400);
    let absolute = |scheme: &str| asked(tunnel_to(&first), &format!("{scheme}://{host}/same"), &host);
    assert_eq!([status(&absolute("https")), status(&absolute("http"))], [200, 421]);
    // Another host of the same port, and none.
    assert_eq!(status(&asked(tunnel_to(&first), "/same", "localhost")), 421);
    let elsewhere = tunnel_to(&first);
    assert_eq!(status(&asked(elsewhere, "/same", &format!("127.0.0.1:{}", first.port()))), 421);
    assert_eq!((first.origin.seen().len(), second.origin.seen().len()), (1, 0));
}

#[test]
fn what_is_not_to_be_intercepted_stays_a_tunnel() {
    let (ca, origin) = (Ca::new(), Safe::echo());
    let host = format!("localhost:{}", origin.port());
    let port = origin.port().to_string();
    let is_tunnel = |proxy: &Proxy| {
        let mut stream = origin.ca.over(tunnel(proxy, &host), "localhost", &[]);
        let got = one(&mut stream, &format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(got.starts_with("http/1.1 200"), "{got}");
        assert_eq!((proxy.metric("tunnels_total"), proxy.metric("tunnels_intercepted_total")), (1, 0));
    };
    // Nobody asked for it; the host is excepted; the port is another one.
    is_tunnel(&tls_proxy(&ca, &[]));
    let arguments =
        ["--intercept", "--intercept-port", &port, "--no-intercept", "example", "--no-intercept", "localhost"];
    is_tunnel(&tls_proxy(&ca, &arguments));
    is_tunnel(&tls_proxy(&ca, &["--intercept"]));
    assert_eq!(origin.origin.seen().len(), 3);
}

#[test]
fn an_origin_whose_certificate_is_wrong_is_not_vouched_for() {
    let (ca, origin, other) = (Ca::new(), Safe::echo(), Safe::echo());
    let port = origin.port().to_string();
    let proxy = proxy(&ca, &[&other], &["--intercept-port", &port]);
    let host = format!("localhost:{port}");
    let got = asked(ca.over(tunnel(&proxy, &host), "localhost", &["http/1.1"]), "/x", &host);
    assert!(status(&got) == 502 && got.contains("cannot be reached"), "{got}");
    assert!(origin.origin.seen().is_empty());
}

/// Believes every certificate.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

#[test]
fn what_is_no_tls_in_a_tunnel_is_cut() {
    let (ca, origin) = (Ca::new(), Safe::echo());
    let proxy = proxy(&ca, &[&origin], &["--head-time", "1"]);
    let host = format!("localhost:{}", origin.port());
    for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"SSH-2.0-x\r\n", b"", &[22, 3, 1]] {
        let mut socket = tunnel(&proxy, &host);
        let _ = socket.write_all(bytes);
        let came = rest(&mut socket);
        assert!(!came.contains("HTTP"), "{came:?}");
    }
    // Nor another host by its name in the handshake, of a client that believes all.
    let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(Any));
    let config = Arc::new(config.with_no_client_auth());
    let all = |name: &'static str| {
        let connection = ClientConnection::new(Arc::clone(&config), name.try_into().unwrap()).unwrap();
        StreamOwned::new(connection, tunnel(&proxy, &host))
    };
    let mut stream = all("other.example");
    assert!(stream.write_all(b"x").and_then(|()| stream.read(&mut [0])).is_err());
    assert_eq!(status(&asked(all("localhost"), "/x", &host)), 200);
    while proxy.metric("connections") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(proxy.metric("tls_handshakes_failed_total"), 5);
    assert_eq!(origin.origin.seen().len(), 1);
}

#[test]
fn the_log_tells_what_was_asked_inside() {
    let (ca, origin, folder) = (Ca::new(), Safe::echo(), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let mut proxy = proxy(&ca, &[&origin], &["--access-log", log.to_str().unwrap()]);
    let host = format!("localhost:{}", origin.port());
    let mut stream = ca.over(tunnel(&proxy, &host), "localhost", &["http/1.1"]);
    for _ in 0..3 {
        one(&mut stream, &format!("GET /told HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    drop(stream);
    proxy.terminate();
    assert_eq!(proxy.ended(), Some(0));
    let text = std::fs::read_to_string(log).unwrap();
    assert_eq!(text.matches(&format!("\"GET https://{host}/told HTTP/1.1\" 200 5 ")).count(), 3, "{text}");
    assert!(text.contains(&format!("\"CONNECT {host} HTTP/1.1\" 200 0 ")), "{text}");
}

#[test]
fn an_answer_under_way_inside_a_tunnel_ends_before_the_proxy_does() {
    let (began, begins) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let goes = std::sync::Mutex::new(goes);
    let origin = Safe::new(Origin::new(move |_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        began.send(()).unwrap();
        goes.lock().unwrap().recv().unwrap();
        socket.write_all(b"cd").is_ok()
    }));
    let ca = Ca::new();
    let mut proxy = proxy(&ca, &[&origin], &[]);
    let host = format!("localhost:{}", origin.port());
    let mut stream = ca.over(tunnel(&proxy, &host), "localhost", &["http/1.1"]);
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    begins.recv().unwrap();
    proxy.terminate();
    while TcpStream::connect(proxy.address).is_ok() {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    assert!(rest(&mut stream).ends_with("abcd"));
    // Its own tunnel holds it up no longer.
    assert_eq!(proxy.ended(), Some(0));
}

/// A page that Chromium loads through the proxy by TLS; `None`: it is not here.
fn chromium(proxy: &Proxy, ca: &Ca, url: &str) -> Option<String> {
    let Some(program) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        testing::skip("needs Chromium");
        return None;
    };
    // What of a certificate `--ignore-certificate-errors-spki-list` wants to know.
    let hash = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | \
                openssl dgst -sha256 -binary | openssl base64";
    let hash = Command::new("sh").args(["-c", hash, &ca.file()]).output().unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    if hash.trim().is_empty() {
        testing::skip("needs openssl");
        return None;
    }
    let home = tempfile::tempdir().unwrap();
    let loaded = Command::new(program)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom"])
        .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
        .arg(format!("--proxy-server=https://{}", proxy.tls.unwrap()))
        .args(["--proxy-bypass-list=<-loopback>", "--timeout=60000"])
        .arg(format!("--ignore-certificate-errors-spki-list={}", hash.trim()))
        .arg(url)
        .env("HOME", home.path())
        .output()
        .unwrap();
    Some(String::from_utf8_lossy(&loaded.stdout).into_owned())
}

#[test]
fn chromium_speaks_http2_to_the_proxy_and_inside_its_tunnels() {
    const IMAGES: usize = 24;
    let page = |seen: &crate::origin::Seen, socket: &mut TcpStream| {
        let pictures: String = (0..IMAGES).map(|number| format!("<img src=/{number}.svg>")).collect();
        let (kind, body) = match seen.path() {
            "/page" => ("text/html", format!("<!DOCTYPE html><title>t</title><p>it came</p>{pictures}")),
            _ => ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>".to_owned()),
        };
        let head = format!("Content-Type: {kind}\r\nCache-Control: max-age=600\r\nContent-Length: {}", body.len());
        socket.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").as_bytes()).is_ok()
    };
    let (ca, safe, plain, folder) =
        (Ca::new(), Safe::new(Origin::new(page)), Origin::new(page), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let mut proxy = proxy(&ca, &[&safe], &["--access-log", log.to_str().unwrap()]);
    let urls = [format!("http://{}/page", plain.address), format!("https://localhost:{}/page", safe.port())];
    // The second visit is of a fresh profile: what the first one has brought comes from the proxy.
    for url in [&urls[0], &urls[1], &urls[0], &urls[1]] {
        let Some(page) = chromium(&proxy, &ca, url) else { return };
        assert!(page.contains("it came"), "{url}: {page}");
    }
    proxy.terminate();
    assert_eq!(proxy.ended(), Some(0));
    let text = std::fs::read_to_string(log).unwrap();
    let ours = |line: &&str| urls.iter().any(|url| line.contains(url.trim_end_matches("page")));
    let lines: Vec<&str> = text.lines().filter(ours).collect();
    assert!(lines.iter().all(|line| line.contains("HTTP/2.0\"")), "{text}");
    for url in &urls {
        let count = |what: &str| lines.iter().filter(|line| line.contains(url) && line.ends_with(what)).count();
        assert_eq!((count("miss"), count("hit")), (1, 1), "{url}: {text}");
        let picture = url.replace("page", "23.svg");
        assert_eq!(lines.iter().filter(|line| line.contains(&picture)).count(), 2, "{picture}: {text}");
    }
    let once = |origin: &Origin| origin.seen().iter().filter(|seen| seen.path() == "/page").count();
    assert_eq!([once(&plain), once(&safe.origin)], [1, 1]);
}

#[test]
fn a_connection_of_http2_lasts_as_long_as_its_tunnels() {
    let (ca, origin) = (Ca::new(), Safe::echo());
    let echo = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = echo.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = echo.accept().unwrap();
        std::io::copy(&mut socket.try_clone().unwrap(), &mut socket)
    });
    let clocks = ["--idle-time", "1", "--stall-time", "1"];
    let proxies = [proxy(&ca, &[&origin], &clocks), proxy(&ca, &[&origin], &clocks)];
    block(async {
        // Of two connections, that neither tunnel helps the other.
        let open = async |proxy: &Proxy, authority: String| {
            let mut outer = to(&ca, proxy.tls.unwrap()).await;
            let mut request = Request::new(Default::default());
            (*request.method_mut(), *request.uri_mut()) = (Method::CONNECT, authority.parse().unwrap());
            outer.ready().await.unwrap();
            let upgraded = hyper::upgrade::on(outer.send_request(request).await.unwrap()).await.unwrap();
            (outer, TokioIo::new(upgraded))
        };
        let (_one, mut plain) = open(&proxies[0], there.to_string()).await;
        let (_other, inside) = open(&proxies[1], format!("localhost:{}", origin.port())).await;
        let mut inside = secured(&ca, inside, "localhost").await;
        for _ in 0..20 {
            plain.write_all(b"x").await.unwrap();
            plain.flush().await.unwrap();
            assert_eq!(plain.read_u8().await.unwrap(), b'x');
            let url = format!("https://localhost:{}/", origin.port());
            assert_eq!(answer(&mut inside, get(&url)).await.status(), StatusCode::OK);
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    });
}
