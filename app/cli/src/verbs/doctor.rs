//! `thaw doctor`: what can this machine measure, and what did a killed run leave behind?

use crate::args::doctor::DoctorArgs;
use crate::{output, text};
use model::{Exit, Result};
use work::doctor::{self, Leftovers};

/// Says what works and what is left; [`Exit::No`] if something is left, or nobody knows what.
///
/// # Errors
/// The journal or the list of packed files cannot be read.
pub fn run(args: &DoctorArgs) -> Result<Exit> {
    if args.empty {
        doctor::empty_kept()?;
    }
    let document = doctor::examine(if args.mend { Leftovers::Mended } else { Leftovers::Listed })?;
    output::answer(args.json, &document, || text::doctor::page(&document, text::width::of_terminal()))?;
    Ok(if document.is_well() { Exit::Done } else { Exit::No })
}
