//! The hands: everything that thaw asks of the kernel, one module per subject.
//!
//! A module in here changes the machine only behind a guard that gives everything back, also after
//! `kill -9` (see [`journal`]), and interprets nothing: what a page-cache fill means is for the rooms
//! above to say. Linux only.

pub mod cache;
pub mod cgroup;
pub mod covers;
pub mod cpu;
pub mod disk;
pub mod extents;
pub mod file;
pub mod handle;
pub mod install;
pub mod interrupt;
pub mod journal;
pub mod kind;
pub mod machine;
pub mod mapped;
pub mod mounts;
pub mod packages;
pub mod perf;
pub mod pressure;
pub mod process;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod records;
pub mod replace;
pub mod settings;
pub mod spawn;
pub mod threads;
pub mod tracefs;
pub mod tree;
pub mod user;
pub mod walk;
