//! What profiles hold, as plain values.

use std::fmt;
use std::path::{Path, PathBuf};
use thaw_cookies::Cookie;

/// A file of a profile cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which one.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Error {
    pub(crate) fn new(file: &Path, why: impl fmt::Display) -> Error {
        Error { file: file.into(), why: why.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for Error {}

/// The windows of a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// From which file.
    pub file: PathBuf,
    /// In the order in which they were opened.
    pub windows: Vec<Window>,
    /// The window in front.
    pub selected: Option<usize>,
    /// Tabs that were closed and could be opened again, the last ones first.
    pub closed: Vec<Tab>,
    /// What of the file, or of a newer one, could not be read.
    pub damage: Vec<String>,
}

/// A window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// In the order in which they are shown.
    pub tabs: Vec<Tab>,
    /// The tab in front.
    pub selected: Option<usize>,
}

/// A tab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tab {
    /// The pages that can be gone back and forward to.
    pub entries: Vec<Entry>,
    /// The one that is shown.
    pub selected: Option<usize>,
    /// It is pinned.
    pub pinned: bool,
    /// When it was in front last, in microseconds since 1970.
    pub last_active_us: Option<u64>,
}

impl Tab {
    /// The page that is shown.
    pub fn current(&self) -> Option<&Entry> {
        self.entries.get(self.selected?)
    }
}

/// A page in a tab's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its address.
    pub url: String,
    /// Its title; empty if it has none.
    pub title: String,
}

/// A cookie of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The cookie.
    pub cookie: Cookie,
    /// Firefox's origin attributes, as they are (`^userContextId=2`): cookies of several containers differ in these
    /// alone.
    /// Empty for Chromium.
    pub attributes: String,
}

/// The cookies of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Those that could be read.
    pub rows: Vec<Row>,
    /// The others, and why not.
    pub unread: Vec<Unread>,
}

/// A cookie that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its host, with a dot before it if it is a domain's.
    pub host: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}
