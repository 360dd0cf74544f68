//! ELF files looked at, packed, put back and proven: one, or all below some directories.

pub mod fix_relr;
pub mod pack;
pub mod restore;
pub mod stat;
pub mod verify;

use ::pack::Target;
use model::{Error, Exit, Result, shown};
use os::replace::Existing;
use serde::Serialize;
use std::path::PathBuf;

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
pub fn copy_to(path: PathBuf, existing: Existing) -> Target {
    match existing {
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
///
/// # Errors
/// One is not there.
pub fn all_there(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        path.metadata().map_err(|error| Error::on(Exit::Usage, "cannot look at", path).because(error))?;
    }
    Ok(())
}
