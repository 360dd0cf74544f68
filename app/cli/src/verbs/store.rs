//! `thaw store`: files of web storage, sessions and cookies.

use crate::args::store::{StoreArgs, StoreVerb};
use crate::{output, text};
use model::{Exit, Result};
use work::stores::{StoreFile, Stores};

/// Does what was asked.
///
/// # Errors
/// What is not there or no file of records; to repair, what is another user's or in use.
pub fn run(args: &StoreArgs) -> Result<Exit> {
    let width = text::width::of_terminal();
    match &args.verb {
        StoreVerb::Ls(args) => {
            let document = Stores::open(&args.path)?.look()?;
            match args.json {
                true => output::json(&document)?,
                false => output::page(&text::store::list(&document, width))?,
            }
        }
        StoreVerb::Verify(args) => {
            let document = Stores::open(&args.path)?.look()?;
            match args.json {
                true => output::json(&document)?,
                false => output::page(&text::store::verify(&document, width))?,
            }
            return Ok(if document.files.iter().all(StoreFile::is_whole) { Exit::Done } else { Exit::Data });
        }
        StoreVerb::Repair(args) => {
            let document = Stores::open(&args.path)?.repair()?;
            match args.json {
                true => output::json(&document)?,
                false => output::page(&text::store::repaired(&document, width))?,
            }
        }
    }
    Ok(Exit::Done)
}
