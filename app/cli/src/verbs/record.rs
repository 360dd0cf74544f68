//! `thaw record`: guards, warm-up, then learning, random blocks, the answer.
//!
//! What can be checked is checked before anything runs, so that a mistake costs nothing.

use crate::args::record::{ExportArgs, RecordArgs};
use crate::progress::Progress;
use crate::{export, output, plan, text};
use model::{Exit, Result};
use os::replace::Existing;
use recording::Replace;
use std::path::Path;
use work::plan::RecordPlan;
use work::plan::stored::{self, Errand};
use work::record::{Recorded, check_output};

/// Rows of the tables of files in the answer that follows a recording.
const TOP: usize = 10;

/// Records what another thaw wrote down.
///
/// # Errors
/// As [`run`]; the file holds no plan.
pub fn run_errand(file: &Path) -> Result<Exit> {
    let errand = Errand::read(file)?;
    let quiet = errand.progress == stored::Progress::Quiet;
    let plan = RecordPlan { command_line: std::env::args_os().collect(), ..errand.plan()? };
    carry_out(plan, &ExportArgs::default(), Answer::Text, quiet)
}

/// Records and prints the answer.
///
/// # Errors
/// Everything that can go wrong with a program, a machine or a disk. What was finished is in the recording, and the
/// machine is as it was found.
pub fn run(args: RecordArgs, quiet: bool) -> Result<Exit> {
    let (answer, wanted) = (if args.json { Answer::Json } else { Answer::Text }, args.export.clone());
    carry_out(plan::record(args)?, &wanted, answer, quiet)
}

/// How the answer is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Text,
    Json,
}

fn carry_out(mut plan: RecordPlan, wanted: &ExportArgs, answer: Answer, quiet: bool) -> Result<Exit> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let existing = Existing::forced(plan.replace == Replace::Recording);
    check_output(&plan)?;
    export::check(wanted, existing)?;
    if !quiet {
        plan.lab.wait.say = |text| output::complain(&format!("{text}\n"));
    }
    let Recorded { document, exit } = work::record::run(&plan, Box::new(Progress::new(quiet)))?;
    match answer {
        Answer::Json => output::json(&document)?,
        Answer::Text => output::page(&text::report::page(&document, TOP, text::width::of_terminal()))?,
    }
    export::write(&document, wanted, existing)?;
    Ok(exit)
}
