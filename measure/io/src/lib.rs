//! What a start reads from the disk: each page that came into the cache, who asked for it and why,
//! each block request and the file that it served.
//!
//! [`open_engine`] picks a way of looking ([`Engine`]); it is attached to a program that is about to
//! run and gives a [`RawTrace`] afterwards. [`resolve`] turns inode numbers into files right away,
//! while the kernel still remembers the names. [`attribute`] joins fills, faults, reads and block
//! requests; it touches nothing but its arguments. [`Ownership`] says which of the files are the program's own,
//! [`report`] what it all means.
//!
//! ```no_run
//! use io::{EngineChoice, EngineOptions, Ownership, attribute, open_engine, report, resolve};
//! use os::spawn::{Launch, spawn_gated};
//!
//! # fn main() -> model::Result<()> {
//! let (mut engine, _warnings) = open_engine(EngineChoice::Auto, &EngineOptions::default())?;
//! let gated = spawn_gated(Launch::new(["cat", "/etc/passwd"]))?;
//! engine.attach(gated.pid())?;
//! let mut running = gated.release()?;
//! running.wait()?;
//! let raw = engine.stop(running.t0_ns())?;
//! let mut rows = attribute(&raw, &resolve(&raw));
//! Ownership::of_program(["/bin/cat".into()]).assign(&mut rows, None);
//! println!("{} read requests", report(&rows).totals.requests);
//! # Ok(())
//! # }
//! ```
//!
//! Not for starting programs, emptying caches or deciding when a program is ready: that is `bench`.

mod analyze;
mod engine;
mod handle;
mod keyed;
mod ownership;
mod raw;
mod report;
mod resolve;

pub use analyze::{Sums, attribute, needs, report, report_with_needed};
pub use engine::{Engine, EngineChoice, EngineOptions, open_engine};
pub use ownership::{Ownership, launched, named_paths};
pub use raw::{
    Inode, RawBlock, RawDirect, RawFault, RawFill, RawMmap, RawOpen, RawProcess, RawRead, RawRemap, RawSync, RawTrace,
    Sees, Span,
};
pub use report::{
    CauseReport, FileReport, FragmentReport, HeldBy, OFTEN, OpenReport, OwnedBy, OwnerReport, ProcessReport,
    REPORT_VERSION, Report, RuleReport, SectionReport, SyncReport, Totals,
};
pub use resolve::{DiskExtent, Place, Resolved, ResolvedFile, Told, resolve, resolve_with};
