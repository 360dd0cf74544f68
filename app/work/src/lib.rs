//! What the rooms do together: decisions that need more than one of them, and the documents that come of it.
//!
//! A library: it prints nothing, reads no arguments and ends no process. `app/cli` turns what was typed into values of
//! these modules, shows their progress, and hands their documents to its text. Not for what one room can do alone.

pub mod ablating;
pub mod ahead;
pub mod answer;
pub mod archives;
pub mod bisect;
pub mod caches;
pub mod collecting;
pub mod compare;
pub mod disks;
pub mod doctor;
pub mod documents;
pub mod facts;
pub mod footprint;
pub mod gate;
pub mod git;
pub mod heaps;
pub mod histories;
pub mod images;
pub mod itself;
pub mod needs;
pub mod next;
pub mod optimizing;
pub mod order;
pub mod own;
pub mod page;
pub mod pageloads;
pub mod parts;
pub mod pings;
pub mod plan;
pub mod progress;
pub mod record;
pub mod recorded;
pub mod report;
pub mod rewrite;
pub mod rundir;
pub mod scattered;
pub mod shell;
pub mod start;
pub mod stores;
pub mod sweep;
pub mod target;
pub mod timelines;
pub mod typed;
pub mod watch;
pub mod why;
pub mod words;
