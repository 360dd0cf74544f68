//! `thaw-storage` as a process: who gets something, what is kept when it ends, and real browsers as judges of the
//! script by which pages use it (`page/judge.js`: their own localStorage beside it, case by case).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thaw-storage");

struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
    /// `/TOKEN/`.
    path: String,
}

impl Server {
    fn start(words: &[&str]) -> Server {
        let mut child =
            Command::new(PROGRAM).args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, path) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Server { child, host: host.into(), path: format!("/{path}") }
    }

    /// Sends a request; returns the connection, to be read.
    fn ask(&self, method: &str, rest: &str, fields: &str, body: &[u8]) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(&self.host).unwrap();
        let (path, host, len) = (&self.path, &self.host, body.len());
        let head = format!(
            "{method} {path}{rest} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {len}\r\n{fields}\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        // It may be refused before its end.
        let _ = socket.write_all(body);
        BufReader::new(socket)
    }

    /// The status, and all that comes.
    fn answer(&self, method: &str, rest: &str, fields: &str, body: &[u8]) -> (u16, String) {
        let mut all = Vec::new();
        let _ = self.ask(method, rest, fields, body).read_to_end(&mut all);
        let all = String::from_utf8_lossy(&all).into_owned();
        (all.split(' ').nth(1).unwrap().parse().unwrap(), all)
    }

    /// Sets a key, as a page does.
    fn set(&self, page: &str, first: u64, key: &[u16], value: &[u16]) -> (u16, String) {
        self.answer("POST", &format!("api/changes?origin={ORIGIN}&page={page}&first={first}"), "", &set(key, value))
    }

    /// What a page is told first: all keys.
    fn all(&self, origin: &str) -> serde_json::Value {
        let messages = self.ask("GET", &format!("api/events?origin={origin}&page=reader"), "", b"");
        message(messages.lines().map(Result::unwrap), |message| message["say"] == "all")
    }

    /// Ends it by a signal; its exit code, and what it complained of.
    fn end(mut self, signal: i32) -> (Option<i32>, String) {
        // SAFETY: a plain call on the number of a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ORIGIN: &str = "https%3A%2F%2Fa.example";

/// The first message that is looked for.
fn message(lines: impl Iterator<Item = String>, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(|text| serde_json::from_str(text).unwrap()));
    data.into_iter().find(wanted).expect("the connection ended before it came")
}

fn set(key: &[u16], value: &[u16]) -> Vec<u8> {
    let text = |text: &[u16]| [&[text.len() as u16, (text.len() >> 16) as u16], text].concat();
    [vec![1], text(key), text(value)].concat().iter().flat_map(|unit: &u16| unit.to_le_bytes()).collect()
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

#[test]
fn what_was_answered_is_kept_when_a_signal_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("storage");
    for (round, signal) in [(1, libc::SIGINT), (2, libc::SIGTERM)] {
        let server = Server::start(&[path.to_str().unwrap()]);
        let key = format!("key{round}");
        let (status, said) = server.set("page", 1, &units(&key), &units(&format!("value{round}")));
        assert!(status == 200 && said.ends_with(r#"{"last":1}"#), "{said}");
        // A page that listens does not keep it from ending.
        let mut listens = server.ask("GET", &format!("api/events?origin={ORIGIN}&page=x"), "", b"");
        listens.read_line(&mut String::new()).unwrap();
        assert_eq!(server.end(signal), (Some(0), String::new()));
    }
    let server = Server::start(&[path.to_str().unwrap()]);
    let pairs = &server.all(ORIGIN)["pairs"];
    assert_eq!(*pairs, serde_json::json!([["key1", "value1"], ["key2", "value2"]]));
    let areas = server.answer("GET", "api/areas", "", b"").1;
    assert!(
        areas.contains(r#""origin":"https://a.example","file_bytes":"#) && areas.contains(r#""keys":2"#),
        "{areas}"
    );
}

#[test]
fn what_was_flushed_outlives_a_killed_server_and_units_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let server = Server::start(&[path]);
    assert_eq!(server.set("page", 1, &units("odd"), &[0xD800, 0, 0x61]).0, 200);
    assert_eq!(server.answer("POST", "api/flush", "", b"").0, 200);
    assert_eq!(server.end(libc::SIGKILL).0, None);
    let server = Server::start(&[path]);
    let messages = server.ask("GET", &format!("api/events?origin={ORIGIN}&page=reader"), "", b"");
    let line = messages.lines().map(Result::unwrap).find(|line| line.starts_with("data: ")).unwrap();
    assert!(line.contains(r#"["odd","\ud800\u0000a"]"#), "{line}");
}

#[test]
fn changes_of_another_process_are_told() {
    use thaw_webstorage::{Options, Storage, Urgency};
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[folder.path().to_str().unwrap()]);
    let messages = server.ask("GET", &format!("api/events?origin={ORIGIN}&page=reader"), "", b"");
    let mut lines = messages.lines().map(Result::unwrap);
    message(&mut lines, |message| message["say"] == "all");
    let other = Storage::open(folder.path(), Options::default()).unwrap();
    let area = other.area("", "https://a.example", Urgency::Urgent).unwrap();
    area.wait().unwrap();
    area.set(&units("theirs"), &units("1")).unwrap();
    assert!(other.flush_and_wait());
    let said = message(&mut lines, |message| message["say"] == "changed");
    assert_eq!((&said["key"], &said["new"], &said["now"]), (&"theirs".into(), &"1".into(), &"1".into()));
}

#[test]
fn who_is_not_meant_gets_nothing_and_changes_nothing() {
    let server = Server::start(&[]);
    let change = format!("api/changes?origin={ORIGIN}&page=p&first=1");
    let body = set(&units("a"), &units("1"));
    for fields in ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Host: evil.example\r\n"] {
        assert_eq!(server.answer("POST", &change, fields, &body).0, 403, "{fields}");
        assert_eq!(server.answer("GET", "", fields, b"").0, 403, "{fields}");
    }
    let stranger = Server { path: "/".into(), host: server.host.clone(), child: Command::new("true").spawn().unwrap() };
    for path in ["", "api/areas", "0123456789abcdef0123456789abcdef/"] {
        assert_eq!(stranger.answer("GET", path, "", b"").0, 403, "{path}");
    }
    assert_eq!(server.all(ORIGIN)["pairs"], serde_json::json!([]));
    let page = server.answer("GET", "", "", b"").1;
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page}");
}

#[test]
fn what_cannot_be_understood_is_told_so_and_makes_no_change() {
    let server = Server::start(&["--quota", "100"]);
    let change = |query: &str, body: &[u8]| server.answer("POST", &format!("api/changes?{query}"), "", body);
    let right = set(&units("a"), &units("1"));
    let whole = format!("origin={ORIGIN}&page=p&first=1");
    assert_eq!(change(&whole, &right[..right.len() - 1]).0, 400, "an odd number of bytes");
    assert_eq!(change(&whole, &[&right[..], &[9, 0]].concat()).0, 400, "no such change");
    for query in [
        "page=p&first=1",
        "origin=a&first=1",
        "origin=a&page=p",
        "origin=a&page=p&first=0",
        "origin=%00&page=p&first=1",
    ] {
        assert_eq!(change(query, &right).0, 400, "{query}");
    }
    let (status, said) = change(&format!("origin={ORIGIN}&page=p&first=3"), &right);
    assert!(status == 409 && said.contains("the last change that came is 0"), "{said}");
    assert_eq!(change(&whole, &vec![0; thaw_storage::server::LARGEST + 1]).0, 413);
    assert_eq!(server.answer("DELETE", "api/flush", "", b"").0, 405);
    assert_eq!(server.answer("GET", "api/else", "", b"").0, 404);
    assert_eq!(server.all(ORIGIN)["pairs"], serde_json::json!([]));
}

#[test]
fn a_directory_of_others_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("diary.txt"), "dear diary").unwrap();
    let run = |words: &[&str]| {
        let out = Command::new(PROGRAM).args(words).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, said) = run(&[folder.path().to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("none is of web storage"), "{said}");
    let (code, said) = run(&[folder.path().join("diary.txt").to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("it is no directory"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, said) = run(&["--port", &taken.local_addr().unwrap().port().to_string()]);
    assert!(code == Some(3) && said.contains("cannot listen on 127.0.0.1"), "{said}");
}

/// A browser and all processes that it started.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        // SAFETY: a plain call; the group is that of a child that was not waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// Opens the page of the judge in a browser, and reads what it came to.
fn judged(program: &str, words: impl Fn(&Path) -> Vec<String>) {
    if !Path::new(program).exists() {
        return testing::skip(&format!("no browser at {program}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[folder.path().join("storage").to_str().unwrap()]);
    let profile = folder.path().join("profile");
    std::fs::create_dir(&profile).unwrap();
    let verdicts = server.ask("GET", "api/events?origin=https%3A%2F%2Fverdict.example&page=test", "", b"");
    let mut command = Command::new(program);
    command.args(words(&profile)).arg(format!("http://{}{}judge.html", server.host, server.path));
    command.env("HOME", &profile).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let _browser = Browser(command.spawn().unwrap());
    let said = message(verdicts.lines().map(Result::unwrap), |message| message["key"] == "verdict");
    let verdict: serde_json::Value = serde_json::from_str(said["now"].as_str().unwrap()).unwrap();
    assert_eq!(verdict["wrong"], serde_json::json!([]), "{verdict:#}");
    assert!(verdict["cases"].as_u64().unwrap() >= 35, "{verdict:#}");
}

#[test]
fn chromium_judges() {
    let words = |profile: &Path| {
        let data = format!("--user-data-dir={}", profile.display());
        ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", &data]
            .map(str::to_owned)
            .to_vec()
    };
    judged(&std::env::var("CHROMIUM").unwrap_or("/usr/bin/chromium".into()), words);
}

#[test]
fn firefox_judges() {
    let words = |profile: &Path| {
        let settings = "user_pref(\"browser.aboutwelcome.enabled\", false);\n\
                        user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);\n";
        std::fs::write(profile.join("user.js"), settings).unwrap();
        ["--headless", "--no-remote", "--profile", &profile.display().to_string()].map(str::to_owned).to_vec()
    };
    judged(&std::env::var("FIREFOX").unwrap_or("/usr/bin/firefox-esr".into()), words);
}
