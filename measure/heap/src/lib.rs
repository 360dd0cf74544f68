//! Allocations of a program, all of them: recording and reading.
//!
//! [`record`] starts a program with the guest (`inject/heap-agent`) in it and its children; [`stream`] reads what the guest wrote, event by event in
//! the order of time; [`ledger`] follows the events: what is live, what leaked, whether it adds up; [`report`] is the summary of a recording;
//! [`slop`] says what allocators round up, [`growth`] how buffers grow, both by [`site`].
//!
//! Not for the code inside of the recorded program (`inject/heap-agent`).

pub mod growth;
pub mod ledger;
pub mod record;
pub mod report;
pub mod site;
pub mod slop;
pub mod stack;
pub mod stream;
mod wire;
