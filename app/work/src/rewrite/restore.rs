//! Originals of files that were packed in place.

use model::{Result, shown};
use pack::{Restored, restore_file};
use serde::Serialize;
use std::path::PathBuf;

/// `thaw.elf-restore/1`
#[derive(Serialize)]
pub struct RestoreDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Files whose originals are back.
    pub restored: Vec<Restored>,
    /// Files that stay as they are: path, why.
    pub left: Vec<Left>,
}

/// A file that stays as it is.
#[derive(Serialize)]
pub struct Left {
    /// The file.
    pub path: String,
    /// What failed.
    pub problem: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Which originals are put back.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All of files that were packed in place.
    All,
    /// Of these.
    These(&'a [PathBuf]),
}

/// Restores.
///
/// # Errors
/// With [`Which::All`], the list of packed files cannot be read. Where one file was named, what [`restore_file`] says.
pub fn run(which: Which<'_>) -> Result<RestoreDocument> {
    let (paths, single) = match which {
        Which::All => (pack::installed()?.into_iter().map(|installed| installed.path).collect(), false),
        Which::These(paths) => (paths.to_vec(), paths.len() == 1),
    };
    let mut document = RestoreDocument { schema: "thaw.elf-restore/1", restored: Vec::new(), left: Vec::new() };
    for path in &paths {
        match restore_file(path) {
            Ok(restored) => document.restored.push(restored),
            Err(error) if single => return Err(error),
            Err(error) => {
                document.left.push(Left { path: shown(path), problem: error.to_string(), hint: error.hint });
            }
        }
    }
    Ok(document)
}
