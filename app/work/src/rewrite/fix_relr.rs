//! The version need that packed relocations lack.

use super::{Written, written};
use model::{Result, shown};
use pack::{Fixed, Target, fix_relr_file};
use serde::Serialize;
use std::path::Path;

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

/// Mends.
///
/// # Errors
/// What [`fix_relr_file`] says.
pub fn run(path: &Path, target: &Target) -> Result<FixRelrDocument> {
    let outcome = fix_relr_file(path, target)?;
    let added = matches!(outcome, Fixed::Added { .. });
    let written = added.then(|| written(target)).flatten();
    Ok(FixRelrDocument { schema: "thaw.elf-fix-relr/1", path: shown(path), written, outcome })
}
