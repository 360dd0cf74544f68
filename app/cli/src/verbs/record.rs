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

/// Records; what is to be exported is looked at before.
///
/// # Errors
/// As [`run`].
pub(super) fn recorded(plan: RecordPlan, wanted: &ExportArgs, quiet: bool) -> Result<Recorded> {
    work::record::run(&ready(plan, wanted, quiet)?, Box::new(Progress::new(quiet)))
}

/// The plan, once all is looked at that can be before anything runs.
///
/// # Errors
/// Files that are there already; a file that cannot be written.
pub(super) fn ready(mut plan: RecordPlan, wanted: &ExportArgs, quiet: bool) -> Result<RecordPlan> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    check_output(&plan)?;
    export::check(wanted, Existing::forced(plan.replace == Replace::Recording))?;
    if !quiet {
        plan.lab.wait.say = |text| output::complain(&format!("{text}\n"));
    }
    Ok(plan)
}

fn carry_out(plan: RecordPlan, wanted: &ExportArgs, answer: Answer, quiet: bool) -> Result<Exit> {
    let existing = Existing::forced(plan.replace == Replace::Recording);
    let Recorded { document, exit } = recorded(plan, wanted, quiet)?;
    match answer {
        Answer::Json => output::json(&document)?,
        Answer::Text => output::page(&text::report::page(&document, TOP, text::width::of_terminal()))?,
    }
    export::write(&document, wanted, existing)?;
    Ok(exit)
}
