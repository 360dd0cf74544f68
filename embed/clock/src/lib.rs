//! Time that is right across threads, jumps and suspend, at the cost of one clock read.
//!
//! [`counter`] is the processor's counter and the kernel's clocks, as they are. [`Clock`] holds two of them against
//! each other. Imports nothing of thaw.

pub mod counter;
mod hybrid;
mod kernel;

pub use hybrid::{By, Clock, Rule, Sources, Span, Stamp};
pub use kernel::Kernel;
