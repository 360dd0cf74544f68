//! Why a call was refused. Nothing has changed then.

use crate::place::Place;
use std::fmt;
use std::sync::Arc;

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It has not been read yet: `News::Loaded` comes when it has.
    NotLoaded(Arc<Place>),
    /// It cannot be read, and is tried again.
    Unreadable(Arc<Place>, String),
    /// There is no room for this value.
    Quota {
        /// Whose room.
        place: Arc<Place>,
        /// Bytes that are used of it: two for each UTF-16 unit of keys and values; of a table, its bytes.
        used: u64,
        /// Bytes that may be.
        limit: u64,
        /// Bytes that would be used.
        wanted: u64,
    },
    /// A key or value is longer than 64 MiB, as it is kept.
    TooLong(Arc<Place>),
    /// The storage is closed.
    Closed(Arc<Place>),
    /// No origin, or one of more than 4,096 bytes, or with a NUL in it; the same of partitions and names.
    NoOrigin(String),
    /// The process has too many threads or descriptors.
    System(String),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotLoaded(place) => write!(out, "storage of {place} is not loaded yet"),
            Error::Unreadable(place, why) => write!(out, "storage of {place} cannot be read: {why}"),
            Error::Quota { place, used, limit, wanted } => {
                write!(out, "storage of {place} is full: {used} of {limit} bytes are used, {wanted} would be")
            }
            Error::TooLong(place) => write!(out, "a key or value for {place} is longer than 64 MiB"),
            Error::Closed(place) => write!(out, "storage of {place} is closed"),
            Error::NoOrigin(what) => write!(out, "{what:?} is no origin, partition or name of a table"),
            Error::System(why) => write!(out, "no storage can be opened: {why}"),
        }
    }
}

impl std::error::Error for Error {}
