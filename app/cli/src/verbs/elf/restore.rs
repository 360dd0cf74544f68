//! `thaw elf restore`: originals of files that were packed in place.

use crate::args::elf::RestoreArgs;
use crate::{output, text};
use model::{Exit, Result, shown};
use pack::{Restored, restore_file};
use serde::Serialize;

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

/// Restores; [`Exit::No`] if something stays packed, or nothing was.
///
/// # Errors
/// With `--all`, the list of packed files cannot be read. Where one file was named, what [`restore_file`] says.
pub fn run(args: &RestoreArgs) -> Result<Exit> {
    let paths = match args.all {
        true => pack::installed()?.into_iter().map(|installed| installed.path).collect(),
        false => args.paths.clone(),
    };
    let mut document = RestoreDocument { schema: "thaw.elf-restore/1", restored: Vec::new(), left: Vec::new() };
    for path in &paths {
        match restore_file(path) {
            Ok(restored) => document.restored.push(restored),
            Err(error) if args.paths.len() == 1 => return Err(error),
            Err(error) => {
                document.left.push(Left { path: shown(path), problem: error.to_string(), hint: error.hint });
            }
        }
    }
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::restore(&document, text::width::of_terminal()))?;
    }
    Ok(if document.left.is_empty() && !document.restored.is_empty() { Exit::Done } else { Exit::No })
}
