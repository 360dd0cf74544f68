//! The page on the loopback, for `thaw view`, until Ctrl-C; where it changes while it is served, metrics beside it.
//!
//! Only this machine can ask (127.0.0.1), and only by that name: a web page elsewhere that makes its own name point at
//! 127.0.0.1 sends another `Host` and is refused, so it cannot read which files this machine has. Of the users of this
//! machine only who knows the random token of the address gets the page; the browser keeps it in a cookie. Nobody holds
//! the server: a request has one time limit in all, and where too many wait, the oldest that has not asked yet goes.

use crate::html::policy;
use model::{Error, Exit, Result};
use os::interrupt;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest head of a request that is read.
const HEAD_BYTES: usize = 16 * 1024;
/// How long a client may take to ask.
const TO_ASK: Duration = Duration::from_secs(10);
/// How long it may take to be answered: pages have some megabytes.
const TO_GET: Duration = Duration::from_secs(60);
/// Clients at a time that have not asked yet; browsers open a few connections ahead.
const WAITING: usize = 32;
/// Bytes of the token: too many to guess.
const TOKEN_BYTES: usize = 16;

/// Whether to open a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// With `xdg-open`, if there is one.
    Browser,
    /// Whoever reads the address opens it.
    Nothing,
}

/// What is served. Clients ask from threads of their own.
pub trait Source: Send + Sync {
    /// The page, as it is now.
    fn page(&self) -> Arc<str>;
    /// The same in figures, as OpenMetrics' text; `None`: there are none.
    fn metrics(&self) -> Option<Arc<str>>;
}

/// A page that stays as it is.
impl Source for Arc<str> {
    fn page(&self) -> Self {
        self.clone()
    }

    fn metrics(&self) -> Option<Self> {
        None
    }
}

/// Serves a source on 127.0.0.1 until Ctrl-C or SIGTERM; `port` 0 takes any that is free. `announce` gets the address
/// once it can be asked for.
///
/// # Errors
/// The port is taken, or the kernel refuses a socket.
pub fn serve(source: Box<dyn Source>, port: u16, open: Open, announce: &mut dyn FnMut(&str)) -> Result<()> {
    interrupt::install()?;
    let cannot = |error: io::Error| {
        Error::new(Exit::Machine, "cannot serve the report on", format!("127.0.0.1:{port}"))
            .because(error)
            .hint("another port may be free: leave `--port` out to take any")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let token = token().map_err(cannot)?;
    let url = format!("http://{address}/?token={token}");
    announce(&url);
    if open == Open::Browser {
        open_browser(&url);
    }
    let door = Arc::new(Door { address, token, source, waiting: Mutex::default() });
    let mut number = 0;
    while wait(&listener).map_err(cannot)? {
        // A client that gave up before it was accepted is no error of ours.
        let Ok((stream, _)) = listener.accept() else { continue };
        number += 1;
        let Ok(other) = stream.try_clone() else { continue };
        door.enter(number, other);
        let (opened, door) = (door.clone(), door.clone());
        let client = std::thread::Builder::new().name("client".into());
        let started = client.spawn(move || {
            // Nor is one that went away.
            let _ = opened.answer(stream, number);
            opened.leave(number);
        });
        if started.is_err() {
            door.leave(number);
        }
    }
    Ok(())
}

/// [`TOKEN_BYTES`] of the kernel's randomness, in hexadecimal digits.
fn token() -> io::Result<String> {
    let bytes: [u8; TOKEN_BYTES] = os::machine::by_chance()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is served, who may have it, and who is waiting for it: shared by the threads of all clients.
struct Door {
    address: SocketAddr,
    token: String,
    source: Box<dyn Source>,
    /// Clients that have not asked yet, the oldest first.
    waiting: Mutex<VecDeque<(u64, TcpStream)>>,
}

impl Door {
    fn enter(&self, number: u64, stream: TcpStream) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.len() >= WAITING {
            let Some((_, oldest)) = waiting.pop_front() else { break };
            let _ = oldest.shutdown(Shutdown::Both);
        }
        waiting.push_back((number, stream));
    }

    fn leave(&self, number: u64) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != number);
    }

    fn answer(&self, mut stream: TcpStream, number: u64) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        let head = read_head(&mut stream, Instant::now() + TO_ASK, TcpStream::set_read_timeout)?;
        self.leave(number);
        let Reply { status, kind, body, send } = self.reply(&head);
        let known = status.starts_with("200");
        let cookie = if known {
            format!("Set-Cookie: {}={}; HttpOnly; SameSite=Strict; Path=/\r\n", self.cookie_name(), self.token)
        } else {
            String::new()
        };
        let headers = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{cookie}\
             Content-Security-Policy: {}; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            kind.name(),
            body.len(),
            policy()
        );
        let body = if send { body.as_bytes() } else { &[] };
        let until = Instant::now() + TO_GET;
        for mut rest in [headers.as_bytes(), body] {
            while !rest.is_empty() {
                stream.set_write_timeout(Some(left(until)?))?;
                match stream.write(rest)? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => rest = &rest[written..],
                }
            }
        }
        stream.flush()
    }

    /// Cookies do not know ports: two servers of one browser must not take each other's.
    fn cookie_name(&self) -> String {
        format!("thaw-{}", self.address.port())
    }

    fn reply(&self, head: &str) -> Reply {
        let no = |status, body: &str| Reply { status, kind: Kind::Words, body: body.into(), send: true };
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let version = words.next().unwrap_or_default();
        if !head.contains("\r\n\r\n") || !version.starts_with("HTTP/1.") || words.next().is_some() {
            return no("400 Bad Request", "this is no HTTP request\n");
        }
        let fields: Vec<(&str, &str)> =
            lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':')).collect();
        let values = |wanted: &'static str| {
            fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let hosts: Vec<&str> = values("host").collect();
        let port = self.address.port();
        let known =
            |host: &str| host == format!("127.0.0.1:{port}") || host.eq_ignore_ascii_case(&format!("localhost:{port}"));
        if hosts.len() != 1 || !known(hosts[0]) {
            return no("403 Forbidden", "ask for this report by its address on 127.0.0.1\n");
        }
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let name = self.cookie_name();
        let mut asked = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
        let mut kept = values("cookie")
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter_map(|(other, value)| (other == name).then_some(value));
        if !asked.any(|token| self.is_token(token)) && !kept.any(|token| self.is_token(token)) {
            return no("403 Forbidden", "ask for this report by the whole address that thaw view printed\n");
        }
        if !matches!(method, Some("GET" | "HEAD")) {
            return no("405 Method Not Allowed", "only GET\n");
        }
        let found = match path {
            "/" => Some((Kind::Page, self.source.page())),
            "/metrics" => self.source.metrics().map(|text| (Kind::Metrics, text)),
            _ => None,
        };
        let send = method == Some("GET");
        match found {
            Some((kind, body)) => Reply { status: "200 OK", kind, body, send },
            None => Reply { send, ..no("404 Not Found", "there is only /, and /metrics with --live\n") },
        }
    }

    fn is_token(&self, text: &str) -> bool {
        os::secret::is_same(text.as_bytes(), self.token.as_bytes())
    }
}

/// What an answer is.
#[derive(Clone, Copy)]
enum Kind {
    Page,
    Metrics,
    /// Why there is neither.
    Words,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "text/html",
            Self::Metrics => "application/openmetrics-text; version=1.0.0",
            Self::Words => "text/plain",
        }
    }
}

/// Status line, body, and whether the body is sent (HEAD gets none).
struct Reply {
    status: &'static str,
    kind: Kind,
    body: Arc<str>,
    send: bool,
}

/// What is left of a time limit.
fn left(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// Waits for a client; `false` when a signal came.
fn wait(listener: &TcpListener) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    let stop = interrupt::fd();
    if let Some(stop) = &stop {
        fds.push(PollFd::new(stop, PollFlags::IN));
    }
    match poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!interrupt::requested()),
        Err(error) => Err(error.into()),
    }
}

/// Best effort: where there is no desktop, the address was announced.
pub fn open_browser(address: impl AsRef<OsStr>) {
    let opener =
        Command::new("xdg-open").arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut opener) = opener {
        std::thread::spawn(move || opener.wait());
    }
}

/// Everything up to the empty line, or as much as is read; all of it within the time.
fn read_head<S: Read>(
    stream: &mut S,
    until: Instant,
    set_timeout: impl Fn(&S, Option<Duration>) -> io::Result<()>,
) -> io::Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES {
        set_timeout(stream, Some(left(until)?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn status(request: &str) -> &'static str {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let page: Arc<str> = "<!doctype html>".into();
        let door = Door { address, token: TOKEN.into(), source: Box::new(page), waiting: Mutex::default() };
        door.reply(request).status
    }

    /// With the token in the address.
    fn known(method: &str, path: &str) -> &'static str {
        status(&format!("{method} {path}?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"))
    }

    #[test]
    fn the_page_is_the_only_resource() {
        assert_eq!(known("GET", "/"), "200 OK");
        assert_eq!(known("GET", "/../../etc/passwd"), "404 Not Found");
        assert_eq!(known("GET", "/metrics"), "404 Not Found");
        assert_eq!(known("POST", "/"), "405 Method Not Allowed");
        let cookie = format!("GET /?x HTTP/1.1\r\nhost:localhost:8080\r\ncookie: a=b; thaw-8080={TOKEN}\r\n\r\n");
        assert_eq!(status(&cookie), "200 OK");
    }

    #[test]
    fn who_does_not_know_the_token_gets_nothing() {
        let wrong = &TOKEN.replace('0', "1");
        let host = "Host: 127.0.0.1:8080";
        for request in [
            format!("GET / HTTP/1.1\r\n{host}\r\n\r\n"),
            format!("GET /?token= HTTP/1.1\r\n{host}\r\n\r\n"),
            format!("GET /?token={wrong} HTTP/1.1\r\n{host}\r\n\r\n"),
            format!("GET /?token={TOKEN}0 HTTP/1.1\r\n{host}\r\n\r\n"),
            format!("GET /?other={TOKEN} HTTP/1.1\r\n{host}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{host}\r\nCookie: thaw-8080={wrong}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{host}\r\nCookie: thaw-8081={TOKEN}\r\n\r\n"),
            format!("GET /nothing HTTP/1.1\r\n{host}\r\n\r\n"),
        ] {
            assert_eq!(status(&request), "403 Forbidden", "{request}");
        }
    }

    #[test]
    fn another_name_for_this_machine_is_refused() {
        let ask = |hosts: &str| status(&format!("GET /?token={TOKEN} HTTP/1.1\r\n{hosts}\r\n"));
        for host in ["evil.example:8080", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8080.evil.example", ""] {
            assert_eq!(ask(&format!("Host: {host}\r\n")), "403 Forbidden", "{host}");
        }
        assert_eq!(ask(""), "403 Forbidden");
        assert_eq!(ask("Host: 127.0.0.1:8080\r\nHost: evil.example\r\n"), "403 Forbidden");
    }

    #[test]
    fn noise_is_no_request() {
        for noise in
            ["", "\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1 x\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"]
        {
            assert_eq!(status(noise), "400 Bad Request", "{noise:?}");
        }
    }

    #[test]
    fn a_request_has_one_time_limit_and_a_largest_size() {
        let mut drips = io::repeat(b'x');
        let failed = read_head(&mut drips, Instant::now(), |_, _| Ok(())).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        let head = read_head(&mut drips, Instant::now() + TO_ASK, |_, left| {
            assert!(left.is_some_and(|left| left <= TO_ASK));
            Ok(())
        });
        assert!(head.unwrap().len() <= HEAD_BYTES + 2048);
    }
}
