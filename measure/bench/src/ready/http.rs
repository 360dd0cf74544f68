//! `http:URL`: a GET on loopback is answered with a status of 200 to 299. No redirect is followed.
//!
//! While nobody listens, a new connection is tried every [`RETRY`]; while the program answers something else, it is
//! asked again after as long. The time is when the status line was read, so it is late by up to [`RETRY`] and early by
//! nothing.

use super::{Fired, HttpUrl, Probe, View, listen};
use model::Result;
use os::spawn::{Launch, monotonic_ns};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long to wait before the next try.
const RETRY: Duration = Duration::from_millis(2);

/// Longest status line that is read.
const LONGEST_LINE: usize = 4096;

/// See the file.
pub(super) struct Http {
    url: HttpUrl,
    state: State,
    /// Which of the addresses is next.
    turn: usize,
}

enum State {
    /// Nothing is under way until then.
    Idle(Instant),
    /// The connection is being made or the request is being sent: so many bytes are.
    Sending(OwnedFd, usize),
    /// So much of the answer has come.
    Reading(OwnedFd, Vec<u8>),
    /// The answer was good.
    Done,
}

impl Http {
    pub(super) fn new(url: HttpUrl) -> Self {
        Self { url, state: State::Idle(Instant::now()), turn: 0 }
    }

    fn request(&self) -> Vec<u8> {
        let HttpUrl { path, authority, .. } = &self.url;
        let agent = env!("CARGO_PKG_VERSION");
        format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: thaw/{agent}\r\nAccept: */*\r\nConnection: \
                close\r\n\r\n"
        )
        .into_bytes()
    }

    /// Goes on from a state as far as it can without waiting.
    fn step(&mut self, state: State) -> State {
        let later = || State::Idle(Instant::now() + RETRY);
        match state {
            State::Idle(until) if Instant::now() < until => State::Idle(until),
            State::Idle(_) => {
                let address = self.url.addresses[self.turn % self.url.addresses.len()];
                self.turn += 1;
                match connect(address) {
                    Ok(socket) => self.step(State::Sending(socket, 0)),
                    Err(_) => later(),
                }
            }
            State::Sending(socket, sent) => {
                let request = self.request();
                match rustix::net::send(&socket, &request[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                    Ok(n) if sent + n == request.len() => self.step(State::Reading(socket, Vec::new())),
                    Ok(n) => State::Sending(socket, sent + n),
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => State::Sending(socket, sent),
                    Err(_) => later(),
                }
            }
            State::Reading(socket, mut answer) => {
                let mut piece = [0u8; 1024];
                match rustix::net::recv(&socket, &mut piece, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => later(),
                    Ok((n, _)) => {
                        answer.extend_from_slice(&piece[..n]);
                        match status(&answer) {
                            Some(200..=299) => State::Done,
                            None if answer.len() < LONGEST_LINE => State::Reading(socket, answer),
                            _ => later(),
                        }
                    }
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => State::Reading(socket, answer),
                    Err(_) => later(),
                }
            }
            State::Done => State::Done,
        }
    }
}

impl Probe for Http {
    fn prepare(&mut self, _launch: &mut Launch) -> Result<()> {
        listen::refuse_taken(self.url.addresses[0].port())
    }

    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            State::Sending(socket, _) => vec![(socket.as_fd(), PollFlags::OUT)],
            State::Reading(socket, _) => vec![(socket.as_fd(), PollFlags::IN)],
            State::Idle(_) | State::Done => Vec::new(),
        }
    }

    fn interval(&self) -> Option<Duration> {
        matches!(self.state, State::Idle(_)).then_some(RETRY)
    }

    fn look(&mut self, _view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        if matches!(self.state, State::Done) {
            return Ok(());
        }
        let state = std::mem::replace(&mut self.state, State::Done);
        self.state = self.step(state);
        if matches!(self.state, State::Done) {
            fired.push(Fired { name: format!("http:{}", self.url.text), at_ns: monotonic_ns() });
        }
        Ok(())
    }
}

fn connect(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// The status of an answer, once its first line is there; 0 if that is not HTTP.
fn status(answer: &[u8]) -> Option<u16> {
    let end = answer.iter().position(|&byte| byte == b'\n')?;
    let line = String::from_utf8_lossy(&answer[..end]);
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok());
    Some(status.filter(|_| is_http).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_soon_as_its_line_is_there() {
        assert_eq!(status(b"HTTP/1.1 204 No"), None);
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.0 503\r\nx"), Some(503));
        assert_eq!(status(b"SSH-2.0-x\r\n"), Some(0));
        assert_eq!(status(b"HTTP/1.1 x\r\n"), Some(0));
    }
}
