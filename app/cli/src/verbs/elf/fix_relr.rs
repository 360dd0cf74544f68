//! `thaw elf fix-relr`: the version need that packed relocations lack.

use super::{Written, written};
use crate::args::elf::FixRelrArgs;
use crate::{output, text};
use model::{Exit, Result, shown};
use pack::{Fixed, Target, fix_relr_file};
use serde::Serialize;

/// `thaw.elf-fix-relr/1`
#[derive(Serialize)]
pub struct FixRelrDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The file.
    pub path: String,
    /// Where the mended file is. `None`: nothing was written.
    pub written: Option<Written>,
    /// What was found.
    pub outcome: Fixed,
}

/// Mends; [`Exit::No`] if it cannot be mended.
///
/// # Errors
/// What [`fix_relr_file`] says.
pub fn run(args: &FixRelrArgs) -> Result<Exit> {
    let target = args.output.clone().map_or(Target::InPlace, |path| super::copy_to(path, args.force));
    let outcome = fix_relr_file(&args.path, &target)?;
    let added = matches!(outcome, Fixed::Added { .. });
    let document = FixRelrDocument {
        schema: "thaw.elf-fix-relr/1",
        path: shown(&args.path),
        written: added.then(|| written(&target)).flatten(),
        outcome,
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::fix_relr(&document, text::width::of_terminal()))?;
    }
    Ok(if matches!(document.outcome, Fixed::Refused(_)) { Exit::No } else { Exit::Done })
}
