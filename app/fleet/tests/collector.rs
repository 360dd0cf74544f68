//! `thaw-fleet` as a process: what is acknowledged is kept through kills, torn tails and a full disk; hostile bodies
//! are answered; who comes from elsewhere needs TLS and a token; who takes its time is cut.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thaw-fleet");

struct Collector {
    child: Child,
    host: String,
}

impl Collector {
    fn of(command: &mut Command) -> Collector {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let host = line.trim().split_once("://").expect("it did not start").1.to_owned();
        Collector { child, host }
    }

    fn start(directory: &Path, words: &[&str]) -> Collector {
        Collector::of(Command::new(PROGRAM).arg(directory).args(words))
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.host).unwrap()
    }

    fn ask(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> (u16, String) {
        ask(self.connect(), method, path, fields, body)
    }

    fn send(&self, body: &[u8]) -> (u16, String) {
        self.ask("POST", "/v1/pings", "", body)
    }

    fn end(mut self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
        let status = self.child.wait().unwrap();
        assert_eq!(status.success(), signal == libc::SIGTERM, "{status}");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body; 0: there was no answer.
fn ask(mut stream: impl Read + Write, method: &str, path: &str, fields: &str, body: &[u8]) -> (u16, String) {
    let len = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}\r\n{fields}\r\n");
    // It may be refused before its end.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    answer(stream)
}

fn answer(mut stream: impl Read) -> (u16, String) {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let all = String::from_utf8_lossy(&all).into_owned();
    let status = all.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, all.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

/// Exit code, and what it says, when it does not start, or has sent. One that serves is ended.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.contains("://") {
        child.kill().unwrap();
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn ping(number: u64) -> String {
    let (machine, day) = (number % 7, ping::Day::today());
    let who = format!(r#""id":"{number:032x}","machine":"{machine:032x}","app":"firefox","version":"128.0""#);
    let how = format!(r#""day":"{day}","state":"hot","ready":"exit","wall_us":1000,"user_us":900,"system_us":100"#);
    let what = r#""minor_faults":4,"major_faults":0,"read_bytes":null,"max_rss_bytes":1000000,"milestones":{}"#;
    let on = r#""cpus":"2","memory":"8-16G","disk":"nvme","kernel":"6.18","distribution":"debian","remedies":[]"#;
    format!(r#"{{"schema":"thaw.ping/1",{who},{how},{what},{on}}}"#) + "\n"
}

fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, end, found),
            false if path.to_string_lossy().ends_with(end) => found.push(path),
            false => {}
        }
    }
}

/// Ids of all sealed pings, sorted; each line has to be a ping.
fn sealed(directory: &Path) -> Vec<u128> {
    let (mut found, mut ids) = (Vec::new(), Vec::new());
    files(directory, ".ndjson.zst", &mut found);
    for path in found {
        let text = zstd::stream::decode_all(&std::fs::read(path).unwrap()[..]).unwrap();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let ping = ping::Ping::parse(line, ping::Day::today()).unwrap();
            ids.push(thaw_fleet::batch::id(&ping));
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn what_is_good_is_kept_once_and_the_rest_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &[]);
    let old = ping(9).replace("thaw.ping/1", "thaw.ping/0");
    let clock = ping(10).replace(&ping::Day::today().to_string(), "1998-01-01");
    let body = ping(1) + &ping(2) + &ping(1) + "{}\n" + &old + &clock;
    let (status, answer) = collector.send(body.as_bytes());
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains(r#""accepted":2,"duplicates":1,"refused":[{"line":4"#), "{answer}");
    assert!(answer.contains("thaw.ping/1 is") && answer.contains("off by years"), "{answer}");
    let (_, answer) = collector.send(ping(2).as_bytes());
    assert!(answer.contains(r#""accepted":0,"duplicates":1"#), "{answer}");
    let (_, metrics) = collector.ask("GET", "/metrics", "", b"");
    assert!(metrics.contains("thaw_fleet_accepted_total 2\n"), "{metrics}");
    assert!(metrics.contains("reason=\"schema\"} 1\n") && metrics.ends_with("# EOF\n"), "{metrics}");
    let other = Command::new(PROGRAM).arg(folder.path()).output().unwrap();
    assert_eq!(other.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&other.stderr).contains("another collector has it"));
    collector.end(libc::SIGTERM);
    assert_eq!(sealed(folder.path()), [1, 2]);
}

#[test]
fn bodies_that_are_too_much_are_refused_and_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &[]);
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let bomb = vec![b' '; 100 << 20];
    let packed =
        |kind: &str, body: &[u8]| collector.ask("POST", "/v1/pings", &format!("Content-Encoding: {kind}\r\n"), body).0;
    assert_eq!(packed("gzip", &gzip(&bomb)), 413);
    assert_eq!(packed("zstd", &zstd::encode_all(&bomb[..], 3).unwrap()), 413);
    assert_eq!(packed("gzip", b"no gzip"), 400);
    assert_eq!(packed("br", b"x"), 415);
    let many: String = (0..1001).map(|_| "{}\n").collect();
    assert_eq!(collector.send(many.as_bytes()).0, 413);
    assert_eq!(collector.ask("POST", "/v1/pings", "Origin: http://evil.example\r\n", ping(3).as_bytes()).0, 403);
    assert_eq!(collector.ask("GET", "/v1/pings", "", b"").0, 405);
    assert_eq!(packed("gzip", &gzip(ping(1).as_bytes())), 200);
    assert_eq!(packed("zstd", &zstd::encode_all(ping(2).as_bytes(), 3).unwrap()), 200);
    collector.end(libc::SIGTERM);
    assert_eq!(sealed(folder.path()), [1, 2]);
}

#[test]
fn what_was_acknowledged_outlives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..5_u64 {
        let collector = Collector::start(folder.path(), &["--seal-bytes", "20000"]);
        let host = collector.host.clone();
        let sender = std::thread::spawn(move || {
            let mut kept = Vec::new();
            for number in 1_000_000 * (round + 1).. {
                let Ok(mut socket) = TcpStream::connect(&host) else { break };
                let body = ping(number);
                let head = format!("POST /v1/pings HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
                let mut first = [0; 12];
                let sent = socket.write_all((head + &body).as_bytes()).and_then(|()| socket.read_exact(&mut first));
                match sent {
                    Ok(()) if first.ends_with(b"200") => kept.push(u128::from(number)),
                    _ => break,
                }
            }
            kept
        });
        // By what it has done, not by a clock.
        while !collector.ask("GET", "/metrics", "", b"").1.contains("thaw_fleet_segments_total 2") {
            assert!(!sender.is_finished());
        }
        collector.end(libc::SIGKILL);
        acknowledged.extend(sender.join().unwrap());
    }
    // A write that a power cut tore.
    let mut open = Vec::new();
    files(&folder.path().join("open"), ".ndjson", &mut open);
    let torn = folder.path().join("open/000000000001-0000.ndjson");
    std::fs::write(&torn, ping(1) + &ping(2)[..100]).unwrap();
    Collector::start(folder.path(), &[]).end(libc::SIGTERM);
    let kept = sealed(folder.path());
    assert!(acknowledged.len() > 50);
    assert!(acknowledged.iter().all(|id| kept.binary_search(id).is_ok()), "something acknowledged is lost");
    assert!(kept.binary_search(&1).is_ok() && kept.binary_search(&2).is_err());
    assert!(kept.is_sorted_by(|one, next| one < next), "something is there twice");
    assert!(!torn.exists());
}

#[test]
fn a_full_disk_loses_nothing_acknowledged_and_it_goes_on_after() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return testing::skip("needs root for a small file system");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1M tmpfs \"$1\" && exec \"$0\" \"$1/pings\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, PROGRAM]).arg(folder.path());
    let collector = Collector::of(&mut command);
    let inside = PathBuf::from(format!("/proc/{}/root{}", collector.child.id(), folder.path().display()));
    std::fs::write(inside.join("ballast"), vec![0; 500_000]).unwrap();
    let mut acknowledged = Vec::new();
    let mut number = 0;
    let full = loop {
        let batch: Vec<u64> = (number..number + 100).collect();
        number += 100;
        assert!(number < 10_000, "a megabyte does not hold this");
        let body: String = batch.iter().map(|number| ping(*number)).collect();
        match collector.send(body.as_bytes()).0 {
            200 => acknowledged.extend(batch.into_iter().map(u128::from)),
            status => break status,
        }
    };
    assert_eq!(full, 507);
    std::fs::remove_file(inside.join("ballast")).unwrap();
    // What was not acknowledged counts as new, then.
    let (status, answer) = collector.send(ping(number - 100).as_bytes());
    assert!(status == 200 && answer.contains(r#""accepted":1"#), "{status} {answer}");
    acknowledged.push(u128::from(number - 100));
    // Its file system goes with it: seen before that, as the next start would.
    let open = std::fs::read_dir(inside.join("pings/open")).unwrap().next().unwrap().unwrap().path();
    let copy = tempfile::tempdir().unwrap();
    std::fs::create_dir(copy.path().join("open")).unwrap();
    std::fs::copy(&open, copy.path().join("open").join(open.file_name().unwrap())).unwrap();
    collector.end(libc::SIGTERM);
    Collector::start(copy.path(), &[]).end(libc::SIGTERM);
    assert_eq!(sealed(copy.path()), acknowledged);
}

#[test]
fn other_machines_come_by_tls_and_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = file("cert.pem", &made.cert.pem());
    let key = file("key.pem", &made.signing_key.serialize_pem());
    let tokens = file("tokens", "first-token-of-two\nsecond-token-of-two\n");
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let token = ["--token-file", &tokens];
    let directory = folder.path().join("pings");
    let refused = |words: &[&str]| ended(Command::new(PROGRAM).arg(&directory).args(words));
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let listen = ["--listen", address];
        for words in [&listen[..], &[&listen[..], &tls].concat(), &[&listen[..], &token].concat()] {
            let (code, said) = refused(words);
            assert!(code == Some(2) && said.contains("--tls-cert FILE") && said.contains(address), "{words:?}: {said}");
        }
    }
    let everywhere = [&["--listen", "0.0.0.0:0"][..], &tls, &token].concat();
    for (name, mode) in [("key.pem", 0o644), ("tokens", 0o640)] {
        let path = folder.path().join(name);
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let (code, said) = refused(&everywhere);
        assert!(code == Some(2) && said.contains(&format!("chmod 600 {}", path.display())), "{said}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    let (code, said) = refused(&[&tls[..], &["--token-file", &file("short", "secret\n")]].concat());
    assert!(code == Some(2) && said.contains("line 1 has fewer than 16 letters"), "{said}");
    assert!(!directory.exists(), "what was refused has done nothing");

    let collector = Collector::start(&directory, &everywhere);
    let port = collector.host.rsplit_once(':').unwrap().1.to_owned();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let by_tls = |method: &str, path: &str, fields: &str, body: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(&config), name).unwrap();
        ask(StreamOwned::new(client, collector.connect()), method, path, fields, body.as_bytes())
    };
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for fields in [String::new(), bearer("third-token-of-two"), bearer("first-token-of-tw"), bearer("")] {
        assert_eq!(by_tls("POST", "/v1/pings", &fields, &ping(1)).0, 401, "{fields}");
        assert_eq!(by_tls("GET", "/metrics", &fields, "").0, 401, "{fields}");
    }
    assert_eq!(by_tls("GET", "/healthz", "", "").0, 200);
    for (number, token) in [(2, "first-token-of-two"), (3, "second-token-of-two")] {
        let (status, answer) = by_tls("POST", "/v1/pings", &bearer(token), &ping(number));
        assert!(status == 200 && answer.contains(r#""accepted":1"#), "{status} {answer}");
    }
    let metrics = by_tls("GET", "/metrics", &bearer("first-token-of-two"), "").1;
    assert!(metrics.contains("thaw_fleet_unauthorized_total 8\n"), "{metrics}");
    assert_eq!(
        collector.ask("POST", "/v1/pings", &bearer("first-token-of-two"), ping(4).as_bytes()).0,
        0,
        "plain HTTP"
    );

    // And what thaw fleet send starts.
    let waiting = folder.path().join("spool/firefox/1.ping");
    std::fs::create_dir_all(waiting.parent().unwrap()).unwrap();
    std::fs::write(&waiting, ping(5)).unwrap();
    let send = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg(folder.path().join("spool")).args(["--send", &format!("https://localhost:{port}")]).args(words);
        ended(command.env("SSL_CERT_FILE", &certificate).env_remove("SSL_CERT_DIR"))
    };
    let (code, said) = send(&[]);
    assert!(code == Some(5) && said.contains("401") && said.contains("--token-file"), "{code:?} {said}");
    assert!(waiting.exists(), "what was refused stays");
    assert_eq!(send(&token), (Some(0), String::new()));
    assert!(!waiting.exists());
    collector.end(libc::SIGTERM);
    assert_eq!(sealed(&directory), [2, 3, 5]);
}

#[test]
fn clients_that_take_their_time_are_cut_and_others_get_in() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--connections", "2", "--client-seconds", "1"]);
    // One byte at a time, so that something always comes: 200 of them are far more than a second allows.
    let drip = |first: &'static str| {
        let mut socket = collector.connect();
        std::thread::spawn(move || {
            socket.write_all(first.as_bytes()).unwrap();
            let cut = (0..200).find(|_| {
                std::thread::sleep(Duration::from_millis(50));
                socket.write_all(b"x").is_err()
            });
            cut.is_some()
        })
    };
    let head = drip("POST /v1/pings HTTP/1.1\r\nHost: ");
    let body = drip("POST /v1/pings HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n");
    assert!(head.join().unwrap(), "the head may take as long as it likes");
    assert!(body.join().unwrap(), "the body may take as long as it likes");
    // Those that say nothing at all.
    let silent = [collector.connect(), collector.connect()];
    while collector.send(ping(1).as_bytes()).0 != 200 {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(silent);
    collector.end(libc::SIGTERM);
    assert_eq!(sealed(folder.path()), [1]);
}

#[test]
fn a_body_that_does_not_come_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--client-seconds", "1"]);
    let mut socket = collector.connect();
    socket.write_all(b"POST /v1/pings HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nhalf").unwrap();
    assert_eq!(answer(socket).0, 408);
}

#[test]
fn what_is_announced_and_does_not_come_takes_no_room_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &[]);
    // 300 MiB are announced, and one byte of each is still to come.
    let open = |length: usize, body: &[u8]| {
        let mut socket = collector.connect();
        let head =
            format!("POST /v1/pings HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        socket.write_all(&[head.as_bytes(), body].concat()).unwrap();
        socket
    };
    let mut idle = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..300 {
        let line = ping(number);
        waiting.push(open(line.len(), &line.as_bytes()[..line.len() - 1]));
        idle.push(open(1 << 20, b"{"));
    }
    assert_eq!(collector.send(ping(300).as_bytes()).0, 200);
    for socket in &mut waiting {
        socket.write_all(b"\n").unwrap();
    }
    assert!(waiting.into_iter().all(|socket| answer(socket).0 == 200));
    drop(idle);
    collector.end(libc::SIGTERM);
    assert_eq!(sealed(folder.path()), (0..=300).collect::<Vec<u128>>());
}

#[test]
fn nobody_makes_programs_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let of = |number: u64| ping(number).replace("firefox", &format!("app{number}"));
    let collector = Collector::start(folder.path(), &["--apps", "3"]);
    let body: String = (0..1000).map(of).collect();
    let (status, answer) = collector.send(body.as_bytes());
    assert!(status == 200 && answer.contains(r#""accepted":3,"duplicates":0"#), "{answer}");
    assert!(
        answer.contains(r#"{"line":4,"why":"pings of 3 programs came today, and app3 is one too many"}"#),
        "{answer}"
    );
    let (_, metrics) = collector.ask("GET", "/metrics", "", b"");
    assert!(metrics.contains("reason=\"app\"} 997\n"), "{metrics}");
    collector.end(libc::SIGTERM);
    // The next one knows which came today.
    let collector = Collector::start(folder.path(), &["--apps", "3"]);
    let (_, answer) = collector.send((of(1).replace("id\":\"0", "id\":\"1") + &of(5)).as_bytes());
    assert!(answer.contains(r#""accepted":1,"duplicates":0,"refused":[{"line":2"#), "{answer}");
    collector.end(libc::SIGTERM);
    let day = std::fs::read_dir(folder.path().join(format!("dt={}", ping::Day::today()))).unwrap();
    assert_eq!(day.count(), 3);
    let (code, said) = ended(Command::new(PROGRAM).arg(folder.path()).args(["--app", "Fire Fox"]));
    assert!(code == Some(2) && said.contains("small letters"), "{said}");
    // Or those that are named, and no others.
    let collector = Collector::start(folder.path(), &["--app", "firefox"]);
    let (_, answer) = collector.send((of(6) + &ping(7)).as_bytes());
    assert!(answer.contains(r#""accepted":1,"duplicates":0,"refused":[{"line":1"#), "{answer}");
}
