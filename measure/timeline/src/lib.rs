//! What waits for what: reads the events that programs write with `embed/events` and puts them together to intervals.
//!
//! The two share a format and no code: `docs/events-format.md` describes it.

mod clock;
mod control;
mod file;
mod intervals;
mod now;
mod report;

pub use clock::{Clock, Pair};
pub use control::{Switch, switch};
pub use file::{Event, Lost, Phase, Process, Trace, Type, parse};
pub use intervals::{Interval, Object, Objects, intervals};
pub use now::now;
pub use report::{Document, FileReport, Report, TypeRow, WaitRow, report};
