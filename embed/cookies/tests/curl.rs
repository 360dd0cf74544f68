//! cookies.txt, to and from the real curl.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{SystemTime, UNIX_EPOCH};
use thaw_cookies::{Context, Cookie, Jar, Lookup, Options, header, netscape};

/// What the server sets, whoever asks.
const HEADERS: [&str; 6] = [
    "plain=1; Path=/",
    "lasting=two words; Max-Age=86400; Path=/",
    "hidden=3; HttpOnly; Max-Age=86400; Path=/a",
    "empty=; Max-Age=86400; Path=/",
    "quoted=\"q=; Path=/",
    "gone=1; Max-Age=0; Path=/",
];

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// A server that tells of each request its Cookie header.
fn server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a/b", listener.local_addr().unwrap());
    let (say, said) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut cookie = String::new();
            for line in BufReader::new(&stream).lines() {
                let line = line.unwrap();
                if let Some(value) = line.strip_prefix("Cookie: ") {
                    cookie = value.into();
                }
                if line.is_empty() {
                    break;
                }
            }
            let lines: String = HEADERS.iter().map(|header| format!("Set-Cookie: {header}\r\n")).collect();
            let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            if say.send(cookie).is_err() {
                break;
            }
        }
    });
    (url, said)
}

fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        testing::skip("needs curl");
    }
    there
}

fn curl(options: &[&str], file: &Path, url: &str) {
    // The second URL of some is the file.
    let mut command = Command::new("curl");
    command.args(["--disable", "--silent", "--show-error", "--noproxy", "*"]);
    for option in options {
        command.arg(option).arg(file);
    }
    let output = command.arg(url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Name, value, domain, host only, path, secure, for HTTP only, end in seconds: what the format can hold.
type Short = (String, String, String, bool, String, bool, bool, u64);

fn short(cookies: &[Cookie]) -> Vec<Short> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let one = |it: &Cookie| {
        let ends = it.expires_us.map_or(0, |at| at / 1_000_000);
        let (name, value, path) = (text(&it.name), text(&it.value), text(&it.path));
        (name, value, it.domain.clone(), it.host_only, path, it.secure, it.http_only, ends)
    };
    let mut all: Vec<_> = cookies.iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn what_curl_writes_is_what_the_jar_would_have_stored() {
    if !has_curl() {
        return;
    }
    let (folder, (url, said)) = (tempfile::tempdir().unwrap(), server());
    let file = folder.path().join("cookies.txt");
    let before = now_us();
    curl(&["--cookie-jar"], &file, &url);
    said.recv().unwrap();
    let after = now_us();
    let (read, wrong) = netscape::read(&std::fs::read(&file).unwrap(), before);
    assert_eq!(wrong, []);
    let jar = Jar::open(Options::new(folder.path().join("jar"))).unwrap();
    jar.wait_whole();
    for header in HEADERS {
        jar.set(header.as_bytes(), &url, before, &Context::default()).unwrap();
    }
    let (mut theirs, ours) = (short(&read), short(&jar.all().unwrap()));
    assert_eq!(theirs.len(), 5);
    for (theirs, ours) in theirs.iter_mut().zip(&ours) {
        // Its clock goes on between the two.
        if theirs.7 > 0 {
            assert!((ours.7..=ours.7 + (after - before) / 1_000_000 + 1).contains(&theirs.7), "{theirs:?} {ours:?}");
            theirs.7 = ours.7;
        }
    }
    assert_eq!(theirs, ours);
}

#[test]
fn curl_sends_what_the_jar_has_written_and_writes_it_back() {
    if !has_curl() {
        return;
    }
    let (folder, (url, said)) = (tempfile::tempdir().unwrap(), server());
    let file = folder.path().join("cookies.txt");
    let (jar, now, mine) = (Jar::open(Options::new(folder.path().join("jar"))).unwrap(), now_us(), Context::default());
    jar.wait_whole();
    for text in
        ["one=1; Path=/", "two=2 x; Max-Age=999; Path=/a; HttpOnly", "six=; Max-Age=999; Path=/", "four=4; Path=/c"]
    {
        jar.set(text.as_bytes(), &url, now, &mine).unwrap();
    }
    // For other hosts, below and with a secure connection alone.
    for text in ["far=1; Domain=example.com; Max-Age=9999", "safe=1; Secure; HttpOnly", "__Host-a=1; Secure; Path=/"] {
        jar.set(text.as_bytes(), "https://www.example.com/p/q", now, &mine).unwrap();
    }
    let all = jar.all().unwrap();
    let (text, left_out) = netscape::write(&all);
    assert!(left_out.is_empty());
    std::fs::write(&file, text).unwrap();
    // A copy of it, with nothing that the server sets: the request goes nowhere.
    let copy = folder.path().join("copy.txt");
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let output = Command::new("curl")
        .args(["--disable", "--silent", "--show-error", "--cookie"])
        .arg(&file)
        .arg("--cookie-jar")
        .arg(&copy)
        .arg(format!("file://{}", folder.path().join("empty").display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (back, wrong) = netscape::read(&std::fs::read(&copy).unwrap(), now);
    assert_eq!((short(&back), wrong), (short(&all), vec![]));
    curl(&["--cookie"], &file, &url);
    let sent = said.recv().unwrap();
    let Ok(Lookup::Cookies(going)) = jar.cookies(&url, now, &mine) else { panic!("not loaded") };
    let ours = String::from_utf8(header(&going)).unwrap();
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split("; ").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    assert_eq!(parts(&sent), parts(&ours), "in whichever order");
    assert_eq!(sent.split("; ").next(), Some("two=2 x"), "longer paths first");
    assert_eq!(going.len(), 3);
}
