//! The file of a heap recording: all allocations of a process tree, read back in the order of time.
//!
//! What is above imports what is below, and never the other way round:
//!
//! - Following events: [`ledger`] (what is live, and whether it adds up), [`books`] (the same by site), [`live`] and
//!   [`summary`] (the same for the summary, quickly).
//! - [`reader`]: a recording is opened, and its events come in the order of time, whichever files they are in.
//! - Files: [`stream`] (as the guest wrote them), [`finished`], [`sums`], [`check`] (which leaks can be reached),
//!   [`recording`] (`recording.json`), [`form`] (which is which), `packed` (what two of
//!   them have in common), [`wire`] (the bytes).
//! - Nouns: [`event`], [`stack`], [`module`], [`figures`].
//!
//! Not for making recordings (`measure/heaprec`: it starts programs and goes into running ones), nor for knowing what
//! is interesting in them (`measure/heap`).

pub mod books;
pub mod check;
pub mod event;
pub mod figures;
pub mod finished;
pub mod form;
mod index;
pub mod ledger;
pub mod live;
pub mod module;
mod near;
mod packed;
pub mod reader;
pub mod recording;
pub mod stack;
pub mod stream;
pub mod summary;
pub mod sums;
mod wire;
