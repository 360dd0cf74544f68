//! Clients that speak TLS to the proxy, and the authority whose certificates they see.

use crate::origin::Origin;
use crate::requests::{HEADS, SMUGGLED};
use crate::started::{PROGRAM, Proxy, rest, status};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority in a directory of its own.
pub struct Ca {
    folder: TempDir,
}

impl Ca {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        thaw_proxy::authority::make(&folder.path().join("ca")).unwrap();
        Self { folder }
    }

    pub fn directory(&self) -> PathBuf {
        self.folder.path().join("ca")
    }

    pub fn text(&self) -> String {
        self.directory().display().to_string()
    }

    pub fn file(&self) -> String {
        self.directory().join("ca.pem").display().to_string()
    }

    /// What a client that believes it, and speaks these, is told.
    pub fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file()).unwrap()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A client's connection over a socket.
    pub fn over(&self, socket: TcpStream, name: &str, protocols: &[&str]) -> Secured {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        StreamOwned::new(ClientConnection::new(self.client(protocols), name).unwrap(), socket)
    }
}

pub type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A proxy with a TLS address.
pub fn tls_proxy(ca: &Ca, arguments: &[&str]) -> Proxy {
    Proxy::start(&[&["--tls-listen", "127.0.0.1:0", "--tls-ca", &ca.text()], arguments].concat())
}

pub fn curl(arguments: &[&str]) -> Option<Output> {
    // Proxies of the environment are not those of the test.
    let output = Command::new("curl").args(["-sS", "--noproxy", "none.invalid"]).args(arguments).output().ok();
    if output.is_none() {
        testing::skip("needs curl");
    }
    output
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let (out, err) = (Stdio::piped(), Stdio::piped());
    let mut child = Command::new(PROGRAM).args(arguments).stdout(out).stderr(err).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    if line.starts_with("127.") {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("it serves, with {arguments:?}");
    }
    out.read_to_string(&mut line).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stdout = line.into_bytes();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_authority_is_made_once_and_only_where_nobody_else_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("ca");
    let text = directory.to_str().unwrap();
    let (code, said) = run(&["--make-ca", text]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--tls-ca") && said.contains("--proxy-cacert") && said.contains("To undo it"), "{said}");
    let key = directory.join("ca-key.pem");
    assert_eq!((mode(&directory), mode(&key)), (0o700, 0o600));
    let mut names: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["ca-key.pem", "ca.pem"], "nothing else is left");
    let before = std::fs::read(&key).unwrap();
    // Not even where one of the two is gone, or is a link to nowhere.
    for gone in ["none", "ca.pem", "ca-key.pem"] {
        let path = directory.join(gone);
        let kept = std::fs::read(&path).ok();
        let _ = std::fs::remove_file(&path);
        let (code, said) = run(&["--make-ca", text]);
        assert!(code == Some(3) && said.contains("is there already"), "{gone}: {said}");
        if let Some(kept) = kept {
            std::fs::write(path, kept).unwrap();
        }
    }
    assert_eq!(std::fs::read(&key).unwrap(), before);
    let linked = folder.path().join("linked");
    std::fs::create_dir(&linked).unwrap();
    symlink(folder.path().join("elsewhere"), linked.join("ca-key.pem")).unwrap();
    assert_eq!(run(&["--make-ca", linked.to_str().unwrap()]).0, Some(3));
    assert!(!folder.path().join("elsewhere").exists());
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    for loose in [0o775, 0o757] {
        set_mode(&open, loose);
        let (code, said) = run(&["--make-ca", open.to_str().unwrap()]);
        assert!(code == Some(3) && said.contains("chmod go-w"), "{said}");
    }
    assert_eq!(open.read_dir().unwrap().count(), 0);
}

#[test]
fn a_directory_of_another_user_is_not_used() {
    if !testing::root_or_skip() {
        return;
    }
    let ca = Ca::new();
    std::os::unix::fs::chown(ca.directory(), Some(65534), None).unwrap();
    let (code, said) = run(&["--tls-listen", "127.0.0.1:0", "--tls-ca", &ca.text()]);
    assert!(code == Some(3) && said.contains("another user's"), "{said}");
    let (code, said) = run(&["--make-ca", &ca.text()]);
    assert!(code == Some(3) && said.contains("another user's"), "{said}");
}

#[test]
fn an_authority_that_cannot_be_trusted_is_refused_at_the_start() {
    let start = |ca: &Ca| run(&["--tls-listen", "127.0.0.1:0", "--tls-ca", &ca.text()]);
    let ca = Ca::new();
    set_mode(&ca.directory().join("ca-key.pem"), 0o640);
    let (code, said) = start(&ca);
    assert!(code == Some(3) && said.contains("chmod 600"), "{said}");
    let ca = Ca::new();
    set_mode(&ca.directory(), 0o770);
    let (code, said) = start(&ca);
    assert!(code == Some(3) && said.contains("chmod go-w"), "{said}");
    let (ca, other) = (Ca::new(), Ca::new());
    std::fs::copy(other.file(), ca.file()).unwrap();
    let (code, said) = start(&ca);
    assert!(code == Some(3) && said.contains("is not what --make-ca has made"), "{said}");
    std::fs::write(ca.file(), "nothing").unwrap();
    assert_eq!(start(&ca).0, Some(3));
    std::fs::remove_file(ca.file()).unwrap();
    assert_eq!(start(&ca).0, Some(3));
}

#[test]
fn what_is_missing_is_said_with_how_to_get_it() {
    let ca = Ca::new();
    let directory = ca.text();
    for (arguments, words) in [
        (vec!["--intercept"], "--make-ca"),
        (vec!["--intercept", "--tls-listen", "127.0.0.1:0", "--tls-cert", "a", "--tls-key", "b"], "--tls-ca DIR"),
        (vec!["--tls-listen", "127.0.0.1:0"], "--make-ca"),
        (vec!["--tls-ca", &directory], "--tls-listen"),
        (vec!["--tls-listen", "127.0.0.1:0", "--tls-cert", "a"], "--tls-key"),
        (vec!["--tls-cert", "a", "--tls-key", "b"], "--tls-listen"),
        (vec!["--no-intercept", "a"], "--intercept"),
        (vec!["--intercept", "--tls-ca", &directory, "--reverse", "http://a"], "--reverse"),
        (vec!["--make-ca", &directory, "--listen", "127.0.0.1:0"], "--make-ca"),
    ] {
        let (code, said) = run(&arguments);
        assert!(code == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
    let (code, said) = run(&["--tls-listen", "127.0.0.1:0", "--tls-cert", "/none/a", "--tls-key", "/none/b"]);
    assert!(code == Some(3) && said.contains("/none/a"), "{said}");
}

#[test]
fn curl_comes_by_tls_where_it_believes_the_authority_and_refuses_where_it_does_not() {
    let (ca, origin) = (Ca::new(), Origin::echo());
    let proxy = tls_proxy(&ca, &[]);
    let (port, url) = (proxy.tls.unwrap().port(), format!("http://{}/a/path", origin.address));
    let Some(refused) = curl(&["--proxy", &format!("https://127.0.0.1:{port}"), &url]) else { return };
    assert_eq!(refused.status.code(), Some(60), "{refused:?}");
    assert!(origin.seen().is_empty());
    for host in ["127.0.0.1", "localhost"] {
        let through = format!("https://{host}:{port}");
        let got = curl(&["--proxy", &through, "--proxy-cacert", &ca.file(), &url]).unwrap();
        assert!(got.status.success(), "{got:?}");
        assert_eq!(got.stdout, b"/a/path");
    }
    // The address that it listens on is one of its names.
    let other = Proxy::start(&["--tls-listen", "127.0.0.2:0", "--tls-ca", &ca.text()]);
    let got =
        curl(&["--proxy", &format!("https://{}", other.tls.unwrap()), "--proxy-cacert", &ca.file(), &url]).unwrap();
    assert_eq!(got.stdout, b"/a/path", "{got:?}");
    // A tunnel is one as without TLS.
    let through = format!("https://localhost:{port}");
    let got = curl(&["--proxytunnel", "--proxy", &through, "--proxy-cacert", &ca.file(), &url]).unwrap();
    assert_eq!(got.stdout, b"/a/path", "{got:?}");
    let counts = ["tls_handshakes_total", "tls_handshakes_failed_total", "tunnels_total", "tunnels_intercepted_total"];
    assert_eq!(counts.map(|name| proxy.metric(name)), [3, 1, 1, 0]);
}

#[test]
fn a_reverse_proxy_is_the_https_site_itself_over_http2() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
    let sent = body.clone();
    let origin = Origin::new(move |_, socket| {
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", sent.len());
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&sent)).is_ok()
    });
    let ca = Ca::new();
    let proxy = tls_proxy(&ca, &["--reverse", &format!("http://{}", origin.address)]);
    let port = proxy.tls.unwrap().port();
    for (version, told) in [("--http2", "2"), ("--http1.1", "1.1"), ("--http2", "2")] {
        let into = tempfile::NamedTempFile::new().unwrap();
        let to = format!("www.example:{port}:127.0.0.1:{port}");
        let connect = ["--connect-to", &to, "--cacert", &ca.file(), version, "-w", "%{http_version} %{response_code}"];
        let (url, path) = (format!("https://www.example:{port}/big"), into.path().to_str().unwrap());
        let Some(got) = curl(&[&connect[..], &["-o", path, &url]].concat()) else { return };
        assert_eq!(String::from_utf8_lossy(&got.stdout), format!("{told} 200"), "{got:?}");
        assert!(std::fs::read(into.path()).unwrap() == body, "not the origin's bytes, by {version}");
    }
    let seen = origin.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].all("host"), [format!("www.example:{port}")]);
    assert_eq!(proxy.metric("cache_hits_total"), 2);
}

#[test]
fn a_certificate_of_the_users_own_is_shown() {
    let (ca, origin) = (Ca::new(), Origin::echo());
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).display().to_string();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["my.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(name("cert"), own.pem()).unwrap();
    std::fs::write(name("key"), key.serialize_pem()).unwrap();
    let (code, said) = run(&["--tls-listen", "127.0.0.1:0", "--tls-cert", &name("cert"), "--tls-key", &name("key")]);
    assert!(code == Some(3) && said.contains("chmod 600"), "{said}");
    set_mode(Path::new(&name("key")), 0o600);
    let reverse = format!("http://{}", origin.address);
    let files = ["--tls-cert", &name("cert"), "--tls-key", &name("key"), "--reverse", &reverse];
    // Where there is an authority beside it, for what is intercepted.
    for more in [vec![], vec!["--tls-ca".to_owned(), ca.text()]] {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let proxy = Proxy::start(&[&["--tls-listen", "127.0.0.1:0"], &files[..], &more].concat());
        let port = proxy.tls.unwrap().port();
        let (to, url) = (format!("my.example:{port}:127.0.0.1:{port}"), format!("https://my.example:{port}/x"));
        let Some(got) = curl(&["--cacert", &name("cert"), "--connect-to", &to, &url]) else { return };
        assert_eq!(got.stdout, b"/x", "{got:?}");
    }
    std::fs::write(name("key"), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let (code, said) = run(&[&["--tls-listen", "127.0.0.1:0"], &files[..]].concat());
    assert!(code == Some(3) && said.contains("certificate"), "{said}");
}

fn wait_for_none(proxy: &Proxy) {
    while proxy.metric("connections") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_is_no_tls_ends_and_a_handshake_that_stalls_is_cut() {
    let (ca, origin) = (Ca::new(), Origin::echo());
    let proxy = tls_proxy(&ca, &["--head-time", "1"]);
    let tls = proxy.tls.unwrap();
    let noise: Vec<u8> = (0..100_000_u32).map(|number| (number.wrapping_mul(7919) >> 3) as u8).collect();
    let hello = [&[22, 3, 1, 1, 0][..], &[1, 0, 0, 252, 3, 3]].concat();
    let pieces: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &noise, b"", &hello];
    for (bytes, number) in pieces.iter().zip(1..) {
        let mut socket = TcpStream::connect(tls).unwrap();
        let _ = socket.write_all(bytes);
        // The last two say no more: only a clock ends them.
        let answer = rest(&mut socket);
        assert!(!answer.contains("HTTP/1.1 200"), "{answer:?}");
        drop(socket);
        wait_for_none(&proxy);
        assert_eq!(proxy.metric("tls_handshakes_failed_total"), number);
    }
    // Byte by byte for ever: the clock runs on.
    let mut socket = TcpStream::connect(tls).unwrap();
    while socket.write_all(&[22]).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    wait_for_none(&proxy);
    assert_eq!(through(&ca, tls, &format!("http://{}/still", origin.address)), "/still");
}

/// The body of an answer to a request of HTTP/1.1.
fn through(ca: &Ca, tls: SocketAddr, url: &str) -> String {
    let host = url.split('/').nth(2).unwrap();
    let mut stream = ca.over(TcpStream::connect(tls).unwrap(), "localhost", &["http/1.1"]);
    stream.write_all(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let answer = rest(&mut stream);
    assert_eq!(status(&answer), 200, "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn heads_inside_tls_are_read_as_strictly() {
    let (ca, origin) = (Ca::new(), Origin::echo());
    let proxy = tls_proxy(&ca, &["--reverse", &format!("http://{}", origin.address)]);
    for (head, wanted) in HEADS {
        let mut stream = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "a", &["http/1.1"]);
        let _ = stream.write_all(format!("{head}{SMUGGLED}").as_bytes());
        let answer = rest(&mut stream);
        assert_eq!(status(&answer), *wanted, "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?} is answered twice: {answer}");
    }
    // What was not agreed on is not spoken.
    for protocols in [&["http/1.1"][..], &[]] {
        let mut stream = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "a", protocols);
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        assert_eq!(status(&rest(&mut stream)), 505);
    }
    let mut stream = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "a", &["h2"]);
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{SMUGGLED}").as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(bytes.get(3), Some(&4), "more than frames of HTTP/2: {bytes:?}");
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
}

#[test]
fn who_speaks_no_protocol_of_ours_gets_no_connection() {
    let ca = Ca::new();
    let proxy = tls_proxy(&ca, &[]);
    let mut stream = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "a", &["h3"]);
    assert!(stream.write_all(b"x").and_then(|()| stream.read(&mut [0])).is_err());
    wait_for_none(&proxy);
    assert_eq!(proxy.metric("tls_handshakes_failed_total"), 1);
}

#[test]
fn what_is_answered_by_its_bytes_arrives_whole_though_the_client_takes_it_late() {
    let body = "a line of the answer\n".repeat(400_000);
    let sent = body.clone();
    let origin = Origin::new(move |_, socket| {
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", sent.len());
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(sent.as_bytes())).is_ok()
    });
    let ca = Ca::new();
    let proxy = tls_proxy(&ca, &["--reverse", &format!("http://{}", origin.address)]);
    let socket = TcpStream::connect(proxy.tls.unwrap()).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut stream = ca.over(socket, "a", &["http/1.1"]);
    for _ in 0..4 {
        let before = proxy.metric("cache_again_total");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        if before > 0 {
            while proxy.metric("cache_again_total") == before {
                std::thread::yield_now();
            }
            // All buffers are full by then.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut got = vec![0; body.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == body.as_bytes());
    }
    assert!(proxy.metric("cache_again_total") > 1);
}

#[test]
fn an_answer_that_breaks_is_no_end_for_a_client_of_http_1_0_either() {
    let ca = Ca::new();
    for (end, whole) in [("", false), ("0\r\n\r\n", true)] {
        let origin = Origin::raw(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n{end}"));
        let proxy = tls_proxy(&ca, &["--reverse", &format!("http://{}", origin.address)]);
        let mut client = ca.over(TcpStream::connect(proxy.tls.unwrap()).unwrap(), "localhost", &[]);
        client.write_all(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let mut got = Vec::new();
        let ended = client.read_to_end(&mut got);
        let reset = ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(if whole { ended.is_ok() && got.ends_with(b"\r\n\r\npart") } else { reset }, "{ended:?}");
    }
}
