//! Attaching to real browsers: they go on, and show what they showed before.

use super::*;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};

#[test]
fn a_browser_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "about:blank"])
        .arg(format!("--user-data-dir={}", bench.path("profile").display()))
        .env("HOME", bench.0.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let Ok(child) = chromium.spawn() else { return testing::skip("needs chromium") };
    let mut browser = Browser(child);
    let pid = browser.0.id();
    let mut told = BufReader::new(browser.0.stderr.take().unwrap()).lines().map_while(std::result::Result::ok);
    let Some(address) = told.find_map(|line| line.strip_prefix("DevTools listening on ws://").map(str::to_owned))
    else {
        return testing::skip("needs a chromium that starts here");
    };
    let address = address.split('/').next().unwrap().to_owned();
    // Nobody else reads what it says.
    std::thread::spawn(move || told.for_each(drop));
    let ask = || {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET /json/version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = BufReader::new(stream).take(15).read_to_string(&mut answer);
        answer
    };
    for _ in 0..2 {
        let (recording, report) = bench.attach_and(pid, 0.1, |_| assert_eq!(ask(), "HTTP/1.1 200 OK"));
        let process = &report.processes[0];
        assert!(process.allocations > 0 && process.tiers == ["detour"], "{process:#?}");
        assert_eq!(recording.running, [pid]);
        assert_eq!(holds(pid), [""; 0]);
    }
    let mut attached = 0;
    for child in os::process::descendants(pid) {
        let kind = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        if kind.contains("--type=renderer") {
            bench.attach(child, 0.05);
            attached += 1;
        }
    }
    assert!(attached > 0, "no renderer");
    assert_eq!(ask(), "HTTP/1.1 200 OK");
    assert_eq!(browser.0.try_wait().unwrap(), None);
}

/// Ends with its children.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let children = os::process::descendants(self.0.id());
        let _ = self.0.kill();
        let _ = self.0.wait();
        for child in children {
            // SAFETY: takes numbers; those that have ended by themselves are not found.
            unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) };
        }
    }
}

/// A Firefox with its own profile that is told what to do through Marionette: a TCP socket, `length:[0, number,
/// command, parameters]`.
struct Firefox {
    browser: Browser,
    socket: BufReader<TcpStream>,
    asked: u64,
}

impl Firefox {
    /// `None`: it does not start here.
    fn start(profile: &Path) -> Option<Self> {
        std::fs::create_dir(profile).unwrap();
        std::fs::write(profile.join("user.js"), "user_pref(\"marionette.port\", 0);\n").unwrap();
        let mut command = Command::new("firefox-esr");
        command.args(["--headless", "--marionette", "--no-remote", "--profile"]).arg(profile).env("HOME", profile);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut browser = Browser(command.spawn().ok()?);
        let port = loop {
            let told = std::fs::read_to_string(profile.join("MarionetteActivePort")).unwrap_or_default();
            if let Ok(port) = told.trim().parse::<u16>() {
                break port;
            }
            if browser.0.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let socket = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
        let mut firefox = Self { browser, socket, asked: 0 };
        assert_eq!(firefox.answer()["applicationType"], "gecko");
        firefox.ask("WebDriver:NewSession", &json!({}));
        Some(firefox)
    }

    fn answer(&mut self) -> Value {
        let mut length = Vec::new();
        self.socket.read_until(b':', &mut length).unwrap();
        let length = std::str::from_utf8(&length).unwrap().trim_end_matches(':').parse::<u64>().unwrap();
        let mut text = Vec::new();
        self.socket.by_ref().take(length).read_to_end(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn ask(&mut self, command: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let text = json!([0, self.asked, command, parameters]).to_string();
        write!(self.socket.get_mut(), "{}:{text}", text.len()).unwrap();
        let answer = self.answer();
        assert_eq!((&answer[0], &answer[1], &answer[2]), (&json!(1), &json!(self.asked), &Value::Null), "{command}");
        answer[3]["value"].clone()
    }

    /// Loads a page; its picture.
    fn load(&mut self, address: &str, title: &str) -> String {
        self.ask("WebDriver:Navigate", &json!({ "url": address }));
        assert_eq!(self.ask("WebDriver:GetTitle", &json!({})), title);
        self.ask("WebDriver:TakeScreenshot", &json!({ "full": false })).as_str().unwrap().to_owned()
    }

    /// How often each thread was given the processor, by its name and number. All threads run.
    fn threads(&self) -> Vec<(String, u64)> {
        let pid = self.browser.0.id();
        let each = |tid: i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
            let field = |name: &str| {
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim().to_owned()
            };
            assert!(!field("State").starts_with(['t', 'T']) && field("TracerPid") == "0", "{status}");
            let switches = |kind: &str| field(&format!("{kind}_ctxt_switches")).parse::<u64>().unwrap();
            Some((format!("{tid} {}", field("Name")), switches("voluntary") + switches("nonvoluntary")))
        };
        os::ptrace::threads(pid).unwrap().into_iter().filter_map(each).collect()
    }
}

/// A page that is served as often as it is asked for; its address.
fn serve(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: no-store\r\nConnection: close";
                let _ = write!(stream.get_mut(), "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            });
        }
    });
    address
}

#[test]
fn firefox_goes_on() {
    let Some(bench) = Bench::new() else { return };
    if Command::new("firefox-esr").arg("--version").stdout(Stdio::null()).status().is_err() {
        return testing::skip("needs firefox-esr");
    }
    let Some(mut firefox) = Firefox::start(&bench.path("profile")) else {
        return testing::skip("needs a firefox-esr that starts here");
    };
    let page = serve("<title>whole</title><body style='background: teal'><h1>a page</h1>");
    let pid = firefox.browser.0.id();
    let before = firefox.load(&page, "whole");
    for round in 0..3 {
        let (recording, report) = bench.attach_and(pid, 0.1, |_| assert_eq!(firefox.load(&page, "whole"), before));
        let process = report.processes.iter().find(|process| process.pid == pid).unwrap();
        assert!(process.allocations > 1000 && process.tiers == ["detour"], "round {round}: {process:#?}");
        assert_eq!(recording.running, [pid]);
        assert!(recording.stopped.unwrap().threads > 20, "{:?}", recording.stopped);
        assert_eq!(holds(pid), [""; 0]);

        let ran = firefox.threads();
        assert_eq!(firefox.load(&page, "whole"), before, "round {round}: another picture");
        let now = firefox.threads();
        for name in ["firefox-esr", "Socket Thread", "Timer"] {
            let of = |threads: &[(String, u64)]| threads.iter().find(|thread| thread.0.ends_with(name)).map(|it| it.1);
            assert!(of(&now) > of(&ran), "round {round}: {name} stands still: {ran:?}, {now:?}");
        }
    }
    assert_eq!(firefox.browser.0.try_wait().unwrap(), None);
}
