//! What is to be loaded, in which browsers, through which caches, how often.

use crate::drive::Kind;
use crate::site::SiteOptions;
use os::cgroup::Throttle;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Anybody's, at this address.
    Url(String),
    /// The one that is the same everywhere, from our own origin.
    Site {
        /// What is on it.
        options: SiteOptions,
        /// How long the origin takes for each answer.
        latency: Duration,
    },
}

/// Whose cache is judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// The browser's own.
    Direct,
    /// That of `thaw proxy`, which is started for it.
    Thaw,
    /// The same, by TLS, so that the browser speaks HTTP/2 to it: no request waits for a connection.
    ThawH2,
    /// That of another proxy, which runs: `HOST:PORT`.
    Proxy(String),
}

impl Via {
    /// Whether it is a `thaw proxy`, which is started for it.
    pub fn is_thaw(&self) -> bool {
        matches!(self, Self::Thaw | Self::ThawH2)
    }
}

impl fmt::Display for Via {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => out.write_str("direct"),
            Self::Thaw => out.write_str("thaw"),
            Self::ThawH2 => out.write_str("thaw-h2"),
            Self::Proxy(address) => write!(out, "http://{address}"),
        }
    }
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = match text {
            "direct" => return Ok(Self::Direct),
            "thaw" => return Ok(Self::Thaw),
            "thaw-h2" => return Ok(Self::ThawH2),
            _ => text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest)),
        };
        let is_right = |address: &&str| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| {
                let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-_[]:".contains(letter);
                !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        let address = address.filter(is_right);
        address
            .map(|it| Self::Proxy(it.to_owned()))
            .ok_or_else(|| "direct, thaw, thaw-h2 or http://HOST:PORT".to_owned())
    }
}

/// How the cache is when a page is loaded. In the order of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It never saw the page.
    First,
    /// It loaded the page a moment ago, and an empty page since.
    Warm,
    /// As warm, and the page is loaded again where it is.
    Reload,
    /// Its owner was started anew, and its files are in no memory.
    Cold,
}

impl State {
    /// All, in the order of a round.
    pub const ALL: [Self; 4] = [Self::First, Self::Warm, Self::Reload, Self::Cold];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Warm => "warm",
            Self::Reload => "reload",
            Self::Cold => "cold",
        }
    }
}

/// Everything that is to be measured, and by what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The page.
    pub page: Page,
    /// Browsers, with their programs.
    pub browsers: Vec<(Kind, PathBuf)>,
    /// Caches.
    pub vias: Vec<Via>,
    /// States that are wanted; the page is loaded for the first time in any case.
    pub states: Vec<State>,
    /// Rounds: loads of each browser through each cache in each state.
    pub runs: u32,
    /// How long a load may take.
    pub patience: Duration,
    /// What `thaw proxy` starts; needed for [`Via::Thaw`] and [`Via::ThawH2`].
    pub thaw_proxy: Option<PathBuf>,
    /// A command for the shell that starts another proxy anew and returns when it is there; without one, pages are not
    /// loaded cold through [`Via::Proxy`].
    pub restart: Option<String>,
    /// Where the cache that is judged has its files: on the disk that is meant. Emptied before each round.
    pub cache: PathBuf,
    /// Where everything else goes. Not inside `cache`, and emptied as well.
    pub other: PathBuf,
    /// Limits on what the owner of the cache reads from the disk during a load; needs control groups.
    pub throttle: Option<Throttle>,
    /// Decides in which order browsers and caches take turns.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_they_are_written() {
        for text in ["direct", "thaw", "thaw-h2", "http://127.0.0.1:3128", "http://[::1]:80"] {
            assert_eq!(text.parse::<Via>().unwrap().to_string(), text);
        }
        assert_eq!("http://a.example:1/".parse::<Via>(), Ok(Via::Proxy("a.example:1".into())));
        for wrong in ["", "squid", "127.0.0.1:3128", "http://host", "http://host:0", "http://:80", "http://a b:80"] {
            assert!(wrong.parse::<Via>().is_err(), "{wrong}");
        }
    }
}
