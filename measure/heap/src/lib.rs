//! Allocations of a program, all of them: recording and reading.
//!
//! What is above imports what is below, and never the other way round:
//!
//! - Answers: [`conclude`] (what is said when the program has ended), [`whole`] (everything from one reading, for a
//!   page), [`tree`], [`diff`], [`export`], [`slop`] (what allocators round up) and [`growth`] (how buffers grow), both
//!   by [`site`], [`dark`] (which blocks the program's own memory reporters do not know), [`named`] (sums with names),
//!   [`symbols`] (names of stacks), [`report`] (the summary), [`modes`] (sums by stack, at any moment).
//! - Makers: [`attach`] goes into a running program; [`record`] starts a program with the guest (`inject/heap-agent`)
//!   in it and its children; `aggregate` adds the streams up while they grow; [`finish`] rewrites them as small files.
//! - Following events: [`ledger`] (what is live, and whether it adds up), `books` (the same by site), `live` (the same
//!   for the summary, quickly).
//! - [`reader`]: a recording is opened, and its events come in the order of time, whichever files they are in.
//! - Files: `stream` (as the guest wrote them), `finished`, `sums`, `recording` (`recording.json`), `form` (which is
//!   which), `wire` (the bytes).
//! - Nouns: [`event`], [`stack`], [`module`], [`figures`].
//!
//! Not for the code inside of the recorded program (`inject/heap-agent`).

mod aggregate;
#[cfg(target_arch = "x86_64")]
pub mod attach;
mod books;
mod clock;
pub mod conclude;
pub mod dark;
pub mod diff;
pub mod event;
pub mod export;
pub mod figures;
pub mod finish;
mod finished;
mod form;
pub mod growth;
mod index;
pub mod ledger;
mod live;
pub mod modes;
pub mod module;
pub mod named;
mod near;
pub mod reader;
pub mod record;
mod recording;
pub mod report;
pub mod site;
pub mod slop;
pub mod stack;
mod stream;
mod sums;
pub mod symbols;
pub mod tree;
pub mod whole;
mod wire;
