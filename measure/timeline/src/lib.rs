//! What waits for what: reads the events that programs write with `embed/events`, puts them together to intervals, and
//! says which of them made the whole late: `docs/timeline.md`.
//!
//! The two share a format and no code: `docs/events-format.md` describes it.

mod browser;
mod compare;
mod explain;
mod export;
mod graph;
mod import;
mod intervals;
mod lanes;
mod moments;
mod own;
mod path;
mod read;
mod replay;
mod report;
mod select;
mod slack;
mod trace;
pub mod usdt;
mod waits;

pub use browser::tie;
pub use compare::{Beside, Comparison, ComparisonDocument, Place, compare};
pub use explain::{Class, Via};
pub use export::{Format, export};
pub use import::Rules;
pub use import::ctf::{read as read_ctf, traces_in as ctf_traces_in};
pub use intervals::{Folded, Interval, Link, Manner, Mark, Object, Objects, folded, intervals};
pub use moments::{Moment, What, moments};
pub use own::clock::{Pair, Ticks};
pub use own::control::{Switch, files_of, snapshot, switch};
pub use own::now::now;
pub use own::parse;
pub use own::write::file_of;
pub use path::{ClassRow, Contended, Ends, Owner, Path, PathDocument, Step, path};
pub use read::{form_of, read, read_by, read_file};
pub use replay::{Change, ResourceRow, WhatIf, WhatIfDocument, whatif};
pub use report::{Document, FileReport, Report, TypeRow, WaitRow, report};
pub use slack::Slack;
pub use trace::{Builder, Clock, Concluded, Event, Form, Lost, Phase, Process, Source, Thread, Trace, Type, Wake};
pub use waits::{Blocked, WaitSums, Waits, WaitsDocument, waits};
