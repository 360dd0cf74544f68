//! What a start touches of its files: the rows of the recording's touch tables.

use crate::{Bytes, FileId, FileOffset, Nanos};
use serde::{Deserialize, Serialize};

/// How a touch was seen, which decides how precise it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum TouchEngine {
    /// Pages that came into the cache in a cold start without read-ahead: exactly those that were asked for.
    Page,
    /// Pages that were in the cache after a run: touched or read ahead, without order or time.
    Probe,
    /// The first call of each function.
    Function,
    /// Every byte.
    Byte,
}

impl TouchEngine {
    /// The word in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Probe => "probe",
            Self::Function => "function",
            Self::Byte => "byte",
        }
    }
}

/// A piece of a file that a start touched, at its first touch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TouchRow {
    /// Which file.
    pub file: FileId,
    /// Where it begins.
    pub offset: FileOffset,
    /// How long it is; 0: a function whose size is not known.
    pub len: Bytes,
    /// Its number in the order of first touch, from 0, over all files of the run; `None`: the engine cannot know.
    pub order: Option<u32>,
    /// When, since just before exec.
    pub at_ns: Option<Nanos>,
    /// Thread that touched it first.
    pub tid: Option<u32>,
    /// How it was seen.
    pub engine: TouchEngine,
    /// Name of the function, if it is one and its file tells.
    pub name: Option<String>,
}

/// Where the function starts of a file were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum StartsFrom {
    /// `.symtab`, or the table that a Go program has for its runtime: names and sizes of all functions.
    Symbols,
    /// `.eh_frame`: places and sizes without names, except for exported functions.
    Unwind,
    /// `.dynsym`: exported functions only.
    Exports,
}

/// A file whose functions were watched, called or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedRow {
    /// Which file.
    pub file: FileId,
    /// How many functions were watched.
    pub functions: u64,
    /// Bytes in all of them.
    pub len: Bytes,
    /// Where their starts were taken from.
    pub starts: StartsFrom,
}
