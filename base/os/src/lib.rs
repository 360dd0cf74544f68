//! The hands: everything that thaw asks of the kernel, one module per subject.
//!
//! A module in here changes the machine only behind a guard that gives everything back, also after
//! `kill -9` (see [`journal`]), and interprets nothing: what a page-cache fill means is for the rooms
//! above to say. Linux only.

pub mod aside;
pub mod awake;
mod block;
pub mod cache;
pub mod covers;
pub mod cpu;
pub mod file;
pub mod filesystem;
pub mod handle;
pub mod heap;
mod hold;
pub mod install;
pub mod installed;
pub mod interrupt;
pub mod kept;
pub mod kind;
pub mod listeners;
pub mod machine;
pub mod mapped;
pub mod packages;
pub mod perf;
pub mod pressure;
mod proc;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod records;
pub mod replace;
pub mod roots;
pub mod secret;
pub mod spawn;
pub mod threads;
pub mod tracee;
pub mod tracefs;
#[cfg(target_arch = "x86_64")]
pub mod tracer;
pub mod tree;
pub mod user;
pub mod walk;

pub use block::{device, disk, extents, loopdev, mounts};
pub use hold::{cgroup, settings};

/// Guards that survive `kill -9`: how to undo a change is on disk before anything is changed.
pub mod journal {
    pub use crate::hold::journal::{Entry, Journal, Leftover, Refused, Undo, machine_dir, state_dir};
    pub use crate::hold::mend::{hold, hold_directory, leftovers, mend, survey};
}

/// What `/proc` says of processes and of the machine's CPU time.
///
/// A process can end between any two looks: a function that finds it gone answers `None`, not an error.
pub mod process {
    pub use crate::proc::cpu::{MachineCpu, machine_cpu};
    pub use crate::proc::maps::{Mapping, Region, maps, parse_maps, regions, sized_regions};
    pub use crate::proc::process::{all, comm, descendants, exe, read_bytes, signal_name, status_value};
    pub use crate::proc::stat::{Stat, parse_stat, start_ticks, stat, thread_stat, ticks_to_ns};
}
