//! Allocations of a program, all of them: recording and reading.
//!
//! [`record`] starts a program with the guest (`inject/heap-agent`) in it and its children; [`stream`] reads what the guest wrote, event by event in
//! the order of time; [`ledger`] follows the events: what is live, what leaked, whether it adds up; [`report`] is the summary of a recording.
//! [`modes`] adds the events up by stack, at any moment; [`symbols`] names the stacks; [`named`] is both together; [`tree`], [`diff`] and [`export`]
//! are made from it.
//!
//! Not for judging: which sites waste memory, grow badly or leak by design is said by what reads the events.

pub mod diff;
pub mod export;
pub mod ledger;
pub mod modes;
pub mod named;
pub mod record;
pub mod report;
pub mod stack;
pub mod stream;
pub mod symbols;
pub mod tree;
mod wire;
