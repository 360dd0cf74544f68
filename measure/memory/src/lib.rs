//! Memory reports: what a program says about its own memory, in the format in which Firefox saves it, and what the
//! kernel says about it over time.
//!
//! [`file`] reads and writes reports, [`tree`] makes the about:memory trees of them, [`diff`](mod@diff) compares two
//! of them, [`watch`] keeps resident memory over time with named checkpoints, whose file [`log`] writes. [`ask`] gets
//! one from a running program, [`maps`] is what the kernel says a process's memory lies in, [`scenario`] is what a
//! memory course does, [`course`] what came of it. All is pure but `ask`, `log`, reading a scenario, and the looks of
//! `watch` into `/proc`. How a program comes to report its memory is `embed/memreport`; what it allocates is measured
//! by `measure/heap`.

pub mod ask;
pub mod course;
pub mod diff;
pub mod file;
pub mod log;
pub mod maps;
pub mod scenario;
pub mod tree;
pub mod watch;

pub use file::{Kind, MemoryFile, Presence, Report, Units};
