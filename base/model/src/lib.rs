//! The words of the house: nouns that two or more rooms use.
//!
//! Nothing in here touches the machine. Units are types, so that a file offset is never added to a disk
//! offset; errors and warnings are values, so that the terminal, JSON and the viewer say the same.
//! A noun that a single room needs stays in that room.

pub mod cpu;
mod error;
mod events;
mod file_id;
pub mod loader;
mod run;
mod state;
mod touch;
mod trace;
pub mod typed;
mod units;
mod warning;

pub use error::{Error, Exit, Result};
pub use events::{
    Concluded, EventProcessRow, EventRow, EventRows, EventSourceRow, EventThreadRow, EventTypeRow, Form, Lost, Phase,
};
pub use file_id::FileId;
pub use run::{Milestone, ResidencyRow, RunId, RunKind, RunRow};
pub use state::CacheState;
pub use touch::{StartsFrom, TouchEngine, TouchRow, WatchedRow};
pub use trace::{
    BlockRow, Cause, DirectRow, ExtentRow, FaultRow, FileKind, FileRow, FileSystemRow, FillRow, Flow, HeldRow, MmapRow,
    Need, OpenRow, Owner, OwnerRow, OwnerRule, ProcessRow, ReadRow, RelocationRow, SectionRow, Served, SyncRow,
    TraceInfo, TraceRows, WakeRow,
};
pub use units::{Bytes, DiskOffset, FileOffset, Nanos, PAGE};
pub use warning::{Warning, WarningKind};

/// A path as people and JSON see it: bytes that are not UTF-8 become U+FFFD.
/// The recording keeps the bytes themselves.
pub fn shown(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Spans (start, end) sorted and disjoint: those that touch or overlap are one.
pub fn joined(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    spans.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1;
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
    // What came in page by page is often one span in the end.
    spans.shrink_to_fit();
    spans
}
