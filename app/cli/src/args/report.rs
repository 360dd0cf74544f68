//! `thaw report`: what was typed.

use super::ForceArg;
use super::record::ExportArgs;
use super::values;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `thaw report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recording
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recording: PathBuf,
    /// Write it into a file; the ending chooses the form: .html (a page that needs no network), .json or .txt
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// In the HTML file, show also what changed since this recording
    #[arg(long, value_name = "BEFORE", value_hint = ValueHint::FilePath, requires = "output")]
    pub since: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Give up when reading the recording takes longer than this [default: it may take its time]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub time_limit: Option<Duration>,
    /// Rows of each table of files
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub export: ExportArgs,
}

pub(super) const LONG_ABOUT: &str = "\
What does a recording say?

First the answer: how long a start takes, where the time goes, and what would help most, as far as the figures carry \
it. Then the tables behind it: times with their intervals, milestones, the files that cost most, ELF sections, \
fragmentation, syncs, processes, the tracer's own cost, the machine. Warnings come last, each with what to do about \
it.";

const EXAMPLES: &str = "\
Examples:
  thaw report ff.thaw -o ff.html
  thaw report ff.thaw --json | jq '.traces[].report.totals'
  thaw report ff.thaw --export-json ff.json --export-markdown ff.md";
