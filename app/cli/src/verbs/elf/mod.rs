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

use crate::args::ForceArg;
use crate::args::elf::{Backend, ElfArgs, ElfVerb, RewriteArgs, SectionType};
use ::pack::passes::{Later, Pass};
use ::pack::{BuildId, Copies, Options, Passes, Space, Target};
use model::{Error, Exit, Result, shown};
use os::replace::Existing;
use serde::Serialize;
use std::path::PathBuf;

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

/// A copy under this name.
fn copy_to(path: PathBuf, force: ForceArg) -> Target {
    match force.existing() {
        Existing::Keep => Target::Copy(path),
        Existing::Replace => Target::CopyOver(path),
    }
}

/// Where a target leads; `None`: nothing is written.
fn written(target: &Target) -> Option<Written> {
    match target {
        Target::Copy(path) | Target::CopyOver(path) => Some(Written::To(shown(path))),
        Target::InPlace => Some(Written::InPlace),
        Target::PlanOnly => None,
    }
}

/// Looks at each path.
fn all_there(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        path.metadata().map_err(|error| Error::on(Exit::Usage, "cannot look at", path).because(error))?;
    }
    Ok(())
}

/// What is rewritten, and how.
fn options(args: &RewriteArgs) -> Result<Options> {
    all_there(&args.closed_set)?;
    let passes = [
        (args.align_bss, Pass::AlignBss),
        (args.dynamic_first, Pass::DynamicFirst),
        (args.ctors, Pass::Ctors),
        (args.pure_virtual, Pass::PureVirtual),
        (args.symbolic, Pass::Symbolic),
    ];
    Ok(Options {
        backend: match args.backend {
            Backend::Relr => ::pack::Backend::Relr,
            Backend::Init => ::pack::Backend::Init,
        },
        space: match (args.punch_holes, args.no_shrink) {
            (true, _) => Space::Punch,
            (false, true) => Space::Keep,
            (false, false) => Space::Shrink,
        },
        build_id: if args.new_build_id { BuildId::New } else { BuildId::Keep },
        section_type: match args.section_type {
            SectionType::Relr => ::pack::SectionType::Relr,
            SectionType::Progbits => ::pack::SectionType::Progbits,
        },
        copies: if args.no_copies { Copies::Never } else { Copies::MayHappen },
        passes: Passes {
            wanted: passes.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, pass)| pass).collect(),
            closed_set: elfstat::list(&args.closed_set).0,
            later: if args.nothing_later { Later::Nothing } else { Later::Anything },
        },
        ..Options::default()
    })
}
