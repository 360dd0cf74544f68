//! `beacon`: thaw serves a page on loopback, the browser opens it, the page says when it was painted and when it was
//! loaded.
//!
//! The URL replaces `{beacon}` in the program's arguments, or becomes the last argument. The page sends one GET from
//! the second `requestAnimationFrame` callback (the first is called before the first frame, the second after it was
//! handed to the compositor) and one from the `load` event. Times are taken here, when the request arrives, so that
//! they are on the same clock as everything else; what the request costs (about a millisecond) is in them.

use super::{BeaconFact, Fired, Probe, Ready, View};
use model::{Error, Exit, Result};
use os::spawn::{Launch, monotonic_ns};
use rustix::event::PollFlags;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What stands for the URL in the program's arguments.
pub(crate) const PLACEHOLDER: &str = "{beacon}";

/// A request that is longer than this is nobody's we know.
const LONGEST_REQUEST: usize = 64 << 10;

/// More connections than a browser makes.
const MOST_CONNECTIONS: usize = 64;

const PAGE: &str = r#"<!doctype html>
<html lang="en"><meta charset="utf-8"><title>thaw</title>
<style>body{background:#fff;color:#000;font:2em sans-serif}</style>
<p>This page tells thaw when the browser has started.</p>
<script>
const tell = what => fetch(what, {cache: "no-store"});
requestAnimationFrame(() => requestAnimationFrame(() => tell("paint")));
addEventListener("load", () => tell("load"));
</script></html>
"#;

/// See the file.
#[derive(Default)]
pub(super) struct Beacon {
    listener: Option<TcpListener>,
    /// `/SECRET/`: keeps other users' requests out.
    root: String,
    connections: Vec<Connection>,
    told: BTreeSet<&'static str>,
}

struct Connection {
    stream: TcpStream,
    got: Vec<u8>,
}

impl Probe for Beacon {
    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        let listen = || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            std::io::Result::Ok((listener, port))
        };
        let (listener, port) = listen().map_err(|error| {
            Error::new(Exit::Machine, "cannot listen on loopback for", "--ready beacon").because(error)
        })?;
        let secret = std::collections::hash_map::RandomState::new().build_hasher().finish();
        self.root = format!("/{secret:016x}/");
        insert_url(&mut launch.argv, &format!("http://127.0.0.1:{port}{}", self.root));
        self.listener = Some(listener);
        Ok(())
    }

    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let listener = self.listener.iter().map(|listener| listener.as_fd());
        let streams = self.connections.iter().map(|connection| connection.stream.as_fd());
        listener.chain(streams).map(|fd| (fd, PollFlags::IN)).collect()
    }

    fn look(&mut self, _view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        let at_ns = monotonic_ns();
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if ready.is_ok() && self.connections.len() < MOST_CONNECTIONS {
                self.connections.push(Connection { stream, got: Vec::new() });
            }
        }
        let root = std::mem::take(&mut self.root);
        let mut asked = Vec::new();
        self.connections.retain_mut(|connection| connection.serve(&root, &mut asked));
        self.root = root;
        for path in asked {
            let fact = match path.as_str() {
                "paint" => BeaconFact::Paint,
                "load" => BeaconFact::Load,
                _ => continue,
            };
            let name = Ready::Beacon(fact).to_string();
            if self.told.insert(if fact == BeaconFact::Paint { "paint" } else { "load" }) {
                fired.push(Fired { name, at_ns });
            }
        }
        Ok(())
    }
}

/// Puts the URL into the arguments.
fn insert_url(argv: &mut Vec<std::ffi::OsString>, url: &str) {
    let mut found = false;
    for argument in argv.iter_mut() {
        let bytes = argument.as_bytes();
        if bytes.windows(PLACEHOLDER.len()).any(|window| window == PLACEHOLDER.as_bytes()) {
            found = true;
            *argument = std::ffi::OsString::from_vec(replace(bytes, PLACEHOLDER.as_bytes(), url.as_bytes()));
        }
    }
    if !found {
        argv.push(url.into());
    }
}

fn replace(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(what.len()).position(|window| window == what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    out
}

impl Connection {
    /// Answers what has come; `false`: this connection is over. Paths below the root are added to `asked`.
    fn serve(&mut self, root: &str, asked: &mut Vec<String>) -> bool {
        let mut piece = [0u8; 4096];
        let open = loop {
            match self.stream.read(&mut piece) {
                Ok(0) => break false,
                Ok(n) => self.got.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
            if self.got.len() > LONGEST_REQUEST {
                return false;
            }
        };
        while let Some(end) = self.got.windows(4).position(|window| window == b"\r\n\r\n") {
            let request: Vec<u8> = self.got.drain(..end + 4).collect();
            let path = path_of(&request).and_then(|path| path.strip_prefix(root).map(str::to_owned));
            if let Some(path) = &path {
                asked.push(path.clone());
            }
            // A small answer fits into an empty socket buffer: if it does not, the browser is gone.
            if self.stream.write_all(&answer(path.as_deref())).is_err() {
                return false;
            }
        }
        open
    }
}

/// The path of a GET request.
fn path_of(request: &[u8]) -> Option<String> {
    let line = request.split(|&byte| byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?;
    Some(path.split('?').next().unwrap_or_default().to_owned())
}

/// The answer for a path below the root.
fn answer(path: Option<&str>) -> Vec<u8> {
    let (status, body) = match path {
        Some("") => ("200 OK", PAGE),
        Some("paint" | "load") => ("204 No Content", ""),
        _ => ("404 Not Found", ""),
    };
    let kind = if body.is_empty() { "" } else { "Content-Type: text/html; charset=utf-8\r\n" };
    let len = if status.starts_with("204") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status}\r\n{kind}{len}Cache-Control: no-store\r\nConnection: keep-alive\r\n\r\n{body}")
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn the_url_replaces_the_placeholder_or_comes_last() {
        let put = |argv: &[&str]| {
            let mut argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
            insert_url(&mut argv, "http://x/");
            argv
        };
        assert_eq!(put(&["b", "--app={beacon}", "-x"]), ["b", "--app=http://x/", "-x"]);
        assert_eq!(put(&["b", "-x"]), ["b", "-x", "http://x/"]);
        assert_eq!(put(&["b", "{beacon}{beacon}"]), ["b", "http://x/http://x/"]);
    }

    #[test]
    fn only_gets_below_the_secret_are_answered() {
        let path = |request: &str| path_of(request.as_bytes());
        assert_eq!(path("GET /abc/paint?1 HTTP/1.1\r\nHost: x\r\n\r\n").as_deref(), Some("/abc/paint"));
        assert_eq!(path("POST /abc/paint HTTP/1.1\r\n\r\n"), None);
        assert_eq!(path("\u{0}\r\n\r\n"), None);
        assert!(answer(None).starts_with(b"HTTP/1.1 404"));
        assert!(answer(Some("")).ends_with(b"</script></html>\n"));
    }
}
