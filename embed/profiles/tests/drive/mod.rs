//! The real browsers, on a page of the test's own: just enough of their protocols to open tabs and to ask what they
//! show.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often something is looked for that a browser does some time, with a pause between: the test ends.
const LOOKS: usize = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until there is something.
pub fn look<T>(what: &str, mut at: impl FnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..LOOKS {
        match at() {
            Ok(found) => return found,
            Err(why) => last = why,
        }
        std::thread::sleep(PAUSE);
    }
    panic!("{what}: {last}");
}

/// What the page sets, of several kinds.
pub const COOKIES: [&str; 6] = [
    "plain=1; Path=/; Max-Age=86400",
    "session=two words; HttpOnly; SameSite=Strict",
    "lax=3; SameSite=Lax; Max-Age=9999; Path=/a",
    "secure=4; Secure; SameSite=None; Max-Age=9999; Path=/",
    "apart=5; Secure; SameSite=None; Max-Age=9999; Path=/; Partitioned",
    "gone=6; Max-Age=0; Path=/",
];

/// A page that is the same everywhere but for its title, and sets cookies; where it is.
pub fn origin() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A browser may connect and ask nothing.
            std::thread::spawn(move || answer(&mut stream.unwrap()));
        }
    });
    url
}

fn answer(stream: &mut TcpStream) {
    let mut path = None;
    for line in BufReader::new(&*stream).lines() {
        let Ok(line) = line else { return };
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        }
        if line.is_empty() {
            break;
        }
    }
    let Some(path) = path else { return };
    // Browsers ask for the icon when they like.
    let cookies = if path == "/favicon.ico" { &[][..] } else { &COOKIES };
    let cookies: String = cookies.iter().map(|cookie| format!("Set-Cookie: {cookie}\r\n")).collect();
    let body = format!("<!doctype html><meta charset=utf-8><title>Page \u{fc} {path}</title>{path}");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    // It may have gone.
    let _ = write!(stream, "{head}{cookies}Content-Length: {}\r\n\r\n{body}", body.len());
}

/// Whether a program is there; else the test is counted as skipped.
pub fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        testing::skip(&format!("needs {program}"));
    }
    there
}

/// A process that ends with the test, whatever becomes of it.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PREFERENCES: &str = r#"user_pref("marionette.port", 0);
user_pref("remote.prefs.recommended", false);
user_pref("browser.sessionstore.interval", 300);
user_pref("browser.startup.page", 0);
user_pref("browser.startup.homepage", "about:blank");
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.proxy.type", 0);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.unified", false);
"#;

/// Firefox, by Marionette: numbered questions as JSON with their length before them.
pub struct Firefox {
    process: Guard,
    socket: TcpStream,
    number: u64,
}

impl Firefox {
    pub fn start(profile: &Path) -> Firefox {
        std::fs::write(profile.join("user.js"), PREFERENCES).unwrap();
        let process = Command::new("firefox")
            .args(["--headless", "--no-remote", "--marionette", "--remote-allow-system-access", "--profile"])
            .arg(profile)
            .arg("about:blank")
            .env("HOME", profile)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Guard(process);
        let socket = look("Firefox does not listen", || {
            assert!(process.0.try_wait().unwrap().is_none(), "Firefox has ended");
            let text = std::fs::read_to_string(profile.join("MarionetteActivePort")).map_err(|it| it.to_string())?;
            let port: u16 = text.trim().parse().map_err(|_| format!("{text:?} is no port"))?;
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())
        });
        let mut firefox = Firefox { process, socket, number: 0 };
        firefox.receive();
        firefox.ask("WebDriver:NewSession", json!({}));
        firefox
    }

    fn receive(&mut self) -> Value {
        let mut len = String::new();
        loop {
            let mut byte = [0];
            self.socket.read_exact(&mut byte).unwrap();
            match byte[0] {
                b':' => break,
                digit => len.push(digit.into()),
            }
        }
        let mut bytes = vec![0; len.parse().unwrap()];
        self.socket.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let text = json!([0, self.number, method, params]).to_string();
        self.socket.write_all(format!("{}:{text}", text.len()).as_bytes()).unwrap();
        let mut answer = self.receive();
        assert_eq!((&answer[1], &answer[2]), (&json!(self.number), &Value::Null), "{method}");
        match answer[3].take() {
            Value::Object(mut object) if object.len() == 1 && object.contains_key("value") => object["value"].take(),
            other => other,
        }
    }

    pub fn quit(mut self) {
        self.ask("Marionette:Quit", json!({ "flags": ["eAttemptQuit"] }));
        self.process.0.wait().unwrap();
    }
}

/// Chromium, by the DevTools protocol over two pipes: messages end with a zero byte.
pub struct Chromium {
    process: Guard,
    number: u64,
}

impl Chromium {
    pub fn start(folder: &Path) -> Chromium {
        // Its two pipes have the numbers 3 and 4.
        let process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 >/dev/null 2>&1", "sh", "chromium"])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-sandbox"])
            .args(["--password-store=basic", "--no-proxy-server", "--disable-extensions"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg("about:blank")
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Chromium { process: Guard(process), number: 0 }
    }

    pub fn ask(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut question = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = session {
            question["sessionId"] = session.into();
        }
        let process = &mut self.process.0;
        process.stdin.as_mut().unwrap().write_all(format!("{question}\0").as_bytes()).unwrap();
        loop {
            let (mut message, mut byte) = (Vec::new(), [0]);
            loop {
                process.stdout.as_mut().unwrap().read_exact(&mut byte).expect("Chromium has ended");
                match byte[0] {
                    0 => break,
                    other => message.push(other),
                }
            }
            let mut answer: Value = serde_json::from_slice(&message).unwrap();
            if answer["id"] == self.number {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].take();
            }
        }
    }

    pub fn quit(mut self) {
        self.ask(None, "Browser.close", json!({}));
        self.process.0.wait().unwrap();
    }
}
