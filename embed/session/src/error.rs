//! What a call can be told.

use crate::item::Id;
use std::fmt;

/// Why a call did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such item, or it has not been loaded yet.
    NoItem(Id),
    /// The item would lie in itself: item and parent.
    Circle(Id, Id),
    /// The title, origin or payload of an item is too long: what, its bytes, the most.
    TooLong(&'static str, usize, usize),
    /// The version of an application is no name of a file: letters, digits, `.`, `-`, `_`, 1 to 32 of them.
    Version(String),
    /// What is there has not been loaded yet: the event `Ready` tells when it is.
    NotReady,
    /// The process has no thread or descriptor left.
    System(String),
    /// What was to be saved at the end is not: the reason.
    NotSaved(String),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoItem(id) => {
                write!(out, "item {id}: the session has none of this number, or has not loaded it yet")
            }
            Error::Circle(id, parent) => write!(out, "item {id} cannot be moved into {parent}, which lies in it"),
            Error::TooLong(what, bytes, most) => write!(out, "the {what} has {bytes} bytes; it may have {most}"),
            Error::Version(version) => {
                write!(out, "the version {version:?} is not 1 to 32 letters, digits, dots, hyphens and underscores")
            }
            Error::NotReady => write!(out, "the session has not been loaded yet: wait for its event Ready"),
            Error::System(why) => write!(out, "the session's thread cannot be started: {why}"),
            Error::NotSaved(why) => write!(out, "the session is not saved: {why}"),
        }
    }
}

impl std::error::Error for Error {}
