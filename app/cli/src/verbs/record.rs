//! `thaw record`: guards, warm-up, then learning, random blocks, the answer.
//!
//! What can be checked is checked before anything runs, so that a mistake costs nothing.

use crate::args::record::RecordArgs;
use crate::progress::Progress;
use crate::{export, output, plan, text};
use model::{Exit, Result};
use os::replace::Existing;
use recording::Replace;
use work::record::{Recorded, check_output};

/// Rows of the tables of files in the answer that follows a recording.
const TOP: usize = 10;

/// Records and prints the answer.
///
/// # Errors
/// Everything that can go wrong with a program, a machine or a disk. What was finished is in the recording, and the
/// machine is as it was found.
pub fn run(args: RecordArgs, quiet: bool) -> Result<Exit> {
    let (json, wanted) = (args.json, args.export.clone());
    let mut plan = plan::record(args)?;
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let existing = Existing::forced(plan.replace == Replace::Recording);
    check_output(&plan)?;
    export::check(&wanted, existing)?;
    if !quiet {
        plan.lab.wait.say = |text| output::complain(&format!("{text}\n"));
    }
    let Recorded { document, exit } = work::record::run(&plan, Box::new(Progress::new(quiet)))?;
    if json {
        output::json(&document)?;
    } else {
        output::page(&text::report::page(&document, TOP, text::width::of_terminal()))?;
    }
    export::write(&document, &wanted, existing)?;
    Ok(exit)
}
