//! The room that starts a program many times in well-defined cache states and says how long each start took.
//!
//! Two halves that meet only in `model`'s rows: the recording half holds the machine ([`record`], [`states`],
//! [`restore`], [`ready`]) and decides what to run next ([`schedule`], [`conduct`]); the analysing half
//! ([`analyze`], [`report`], [`growth`], [`compare`], [`gate`]) is pure.
//!
//! Not for tracing: a traced run gets its tracer from the app ([`conduct::Tracer`]).

pub mod analyze;
pub mod around;
pub mod base;
pub mod compare;
pub mod conduct;
mod drain;
pub mod gate;
pub mod ground;
pub mod growth;
mod inside;
mod meters;
pub mod natural;
pub mod program;
pub mod ready;
pub mod record;
pub mod report;
pub mod restore;
pub mod schedule;
mod start;
pub mod states;
mod watch;
