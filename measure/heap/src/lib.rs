//! What a heap recording says: answers to questions, by what `base/heapfile` reads.
//!
//! [`whole`] (everything from one reading, for a page), [`tree`], [`diff`], [`export`], [`slop`] (what allocators round
//! up) and [`growth`] (how buffers grow), both by [`site`], [`dark`] (which blocks the program's own memory reporters
//! do not know), [`named`] (sums with names), [`symbols`] (names of stacks), [`report`] (the summary), [`modes`] (sums
//! by stack, at any moment), [`resident`] (what is in memory now), [`reached`] (which leaks can still be reached),
//! [`suppressions`] (leaks that are known).
//!
//! Not for making recordings (`measure/heaprec`): nothing here starts a program or goes into one.

pub mod dark;
pub mod diff;
pub mod export;
pub mod growth;
mod maps;
pub mod modes;
pub mod named;
pub mod reached;
pub mod report;
pub mod resident;
pub mod site;
pub mod slop;
pub mod suppressions;
pub mod symbols;
pub mod tree;
pub mod whole;
