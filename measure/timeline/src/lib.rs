//! What waits for what: reads the events that programs write with `embed/events` and puts them together to intervals.
//!
//! The two share a format and no code: `docs/events-format.md` describes it.

mod intervals;
mod moments;
mod own;
mod read;
mod report;
mod trace;

pub use intervals::{Interval, Object, Objects, intervals};
pub use moments::{Moment, What, moments};
pub use own::clock::{Pair, Ticks};
pub use own::control::{Switch, switch};
pub use own::now::now;
pub use own::parse;
pub use read::{form_of, read};
pub use report::{Document, FileReport, Report, TypeRow, WaitRow, report};
pub use trace::{Builder, Clock, Event, Form, Lost, Phase, Process, Thread, Trace, Type};
