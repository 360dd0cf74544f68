//! `thaw compare`: two recordings side by side, or two variants of one.

use crate::args::compare::CompareArgs;
use crate::{output, text};
use model::{Error, Exit, Result};
use work::compare;

/// Prints the comparison.
///
/// # Errors
/// A file that is no recording; recordings that have no state in common; a variant that is not there.
pub fn run(args: &CompareArgs) -> Result<Exit> {
    let document = match (&args.after, &args.variants) {
        (Some(after), _) => compare::recordings(&args.before, after)?,
        (None, Some((old, new))) => compare::variants(&args.before, old, new)?,
        (None, None) => return Err(Error::bug("neither a second recording nor variants")),
    };
    output::answer(args.json, &document, || text::compare::page(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}
