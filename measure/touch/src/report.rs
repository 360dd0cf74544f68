//! What the touch runs of a recording say: the room's public result, as JSON, the terminal and the viewer show it.

use model::{Bytes, FileKind, FileOffset, Nanos, Owner, StartsFrom, TouchEngine, TouchRow};
use serde::{Deserialize, Serialize};

/// Version of [`Report`]'s shape; it grows when a field changes its meaning or goes.
pub const REPORT_VERSION: u32 = 1;

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchReport"))]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// The engines that looked, and how precise each is.
    pub engines: Vec<EngineReport>,
    /// The sums.
    pub totals: Totals,
    /// Files, those that need most first.
    pub files: Vec<FileReport>,
}

/// One run of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchEngineReport"))]
pub struct EngineReport {
    /// Which engine.
    pub engine: TouchEngine,
    /// What it tells apart and what it cannot, as one sentence.
    pub precision: String,
    /// What it could not know in this run, one sentence each.
    pub cannot: Vec<String>,
}

/// Sums over files; `None`: the engine that knows did not look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchTotals"))]
pub struct Totals {
    /// Bytes that a cold start brings into memory with the usual read-ahead.
    pub read: Option<Bytes>,
    /// Bytes that it asks for, in whole pages.
    pub needed: Option<Bytes>,
    /// Bytes that were in the cache after a start, in whole pages.
    pub resident: Option<Bytes>,
    /// Bytes of mapped files that instructions and system calls touch.
    pub touched: Option<ByteReport>,
    /// Functions, and what they would take.
    pub functions: Option<FunctionReport>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchFileReport"))]
pub struct FileReport {
    /// Its path; bytes that are not UTF-8 are shown as U+FFFD.
    pub path: String,
    /// Whose it is.
    pub owner: Owner,
    /// What it is.
    pub kind: FileKind,
    /// Its size.
    pub size: Bytes,
    /// As [`Totals::read`].
    pub read: Option<Bytes>,
    /// As [`Totals::needed`].
    pub needed: Option<Bytes>,
    /// As [`Totals::resident`].
    pub resident: Option<Bytes>,
    /// As [`Totals::touched`].
    pub touched: Option<ByteReport>,
    /// Its functions, if they were watched.
    pub functions: Option<FunctionReport>,
    /// Its ELF sections, by place.
    pub sections: Vec<SectionReport>,
}

/// The touched bytes of a file, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchByteReport"))]
pub struct ByteReport {
    /// How many.
    pub bytes: Bytes,
    /// Pages that they lie on.
    pub pages: u64,
}

/// The functions of a file, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct FunctionReport {
    /// How many there are.
    pub total: u64,
    /// How many were called.
    pub called: u64,
    /// Bytes of all.
    pub bytes: Bytes,
    /// Bytes of those that were called.
    pub called_bytes: Bytes,
    /// Pages that the called ones would take side by side.
    pub packed_pages: u64,
    /// Pages that they lie on now.
    pub pages: u64,
    /// Of these, pages on which one called function lies alone and does not fill the page: what it alone keeps in
    /// memory.
    pub lonely_pages: u64,
    /// Where the starts were taken from; `None` in a sum.
    pub starts: Option<StartsFrom>,
}

/// One ELF section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "TouchSectionReport"))]
pub struct SectionReport {
    /// `.text`
    pub name: String,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its size in the file.
    pub size: Bytes,
    /// As [`Totals::read`]; pages are cut at the section's borders.
    pub read: Option<Bytes>,
    /// As [`Totals::needed`].
    pub needed: Option<Bytes>,
    /// Bytes of it that were touched, if every byte was watched.
    pub touched: Option<Bytes>,
    /// Functions of it that were called, if they were watched.
    pub called: Option<u64>,
}

/// One function at its first call, for lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct CallReport {
    /// Number in the order of first calls, over all files.
    pub order: u32,
    /// When.
    pub at_ns: Nanos,
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is; 0: not known.
    pub len: Bytes,
    /// Its name, if the file tells.
    pub name: Option<String>,
    /// Bytes of it that a cold start brings into memory with the usual read-ahead; `None`: nobody looked.
    pub read: Option<Bytes>,
    /// Bytes of it that lie on pages which a cold start asks for; `None`: nobody looked.
    pub needed: Option<Bytes>,
    /// Pages that it alone keeps in memory: as [`FunctionReport::lonely_pages`].
    pub lonely_pages: u64,
}

/// What the picture of one file is drawn of: all that the report only adds up.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail<'a> {
    /// Its line in [`Report::files`].
    pub line: usize,
    /// What the traced cold start brought into memory: by place, disjoint.
    pub read: Vec<(FileOffset, Bytes)>,
    /// What was seen touched, functions aside; of each engine in its order.
    pub touched: Vec<&'a TouchRow>,
    /// Its functions in the order of their first call.
    pub calls: Vec<CallReport>,
}
