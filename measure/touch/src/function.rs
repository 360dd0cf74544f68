//! The `function` engine: the first call of every function of every program and library of a process tree, by one-shot
//! breakpoints that a tracer plants through ptrace. x86-64 and i386 programs on x86-64.
//!
//! Each function start gets an `int3`; at its first call the tracer notes it and puts the byte back, so that from then
//! on the function runs at full speed. Code is planted before it runs: that of a program and its loader when the
//! program begins, that of its libraries when the loader has mapped them, before their first initialiser.
//!
//! Or ([`Functions::count`]) each call of chosen functions: their entries stay jumps to stubs that count (`tally`,
//! `count_stub`) and run what the jumps replaced (`displaced`); where a jump does not fit, the tracer counts at a
//! breakpoint that stays.

pub mod aarch64;
mod counts;
mod engine;
pub mod entries;
mod go_table;
mod starts;
mod units;
mod unwind;

#[cfg(target_arch = "x86_64")]
mod callers;
#[cfg(target_arch = "x86_64")]
mod chosen;
#[cfg(target_arch = "x86_64")]
mod copied;
#[cfg(target_arch = "x86_64")]
mod count_stub;
#[cfg(target_arch = "x86_64")]
mod counted;
#[cfg(target_arch = "x86_64")]
mod displaced;
#[cfg(target_arch = "x86_64")]
mod emulated;
#[cfg(target_arch = "x86_64")]
mod helper;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod inject;
#[cfg(target_arch = "x86_64")]
mod jumped;
#[cfg(target_arch = "x86_64")]
mod kept;
#[cfg(target_arch = "x86_64")]
mod library;
#[cfg(target_arch = "x86_64")]
mod loader;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod module;
#[cfg(target_arch = "x86_64")]
mod near;
#[cfg(target_arch = "x86_64")]
mod patterns;
mod seen;
#[cfg(target_arch = "x86_64")]
mod shared;
#[cfg(target_arch = "x86_64")]
mod space;
#[cfg(target_arch = "x86_64")]
mod stub;
#[cfg(target_arch = "x86_64")]
mod tally;
#[cfg(target_arch = "x86_64")]
mod tracer;

pub use counts::{Caller, CallerCount, Counts, FunctionCount, NotedCall, PatternCount};
#[cfg(target_arch = "x86_64")]
pub use displaced::moved_entry;
pub(crate) use engine::sections;
pub use engine::{Functions, Helper};
#[cfg(target_arch = "x86_64")]
pub use helper::serve;
#[cfg(target_arch = "x86_64")]
pub use kept::decode as kept_functions;
#[cfg(target_arch = "x86_64")]
pub use loader::relocating;
pub use starts::{Function, Hooks, Names, Starts, function_starts};
pub use units::Units;
