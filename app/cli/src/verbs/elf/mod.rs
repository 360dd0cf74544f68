//! `thaw elf`: looks into programs and libraries, and rewrites them.

mod fix_relr;
mod pack;
mod restore;
mod stat;
mod verify;

pub use self::fix_relr::FixRelrDocument;
pub use self::pack::{End, FileOutcome, PackDocument};
pub use self::restore::RestoreDocument;
pub use self::stat::StatDocument;
pub use self::verify::VerifyDocument;

use crate::args::elf::{ElfArgs, ElfVerb};
use ::pack::Target;
use model::{Exit, Result, shown};
use serde::Serialize;

/// Does what was typed.
///
/// # Errors
/// See each verb.
pub fn run(args: &ElfArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        ElfVerb::Stat(args) => stat::run(args, quiet),
        ElfVerb::Pack(args) => pack::run(args, quiet),
        ElfVerb::Restore(args) => restore::run(args),
        ElfVerb::FixRelr(args) => fix_relr::run(args),
        ElfVerb::Verify(args) => verify::run(args),
    }
}

/// Where a rewritten file is.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Written {
    /// In the place of the original, which is kept.
    InPlace,
    /// In this file.
    To(String),
}

/// Where a target leads; `None`: nothing is written.
fn written(target: &Target) -> Option<Written> {
    match target {
        Target::Copy(path) => Some(Written::To(shown(path))),
        Target::InPlace => Some(Written::InPlace),
        Target::PlanOnly => None,
    }
}
