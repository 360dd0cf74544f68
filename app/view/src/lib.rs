//! The report that people look at: one HTML file that needs no network, and a server of it on the loopback.
//!
//! [`page`] puts four things into one file: the viewer (`viewer/dist`, built from TypeScript and committed), the
//! `thaw.report/1` document as it is, the events of the traces as columns, and what starts were seen to touch
//! (`docs/view-format.md` draws the bytes).
//! [`heap_page`], [`memory_page`] and [`timeline_page`] make pages of heap recordings, of memory reports and
//! watches, and of events, [`why_page`] of where the time of starts went, with the same viewer. This crate computes no
//! figure that the document has: the page shows the document's own.

mod ablation;
mod columns;
mod events;
mod fleet;
mod heap;
mod history;
mod html;
mod memory;
mod plain;
mod requests;
mod serve;
mod timeline;
mod touched;
mod why;

#[cfg(test)]
#[path = "../examples/made/rows.rs"]
#[allow(dead_code, reason = "shared with the example, which makes more kinds")]
mod made;

#[cfg(test)]
#[path = "../examples/made/events.rs"]
#[allow(dead_code, reason = "shared with the example, which makes more kinds")]
mod made_events;

#[cfg(test)]
#[path = "../examples/made/why.rs"]
mod made_why;

pub use ablation::{AblationOf, BarOf, ablation_page};
pub use events::{PackedTrace, Packing};
pub use fleet::{AppOf, BodyOf, CellOf, FleetOf, MapOf, MarkOf, SectionOf, Shade, SpreadOf, TableOf, fleet_page};
pub use heap::{HEAP_SCHEMA, HeapOf, Part, heap_page};
pub use history::{ChartOf, CommitOf, StepOf, history_page};
pub use html::{again_after, packed_page, page};
pub use memory::{CourseOf, MEMORY_SCHEMA, MemoryOf, TreesOf, WatchOf, memory_page};
pub use serve::{Open, Source, open_browser, serve};
pub use timeline::{PathStep, TIMELINE_SCHEMA, TimelineOf, timeline_page};
pub use touched::{PackedTouch, TOUCHED_SCHEMA, pack as pack_touched};
pub use why::{WHY_SCHEMA, WhyOf, WhyStartOf, why_page};

use model::{RunId, TraceRows};

/// Version of the events in a page; `viewer/src/logic/events.ts` reads this one.
pub const EVENTS_SCHEMA: &str = "thaw.events/1";

/// The rows of a traced run whose report is in the document.
#[derive(Clone, Copy, Debug)]
pub struct TraceOf<'a> {
    /// The run; the document's `traces[].run`.
    pub run: RunId,
    /// What the tracer saw, attributed.
    pub rows: &'a TraceRows,
}

/// What the watched starts of one program touched.
#[derive(Clone, Debug)]
pub struct TouchOf<'a> {
    /// Name of its variant in the document.
    pub variant: &'a str,
    /// Sums by file, section and function, as `thaw touch` prints them.
    pub report: &'a touch::Report,
    /// What pictures are drawn of, with the report's lines.
    pub details: Vec<touch::Detail<'a>>,
}
