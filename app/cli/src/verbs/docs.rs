//! `thaw docs`: the documents, in the browser.

use crate::args::docs::DocsArgs;
use crate::output;
use model::{Exit, Result};

/// Prints where they are, and opens them.
///
/// # Errors
/// They are not installed.
pub fn run(args: &DocsArgs) -> Result<Exit> {
    let front = work::documents::front()?;
    output::bytes(&[front.as_os_str().as_encoded_bytes(), b"\n"].concat())?;
    if !args.print {
        view::open_browser(&front);
    }
    Ok(Exit::Done)
}
