//! What the rooms do together: decisions that need more than one of them, and the documents that come of it.
//!
//! A library: it prints nothing, reads no arguments and ends no process. `app/cli` turns what was typed into values of
//! these modules, shows their progress, and hands their documents to its text. Not for what one room can do alone.

pub mod answer;
pub mod facts;
pub mod next;
pub mod order;
pub mod plan;
pub mod progress;
pub mod record;
pub mod recorded;
pub mod report;
pub mod rundir;
pub mod shell;
pub mod start;
pub mod typed;
pub mod watch;
pub mod words;
