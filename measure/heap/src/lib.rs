//! Allocations of a program, all of them: recording and reading.
//!
//! [`attach`] goes into a running program. [`record`] starts a program with the guest (`inject/heap-agent`) in it and its children; [`stream`] reads what the guest wrote, event by event in
//! the order of time; [`ledger`] follows the events: what is live, what leaked, whether it adds up; [`report`] is the summary of a recording.
//! [`modes`] adds the events up by stack, at any moment; [`symbols`] names the stacks; [`named`] is both together; [`tree`], [`diff`] and [`export`]
//! are made from it.
//! [`finish`] rewrites the streams as small files.
//! [`dark`] says which blocks the program's own memory reporters do not know.
//! [`slop`] says what allocators round up, [`growth`] how buffers grow, both by [`site`].
//!
//! [`whole`] is all of that from one reading of the events, for a page.
//!
//! Not for the code inside of the recorded program (`inject/heap-agent`).

pub mod aggregate;
#[cfg(target_arch = "x86_64")]
pub mod attach;
pub mod conclude;
pub mod dark;
pub mod diff;
pub mod export;
pub mod finish;
pub mod growth;
mod index;
pub mod ledger;
mod live;
pub mod modes;
pub mod named;
mod near;
pub mod record;
pub mod report;
pub mod site;
pub mod slop;
pub mod stack;
pub mod stream;
pub mod symbols;
pub mod tree;
pub mod whole;
mod wire;
