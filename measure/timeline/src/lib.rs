//! What waits for what: reads the events that programs write with `embed/events` and puts them together to intervals.
//!
//! The two share a format and no code: `docs/events-format.md` describes it.

mod export;
mod import;
mod intervals;
mod own;
mod read;
mod report;
mod trace;
pub mod usdt;
mod wire;

pub use export::{Format, export};
pub use import::Rules;
pub use intervals::{Interval, Object, Objects, intervals};
pub use own::clock::{Pair, Ticks};
pub use own::control::{Switch, switch};
pub use own::now::now;
pub use own::parse;
pub use own::write::file_of;
pub use read::{form_of, read, read_by};
pub use report::{Document, FileReport, Report, TypeRow, WaitRow, report};
pub use trace::{Builder, Clock, Event, Form, Lost, Phase, Process, Thread, Trace, Type};
