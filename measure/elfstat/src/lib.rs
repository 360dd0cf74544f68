//! What ELF files hold that costs time and bytes at a start; not for changing them (that is `pack`).
//!
//! [`analyze`] is pure: from the bytes of one file to a [`FileReport`]. [`look`] and [`survey`] read files: one in
//! detail, or all that are below some directories ([`list`] only names them); [`summarize`] says what could be saved in
//! all of them.

mod analyze;
pub mod report;
mod sources;
mod summary;
mod survey;

pub use analyze::{Depth, analyze};
pub use report::FileReport;
pub use summary::summarize;
pub use survey::{Progress, list, look, survey};
