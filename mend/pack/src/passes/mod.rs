//! Further rewrites of a file, each asked for by name, none by default: what the elfhack author proposed in 2010 beside
//! packing, as far as it is worth something on today's binaries. Not for packing itself: a pass leaves the file as long
//! as it is and every address where it is, so that any back-end packs what comes out.
//!
//! A pass never fails silently: it reports what it did and what that is worth, or that it costs more than it saves
//! here, or why it cannot be done. What it changed in memory, it tells the oracle as [`Expected`].

mod align_bss;
mod closed;
mod code_room;
mod ctors;
mod draft;
pub(crate) mod dynamic_first;
mod pure_virtual;
mod report;
mod symbolic;

pub(crate) use closed::is_allocator;
pub use closed::{ClosedSet, Later, Member};
pub use report::{Example, Hindrance, Outcome, Pass, Report, Withheld, Worth};

use draft::Draft;
use elf::Image;
use model::{Error, Exit, Result};
use std::collections::BTreeSet;
use verify::Expected;

/// A file after its passes.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The whole file, as long as before.
    pub bytes: Vec<u8>,
    /// What each pass has to say, in the order of [`Pass`].
    pub reports: Vec<Report>,
    /// What differs in memory.
    pub expected: Expected,
}

/// Runs passes. [`Pass::DynamicFirst`] is only judged: doing it is the layout's business.
///
/// `set` is every program and library of the closed world, the file itself among them or not; only [`Pass::Symbolic`]
/// looks at it.
///
/// # Errors
/// The file is not one that packing takes ([`Exit::Data`]).
pub fn run(original: &[u8], wanted: &BTreeSet<Pass>, set: &ClosedSet<'_>) -> Result<Edited> {
    let unusable = |reason: String| Error::new(Exit::Data, "cannot rewrite", "").because(reason);
    let image = Image::of(original).map_err(|miss| unusable(miss.to_string()))?;
    let mut draft = Draft::of(&image).map_err(unusable)?;
    let mut reports = Vec::new();
    for pass in wanted {
        let outcome = match pass {
            Pass::AlignBss => align_bss::run(&mut draft),
            Pass::DynamicFirst => dynamic_first::judge(&draft),
            Pass::Ctors => ctors::run(&mut draft),
            Pass::PureVirtual => pure_virtual::run(&mut draft),
            Pass::Symbolic => symbolic::run(&mut draft, set),
        };
        reports.push(outcome);
    }
    let (bytes, allowed) = draft.finish();
    Ok(Edited { bytes, reports, expected: Expected { allowed } })
}
