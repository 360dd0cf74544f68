//! Reads what a start needs, in a good order, before the program asks for it.
//!
//! - [`plan`]: pure: the needed ranges become reads: merged over small gaps, cut to what the kernel takes, put in
//!   order;
//! - [`manifest`]: the plan as a file, with the identity of each file in it;
//! - [`make`]: looks at the files of a recording as they are now, so that they can be planned for;
//! - [`run`]: opens the files, leaves out what changed or is in memory already, and has the rest read;
//! - [`exec`]: becomes the program;
//! - [`install`]: launchers and systemd units that start a program so.
//!
//! Not for finding out what a start needs (the recording says that), nor for measuring whether it helped.

pub mod exec;
pub mod install;
pub mod make;
pub mod manifest;
pub mod plan;
pub mod run;

mod identity;
mod memory;
mod uring;

pub use identity::Stale;
