//! What is wrong with what a caller gave, or with what a server sent.

use std::fmt;

/// Why a URL, a header or a line was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is no URL that cookies go to.
    Url {
        /// The URL.
        url: String,
        /// Why.
        why: &'static str,
    },
    /// A `Set-Cookie` header is to be ignored.
    Cookie {
        /// The name in it, as far as there is one.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A line of cookies.txt is none.
    Line {
        /// Its number, from 1.
        number: usize,
        /// Why.
        why: &'static str,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Url { url, why } => write!(out, "{url:?} has no cookies: {why}"),
            Wrong::Cookie { name, why } => write!(out, "the cookie {name:?} is ignored: {why}"),
            Wrong::Line { number, why } => write!(out, "line {number} is no cookie: {why}"),
        }
    }
}

impl std::error::Error for Wrong {}
