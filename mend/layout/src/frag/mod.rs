//! Into how many pieces a file is scattered on its disk, what lies between them, and putting one together again.
//!
//! A piece ends where the next bytes of the file are not right behind it on the disk: there the head has to jump.
//! [`measure`] asks the file systems (FIEMAP) and changes nothing; [`fix`] rewrites a file and never leaves it
//! half-written.

mod fix;
mod holders;
mod measure;
mod report;

pub use fix::{Fixed, Outcome, Refusal, Refused, Way, fix};
pub use measure::{Progress, analyze, look, measure};
pub use report::{FileLayout, LeftOut, Lying, Neighbour, Summary, Survey, Unreadable};
