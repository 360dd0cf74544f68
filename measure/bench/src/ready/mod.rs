//! When has a program started? One small file per way to tell.
//!
//! All probes stamp CLOCK_MONOTONIC. Several may be given: the first on the command line stops the clock, all that
//! fire are milestones of the run. The run goes on until all have fired, the program is gone, or its timeout is over;
//! that a later one never fires does not spoil a run.
//!
//! Everything happens in one thread that sleeps in `poll`: most probes are woken by the kernel. Those that have
//! to look again and again say how often, which is by how much their times can be late.

mod beacon;
mod exit;
mod fd;
mod file;
mod http;
mod line;
mod listen;
mod notify;
mod settled;
mod tree;
mod x11;

pub(crate) use line::Output;
pub(crate) use tree::Tree;

use model::Result;
use os::spawn::Launch;
use regex::bytes::Regex;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A way to tell that a program has started. Parsed from and shown as on the command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Ready {
    /// `exit`: its first process has ended.
    Exit,
    /// `line:REGEX`: it printed a line (or an unfinished one, like a prompt) that matches.
    Line(Regex),
    /// `notify`: it sent `READY=1` to `$NOTIFY_SOCKET`, as services of systemd do.
    Notify,
    /// `listen:PORT`: one of its processes listens on this TCP port.
    Listen(u16),
    /// `http:URL`: a plain GET on loopback gets an answer of 200 to 299.
    Http(HttpUrl),
    /// `file:PATH`: this file came to be.
    File(PathBuf),
    /// `fd`: it wrote to the descriptor whose number is in `$THAW_READY_FD`.
    Fd,
    /// `x11`: it mapped its first window on `$DISPLAY`.
    X11,
    /// `beacon`, `beacon:paint`, `beacon:load`: the page that thaw gave it to open was painted, or loaded. Both are
    /// milestones.
    Beacon(BeaconFact),
    /// `settled`: it brought nothing into the page cache and used hardly any CPU for half a second; the time is the
    /// last activity before.
    Settled,
}

/// What the beacon's page reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeaconFact {
    /// Two animation frames have come: the page is on the screen.
    Paint,
    /// The `load` event.
    Load,
}

/// A plain `http:` URL whose host is this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// As it was typed.
    pub text: String,
    /// What the Host header says.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Where to connect; `localhost` has two.
    pub addresses: Vec<SocketAddr>,
}

impl From<Ready> for String {
    fn from(ready: Ready) -> Self {
        ready.to_string()
    }
}

impl TryFrom<String> for Ready {
    type Error = String;
    fn try_from(word: String) -> std::result::Result<Self, String> {
        word.parse()
    }
}

impl FromStr for Ready {
    type Err = String;
    fn from_str(word: &str) -> std::result::Result<Self, String> {
        let (kind, rest) = match word.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (word, None),
        };
        let probe = match (kind, rest) {
            ("exit", None) => Self::Exit,
            ("notify", None) => Self::Notify,
            ("fd", None) => Self::Fd,
            ("x11", None) => Self::X11,
            ("settled", None) => Self::Settled,
            ("beacon", None | Some("paint")) => Self::Beacon(BeaconFact::Paint),
            ("beacon", Some("load")) => Self::Beacon(BeaconFact::Load),
            ("line", Some(regex)) if !regex.is_empty() => Self::Line(
                Regex::new(regex).map_err(|error| format!("'{regex}' is not a regular expression: {error}"))?,
            ),
            ("listen", Some(port)) => match port.parse() {
                Ok(port) if port != 0 => Self::Listen(port),
                _ => return Err(format!("'{port}' is not a TCP port: 1 to 65535")),
            },
            ("http", Some(_)) => Self::Http(HttpUrl::parse(word)?),
            ("file", Some(path)) if !path.is_empty() => Self::File(PathBuf::from(path)),
            _ => {
                return Err(format!(
                    "'{word}' is not a way to tell that a program has started; they are exit, line:REGEX, notify, \
                     listen:PORT, http://localhost:PORT/PATH, file:PATH, fd, x11, beacon, beacon:load and settled"
                ));
            }
        };
        Ok(probe)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit => out.write_str("exit"),
            Self::Line(regex) => write!(out, "line:{}", regex.as_str()),
            Self::Notify => out.write_str("notify"),
            Self::Listen(port) => write!(out, "listen:{port}"),
            Self::Http(url) => write!(out, "http:{}", url.text),
            Self::File(path) => write!(out, "file:{}", path.display()),
            Self::Fd => out.write_str("fd"),
            Self::X11 => out.write_str("x11"),
            Self::Beacon(BeaconFact::Paint) => out.write_str("beacon:paint"),
            Self::Beacon(BeaconFact::Load) => out.write_str("beacon:load"),
            Self::Settled => out.write_str("settled"),
        }
    }
}

impl HttpUrl {
    /// Takes `http://HOST[:PORT][/PATH]`, also with `http:` in front of it (as in `--ready http:URL`).
    fn parse(word: &str) -> std::result::Result<Self, String> {
        let text = word.strip_prefix("http:").filter(|rest| rest.starts_with("http:")).unwrap_or(word);
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| format!("'{text}' is not a plain http URL, like http://localhost:8080/"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if path.chars().any(|c| c.is_control() || c == ' ') {
            return Err(format!("'{text}' holds blanks"));
        }
        Ok(Self { text: text.to_owned(), authority: authority.to_owned(), path, addresses: loopback(authority)? })
    }
}

/// The addresses of `HOST[:PORT]` on this machine; anything else is refused.
fn loopback(authority: &str) -> std::result::Result<Vec<SocketAddr>, String> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let wrong = || format!("'{authority}' is not this machine: only localhost, 127.0.0.1 and [::1] are asked");
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().map_err(|_| wrong())?),
        _ => (authority, 80),
    };
    let hosts = match host {
        "localhost" => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        host => vec![host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().map_err(|_| wrong())?],
    };
    if port == 0 || !hosts.iter().all(IpAddr::is_loopback) {
        return Err(wrong());
    }
    Ok(hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect())
}

/// A probe that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    /// The milestone's name.
    pub name: String,
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// What a probe looks at.
pub(crate) struct View<'a> {
    /// The processes of the run.
    pub tree: &'a Tree,
    /// When the first process ended, if it did (CLOCK_MONOTONIC).
    pub exit_at_ns: Option<u64>,
}

/// A probe in one run. A new one is made for every run.
pub(crate) trait Probe {
    /// Before the fork: changes what the program is given, and refuses what would fire by itself.
    fn prepare(&mut self, launch: &mut Launch) -> Result<()>;
    /// After the fork, before the program executes.
    fn arm(&mut self, _tree: &Tree) -> Result<()> {
        Ok(())
    }
    /// What wakes it.
    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        Vec::new()
    }
    /// How often to look although nothing woke it.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// Looks, never waits.
    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()>;
}

/// The probes of a run, and the milestones that are awaited. [`Ready::Line`] is not among the probes: it is
/// [`Output`]'s, which reads what the program prints in any case.
pub(crate) fn probes(ready: &[Ready]) -> Vec<Box<dyn Probe>> {
    let mut probes: Vec<Box<dyn Probe>> = Vec::new();
    let mut beacon = false;
    for way in ready {
        match way {
            Ready::Line(_) => {}
            Ready::Exit => probes.push(Box::new(exit::Exit::default())),
            Ready::Notify => probes.push(Box::new(notify::Notify::default())),
            Ready::Listen(port) => probes.push(Box::new(listen::Listen::new(*port))),
            Ready::Http(url) => probes.push(Box::new(http::Http::new(url.clone()))),
            Ready::File(path) => probes.push(Box::new(file::File::new(path.clone()))),
            Ready::Fd => probes.push(Box::new(fd::Fd::default())),
            Ready::X11 => probes.push(Box::new(x11::X11::default())),
            Ready::Settled => probes.push(Box::new(settled::Settled::default())),
            Ready::Beacon(_) if beacon => {}
            Ready::Beacon(_) => {
                beacon = true;
                probes.push(Box::new(beacon::Beacon::default()));
            }
        }
    }
    probes
}

/// Names of the milestones that these ways give, without repetition.
pub(crate) fn milestones(ready: &[Ready]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for way in ready {
        let mut more = vec![way.to_string()];
        if let Ready::Beacon(_) = way {
            more.extend([BeaconFact::Paint, BeaconFact::Load].map(|fact| Ready::Beacon(fact).to_string()));
        }
        for name in more {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_shown_as_they_are_typed() {
        let words = [
            "exit",
            "line:Started in [0-9]+ ms",
            "line:a:b",
            "notify",
            "listen:8080",
            "http:http://127.0.0.1:8080/health?x=1",
            "file:/run/x.pid",
            "fd",
            "x11",
            "beacon:paint",
            "beacon:load",
            "settled",
        ];
        for word in words {
            assert_eq!(word.parse::<Ready>().unwrap().to_string(), word);
        }
        assert_eq!("beacon".parse::<Ready>().unwrap().to_string(), "beacon:paint");
        assert_eq!("http://localhost:1/".parse::<Ready>().unwrap().to_string(), "http:http://localhost:1/");
    }

    #[test]
    fn what_cannot_be_a_way_is_refused_with_the_reason() {
        let refused = [
            ("", "not a way"),
            ("exit:1", "not a way"),
            ("line:", "not a way"),
            ("line:(", "not a regular expression"),
            ("listen:0", "not a TCP port"),
            ("listen:65536", "not a TCP port"),
            ("listen:http", "not a TCP port"),
            ("http:", "not a plain http URL"),
            ("http:https://localhost/", "not a plain http URL"),
            ("http://example.org/", "not this machine"),
            ("http://10.0.0.1:80/", "not this machine"),
            ("http://localhost:x/", "not this machine"),
            ("http://localhost/a b", "blanks"),
            ("beacon:first", "not a way"),
        ];
        for (word, reason) in refused {
            let error = word.parse::<Ready>().unwrap_err();
            assert!(error.contains(reason), "{word}: {error}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = |word: &str| HttpUrl::parse(word).unwrap();
        let v6 = url("http://[::1]:99?q#frag");
        assert_eq!((v6.authority.as_str(), v6.path.as_str()), ("[::1]:99", "/?q"));
        assert_eq!(v6.addresses, ["[::1]:99".parse().unwrap()]);
        assert_eq!(url("http://[::1]").addresses, ["[::1]:80".parse().unwrap()]);
        let both = url("http://localhost:8/x").addresses;
        assert_eq!(both, ["127.0.0.1:8".parse().unwrap(), "[::1]:8".parse().unwrap()]);
    }

    #[test]
    fn a_beacon_gives_two_milestones_and_is_one_probe() {
        let ready: Vec<Ready> = ["beacon:load", "exit", "beacon"].map(|word| word.parse().unwrap()).into();
        assert_eq!(milestones(&ready), ["beacon:load", "beacon:paint", "exit"]);
        assert_eq!(probes(&ready).len(), 2);
    }
}
