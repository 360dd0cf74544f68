//! Which bytes of its files a start really touches, and in which order; not for timing starts (that is `bench`).
//!
//! Four ways of looking ([`Engine`]), each of which says how precise it is: [`Pages`] (exact pages, from a trace of a
//! cold start without read-ahead), [`function::Functions`] (the first call of every function, by breakpoints),
//! [`byte::Written`] (every byte, by Valgrind), [`Probed`] (what is in the cache after a run, without any rights). All
//! give [`model::TraceRows`] with `touches`.

mod analyze;
pub mod byte;
mod engine;
pub mod function;
pub mod order;
mod page;
mod relaid;
mod report;

pub use analyze::{Came, Input, calls, details, engine_of, report, report_with_details};
pub use engine::{Doubt, Engine, Pages, Precision, Probed, Trace, precision};
pub use page::{pages, resident_pages};
pub use relaid::{Relaid, Staying, Stays, relaid};
pub use report::{
    ByteReport, CallReport, Detail, EngineReport, FileReport, FunctionReport, REPORT_VERSION, Report, SectionReport,
    Totals,
};
