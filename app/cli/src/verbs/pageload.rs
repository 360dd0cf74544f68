//! `thaw pageload`: page loads through caches.

use crate::args::pageload::PageloadArgs;
use crate::progress::Progress;
use crate::{output, plan, text};
use model::{Exit, Result};
use std::time::Duration;
use work::progress::Tell;

/// Loads and prints.
///
/// # Errors
/// A browser, a proxy or a disk that is not there; a page that does not load.
pub fn run(args: &PageloadArgs, quiet: bool) -> Result<Exit> {
    let asked = plan::pageload(args)?;
    os::interrupt::install()?;
    let mut progress = Progress::new(quiet);
    let document = work::pageloads::run(&asked, &mut |what| progress.note(what, Duration::ZERO));
    progress.done();
    let document = document?;
    output::answer(args.json, &document, || text::pageload::page(&document, text::width::of_terminal()))?;
    Ok(if document.interrupted { Exit::Interrupted } else { Exit::Done })
}
