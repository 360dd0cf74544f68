//! `thaw timeline`: what was typed.

use super::{ForceArg, RowsArgs};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw timeline`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: TimelineVerb,
}

/// What to do with events.
#[derive(Debug, Subcommand)]
pub enum TimelineVerb {
    /// What waited longest, and which types of objects wait most?
    #[command(long_about = REPORT_ABOUT, after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Switch events of running programs on
    #[command(long_about = START_ABOUT, after_help = START_EXAMPLES)]
    Start(SwitchArgs),
    /// Switch events of running programs off; their files stay
    #[command(long_about = STOP_ABOUT, after_help = STOP_EXAMPLES)]
    Stop(SwitchArgs),
}

/// Arguments of `thaw timeline report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of events, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Write a page for the browser instead: a tape for each object, its links, everything about one object
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline start` and `stop`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Files that running programs write, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

pub(super) const LONG_ABOUT: &str = "\
What waits for what, by the events that a program writes?

A program that includes thaw_events.h, or uses the crate thawlab-events, says when an object begins to wait, is \
worked on and is done. It does so when the environment variable THAW_EVENTS names a directory: each process makes one \
file there, which outlives it.";

const EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline stop /tmp/events";

const REPORT_ABOUT: &str = "\
What waited longest, and which types of objects wait most?

Puts the events of each process together: from the moment an object begins to wait, or is worked on, until it is \
done. Says what the file lost. --html writes a page instead, with all files on one time axis.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline report /tmp/events/4711.events --all
  thaw timeline report /tmp/events --html events.html";

const START_ABOUT: &str = "\
Which running programs shall write events from now on?

Switches on those that were started with THAW_EVENTS=DIR,off, or were stopped; each obeys at its next event.";

const START_EXAMPLES: &str = "\
Examples:
  thaw timeline start /tmp/events
  thaw timeline start /tmp/events/4711.events";

const STOP_ABOUT: &str = "\
Which running programs shall write no more events?

What they wrote stays; `thaw timeline start` lets them go on.";

const STOP_EXAMPLES: &str = "\
Examples:
  thaw timeline stop /tmp/events
  thaw timeline stop /tmp/events/4711.events";
