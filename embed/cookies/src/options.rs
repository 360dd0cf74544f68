//! How a jar is opened.

use crate::store::Limits;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Whether a domain is one below which anybody can register: `com`, `co.uk`.
pub type Suffixes = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How a jar is opened.
#[derive(Clone)]
pub struct Options {
    /// The directory of its file; made if need be.
    pub path: PathBuf,
    /// How long a change waits for others before it is written: at most this long.
    pub delay: Duration,
    /// When it is tried again to write what could not be written.
    pub retry: Duration,
    /// How many cookies there may be.
    pub limits: Limits,
    /// Cookies without an end are written too, and are there again at the next start: for restoring after a crash.
    pub keep_session: bool,
    /// The public suffixes; without a list only domains of one label.
    pub suffixes: Suffixes,
    /// A name for that list: another one when it has changed. Cookies lie in the file by their site, which the list
    /// decides.
    pub suffixes_name: String,
    /// Bytes of changes after which the file is written anew, if they are also more than the rest of it.
    pub compact: u64,
}

impl Options {
    /// Those of a browser, for a jar in this directory.
    pub fn new(path: impl AsRef<Path>) -> Options {
        Options {
            path: path.as_ref().into(),
            delay: Duration::from_secs(1),
            retry: Duration::from_secs(5),
            limits: Limits::default(),
            keep_session: false,
            suffixes: Arc::new(|domain| !domain.contains('.')),
            suffixes_name: String::new(),
            compact: 65_536,
        }
    }
}
