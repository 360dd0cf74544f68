//! Makes heap recordings: all allocations of a process tree.
//!
//! What is above imports what is below, and never the other way round:
//!
//! - [`attach`] goes into a running program.
//! - [`record`] starts a program with the guest (`inject/heap-agent`) in it and its children.
//! - `aggregate` adds the streams up while they grow; [`finish`] rewrites them as small files, while they grow or when
//!   the program has ended.
//! - [`leaks`] looks which blocks a process can still reach.
//! - `follow` finds streams that grow.
//! - [`guest`]: where the guest's file is, and whether it is of this thaw.
//! - `clock`: what events are told by.
//!
//! Not for the code inside of the recorded program (`inject/heap-agent`), nor for what a recording says
//! (`measure/heap`, by `base/heapfile`).

mod aggregate;
#[cfg(target_arch = "x86_64")]
pub mod attach;
mod clock;
pub mod finish;
mod follow;
pub mod guest;
#[cfg(target_arch = "x86_64")]
pub mod leaks;
pub mod record;
