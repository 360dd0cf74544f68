//! Real browsers, without a window, told by their own protocols to load a page, and asked how long that took.
//!
//! Times are the browser's own (Navigation Timing, Paint Timing, Largest Contentful Paint), from the start of the
//! navigation; one script asks both browsers for them. Nothing is switched on in the browser that would slow a load
//! down: requests are counted by Resource Timing.

mod chromium;
mod firefox;
mod measured;

pub use chromium::Chromium;
pub use firefox::Firefox;
pub use measured::Loaded;

use crate::program::Program;
use crate::talk::{Talk, Trouble};
use measured::not_answered;
use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A browser that can be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Chromium and its relatives, by the Chrome DevTools Protocol.
    Chromium,
    /// Firefox, by WebDriver BiDi.
    Firefox,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
        })
    }
}

impl Kind {
    /// What it is called in PATH, in the order of trying.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Chromium => &["chromium", "chromium-browser", "google-chrome"],
            Self::Firefox => &["firefox-esr", "firefox"],
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// Not in PATH.
    pub fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = self.names().iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
        places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
            Error::new(Exit::Machine, "there is no browser", self)
                .hint(format!("install it, or say where it is: --browser {self}=/PATH"))
        })
    }
}

/// Who keeps what was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caching {
    /// The browser, in its profile. No proxy is used, whatever the system says.
    Own,
    /// The proxy at this `HOST:PORT`; the browser keeps nothing from one load to the next.
    Proxy(String),
    /// As [`Caching::Proxy`], by TLS and HTTP/2.
    TlsProxy {
        /// `HOST:PORT`.
        address: String,
        /// The authority of its certificate, as [`pin`](crate::pin) names it.
        pin: String,
    },
}

/// How to start a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Its program.
    pub program: PathBuf,
    /// Its profile; made if it is not there.
    pub profile: PathBuf,
    /// Where it has its temporary files.
    pub temporary: PathBuf,
    /// Who keeps what was loaded.
    pub caching: Caching,
    /// How long a load may take.
    pub patience: Duration,
}

/// How to come to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// From an empty page to its address.
    Navigate,
    /// By the button that loads it again. Of a browser that keeps nothing: with `Cache-Control: max-age=0` in all
    /// requests, if it can be told so.
    Reload,
}

/// A running browser.
pub trait Browser: fmt::Debug {
    /// Loads a page and says how long that took.
    ///
    /// # Errors
    /// The page does not come, not in time, or is an error; the message names it.
    fn load(&mut self, url: &str, visit: Visit) -> Result<Loaded>;

    /// Loads a page in a further tab, which stays open.
    ///
    /// # Errors
    /// As [`Browser::load`].
    fn open_tab(&mut self, url: &str) -> Result<()>;

    /// Closes all tabs that [`Browser::open_tab`] opened.
    ///
    /// # Errors
    /// It does not answer.
    fn close_tabs(&mut self) -> Result<()>;

    /// Has it give back what it can do without, as when memory is short.
    ///
    /// # Errors
    /// It does not answer, or cannot be told so.
    fn minimise(&mut self) -> Result<()>;

    /// The file of a memory report that it wrote just now of all its processes; `None`: it writes none. The file is
    /// there until the next one.
    ///
    /// # Errors
    /// It does not come.
    fn memory_report(&mut self) -> Result<Option<PathBuf>>;

    /// Its processes.
    fn program(&self) -> &Program;

    /// Asks it to end, so that it writes its cache down, and waits for that.
    ///
    /// # Errors
    /// It cannot be ended.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Starts a browser.
///
/// # Errors
/// It is not there, or does not start.
pub fn start(kind: Kind, setup: &Setup) -> Result<Box<dyn Browser>> {
    std::fs::create_dir_all(&setup.profile)
        .map_err(|cause| Error::on(Exit::Machine, "cannot make the profile", &setup.profile).because(cause))?;
    Ok(match kind {
        Kind::Chromium => Box::new(Chromium::start(setup)?),
        Kind::Firefox => Box::new(Firefox::start(setup)?),
    })
}

/// Time for a browser to start, and to answer what is no load: a busy machine is no failure.
const READY: Duration = Duration::from_secs(120);

/// Time for a browser that was told to end.
const GRACE: Duration = Duration::from_secs(20);

/// Asks a browser to end, by what its protocol calls that, and waits for it.
fn close(talk: &mut Talk, program: Program, method: &str) -> Result<()> {
    match talk.ask(None, method, json!({}), Instant::now() + GRACE) {
        // It may be gone before its answer is.
        Ok(_) | Err(Trouble::Gone(_)) => program.wait(GRACE),
        Err(trouble) => Err(not_answered(trouble, program.name(), method)),
    }
}

/// The longest directory that Chromium can have for temporary files: in a directory that it makes there is a socket,
/// and the path of a socket has 107 bytes at most.
const LONGEST: usize = 107 - "/org.chromium.Chromium.XXXXXX/SingletonSocket".len();

/// Variables that would give a browser another home, display or proxy than ours, or leave its files behind.
fn environment(setup: &Setup) -> Vec<(std::ffi::OsString, Option<std::ffi::OsString>)> {
    let home = setup.profile.as_os_str().to_owned();
    let mut changes = vec![("HOME".into(), Some(home.clone())), ("XDG_CACHE_HOME".into(), Some(home.clone()))];
    if setup.temporary.as_os_str().len() <= LONGEST {
        changes.push(("TMPDIR".into(), Some(setup.temporary.as_os_str().to_owned())));
    }
    changes.push(("XDG_CONFIG_HOME".into(), Some(home)));
    let removed = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "DISPLAY"];
    changes.extend(removed.map(|name| (name.into(), None)));
    changes
}
